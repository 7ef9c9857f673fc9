"""Cuts a join into tasks.

Tasks have equal predicted evaluations, not equal rows: enough to keep a device busy for a few
milliseconds, and few enough for all lanes to share the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .base import Device, Pause, Result

#: Most evaluations of a task: 12 ms of one core at 2e10 evaluations per second. Half of it cost a
#: stream on two cores 15 % of its rate, twice as much gained nothing.
TASK_EVALUATIONS = 1 << 28
#: Tasks per lane of a join that is large enough, so that lanes end together.
TASKS_PER_LANE = 8
#: Evaluations below which a task is not cut further: its fixed cost, about 0.1 ms, would show.
LEAST_EVALUATIONS = 1 << 22
#: Stream tuples per task below which the window is cut instead: a device passes each window tuple
#: to all tuples of a task, so few of them would waste its memory bandwidth.
LEAST_ROWS = 256


@dataclass(frozen=True)
class Piece:
    """Tuples ``rows[...]`` of the caller, with their ranges; a tuple may occur several times.

    ``rows`` is uint32, ``start`` and ``end`` int64, all of shape (n,); neither starts nor ends step
    back.
    """

    rows: np.ndarray
    start: np.ndarray
    end: np.ndarray

    @cached_property
    def evaluations(self) -> int:
        return int(self.end.sum() - self.start.sum())

    def part(self, low: int, high: int) -> Piece:
        return Piece(self.rows[low:high], self.start[low:high], self.end[low:high])

    def pick(self, chosen: np.ndarray) -> Piece:
        """Some of the tuples, by their indices here or by flags."""
        return Piece(self.rows[chosen], self.start[chosen], self.end[chosen])

    def sample(self, most: int) -> Piece:
        """At most so many of the tuples, at equal distances, less those with an empty range."""
        some = self.pick(spread(0, len(self.rows), most))
        return nonempty(some.rows, some.start, some.end)

    def entries(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The tuples' entries in the caller's arrays; no copy in the usual case without gaps."""
        if self._has_no_gap:
            return [array[self.rows[0] : int(self.rows[-1]) + 1] for array in arrays]
        return [array[self.rows] for array in arrays]

    def rebased(self, i: np.ndarray) -> np.ndarray:
        """The caller's indices of the piece's tuples ``i``, as uint32."""
        if self._has_no_gap:  # an addition instead of a look-up per pair
            return i + np.uint32(self.rows[0]) if self.rows[0] else i
        return self.rows[i]

    @cached_property
    def _has_no_gap(self) -> bool:
        rows, ends = self.rows, int(self.rows[-1]) - int(self.rows[0])
        return ends + 1 == len(rows) and bool((rows[1:] > rows[:-1]).all())

    @property
    def low(self) -> int:
        """First position that it reads; the piece must not be empty."""
        return int(self.start[0])

    @property
    def high(self) -> int:
        """Position after the last one that it reads."""
        return int(self.end[-1])

    def clipped(self, low: int, high: int) -> Piece:
        """The part of each range in ``[low, high)``, without the empty ones."""
        return nonempty(self.rows, np.maximum(self.start, low), np.minimum(self.end, high))

    def tasks(self, cutting: Cutting) -> Iterator[Piece]:
        """Cut into pieces of about equal evaluations, one per task; no range may be empty."""
        if 0 < self.evaluations <= cutting.target(self.evaluations):
            yield self
            return
        upto = np.cumsum(self.end - self.start)
        # Cutting the window would undo what whole passes gain.
        most = cutting.target(self.evaluations) if cutting.units == 1 else cutting.most
        for low, high in cutting.stretches(upto, units=cutting.units):
            yield from _cut_window(self.part(low, high), most)

    def remaining(self, pause: Pause) -> list[Piece]:
        """The pieces that a paused task left over, the later tuples first."""
        begun = self.part(pause.i0, pause.i1).clipped(pause.p, np.iinfo(np.int64).max)
        left = [self.part(pause.i1, len(self.rows)), begun]
        return [piece for piece in left if len(piece.rows)]


def run_to_end(piece: Piece, run: Callable[[Piece], Result]) -> Iterator[tuple[Piece, Result]]:
    """Run a piece as a task; where a task pauses, run the rest as further tasks.

    Parameters
    ----------
    run : callable
        Runs the task of a piece, and waits for its result.

    Yields
    ------
    (Piece, Result)
        The tuples of each task, and its result.
    """
    left = [piece]
    while left:
        part = left.pop()
        result = run(part)
        yield part, result
        if result.pause is not None:
            left += part.remaining(result.pause)


