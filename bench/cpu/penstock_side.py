"""How these benchmarks call Penstock.

:class:`Loaded` and :func:`join` are the CPU device alone, with keys prepared by NumPy: what the C
loops get too. :func:`sql` is a user's call, from SQL text and Arrow tables to an Arrow table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import penstock
from bench.cpu.workload import MANHATTAN, Points
from penstock.host.device.base import Device, Kernel, Result, Task, WindowBuffer
from penstock.host.device.cut import Cutting, Piece, whole
from penstock.host.device.registry import open_device
from penstock.host.devices.cpu.band_kernel import BandKernel
from penstock.host.devices.cpu.resident_window import NEVER

#: Pairs per result: 32 MiB.
ROOM = 1 << 22


@dataclass(frozen=True)
class Loaded:
    """A device with the window resident; loading it is not part of a measured run."""

    device: Device
    kernel: Kernel
    window: WindowBuffer


@contextmanager
def loaded(points: Points, threads: int, narrow: bool = True) -> Iterator[Loaded]:
    """The window on a device; ``narrow`` says whether narrow codes may be tested first."""
    with open_device("cpu", threads=threads) as device:
        kernel = device.open(MANHATTAN)
        if not narrow:
            assert isinstance(kernel, BandKernel)
            kernel.limits = NEVER
        window = kernel.allocate(points.window)
        window.write(0, points.window_keys)
        yield Loaded(device, kernel, window)
        kernel.close()


def join(target: Loaded, points: Points) -> int:
    """Number of pairs; every pair is written to memory as (uint32 i, uint32 j)."""
    ranges = whole(np.zeros(points.rows, np.int64), np.full(points.rows, points.window))
    lanes = target.device.lanes
    waiting = list(ranges.tasks(Cutting(lanes)))[::-1]
    running: deque[tuple[Piece, Future[Result]]] = deque()
    pairs = 0
    while waiting or running:
        while waiting and len(running) < 2 * lanes:
            piece = waiting.pop()
            stream = piece.entries(points.stream_bounds)
            task = Task(stream, piece.start, piece.end, ROOM)
            running.append((piece, target.kernel.submit(target.window, task)))
        piece, future = running.popleft()
        result = future.result()
        pairs += len(result.i)
        if result.pause is not None:
            waiting += piece.remaining(result.pause)
    return pairs


#: The peers' query, but that it asks for the pairs.
QUERY = "SELECT l.id AS i, r.id AS j FROM l JOIN r ON abs(l.x - r.x) + abs(l.y - r.y) < {d}"


def tables(points: Points) -> dict[str, pa.Table]:
    """Both sides as Arrow tables; every row has time 0, so one window admits all pairs."""
    return {
        name: pa.table(
            {
                "id": np.arange(len(x), dtype=np.int32),
                "t": np.zeros(len(x), dtype=np.int32),
                "x": x,
                "y": y,
            }
        )
        for name, (x, y) in (("l", points.stream), ("r", points.resident))
    }


def sql(device: Device, given: dict[str, pa.Table], points: Points) -> int:
    """Number of rows of the joined table; compiling the query and preparing keys are part of it."""
    text = QUERY.format(d=points.d)
    times = {"l": "t", "r": "t"}
    found = penstock.sql(text, given, time=times, within=0, device=device, pruning=False)
    return found.num_rows
