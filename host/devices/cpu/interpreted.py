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
from .folding import ordered, unordered
from .kernel import Columns, CpuKernel, folded
from .resident_window import CpuWindow
from .searching import walk_of

#: Pairs of a step: half a megabyte of machine integers.
INTERPRETED_PAIRS = 1 << 16
#: Tuples and places, or positions, of pairs to test: by tuple and then by place.
Tested = tuple[np.ndarray, np.ndarray]


class InterpretedKernel(CpuKernel):
    """A general program on NumPy columns, with Python integers where needed.

    Exact for any bounds, and ready at once, whatever the program's length; slow per pair.
    """

    program: GeneralProgram

    def _run(self, window: CpuWindow, task: Task) -> Result:
        return self._paired(window.columns, task, ranged(task))

    def _search(self, task: SearchTask) -> Result:
        columns = tuple(task.ordered.columns)
        if task.mode is Mode.PAIRS:
            return self._paired(columns, task, tested(task))
        counts: list[int] = []
        folds = self._folded(columns, task, tested(task), counts)
        return folded(folds, sum(counts))

    def _paired(self, columns: Columns, task: Task | SearchTask, pairs: Iterable[Tested]) -> Result:
        """Find the matches among pairs to test, as many as there is room for."""
        output, evaluations, parts = task.room, 0, []
        for i, places in pairs:
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
        self, window: Columns, task: Task | SearchTask, i: np.ndarray, places: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Matches among pairs of tuple and place: tuples, places and positions."""
        hit = self._hits(window, task, i, places)
        if isinstance(task, Task):
            return i[hit], places[hit], places[hit]
        rows = task.ordered.rows
        positions = places - places % rows + task.ordered.order[places]
        at = task.ordered.first + positions
        hit &= (task.start[i] <= at) & (at < task.end[i])
        return i[hit], places[hit], positions[hit]

    def _fold(self, window: CpuWindow, task: Task) -> Folds:
        return self._folded(window.columns, task, ranged(task), [])

    def _folded(
        self, window: Columns, task: Task | SearchTask, pairs: Iterable[Tested], counts: list[int]
    ) -> Folds:
        """Fold the matches among pairs to test; ``counts`` gets the numbers of pairs."""
        count, total = np.zeros(task.rows, np.int64), np.zeros(task.rows)
        best: dict[int, tuple[Any, int]] = {}
        better = _BETTER.get(task.mode)
        sums = task.mode is Mode.SUM and self._folds_floats
        for one, places in pairs:
            counts.append(len(one))
            i, j, positions = self._kept(window, task, one, places)
            np.add.at(count, i, 1)
            if not (task.mode.needs_value and len(i)):
                continue
            values = self._values(window, task, i, j)
            if sums:
                with np.errstate(all="ignore"):  # one after the other, as compiled loops do
                    np.add.at(total, i, values)
                continue
            matches = zip(i.tolist(), positions.tolist(), values.tolist(), strict=True)
            for row, position, value in matches:
                if row not in best:
                    best[row] = value, position
                elif better is None:
                    best[row] = best[row][0] + value, position
                else:
                    new, held = order_key(value), order_key(best[row][0])
                    # Of equal values the first position counts, in whatever order they come.
                    if better(new, held) or (new == held and position < best[row][1]):
                        best[row] = value, position
        if sums:
            return Folds(count > 0, total)
        return self._folds(task, count, best)

    def _folds(
        self, task: Task | SearchTask, count: np.ndarray, best: dict[int, tuple[Any, int]]
    ) -> Folds:
        matched = count > 0
        if task.mode is Mode.COUNT:
            return Folds(matched, count)
        if task.mode is Mode.EXISTS:
            return Folds(matched, matched)
        value = np.zeros(task.rows, np.float64 if self._folds_floats else object)
        position = np.full(task.rows, -1, np.int64)
        for row, (fold, at) in best.items():
            value[row], position[row] = fold, at
        if self._folds_floats:
            value = unordered(ordered(value))  # with one zero and one NaN
        return Folds(matched, value, position if task.mode is Mode.NEAREST else None)

    def _hits(
        self, window: Columns, task: Task | SearchTask, i: np.ndarray, j: np.ndarray
    ) -> np.ndarray:
        """Whether each pair matches."""
        outcome = self._evaluate(self.program.predicate, window, task, i, j)
        return outcome.values if outcome.valid is None else outcome.values & outcome.valid

    def _values(
        self, window: Columns, task: Task | SearchTask, i: np.ndarray, j: np.ndarray
    ) -> np.ndarray:
        """The values of pairs that are folded."""
        assert self.program.value is not None
        return self._evaluate(self.program.value, window, task, i, j).values

    @property
    def _folds_floats(self) -> bool:
        return self.program.value is not None and self.program.value.type.is_float

    def _evaluate(
        self, expr: Expr, window: Columns, task: Task | SearchTask, i: np.ndarray, j: np.ndarray
    ) -> Vector:
        program = self.program
        keys = _Keys({"s": (task.stream, program.stream, i), "w": (window, program.window, j)})
        return evaluate_columns(expr, keys, len(i))


def ranged(task: Task) -> Iterator[Tested]:
    """The pairs of tuple and position in the ranges of a task, a few thousand at a time."""
    return _in_ranges(np.asarray(task.start, np.int64), task.end)


def tested(task: SearchTask) -> Iterator[Tested]:
    """The pairs of tuple and place that a search tests, a few thousand at a time."""
    walk = walk_of(task)
    while count := walk.next():
        for ranges, place in _in_ranges(walk.low[:count], walk.high[:count]):
            yield walk.row[ranges].astype(np.int64), place


def _in_ranges(start: np.ndarray, end: np.ndarray) -> Iterator[Tested]:
    """The numbers of ranges, and the numbers that each of them has."""
    length = np.maximum(end - start, 0)
    upto = np.cumsum(length)
    offset = start - (upto - length)
    for low in range(0, int(upto[-1]) if len(upto) else 0, INTERPRETED_PAIRS):
        high = min(low + INTERPRETED_PAIRS, int(upto[-1]))
        first, last = np.searchsorted(upto, [low, high - 1], "right").tolist()
        ends = np.minimum(upto[first : last + 1], high)
        i = np.repeat(np.arange(first, last + 1), np.diff(ends, prepend=low))
        yield i, np.arange(low, high) + offset[i]


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
