"""Makes output rows, in threads if they are many, and releases them: at once, or in order.

The order is that of paper 1, section 3.4: by the arrival number of the later tuple of a pair, then
of the earlier one. The later tuple of a pair belongs to the pair's batch, so sorted batches of a
stream follow each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
import pyarrow as pa

from ..execute.promptness import only_computes
from ..rows.picked import Nobody, Picked
from .restore import Restorer

#: Factor by which the largest bytes per tuple of a batch fade with each further complete batch.
FADING = 0.9


@dataclass(frozen=True)
class RowsByArrival:
    """Output rows, with the arrival numbers by which they are ordered.

    ``later`` and ``earlier`` are int64 of shape (rows,).
    """

    batch: pa.RecordBatch
    later: np.ndarray
    earlier: np.ndarray

    def take(self, order: np.ndarray) -> RowsByArrival:
        """Return some of the rows, by index."""
        return RowsByArrival(
            self.batch.take(pa.array(order)), self.later[order], self.earlier[order]
        )


@dataclass(frozen=True)
class RowSources:
    """Base rows of output rows, by side, and the arrival numbers by which these are ordered.

    ``later`` and ``earlier`` are int64 of shape (rows,), or empty if the order is free.
    """

    sides: Mapping[str, Picked | Nobody]
    later: np.ndarray
    earlier: np.ndarray


@dataclass(frozen=True)
class Making:
    """Output rows that any thread can make.

    Parameters
    ----------
    count : int
        Number of rows.
    make : callable
        Makes the rows; to be called once.
    sources : callable, optional
        Picks the base rows of the rows, to make them later.
    width : int
        Values of a row; one that is not just copied counts as several.
    """

    count: int
    make: Callable[[], RowsByArrival]
    sources: Callable[[], RowSources] | None = None
    width: int = 1

    @staticmethod
    def from_sources(count: int, sources: Callable[[], RowSources], restorer: Restorer) -> Making:
        """Tell how to make rows of base rows."""

        def make() -> RowsByArrival:
            picked = sources()
            return RowsByArrival(restorer.restore(picked.sides), picked.later, picked.earlier)

        return Making(count, make, sources, restorer.width)


def timed(making: Making, note: Callable[[float], None]) -> Making:
    """Tell how to make the same rows, and note the seconds that it takes."""

    def make() -> RowsByArrival:
        began = perf_counter()
        rows = making.make()
        note(perf_counter() - began)
        return rows

    return replace(making, make=make)


def by_arrival(later: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    """Return the order of rows by arrival numbers; rows with equal numbers keep their order."""
    if not len(later):
        return np.zeros(0, np.int64)
    least = int(earlier.min())
    if int(later.max()) - least < 1 << 31:  # one sort of both at once
        return np.argsort((later - least) << 32 | (earlier - least), kind="stable")
    return np.lexsort((earlier, later))


def joined(parts: Sequence[RowsByArrival]) -> RowsByArrival:
    """Join one or more parts into one."""
    return RowsByArrival(
        pa.concat_batches([p.batch for p in parts]),
        np.concatenate([p.later for p in parts]),
        np.concatenate([p.earlier for p in parts]),
    )


@dataclass
class _Batch:
    left: int
    closing: Callable[[], Iterable[Making]] | None
    tuples: int
    rows: list[RowsByArrival] = field(default_factory=list)


class Gatherer:
    """Gathers the output rows of batches.

    Parameters
    ----------
    ordered : bool
        Whether rows leave in order, batch by batch, or as they come.
    """

    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered
        #: Approximate bytes of the rows that wait to leave in order.
        self.nbytes = 0
        #: Tuples of the last complete batch, and recent bytes of rows per tuple.
        self.tuples = 0
        self.bytes_per_tuple = 0.0
        self._open: dict[int, _Batch] = {}

    @property
    def open(self) -> int:
        """Number of incomplete batches."""
        return len(self._open)

    @property
    def first(self) -> int | None:
        """Number of the oldest incomplete batch."""
        return next(iter(list(self._open)), None)

    def begin(
        self,
        number: int,
        orders: int,
        closing: Callable[[], Iterable[Making]] | None = None,
        tuples: int = 0,
    ) -> list[RowsByArrival]:
        """Begin a batch of some orders and tuples; return the rows that can leave.

        Numbers of batches ascend. ``closing`` gives rows that follow the batch's own, once all
        batches up to it are complete.
        """
        self._open[number] = _Batch(orders, closing, tuples)
        return self._complete()

    def more(self, number: int, orders: int) -> None:
        """Add further orders to an incomplete batch."""
        self._open[number].left += orders

    def add(self, number: int, rows: list[RowsByArrival]) -> list[RowsByArrival]:
        """Add the rows of one order; return the rows that can leave."""
        batch = self._open[number]
        batch.left -= 1
        if not self.ordered:
            return rows + self._complete()
        batch.rows += rows
        self.nbytes += sum(map(_size, rows))
        return self._complete()

    def _complete(self) -> list[RowsByArrival]:
        complete: list[RowsByArrival] = []
        is_first = True  # whether all batches before are complete
        for number in list(self._open):
            batch = self._open[number]
            if batch.left:
                if self.ordered:
                    break
                is_first = False
                continue
            if batch.rows:
                size = sum(map(_size, batch.rows))
                self.nbytes -= size
                self.tuples = batch.tuples
                self.bytes_per_tuple = max(
                    size / max(batch.tuples, 1), FADING * self.bytes_per_tuple
                )
                rows = joined(batch.rows)
                complete.append(rows.take(by_arrival(rows.later, rows.earlier)))
                batch.rows = []
            if batch.closing is not None:
                if not is_first:
                    continue
                complete += [one.make() for one in batch.closing()]
            del self._open[number]
        return complete


def _size(rows: RowsByArrival) -> int:
    """Return the bytes needed while a batch is sorted: its rows are copied twice."""
    return 2 * (rows.batch.nbytes + rows.later.nbytes + rows.earlier.nbytes)


#: Most threads that make rows: copying needs memory, and fewer threads than finding pairs does.
MOST_THREADS = 16
#: Values that are cheaper to copy than another thread is to start: half a millisecond.
LEAST_VALUES = 1 << 18


def make_rows(
    makings: Iterable[Making], lanes: int, last_makings: Callable[[], Iterable[Making]] = tuple
) -> Generator[RowsByArrival, None, None]:
    """Make rows in as many threads as there are lanes; give them in order.

    While rows are made, the next makings are fetched: at most one batch per thread is ahead of the
    yielded one. Closing the generator waits for the batches that have begun.

    Parameters
    ----------
    last_makings : callable
        Tells how to make further rows, after all makings. The last ones are made in the caller's
        thread, which would otherwise wait for them.
    """
    threads = min(lanes, MOST_THREADS)
    waiting: deque[Future[RowsByArrival]] = deque()
    with ThreadPoolExecutor(threads, "penstock-rows", only_computes) as pool:
        try:
            for making, is_last in _last_known(makings, last_makings):
                if is_last or (making.count * making.width < LEAST_VALUES and not waiting):
                    rows = making.make()
                    while waiting:
                        yield waiting.popleft().result()
                    yield rows
                    continue
                waiting.append(pool.submit(making.make))
                while waiting and (len(waiting) > threads or waiting[0].done()):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _last_known(
    makings: Iterable[Making], last_makings: Callable[[], Iterable[Making]]
) -> Iterator[tuple[Making, bool]]:
    """Yield each making, and whether it is known to be the last one."""
    for making in makings:
        yield making, False
    left = iter(last_makings())
    making = next(left, None)
    while making is not None:
        following = next(left, None)
        yield making, following is None
        making = following
