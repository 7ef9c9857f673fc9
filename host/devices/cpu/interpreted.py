"""General programs beyond machine integers, or too long to compile, interpreted on columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.expr.columns import Vector, evaluate_columns, int_vector
from penstock.expr.node import Expr
from penstock.expr.values import order_key
from penstock.program import GeneralProgram, Mode
from penstock.types import Type

from ...device.base import PAIRS, Folds, Result, Task
from ...device.storage import storage_dtype
from .kernel import CpuKernel, CpuResources, Output
from .loops import COUNT, EDGE, FIRST, LAST, POSITION, next_tile

#: A step holds a whole tile in memory: 65,536 pairs, half a megabyte of machine integers.
INTERPRETED_ROWS, INTERPRETED_TILE = 64, 1024


class InterpretedKernel(CpuKernel):
    """A general program on NumPy columns, of Python integers where others are too narrow.

    Exact for any bounds, and ready at once, whatever the program's length; slow per pair.
    """

    program: GeneralProgram

    def __init__(
        self, program: GeneralProgram, resources: CpuResources, modes: frozenset[Mode] = PAIRS
    ) -> None:
        stream = [storage_dtype(dtype) for dtype in program.stream]
        window = [storage_dtype(dtype) for dtype in program.window]
        super().__init__(program, resources, stream, window, modes)

    def _run(self, window: tuple[np.ndarray, ...], task: Task) -> Result:
        output = Output(task, INTERPRETED_ROWS, INTERPRETED_TILE, self._resources.memory)
        walk, count = output.walk, 0
        while next_tile(walk, output.start, output.end, count):
            count = int(walk[COUNT])
            i, j = self._matches(window, task, *_pairs(output))
            total = count + len(i)
            if total > output.room:
                count = -1
                continue
            output.i[count:total], output.j[count:total] = i, j
            count = total
        return output.result()

    def _fold(self, window: tuple[np.ndarray, ...], task: Task) -> Folds:
        count = np.zeros(task.rows, np.int64)
        best: dict[int, tuple[Any, int]] = {}
        better = _BETTER.get(task.mode)
        for i, j in self._tiles(window, task):
            np.add.at(count, i, 1)
            if not task.mode.needs_value:
                continue
            assert self.program.value is not None
            values = self._evaluate(self.program.value, window, task, i, j).values.tolist()
            # Within a tile as from tile to tile, positions ascend for each tuple.
            for row, position, value in zip(i.tolist(), j.tolist(), values, strict=True):
                if row not in best:
                    best[row] = value, position
                elif better is None:
                    best[row] = best[row][0] + value, position
                elif better(order_key(value), order_key(best[row][0])):
                    best[row] = value, position
        return self._folds(task, count, best)

    def _folds(self, task: Task, count: np.ndarray, best: dict[int, tuple[Any, int]]) -> Folds:
        found = count > 0
        if task.mode is Mode.COUNT:
            return Folds(found, count)
        if task.mode is Mode.EXISTS:
            return Folds(found, found)
        assert self.program.value is not None
        is_float = self.program.value.type.is_float
        value = np.zeros(task.rows, np.float64 if is_float else object)
        position = np.full(task.rows, -1, np.int64)
        for row, (fold, at) in best.items():
            value[row], position[row] = fold, at
        return Folds(found, value, position if task.mode is Mode.NEAREST else None)

    def _tiles(
        self, window: tuple[np.ndarray, ...], task: Task
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Matches (i, j), tile by tile."""
        widest = INTERPRETED_ROWS * INTERPRETED_TILE
        for first in range(0, task.rows, INTERPRETED_ROWS):
            rows = np.arange(first, min(first + INTERPRETED_ROWS, task.rows))
            start, end = task.start[rows], task.end[rows]
            for at in range(int(start[0]), int(end[-1]), widest // len(rows)):
                low = np.maximum(start, at)
                high = np.minimum(end, at + widest // len(rows))
                i, j = self._matches(window, task, *_spread(rows, low, high))
                if len(i):
                    yield i, j

    def _matches(
        self, window: tuple[np.ndarray, ...], task: Task, i: np.ndarray, j: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        outcome = self._evaluate(self.program.predicate, window, task, i, j)
        hit = outcome.values if outcome.valid is None else outcome.values & outcome.valid
        return i[hit], j[hit]

    def _evaluate(
        self,
        expr: Expr,
        window: tuple[np.ndarray, ...],
        task: Task,
        i: np.ndarray,
        j: np.ndarray,
    ) -> Vector:
        keys = _Keys(self.program, task.stream, window, i, j)
        return evaluate_columns(expr, keys, len(i))


class _Keys(Mapping[tuple[str, int], Vector]):
    """Keys of the pairs (i, j), each gathered when it is asked for: there may be thousands."""

    def __init__(
        self,
        program: GeneralProgram,
        stream: Sequence[np.ndarray],
        window: Sequence[np.ndarray],
        i: np.ndarray,
        j: np.ndarray,
    ) -> None:
        self.sides = {"s": (stream, program.stream, i), "w": (window, program.window, j)}

    def __getitem__(self, key: tuple[str, int]) -> Vector:
        side, k = key
        columns, types, rows = self.sides[side]
        return key_vector(np.asarray(columns[k])[rows], types[k])

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return ((side, k) for side, (_, types, _) in self.sides.items() for k in range(len(types)))

    def __len__(self) -> int:
        return sum(len(types) for _, types, _ in self.sides.values())


_BETTER: dict[Mode, Callable[[Any, Any], bool]] = {
    Mode.MIN: lambda value, best: value < best,
    Mode.NEAREST: lambda value, best: value < best,
    Mode.MAX: lambda value, best: value > best,
}


def _pairs(output: Output) -> tuple[np.ndarray, np.ndarray]:
    """All (i, j) of the walk's tile."""
    rows = np.arange(output.walk[FIRST], output.walk[LAST])
    low = np.maximum(output.start[rows], output.walk[POSITION])
    return _spread(rows, low, np.minimum(output.end[rows], output.walk[EDGE]))


def _spread(rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All (i, j) of these rows with ``low <= j < high``, by row and then position."""
    length = np.maximum(high - low, 0)
    i = np.repeat(rows, length)
    before = np.cumsum(length) - length
    j = np.arange(len(i)) + np.repeat(low - before, length)
    return i, j


def key_vector(values: np.ndarray, dtype: Type) -> Vector:
    """A stored key column as expressions take it."""
    if not dtype.is_integral:
        return Vector(values)
    return int_vector(values.astype(np.int64 if values.dtype.kind == "i" else object))
