"""Interprets general programs on columns: those beyond machine integers or too long to compile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.expr.columns import Vector, evaluate_columns, int_vector
from penstock.expr.node import Expr
from penstock.expr.values import order_key
from penstock.program import GeneralProgram, Mode
from penstock.types import Type

from ...device.base import Folds, Pause, Result, Task
from ...device.search import SearchTask
from .kernel import Columns, CpuKernel, PairOutput, folded
from .loops import COUNT, EDGE, FIRST, LAST, POSITION, new_walk, next_tile
from .resident_window import CpuWindow
from .searching import walk_of

#: A step holds a whole tile in memory: 65,536 pairs, half a megabyte of machine integers.
INTERPRETED_ROWS, INTERPRETED_TILE = 64, 1024
INTERPRETED_PAIRS = INTERPRETED_ROWS * INTERPRETED_TILE


class InterpretedKernel(CpuKernel):
    """A general program on NumPy columns, with Python integers where needed.

    Exact for any bounds, and ready at once, whatever the program's length; slow per pair.
    """

    program: GeneralProgram

    def _run(self, window: CpuWindow, task: Task) -> Result:
        output = PairOutput(task, INTERPRETED_ROWS, INTERPRETED_TILE, self._resources.memory)
        walk, count = output.walk, 0
        while next_tile(walk, output.start, output.end, count):
            count = int(walk[COUNT])
            i, j = self._matches(window.columns, task, walk)
            total = count + len(i)
            if total > task.room:
                count = -1
                continue
            output.i[count:total], output.j[count:total] = i, j
            count = total
        return output.result()

    def _search(self, task: SearchTask) -> Result:
        columns = tuple(task.ordered.columns)
        if task.mode is not Mode.PAIRS:
            evaluations = 0

            def matches() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
                nonlocal evaluations
                for i, places in tested(task):
                    evaluations += len(i)
                    yield self._kept(columns, task, i, places)

            folds = self._folded(columns, task, matches())
            return folded(folds, evaluations)
        output, evaluations, parts = task.room, 0, []
        for i, places in tested(task):
            rows, at, positions = self._kept(columns, task, i, places)
            parts.append((rows[:output], positions[:output]))
            if len(rows) > output:
                tuple_, place = int(rows[output]), int(at[output])
                done = (i < tuple_) | ((i == tuple_) & (places < place))
                evaluations += int(done.sum())
                return _pairs(parts, Pause(tuple_, tuple_ + 1, place), evaluations)
            output -= len(rows)
            evaluations += len(i)
        return _pairs(parts, None, evaluations)

    def _kept(
        self, window: Columns, task: SearchTask, i: np.ndarray, places: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Matches among pairs of tuple and place: tuples, places and positions."""
        rows = task.ordered.rows
        positions = places - places % rows + task.ordered.order[places]
        at = task.ordered.first + positions
        is_in = (task.start[i] <= at) & (at < task.end[i])
        hit = self._hits(window, task, i, places) & is_in
        return i[hit], places[hit], positions[hit]

    def _fold(self, window: CpuWindow, task: Task) -> Folds:
        start, end = np.array(task.start, np.int64), np.array(task.end, np.int64)
        rows = min(max(task.rows, 1), INTERPRETED_ROWS)
        walk = new_walk(rows, INTERPRETED_ROWS * INTERPRETED_TILE // rows)

        def matches() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
            while next_tile(walk, start, end, 0):
                i, j = self._matches(window.columns, task, walk)
                yield i, j, j

        return self._folded(window.columns, task, matches())

    def _folded(
        self,
        window: Columns,
        task: Task | SearchTask,
        matches: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]],
    ) -> Folds:
        """Fold matches, given as tuples, places in the columns, and positions."""
        count = np.zeros(task.rows, np.int64)
        best: dict[int, tuple[Any, int]] = {}
        better = _BETTER.get(task.mode)
        for i, j, positions in matches:
            np.add.at(count, i, 1)
            if not (task.mode.needs_value and len(i)):
                continue
            assert self.program.value is not None
            values = self._evaluate(self.program.value, window, task, i, j).values.tolist()
            for row, position, value in zip(i.tolist(), positions.tolist(), values, strict=True):
                if row not in best:
                    best[row] = value, position
                elif better is None:
                    best[row] = best[row][0] + value, position
                else:
                    new, held = order_key(value), order_key(best[row][0])
                    # Of equal values the first position counts, in whatever order they come.
                    if better(new, held) or (new == held and position < best[row][1]):
                        best[row] = value, position
        return self._folds(task, count, best)

    def _folds(
        self, task: Task | SearchTask, count: np.ndarray, best: dict[int, tuple[Any, int]]
    ) -> Folds:
        matched = count > 0
        if task.mode is Mode.COUNT:
            return Folds(matched, count)
        if task.mode is Mode.EXISTS:
            return Folds(matched, matched)
        assert self.program.value is not None
        is_float = self.program.value.type.is_float
        value = np.zeros(task.rows, np.float64 if is_float else object)
        position = np.full(task.rows, -1, np.int64)
        for row, (fold, at) in best.items():
            value[row], position[row] = fold, at
        return Folds(matched, value, position if task.mode is Mode.NEAREST else None)

    def _matches(
        self, window: Columns, task: Task, walk: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Matches (i, j) in the walk's tile, by row and then position."""
        rows = np.arange(walk[FIRST], walk[LAST])
        low = np.maximum(task.start[rows], walk[POSITION])
        length = np.maximum(np.minimum(task.end[rows], walk[EDGE]) - low, 0)
        i = np.repeat(rows, length)
        before = np.cumsum(length) - length
        j = np.arange(len(i)) + np.repeat(low - before, length)
        hit = self._hits(window, task, i, j)
        return i[hit], j[hit]

    def _hits(
        self, window: Columns, task: Task | SearchTask, i: np.ndarray, j: np.ndarray
    ) -> np.ndarray:
        """Whether each pair matches."""
        outcome = self._evaluate(self.program.predicate, window, task, i, j)
        return outcome.values if outcome.valid is None else outcome.values & outcome.valid

    def _evaluate(
        self, expr: Expr, window: Columns, task: Task | SearchTask, i: np.ndarray, j: np.ndarray
    ) -> Vector:
        program = self.program
        keys = _Keys({"s": (task.stream, program.stream, i), "w": (window, program.window, j)})
        return evaluate_columns(expr, keys, len(i))


def tested(task: SearchTask) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The pairs of tuple and place that a search tests, a few thousand at a time."""
    walk = walk_of(task)
    while count := walk.next():
        length = walk.high[:count] - walk.low[:count]
        upto = np.cumsum(length)
        low = 0
        while low < count:
            before = upto[low] - length[low]
            high = max(int(np.searchsorted(upto, before + INTERPRETED_PAIRS, "right")), low + 1)
            part = length[low:high]
            i = np.repeat(walk.row[low:high].astype(np.int64), part)
            begins = walk.low[low:high] - (upto[low:high] - part - before)
            yield i, np.arange(len(i)) + np.repeat(begins, part)
            low = high


def _pairs(
    parts: Sequence[tuple[np.ndarray, np.ndarray]], pause: Pause | None, evaluations: int
) -> Result:
    none = np.zeros(0, np.uint32)
    i, j = (np.concatenate([none, *(part[k].astype(np.uint32) for part in parts)]) for k in (0, 1))
    return Result(i, j, pause, {"evaluations": evaluations})


@dataclass(frozen=True, eq=False)
class _Keys(Mapping[tuple[str, int], Vector]):
    """Keys of pairs by side: columns, types, and the row of each pair.

    A key is gathered on first use, since there may be thousands.
    """

    sides: Mapping[str, tuple[Sequence[np.ndarray], tuple[Type, ...], np.ndarray]]

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


def key_vector(values: np.ndarray, dtype: Type) -> Vector:
    """A stored key column as a vector for expressions."""
    if not dtype.is_integral:
        return Vector(values)
    return int_vector(values.astype(np.int64 if values.dtype.kind == "i" else object))
