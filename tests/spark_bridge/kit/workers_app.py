"""Workers that Spark places, in a program of its own, with a sink that keeps each part once.

``python -m tests.spark_bridge.kit.workers_app MASTER FOLDER SEED CASE KILLED``. MASTER is one of
Spark's, or ``connect`` for a server with two slots. KILLED says what is killed in the first run of
``main``: nothing, a Python worker at a point (``seal:1:3``), or ``executor``, a JVM, at about the
middle.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from penstock.host.workers import Workers
from penstock.spark_bridge.java import ensure_java

#: Batches of each source.
BATCHES = 60
SIZE = 2
#: Of the rows, in tests.
SEED = 6


def parent_of(process: int) -> int:
    """The parent of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def once(folder: Path, seed: int, case: str, killed: str) -> Any:
    """Return what each worker runs."""
    from tests.host.workers.kit import rank_app
    from tests.host.workers.kit.cases import VARIABLE

    def main(workers: Workers) -> int:
        marker = folder / "killed"
        is_victim = workers.rank == 1 and killed != "nothing" and not marker.exists()
        os.environ.pop("PENSTOCK_KILL", None)
        os.environ[VARIABLE] = case
        if is_victim:
            marker.touch()
        if is_victim and killed != "executor":
            os.environ["PENSTOCK_KILL"] = killed

        def kill() -> None:
            # The parent of this process is Spark's daemon, whose parent is the executor.
            os.kill(parent_of(os.getppid()), signal.SIGKILL)

        at_half = kill if is_victim and killed == "executor" else None
        rank_app.run(folder, seed, BATCHES, True, workers, at_half=at_half)
        return os.getpid()

    return main


def right(folder: Path, case: str) -> bool:
    """Whether the sink has each row of :data:`SEED` once."""
    from tests.host.workers.kit.app import sunk
    from tests.host.workers.kit.cases import CASES

    one = CASES[case]
    return one.shown(sunk(folder / "sink")) == one.shown(one.rows(one.sources(SEED, BATCHES)))


def main(master: str, folder: Path, seed: int, case: str, killed: str) -> None:
    """Run the workers; says ``PIDS`` and their processes."""
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from penstock.spark_bridge import run_workers

    if master == "connect":
        spark = SparkSession.builder.remote(f"local[{SIZE}]").getOrCreate()
    else:
        builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
        # Workers of a cluster have not this program's modules.
        builder = builder.config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
    print("PIDS", *run_workers(spark, once(folder, seed, case, killed), workers=SIZE))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:6])
