"""What clients of a server cost each other: ``python -m bench.host.fairness [SECONDS]``.

A client runs one small task after the other, alone and beside another client that takes all that
the server gives it (:mod:`bench.host.attackers`), in turns; the ratio of the 99th percentiles
stands beside them. Server and clients are processes of their own. Figures hold for a machine that
does nothing else.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.host.attackers import KINDS, PROGRAM, small_task
from penstock.host.remote.device import RemoteDevice
from penstock.host.remote.kernels import RemoteWindow

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
    with _served() as address, RemoteDevice(address) as device:
        window = device.open(PROGRAM).allocate(_SMALL[1])
        window.write(0, [np.arange(_SMALL[1], dtype=np.uint32)])
        assert isinstance(window, RemoteWindow)
        _measured(window, 1.0)
        table = Table(title="a small task beside another client, in ms")
        for name in ("the other client", "p50 alone", "p99 alone", "p50", "p99", "p99 ratio"):
            table.add_column(name, justify="left" if name == "the other client" else "right")
        fair = True
        for kind in kinds:
            alone, beside = [], []
            for _ in range(_TURNS):
                alone.append(_measured(window, seconds))
                with _attacked(kind, address):
                    beside.append(_measured(window, seconds))
            before, after = np.concatenate(alone), np.concatenate(beside)
            ratio = float(np.quantile(after, 0.99) / np.quantile(before, 0.99))
            fair &= ratio <= TARGET
            cells = [f"{np.quantile(t, q) * 1e3:.2f}" for t in (before, after) for q in (0.5, 0.99)]
            table.add_row(kind, *cells, f"{ratio:.2f}")
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
