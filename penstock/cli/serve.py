"""``penstock serve``: lend devices to other processes of this machine."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import inputs
from penstock.cli.stopping import stops
from penstock.cli.terminal import errors, results
from penstock.errors import UsageError
from penstock.host.device.registry import open_device, parse_device
from penstock.host.promptness import run_in_short_slices
from penstock.host.server.limits import Limits
from penstock.host.server.owner import Owner
from penstock.host.wire.address import Address, check_listen, read_token

#: Seconds between switches of Python threads. With the default of 5 ms a task's answer would wait
#: for whichever thread is busy; with this one it takes 0.3 ms.
_SWITCH_S = 50e-6
#: Seconds that running tasks get to end when the server is stopped.
_GRACE_S = 10.0
_MIB = 1 << 20


def command(
    listen: Annotated[
        str, typer.Option(help="unix:///PATH, or tcp://HOST:PORT, which needs a token.")
    ],
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="See `penstock devices`; repeat. With options as in board?address=192.168.2.99. "
            "Default: cpu."
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Cores of the cpu device.")] = None,
    units: Annotated[int | None, typer.Option(help="Join units of simulated devices.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with a token that clients must show.")
    ] = None,
    memory_mib: Annotated[
        int | None, typer.Option(help="Windows of all clients; default: half of the memory.")
    ] = None,
    client_memory_mib: Annotated[
        int | None, typer.Option(help="Windows of one client; default: half of that.")
    ] = None,
    traffic_mib: Annotated[
        int | None,
        typer.Option(help="Messages and results of all clients; default: a quarter of the memory."),
    ] = None,
    compile_s: Annotated[
        float, typer.Option(help="Seconds for the compilation of one program.")
    ] = Limits.compile_s,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve metrics for Prometheus; 0 takes a free port.")
    ] = None,
) -> None:
    """Own devices, and run the tasks of other processes on them until interrupted."""
    # Imported here, since other commands need none of it.
    from penstock.host.metrics.exporter import serve_collector
    from penstock.host.server.metrics import ServerCollector
    from penstock.host.server.service import DeviceServer

    named = [parse_device(text) for text in device or ["cpu"]]
    names = [name for name, _ in named]
    if inputs.REMOTE in names or len(set(names)) < len(names):
        raise UsageError("--device takes different devices of this machine, not a server's")
    address = Address.parsed(listen)
    token = None if token_file is None else read_token(token_file)
    check_listen(address, token)
    limits = Limits(
        memory_bytes=_bytes(memory_mib),
        client_memory_bytes=_bytes(client_memory_mib),
        traffic_bytes=_bytes(traffic_mib),
        compile_s=compile_s,
    )
    sys.setswitchinterval(_SWITCH_S)
    run_in_short_slices()
    with stops() as stop, ExitStack() as cleanup:
        owners = {}
        for name, own in named:
            general = {"threads": threads} if name == "cpu" else {"units": units}
            given = {key: value for key, value in general.items() if value is not None}
            owners[name] = Owner(open_device(name, **given, **own), limits)
            cleanup.callback(owners[name].stop)
        server = DeviceServer(owners, address, token=token, limits=limits)
        cleanup.pop_all()
        try:
            if metrics_port is not None:
                metrics = serve_collector(ServerCollector(server), metrics_port)
                cleanup.callback(metrics.close)
                _say(f"metrics at http://127.0.0.1:{metrics.port}/metrics")
            _say(f"serving {', '.join(names)} at {server.address}")
            stop.wait()
        finally:
            over = server.close(_GRACE_S)
    _say("stopped")
    if not over:
        errors.print("a client did not let go of its connection; it was cut", style="dim")
        # Its thread would be waited for.
        sys.stdout.flush()
        os._exit(0)


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib * _MIB


def _say(text: str) -> None:
    """A line that whoever started the server can wait for."""
    results.print(text, markup=False, highlight=False, soft_wrap=True)
    sys.stdout.flush()
