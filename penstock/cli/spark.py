"""``penstock spark``: a Spark cluster on this machine."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal import errors, results
from penstock.errors import ProcessError

app = typer.Typer(help="Run a Spark cluster on this machine.", no_args_is_help=True)

_FOLDER = Path("build/cluster")
#: Seconds between two looks. Ends of processes come at once, but a signal that the system gave to
#: another thread does not end a wait, and its handler runs only here.
_IDLE_S = 1.0

Folder = Annotated[Path, typer.Option(help="Settings, logs and scratch space of the cluster.")]


@app.command("cluster")
def cluster(
    folder: Folder = _FOLDER,
    workers: Annotated[int, typer.Option(help="How many workers.")] = 2,
    cores: Annotated[int, typer.Option(help="Cores of each worker.")] = 1,
    memory_mib: Annotated[int, typer.Option(help="Memory of a worker's executors.")] = 1024,
    port: Annotated[int, typer.Option(help="Of the master; 0 takes a free one.")] = 0,
    web_port: Annotated[int, typer.Option(help="Of the master's page; 0 takes a free one.")] = 0,
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="A device of the first worker, as in remote?address=unix:///run/penstock.sock: "
            "its resource fpga; repeat."
        ),
    ] = None,
    board: Annotated[
        str | None,
        typer.Option(help="A virtual board as device of the first worker: zcu104; see docs."),
    ] = None,
    board_python: Annotated[
        Path | None, typer.Option(help="Python of an environment with penstock[board,rtl].")
    ] = None,
) -> None:
    """Run a standalone master and workers until interrupted."""
    from penstock.spark_bridge.cluster.cluster import Cluster, ClusterConfig

    config = ClusterConfig(
        workers=workers,
        cores=cores,
        memory_mib=memory_mib,
        port=port,
        web_port=web_port,
        devices=device or (),
        board=board,
        board_python=board_python,
    )
    # Until it is up, Ctrl-C ends what has started, by the exception that Python makes of it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Cluster(folder, config) as started:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: started.interrupt())
        _say(f"master at {started.master}")
        many = "1 core" if cores == 1 else f"{cores} cores"
        _say(f"  workers: {workers}, each with {many} and {memory_mib} MiB")
        if board is not None or device:
            _say("  worker 1 has the resource fpga")
        if started.metrics is not None:
            _say(f"  metrics of its device server at {started.metrics}")
        _say(f"page at {started.page}")
        _say(f"use   SPARK_CONF_DIR={started.client} python program.py")
        _say(f"stop  Ctrl-C, or penstock spark stop --folder {folder}")
        _watch(started)
    _say("stopped")


def _watch(started) -> None:
    """Report what ends by itself, until the user or the cluster ends.

    Raises
    ------
    ProcessError
        What is left cannot run anything.
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


@app.command("stop")
def stop(folder: Folder = _FOLDER) -> None:
    """End the cluster that runs in a folder."""
    from penstock.spark_bridge.cluster.record import stop_recorded

    _say(f"stopped {', '.join(stop_recorded(folder)) or 'nothing: it had ended'}")


def _say(text: str) -> None:
    """A line that whoever started the cluster can wait for."""
    results.print(text, markup=False, highlight=False, soft_wrap=True)
    sys.stdout.flush()
