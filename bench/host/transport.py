"""How data travels to a server of devices: ``python -m bench.host.transport``.

The same windows and the same results, through a Unix socket and through a channel in shared memory,
in turns within one run; the ratio stands beside them, and the device without a server as the bound.
The server is a process of its own, as ``penstock serve`` is.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from penstock.host.device.base import Device, Kernel, Task, WindowBuffer
from penstock.host.devices.cpu import CpuDevice
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.program import BandProgram

#: Seconds to wait for the server.
_TIMEOUT_S = 60
#: One test that all pairs pass, so that a task's cost is that of its pairs.
_PROGRAM = BandProgram(1, 0b11, 32)
#: Window tuples of one write, 4 bytes each.
_WRITES = (1 << 10, 1 << 16, 1 << 20, 1 << 24)
#: Pairs of one result, 8 bytes each.
_RESULTS = (1 << 8, 1 << 14, 1 << 18, 1 << 22)
#: Seconds that each figure is measured for, at least.
_LEAST_S = 2.0

_SERVE = "import sys; from penstock.cli.main import run; run()"


def main() -> int:
    """Measure and print."""
    with (
        tempfile.TemporaryDirectory(prefix="pen") as folder,
        subprocess.Popen(
            [sys.executable, "-c", _SERVE, "serve", "--listen", f"unix://{Path(folder) / 's'}"],
            stdout=subprocess.PIPE,
            text=True,
        ) as server,
    ):
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            with (
                RemoteDevice(address, transport="socket") as socket,
                RemoteDevice(address, transport="channel") as channel,
                CpuDevice() as here,
            ):
                _report({"socket": socket, "channel": channel, "here": here})
        finally:
            server.terminate()
            server.wait(_TIMEOUT_S)
    return 0


def _report(devices: dict[str, Device]) -> None:
    table = Table(title="windows and results through a server")
    table.add_column("what")
    for name in ("through its socket", "a channel", "ratio", "without a server"):
        table.add_column(name, justify="right")
    for rows in _WRITES:
        keys = [np.random.default_rng(1).integers(0, 1 << 31, rows, np.uint32)]
        _add(table, f"write {_size(4 * rows)}", 4 * rows, _turns(devices, _write(rows, keys)))
    for pairs in _RESULTS:
        _add(table, f"task with {pairs:,} pairs", 8 * pairs, _turns(devices, _task(pairs)))
    Console(width=120).print(table)


def _write(rows: int, keys: list[np.ndarray]) -> Callable[[Device], Callable[[], object]]:
    def made(device: Device) -> Callable[[], object]:
        window = device.open(_PROGRAM).allocate(rows)
        return lambda: window.write(0, keys)

    return made


def _task(pairs: int) -> Callable[[Device], Callable[[], object]]:
    rows = max(pairs >> 12, 1)
    positions = pairs // rows
    bound = np.zeros(rows, np.uint32)
    start, end = np.zeros(rows, np.int64), np.full(rows, positions, np.int64)
    task = Task([bound, bound], start, end, pairs)

    def made(device: Device) -> Callable[[], object]:
        kernel: Kernel = device.open(_PROGRAM)
        window: WindowBuffer = kernel.allocate(positions)
        window.write(0, [np.ones(positions, np.uint32)])

        def run() -> None:
            found = len(kernel.submit(window, task).result(_TIMEOUT_S).i)
            assert found == pairs, f"{found} pairs instead of {pairs}"

        return run

    return made


def _turns(
    devices: dict[str, Device], prepare: Callable[[Device], Callable[[], object]]
) -> dict[str, np.ndarray]:
    """Seconds of each call by device, measured in turns."""
    acts = {name: prepare(device) for name, device in devices.items()}
    for act in acts.values():
        act()
        act()
    taken: dict[str, list[float]] = {name: [] for name in acts}
    until = time.perf_counter() + _LEAST_S * len(acts)
    while time.perf_counter() < until:
        for name, act in acts.items():
            began = time.perf_counter()
            act()
            taken[name].append(time.perf_counter() - began)
    return {name: np.array(times) for name, times in taken.items()}


def _add(table: Table, what: str, size: int, taken: dict[str, np.ndarray]) -> None:
    middle = {name: float(np.median(times)) for name, times in taken.items()}
    cells = [
        f"{middle[name] * 1e6:,.0f} us, {size / middle[name] / 1e9:.2f} GB/s" for name in middle
    ]
    ratio = f"{middle['socket'] / middle['channel']:.2f}"
    table.add_row(what, cells[0], cells[1], ratio, cells[2])


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >> 20 else f"{count >> 10} KiB"


if __name__ == "__main__":
    sys.exit(main())
