"""What clients of a server cost each other: ``python -m bench.host.fairness [SECONDS]``.

A client runs one small task after the other: alone, beside another client that takes all that a
server of its own gives it (:mod:`bench.host.attackers`), and beside it on one server, in turns. The
ratios of the 99th percentiles stand beside them: what the other server costs, the machine's cores
cost, and no server can give back. Server and clients are processes of their own. Figures hold for a
machine that does nothing else.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.host.attackers import KINDS, PROGRAM, small_task
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.devices.remote.client.kernels import RemoteWindow

#: Seconds to wait for a process.
_TIMEOUT_S = 60
#: Seconds of one measurement, unless told otherwise.
_MEASURED_S = 5.0
#: Measurements of each kind, in turns with those of a client alone.
_TURNS = 3
#: Tuples of a small task, and positions of its window.
_SMALL = 64, 1 << 12
#: What p99 beside another client may be, as a multiple of p99 alone.
TARGET = 2.0

_SERVE = "import sys; from penstock.cli.main import run; run()"


def main() -> int:
    """Measure and print; whether all ratios are within the target decides the exit status."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else _MEASURED_S
    kinds = sys.argv[2:] or list(KINDS)
    with _served() as address, _served() as elsewhere, RemoteDevice(address) as device:
        window = device.open(PROGRAM).allocate(_SMALL[1])
        window.write(0, [np.arange(_SMALL[1], dtype=np.uint32)])
        assert isinstance(window, RemoteWindow)
        _measured(window, 1.0)
        table = Table(title="a small task beside another client, in ms")
        table.add_column("the other client")
        for name in ("p99 alone", "p99, other server", "ratio", "p99, same server", "ratio"):
            table.add_column(name, justify="right")
        fair = True
        for kind in kinds:
            taken: dict[str, list[np.ndarray]] = {"": [], elsewhere: [], address: []}
            for _ in range(_TURNS):
                for attacked, seen in taken.items():
                    with _attacked(kind, attacked) if attacked else nullcontext():
                        seen.append(_measured(window, seconds))
            p99 = [float(np.quantile(np.concatenate(seen), 0.99)) for seen in taken.values()]
            cells = [f"{p99[0] * 1e3:.2f}"]
            for beside in p99[1:]:
                cells += [f"{beside * 1e3:.2f}", f"{beside / p99[0]:.2f}"]
            fair &= p99[2] <= TARGET * p99[0]
            table.add_row(kind, *cells)
        Console(width=100).print(table)
    return 0 if fair else 1


def _measured(window: RemoteWindow, seconds: float) -> np.ndarray:
    """Seconds of each of the tasks that ran in so many seconds."""
    task = small_task(*_SMALL)
    taken = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        result = window.run(task)
        taken.append(time.perf_counter() - began)
        assert len(result.i) == _SMALL[0], f"{len(result.i)} pairs instead of {_SMALL[0]}"
    return np.array(taken)


@contextmanager
def _served() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="pen") as folder:
        listen = f"unix://{Path(folder) / 's'}"
        command = [sys.executable, "-c", _SERVE, "serve", "--threads", "2", "--listen", listen]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                yield server.stdout.readline().split()[-1]
            finally:
                server.terminate()
                server.wait(_TIMEOUT_S)


@contextmanager
def _attacked(kind: str, address: str) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.host.attackers", kind, address]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n", f"the client that {kind} did not begin"
        yield
        process.stdin.close()
        process.wait(_TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(main())
