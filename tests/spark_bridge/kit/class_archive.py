"""Spark's classes as an archive that a JVM maps, instead of reading and checking each.

It halves what a start of Spark costs. The first run of the tests leaves it in the user's cache,
with all classes that its session had, and later runs have it. A JVM that cannot use it says nothing
and reads Spark's own files.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.private_folder import cache_folder, private_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: JVMs say on their standard output that they cannot use an archive.
_QUIET = "-Xlog:disable"

#: Archives have 200 MB; there is one for each Java and each installation of Spark.
_MOST_BYTES = 1 << 30

#: Seconds that a JVM may take to write one.
_WRITING_S = 300


def _archive() -> Path:
    """Where the archive for this Java and this Spark lies, or will lie."""
    return _archive_for(os.environ["JAVA_HOME"])


@cache
def _archive_for(home: str) -> Path:
    import pyspark

    release = Path(home) / "release"  # names the version and how it was built
    version = release.read_text() if release.exists() else ""
    spark = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    parts = repr((home, version, spark, pyspark.__version__))
    name = f"{hashlib.sha256(parts.encode()).hexdigest()[:32]}.jsa"
    with private_folder(cache_folder("test-classes")) as folder:
        folder.used(name)
        return folder.path / name


def options() -> str:
    """Options for a JVM that is to use the archive, if there is one for ``JAVA_HOME``."""
    if "JAVA_HOME" not in os.environ or not _archive().exists():
        return ""
    return f"{_QUIET} -XX:SharedArchiveFile={_archive()}"


def writing_options() -> str:
    """The same, or options for a JVM that is to write the archive where there is none."""
    return options() or (f"{_QUIET} -XX:ArchiveClassesAtExit={_part()}" if _writes() else "")


def _writes() -> bool:
    """Whether this process is the one of a run that writes: it takes half a minute."""
    return os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"


def end(session: SparkSession) -> None:
    """Stop a session that was started with :func:`writing_options`, and take its archive."""
    from pyspark import SparkContext

    session.stop()
    gateway = SparkContext._gateway
    if _archive().exists() or gateway is None or not _writes():
        return
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process = gateway.proc
    process.stdin.close()
    try:
        process.wait(_WRITING_S)
        _part().replace(_archive())
        with private_folder(cache_folder("test-classes")) as folder:
            folder.trim(_MOST_BYTES, re.compile(".*"))
    except (subprocess.TimeoutExpired, FileNotFoundError):
        _part().unlink(missing_ok=True)


def _part() -> Path:
    return _archive().with_suffix(f".{os.getpid()}.part")