def spread(low: int, high: int, most: int) -> np.ndarray:
    """Return at most ``most`` of the places ``[low, high)``, at equal distances."""
    return np.linspace(low, high - 1, min(high - low, most)).astype(np.int64)


def whole(start: np.ndarray, end: np.ndarray) -> Piece:
    """All of the caller's tuples, except those with an empty range."""
    return nonempty(
        np.arange(len(start), dtype=np.uint32),
        np.asarray(start, np.int64),
        np.asarray(end, np.int64),
    )


def concat(pieces: Sequence[Piece]) -> Piece:
    """Join one or more pieces into one; their ranges must not step back from piece to piece."""
    return Piece(
        np.concatenate([p.rows for p in pieces]),
        np.concatenate([p.start for p in pieces]),
        np.concatenate([p.end for p in pieces]),
    )


def nonempty(rows: np.ndarray, start: np.ndarray, end: np.ndarray) -> Piece:
    """The tuples with a range that is not empty."""
    keep, piece = start < end, Piece(rows, start, end)
    return piece if keep.all() else piece.pick(keep)


def reach(upto: np.ndarray, low: int, most: int) -> int:
    """The row up to which the rows from ``low`` on have at most so many evaluations.

    Parameters
    ----------
    upto : ndarray of int64
        Sums of the evaluations of the rows up to each one.
    """
    done = int(upto[low - 1]) if low else 0
    return int(np.searchsorted(upto, done + most, side="right"))


@dataclass(frozen=True)
class Cutting:
    """Sizes by which joins are cut into tasks.

    Parameters
    ----------
    lanes : int
        How many tasks may run at the same time.
    most : int
        Evaluations of a task, where it can be cut.
    units : int
        Stream tuples that a device holds at a time. Tasks of a range join have a multiple of it,
        since a last pass with fewer takes as long.
    tasks_per_lane : int
        Tasks per lane, where they are large enough.
    least : int
        Evaluations below which a task is not cut further.
    """

    lanes: int
    most: int = TASK_EVALUATIONS
    units: int = 1
    tasks_per_lane: int = TASKS_PER_LANE
    least: int = LEAST_EVALUATIONS

    @staticmethod
    def for_devices(
        devices: Sequence[Device],
        most: int | None = None,
        *,
        tasks_per_lane: int = TASKS_PER_LANE,
        least: int = LEAST_EVALUATIONS,
    ) -> Cutting:
        """Sizes for all lanes; ``most`` is by default the smallest wish of a device."""
        limits = [d.task_evaluations for d in devices if d.task_evaluations is not None]
        return Cutting(
            sum(device.lanes for device in devices),
            most or min(limits, default=TASK_EVALUATIONS),
            max(device.units for device in devices),
            tasks_per_lane,
            least,
        )

    def stretches(
        self, upto: np.ndarray, *, least_rows: int = LEAST_ROWS, units: int = 1
    ) -> Iterator[tuple[int, int]]:
        """Rows ``[low, high)`` of each task, in order, by their evaluations as for :func:`reach`.

        Parameters
        ----------
        least_rows : int
            Rows of a task, however many evaluations they have.
        units : int
            Rows of a task are a multiple of it.
        """
        rows, low = len(upto), 0
        target = self.target(int(upto[-1]) if rows else 0)
        while low < rows:
            count = max(reach(upto, low, target) - low, least_rows)
            high = min(rows, low + -(-count // units) * units)
            if high > reach(upto, low, self.most) and count >= units:
                high = min(rows, low + count // units * units)
            yield low, high
            low = high

    def target(self, evaluations: int) -> int:
        """Evaluations of each task of a join of so many."""
        return min(self.most, max(evaluations // (self.tasks_per_lane * self.lanes), self.least))


def _cut_window(piece: Piece, target: int) -> Iterator[Piece]:
    """The piece, cut by window positions if it has more evaluations than the target."""
    if piece.evaluations <= target:
        yield piece
        return
    low, high = piece.low, piece.high
    parts = min(-(-piece.evaluations // target), high - low)
    for k in range(parts):
        clipped = piece.clipped(
            low + (high - low) * k // parts, low + (high - low) * (k + 1) // parts
        )
        if len(clipped.rows):
            yield clipped
