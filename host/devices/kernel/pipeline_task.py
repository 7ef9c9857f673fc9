"""Fits join pipelines to the device contract: checks, order of columns, empty ranges, folds."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import DeviceError
from penstock.program import BandProgram, Mode, Program

from ...device.base import Folds, Kernel, Pause, Result, Task, WindowBuffer
from ...device.checks import check_capacity, check_task, check_write, stream_columns
from ...device.merge import Merged

#: Widest value that int64 holds.
_INT64_BITS = 64


class PipelineWindow(WindowBuffer):
    """Window keys in a pipeline's form."""

    def __init__(self, capacity: int, keys: int) -> None:
        check_capacity(capacity)
        super().__init__(capacity)
        self._keys = keys

    @property
    @abstractmethod
    def freed(self) -> bool:
        """Whether the memory was given back."""

    @abstractmethod
    def _store(self, offset: int, count: int, columns: Sequence[np.ndarray]) -> None:
        """Write ``count`` tuples; the caller has checked that they fit."""

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        if self.freed:
            raise DeviceError("the window was freed; allocate another one")
        count = check_write(self, [None] * self._keys, offset, columns)
        self._store(offset, count, columns)


@dataclass(frozen=True)
class PipelineTask:
    """A task in a pipeline's form: no empty range, columns in the order of its loads.

    Parameters
    ----------
    columns : sequence of ndarray, each of shape (n,)
        Stream keys; in band form all low bounds, then all high bounds.
    start, end : ndarray of int64, shape (n,)
        Ranges.
    room : int
        Most pairs.
    mode : Mode
        What becomes of matches.
    """

    columns: Sequence[np.ndarray]
    start: np.ndarray
    end: np.ndarray
    room: int
    mode: Mode


@dataclass(frozen=True)
class Stop:
    """Stop of a task: tuples below ``complete`` are done, below ``loaded`` up to ``position``."""

    complete: int
    loaded: int
    position: int


@dataclass(frozen=True)
class TaskOutcome:
    """Outcome of a task on a pipeline.

    Parameters
    ----------
    i, j : ndarray of int64
        Index of the work's tuple and window position, an element per match.
    stop : Stop or None
        None if all is complete.
    counters : mapping
        Counts of the task, without ``evaluations`` and ``units``.
    folds : Folds or None
        Aggregates of the work's tuples, unless its mode is PAIRS.
    """

    i: np.ndarray
    j: np.ndarray
    stop: Stop | None
    counters: Mapping[str, int]
    folds: Folds | None = None


