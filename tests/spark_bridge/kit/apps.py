"""Spark programs in processes of their own: how tests run them, and what those that join share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.spark_bridge.java import ensure_java
from tests.spark_bridge.kit import class_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]

#: For short programs: compilers and collectors in the background cost more than they save.
LIGHT_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def light_java() -> dict[str, str]:
    """The same, and an archive of Spark's classes; needs Java, which it points this process to."""
    ensure_java()
    return {"JAVA_TOOL_OPTIONS": f"{LIGHT_JAVA['JAVA_TOOL_OPTIONS']} {class_archive.options()}"}


#: With a Connect server. With the last one it takes a free port, and its client finds it; otherwise
#: all servers of a machine want the same.
SERVER_ENV = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_TESTING": "1"}

#: What every one of them has in its environment.
ENV = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **LIGHT_JAVA}


def run_app(
    name: str, *arguments: str, timeout_s: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of this folder to its end."""
    return subprocess.run(
        [sys.executable, "-m", f"tests.spark_bridge.kit.{name}", *arguments],
        cwd=ROOT,
        env={**os.environ, **ENV, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def ended_of(done: subprocess.CompletedProcess[str]) -> str:
    """The end of what a program has written, for a message."""
    return done.stdout[-2000:] + done.stderr[-4000:]


def said_by(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What a program has found: the JSON in its line that begins with SAID."""
    said = [line for line in done.stdout.splitlines() if line.startswith("SAID ")]
    assert said, ended_of(done)
    return json.loads(said[0].removeprefix("SAID "))


def session(folder: Path, settings: Mapping[str, str], master: str | None = None) -> SparkSession:
    """The session of a streaming join.

    Parameters
    ----------
    folder : Path
        Gets the warehouse.
    settings : mapping
        Beside those that all have.
    master : str, optional
        What SPARK_CONF_DIR names, by default.
    """
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    shared = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 {class_archive.options()}",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    builder = SparkSession.builder.appName("penstock tests").config(map={**shared, **settings})
    spark = (builder if master is None else builder.master(master)).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def put_rest(joined: Any, folder: Path) -> None:
    """Write what still waits, as :class:`Outcome` reads it."""
    rest = joined.remaining(str(folder / "checkpoint"))
    rest.coalesce(1).write.mode("overwrite").parquet(str(folder / "rest"))
