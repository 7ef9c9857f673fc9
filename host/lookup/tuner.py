"""Shares memory out as the cost model says, also while a join runs (paper 5, equations 1 to 13)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import UsageError

from ..relation.border import Version
from .algorithm import Algorithm
from .lookup import Counts
from .memory import MemorySplit, kept_keys, split_of
from .model import Shape, UnitCosts, predict
from .zipf import top_share

#: Shares of the cache that are tried.
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
#: Rows that were looked up before the first look, which comes again after twice as many.
FIRST_ROWS = 1 << 19
#: By how much a new split must be faster to be worth the change.
_GAIN = 1.02
#: Greatest exponent that is tried; steeper streams hardly miss.
_MOST_EXPONENT = 3.0


@dataclass(frozen=True)
class StreamLoad:
    """Load of a look-up: properties of its stream.

    Parameters
    ----------
    row_bytes : float
        Bytes of a row.
    exponent, absent, batch
        As for :class:`~.model.Shape`.
    """

    row_bytes: float
    exponent: float = 1.0
    absent: float = 0.0
    batch: float = math.inf


def shape_of(version: Version, split: MemorySplit, load: StreamLoad) -> Shape:
    """The relation, the stream and the memory as the model sees them."""
    return Shape(
        rows=max(1, version.rows),
        row_bytes=version.bytes / max(1, version.rows),
        page_bytes=version.bytes / max(1, len(version.index)),
        stream_bytes=load.row_bytes,
        cached=kept_keys(version, split.cache),
        waiting=split.rows_of(load.row_bytes),
        read_bytes=split.request_bytes,
        exponent=load.exponent,
        absent=load.absent,
        batch=load.batch,
        filtered=split.filter > 0,
        answered_bytes=split.answered_bytes,
    )


def tuned(
    version: Version, memory_bytes: int, algorithm: Algorithm, load: StreamLoad, costs: UnitCosts
) -> MemorySplit:
    """The split that the model predicts to be the fastest one.

    Raises
    ------
    UsageError
        The memory is too small.
    """

    def rate(split: MemorySplit) -> float:
        return predict(algorithm, shape_of(version, split, load), costs).rate

    return max(
        (
            split_of(
                version, memory_bytes, load.row_bytes, algorithm, cache_share=share, filtered=some
            )
            for share in SHARES
            for some in (True, False)
        ),
        key=rate,
    )


def exponent_of(hits: float, cached: float, keys: float) -> float:
    """The exponent at which the most frequent keys have this share of the rows."""
    low, high = 0.0, _MOST_EXPONENT
    for _ in range(12):
        middle = (low + high) / 2
        if top_share(cached, keys, middle) < hits:
            low = middle
        else:
            high = middle
    return (low + high) / 2


class Tuner:
    """Watches a join, and now and then proposes a better split of its memory.

    Parameters
    ----------
    algorithm : Algorithm
        Only ``auto`` is tuned.
    costs : callable
        Gives the unit costs; called once, when they are first needed.
    """

    def __init__(self, algorithm: Algorithm, costs: Callable[[], UnitCosts]) -> None:
        self._algorithm, self._costs = algorithm, costs
        self._known: UnitCosts | None = None
        self._next = FIRST_ROWS if algorithm is Algorithm.AUTO else math.inf
        self._seen = Counts()
        self._settled = 0  # rows that had been looked up when all were answered last
        self._batch = 0.0

    def settled(self, counts: Counts) -> None:
        """Note that all rows were answered."""
        rows = counts.rows - self._settled
        self._batch = max(rows, 0.9 * self._batch)
        self._settled = counts.rows

    def better(
        self,
        version: Version,
        memory_bytes: int,
        split: MemorySplit,
        counts: Counts,
        cached: int,
        row_bytes: float,
    ) -> MemorySplit | None:
        """A better split of the memory; None if there is none, or it is too early to look."""
        if counts.rows < self._next:
            return None
        self._next = 2 * counts.rows
        load = self._load(version, counts, cached, row_bytes)
        if self._known is None:
            self._known = self._costs()
        try:
            tried = tuned(version, memory_bytes, self._algorithm, load, self._known)
        except UsageError:  # the relation has outgrown the memory
            return None
        now, then = (
            predict(self._algorithm, shape_of(version, one, load), self._known).rate
            for one in (split, tried)
        )
        return tried if then > _GAIN * now else None

    def _load(self, version: Version, counts: Counts, cached: int, row_bytes: float) -> StreamLoad:
        """Estimate the load from the rows since the last look."""
        rows = counts.rows - self._seen.rows
        absent = (counts.absent - self._seen.absent) / rows
        present = max(rows * (1 - absent), 1)
        hits = (counts.hits - self._seen.hits) / present
        self._seen = Counts(counts.rows, counts.hits, counts.absent)
        # Rows since they were all answered last, if they never are.
        batch = max(self._batch, counts.rows - self._settled)
        exponent = exponent_of(min(hits, 1.0), max(cached, 1), max(version.rows, 2))
        return StreamLoad(row_bytes, exponent, min(absent, 1.0), batch)
