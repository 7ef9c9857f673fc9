"""Pruning in tests, whose joins are small: what it leaves of them, and running that to the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.expr.columns import Vector
from penstock.host.device.base import Folds, Kernel, Pause, Result, Task, WindowBuffer
from penstock.host.device.cut import Cutting, Piece
from penstock.host.device.merge import Merged
from penstock.host.device.search import SearchTask
from penstock.host.keys.layouts import Layout, StreamKeys
from penstock.host.prune.chooser import SearchKeys
from penstock.host.prune.parts import OrderedRun, Part, Searched
from penstock.host.prune.pruner import Pruner
from penstock.host.prune.sizes import Pruning
from penstock.host.windows.run import WindowRun
from penstock.program import Mode, Program
from tests.host.kit.tasks import TIMEOUT_S, Join

#: Looks at every probe, and sorts stretches of a few rows.
TINY = Pruning(least_pairs=1, run_rows=(2, 8), always=True)


class Given(Layout):
    """Keys that need no encoding, or a number added to each."""

    def __init__(self, program: Program, shift: int = 0) -> None:
        self.program = program
        self.shift = shift

    def covers(self, window: Sequence[Vector]) -> bool:
        return True

    def window(self, window: Sequence[Vector]) -> list[np.ndarray]:
        return [v.values + v.values.dtype.type(self.shift) for v in window]

    def stream(self, columns: object, rows: int) -> StreamKeys:
        raise AssertionError


def by(layout: Layout, stream: Sequence[np.ndarray]) -> tuple[Layout, SearchKeys]:
    """A layout, and its own keys to search by."""
    return layout, SearchKeys(layout, stream, 0)


def run_of(join: Join, rows: slice = slice(None)) -> WindowRun:
    """The window of a join."""
    keys = [Vector(column[rows]) for column in join.window]
    return WindowRun(np.arange(len(keys[0].values)), keys)


def pruned(join: Join, mode: Mode, *, growing: bool, searches: bool) -> list[Part]:
    """What is left of a join where an order is used if there is one; nothing if there is none."""
    pruner = Pruner(TINY, growing=growing, searches=searches)
    own = by(Given(join.program), join.stream)
    parts = pruner.parts(run_of(join).snapshot(), *own, join.start, join.end, mode)
    return parts if any(isinstance(part.source, OrderedRun) for part in parts) else []


def pairs_of(kernel: Kernel, join: Join, parts: Sequence[Part], room: int) -> np.ndarray:
    """Pairs of tuple and window position, shape (m, 2), sorted as by brute force."""
    found = [np.zeros((0, 2), np.int64)]
    for part in parts:
        for piece, result in _results(kernel, join, part, room, Mode.PAIRS):
            rows = piece.rows[result.i].astype(np.int64)
            found.append(np.stack([rows, part.positions(result.j)], 1))
    pairs = np.concatenate(found)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def folds_of(kernel: Kernel, join: Join, parts: Sequence[Part], mode: Mode, room: int) -> Folds:
    """Folds of all tuples."""
    merged = Merged(mode, len(join.start))
    for part in parts:
        for piece, result in _results(kernel, join, part, room, mode):
            assert result.folds is not None
            merged.add(piece.rows, result.folds)
    return merged.folds()


def _results(
    kernel: Kernel, join: Join, part: Part, room: int, mode: Mode
) -> Iterator[tuple[Piece, Result]]:
    """Results of a part with the piece of each, pauses resumed; ``j`` are places of its source."""
    first = part.source.first
    waiting: list[Piece] = []
    buffer: WindowBuffer | None = None
    if isinstance(part, Searched):
        waiting = [task for piece in part.pieces for task in piece.tasks(Cutting(2))]
    else:
        waiting = list(part.pieces)
        columns = part.source.columns(Given(join.program), first, part.source.end)
        buffer = kernel.allocate(part.source.end - first)
        buffer.write(0, columns)
    while waiting:
        piece = waiting.pop()
        task: Task | SearchTask
        if isinstance(part, Searched):
            task = part.task(piece, join.stream, room, mode)
        else:
            task = Task(
                piece.entries(join.stream), piece.start - first, piece.end - first, room, mode
            )
        result = kernel.submit(buffer, task).result(TIMEOUT_S)
        pause = result.pause
        if pause is not None:
            waiting += piece.remaining(Pause(pause.i0, pause.i1, pause.p + first))
        j = result.j.astype(np.int64) + first
        yield piece, Result(result.i, j, None, result.counters, result.folds)
    if buffer is not None:
        buffer.free()