class PipelineKernel(Kernel):
    """A program on a pipeline, simulated or real.

    Parameters
    ----------
    program : Program
    modes : frozenset of Mode
    units : int
        Join units.
    tests : int
        Band tests of the build. If it has more than the program, the others' outcomes must not
        matter.
    count : callable
        Takes the counters of each task.
    """

    def __init__(
        self,
        program: Program,
        modes: frozenset[Mode],
        units: int,
        tests: int,
        count: Callable[[Mapping[str, int]], None],
    ) -> None:
        super().__init__(program, modes)
        self._count = count
        self._units = units
        self._spare_tests = tests - program.tests if isinstance(program, BandProgram) else 0
        #: Room for the matches of one window tuple, the smallest step that can be paused.
        self.min_room = units

    @abstractmethod
    def _execute(self, window: WindowBuffer, work: PipelineTask) -> TaskOutcome:
        """Run a task of at least one tuple."""

    def _run(self, window: WindowBuffer, task: Task) -> Result:
        """Check a task and run it; the result has the caller's indices and counters."""
        self._check(window, task)
        start, end = np.asarray(task.start, np.int64), np.asarray(task.end, np.int64)
        kept = np.flatnonzero(start < end)
        if len(kept) == 0:
            nothing = np.array([], np.int64)
            idle = TaskOutcome(nothing, nothing, None, {})
            return self._result(task, kept, idle, None, {"evaluations": 0})
        columns = [np.asarray(column)[kept] for column in self._in_order(task)]
        began = time.monotonic()
        outcome = self._execute(
            window, PipelineTask(columns, start[kept], end[kept], task.room, task.mode)
        )
        ran, pause, until = (began, time.monotonic()), None, end.copy()
        if (stop := outcome.stop) is not None:
            rows = np.append(kept, task.rows)
            pause = Pause(int(rows[stop.complete]), int(rows[stop.loaded]), stop.position)
            until[pause.i0 : pause.i1] = np.minimum(end[pause.i0 : pause.i1], pause.p)
            until[pause.i1 :] = 0
        evaluations = {"evaluations": int(np.maximum(until - start, 0).sum())}
        result = self._result(task, kept, outcome, pause, evaluations | {**outcome.counters})
        return replace(result, ran=ran)

    def _check(self, window: WindowBuffer, task: Task) -> None:
        if not isinstance(window, PipelineWindow) or window.freed:
            raise DeviceError("the window is not one of this kernel's, or was freed")
        check_task(self, window.capacity, [None] * len(stream_columns(self.program)), task)

    def _in_order(self, task: Task) -> Sequence[np.ndarray]:
        """All low bounds before all high bounds, as the pipeline loads them."""
        if not isinstance(self.program, BandProgram):
            return task.stream
        spare = [np.zeros(task.rows, np.uint8)] * self._spare_tests
        return [*task.stream[::2], *spare, *task.stream[1::2], *spare]

    def _result(
        self,
        task: Task,
        kept: np.ndarray,
        outcome: TaskOutcome,
        pause: Pause | None,
        counters: dict[str, int],
    ) -> Result:
        """The result for all tuples of a task; tuples that are not ``kept`` have no matches."""
        self._count(counters)
        counters = counters | {"units": self._units}
        i, j = kept[outcome.i].astype(np.uint32), outcome.j.astype(np.uint32)
        folds = None
        if task.mode is not Mode.PAIRS:
            merged = Merged(task.mode, task.rows)
            if outcome.folds is not None:
                merged.add(kept, outcome.folds)
            folds = merged.folds()
        return Result(i, j, pause, counters, folds)


def read_folds(
    fields: Mapping[str, int],
    operand_bits: int,
    mode: Mode,
    words: Sequence[int],
    start: np.ndarray,
) -> Folds:
    """Aggregates of stream tuples.

    Parameters
    ----------
    fields : mapping of str to int
        Widths of the build's fields of a tuple, from bit 0 on: some of ``value``, ``found`` and
        ``position``.
    operand_bits : int
        Width of the folded value.
    mode : Mode
        The task's mode; not PAIRS.
    words : sequence of int, of length n
        The pipeline's word for each tuple.
    start : ndarray of int64, shape (n,)
        Where the tuples' ranges start.
    """

    def field(name: str) -> list[int]:
        offset = sum(width for other, width in fields.items() if order[other] < order[name])
        mask = (1 << fields[name]) - 1
        return [word >> offset & mask for word in words]

    order = {name: number for number, name in enumerate(fields)}
    values = field("value") if "value" in fields else []
    matched = np.array(field("found") if "found" in fields else values, bool)
    if mode is Mode.EXISTS:
        return Folds(matched, matched)
    bits, inverse = operand_bits, -(mode is Mode.MAX)
    if mode is Mode.COUNT:
        bits = min(fields["value"], _INT64_BITS)
    elif mode is Mode.SUM:
        bits = fields["value"]
    numbers = [_number(value, bits, mode is not Mode.COUNT) ^ inverse for value in values]
    dtype = np.int64 if bits <= _INT64_BITS else object
    kept = [number if hit else 0 for number, hit in zip(numbers, matched, strict=True)]
    position = None
    if mode is Mode.NEAREST:
        position = np.where(matched, start + np.array(field("position"), np.int64), -1)
    return Folds(matched, np.array(kept, dtype), position)


def _number(word: int, bits: int, signed: bool) -> int:
    word &= (1 << bits) - 1
    return word - (word >> (bits - 1) << bits) if signed else word
