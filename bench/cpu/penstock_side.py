"""How these benchmarks call Penstock: the CPU device itself, with keys prepared by NumPy.

:func:`join` is the one place to put a call of the SQL front end instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from bench.cpu.workload import MANHATTAN, Points
from penstock.host.device.base import Device, Kernel, WindowBuffer
from penstock.host.device.registry import open_device
from penstock.host.device.run import run_task

#: Pairs per result: 32 MiB.
ROOM = 1 << 22


@dataclass(frozen=True)
class Loaded:
    """A device with the window resident; loading it is not part of a measured run."""

    device: Device
    kernel: Kernel
    window: WindowBuffer


@contextmanager
def loaded(points: Points, threads: int) -> Iterator[Loaded]:
    with open_device("cpu", threads=threads) as device:
        kernel = device.open(MANHATTAN)
        window = kernel.allocate(points.window)
        window.write(0, points.window_keys)
        yield Loaded(device, kernel, window)
        kernel.close()


def join(target: Loaded, points: Points) -> int:
    """Number of pairs; every pair is written to memory as (uint32 i, uint32 j)."""
    results = run_task(
        target.kernel,
        target.window,
        points.stream_bounds,
        np.zeros(points.rows, np.int64),
        np.full(points.rows, points.window),
        room=ROOM,
        lanes=target.device.lanes,
    )
    return sum(len(result.i) for result in results)
