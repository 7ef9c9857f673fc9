"""``penstock spark``: runs a Spark cluster on this machine, and packs what executors need."""

from __future__ import annotations

import signal
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ProcessError
from ..words import many
from .options import Commands, group, option
from .terminal import errors, say

app = Commands("Run a Spark cluster on this machine; pack what executors need.")

_FOLDER = Path("build/cluster")
#: Seconds between two checks. The end of a process ends a wait at once. A signal that the system
#: gave to another thread does not, and its handler runs only in this thread.
_IDLE_S = 1.0

Folder = Annotated[Path, typer.Option(help="Settings, logs and scratch space of the cluster.")]


@group
class ClusterArguments:
    """The parts of a cluster."""

    workers: int = option("How many workers.", default=2)
    cores: int = option("Cores of each worker.", default=1)
    memory_mib: int = option("Memory of a worker's executors.", default=1024)
    port: int = option("Of the master; 0 takes a free one.", default=0)
    web_port: int = option("Of the master's page; 0 takes a free one.", default=0)
    device: list[str] | None = option(
        "A device of the first worker, as in remote?address=unix:///run/penstock.sock: "
        "its resource fpga; repeat."
    )
    board: str | None = option(
        "A virtual board as device of the first worker: zcu104; see docs/spark/cluster.md."
    )
    board_python: Path | None = option("Python of an environment with penstock[board,rtl].")


@app.grouped("cluster")
def cluster(*, folder: Folder = _FOLDER, made_of: ClusterArguments) -> None:
    """Run a standalone master and workers until interrupted."""
    from penstock.sim.local_spark.cluster import Cluster, ClusterConfig

    settings = asdict(made_of)
    config = ClusterConfig(devices=settings.pop("device") or (), **settings)
    # Until the cluster is up, Ctrl-C raises Python's exception, which ends the started processes.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Cluster(folder, config) as started:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: started.interrupt())
        say(f"master at {started.master}")
        cores = many(config.cores, "core")
        say(f"  workers: {config.workers}, each with {cores} and {config.memory_mib} MiB")
        if config.board is not None or config.devices:
            say("  worker 1 has the resource fpga")
        if started.metrics is not None:
            say(f"  metrics of its device server at {started.metrics}")
        say(f"page at {started.page}")
        say(f"use   SPARK_CONF_DIR={started.client} python program.py")
        say(f"stop  Ctrl-C, or penstock spark stop --folder {folder}")
        _watch(started)
    say("stopped")


def _watch(started) -> None:
    """Report processes that end by themselves, until the user ends the cluster or it is over.

    Raises
    ------
    ProcessError
        The processes that are left cannot run anything.
    """
    while True:
        try:
            lost = started.lost(_IDLE_S)
        except TimeoutError:
            continue
        if lost is None:
            return
        text = f"{lost.name} {lost.how_it_ended()}"
        if not started.is_usable:
            raise ProcessError(f"the cluster is over: {text}")
        errors.print(f"penstock: {text}; the rest goes on", markup=False, highlight=False)


@app.grouped("stop")
def stop(folder: Folder = _FOLDER) -> None:
    """End the cluster that runs in a folder."""
    from penstock.sim.local_spark.cluster_record import stop_recorded

    say(f"stopped {', '.join(stop_recorded(folder)) or 'nothing: it had ended'}")


@app.grouped("pack")
def pack(
    output: Path = option("The archive: *.tar.gz.", required=True),
    also: list[str] | None = option("A package that functions of yours need; repeat."),
    python: Path | None = option(
        "Python on the executors, of this version; default: where it is here."
    ),
) -> None:
    """Pack Penstock and its packages for executors, as spark.archives takes them."""
    from penstock.spark_bridge.packing import pack

    packages = pack(output, also or (), python)
    say(f"wrote {output}: {output.stat().st_size / 1e6:.0f} MB, {len(packages)} packages")
    say(f"  {', '.join(packages)}")
    say(f"use   spark-submit --archives {output}#environment \\")
    say("      --conf spark.pyspark.python=./environment/bin/python")
