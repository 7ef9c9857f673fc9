"""Delivers the output of joins: pairs, preserved rows, or rows with or without a match.

A row without a match leaves when its window has closed and all earlier orders have been evaluated:
until then it may still find a match.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.plan.plan import JoinPlan
from penstock.plan.query import JoinKind, JoinQuery

from ..execute.chunk import Chunk
from ..execute.pairs import Pairs
from ..rows.gather import take_values
from ..rows.sides import Arrival
from ..windows.preserved import ClosedRows, Preserved
from ..windows.probe import Watermarks, WindowStep
from ..windows.run import Snapshot
from .making import Making
from .output import RowsByArrival, joined
from .restore import BATCH_ROWS, Restorer, base_rows
from .testing import PairTester

#: Gives further rows of a batch, once it and all batches before it have been evaluated.
AfterBatch = Callable[[], Iterable[RowsByArrival]]

#: Arrival numbers of rows whose order is free.
NO_NUMBERS = np.zeros(0, np.int64)


class Delivery(ABC):
    """Makes output rows of chunks."""

    #: Tests a chunk's pairs before rows are made; None where devices test the whole predicate.
    tester: PairTester | None = None

    def matches(self, chunk: Chunk) -> Chunk:
        """Return a chunk from a device with only the pairs that match."""
        return chunk if self.tester is None else self.tester.tested(chunk)

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Schema of the output."""

    @property
    def nbytes(self) -> int:
        """Approximate bytes of rows that wait for their window or group to close."""
        return 0

    @abstractmethod
    def begin(self, batch: int, step: WindowStep, watermarks: Watermarks) -> AfterBatch | None:
        """Begin a batch, before its orders; return a callable that gives the rows after its end."""

    def rows(self, chunk: Chunk) -> Iterable[Making]:
        """Tell how to make the rows that a chunk gives at once. Called without any lock."""
        return ()

    def last_rows(self) -> Iterable[Making]:
        """Tell how to make the rows of pairs that wait for the last chunk of a table."""
        return ()

    @abstractmethod
    def note(self, chunk: Chunk) -> None:
        """Keep the parts of a published chunk that waiting rows need."""


class RowDelivery(Delivery):
    """A delivery that makes output rows of base rows.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables.
    """

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        self.query = query
        self.restorer = Restorer(query, schemas)
        self._schemas = schemas

    @property
    def schema(self) -> pa.Schema:
        return self.restorer.schema

    def alone(self, arrival: Arrival, tuples: np.ndarray | None = None) -> Iterator[RowsByArrival]:
        """Make output rows of tuples, all by default, that leave without a match."""
        if tuples is None:
            tuples = np.arange(len(arrival.ids))
        for at in range(0, len(tuples), BATCH_ROWS):
            some = tuples[at : at + BATCH_ROWS]
            batch = self.restorer.alone(arrival.side, arrival.picked(some))
            yield RowsByArrival(batch, arrival.ids[some], arrival.ids[some])


class PairDelivery(RowDelivery):
    """Delivers pairs, and the rows that an outer join preserves."""

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        super().__init__(query, schemas)
        self._preserved = {side: Preserved(side, query.window) for side in query.kind.unmatched}

    @property
    def nbytes(self) -> int:
        return sum(preserved.nbytes for preserved in self._preserved.values())

    def begin(self, batch: int, step: WindowStep, watermarks: Watermarks) -> AfterBatch | None:
        for arrival in step.entered:
            if arrival.side in self._preserved:
                self._preserved[arrival.side].add(arrival)
        alone = [a for a in step.timeless if a.side in self._preserved]
        closed = {side: rows.closing(watermarks) for side, rows in self._preserved.items()}
        if not alone and not any(len(closing.ids) for closing in closed.values()):
            return None
        return partial(self._close, alone, closed)

    def rows(self, chunk: Chunk) -> list[Making]:
        probe = chunk.order.bound.probe
        return [
            Making(len(pairs), partial(self._matches, probe.stream, probe.window, pairs))
            for pairs in chunk.pairs
            if len(pairs)
        ]

    def _matches(self, stream: Arrival, window: Snapshot, pairs: Pairs) -> RowsByArrival:
        """Make output rows of pairs, with their arrival numbers."""
        batch = self.restorer.restore(base_rows(stream, window, pairs))
        if pairs.tuples is None:
            stream_ids = stream.ids[pairs.i]
        else:
            stream_ids = take_values(stream.ids[pairs.tuples], pairs.i)
        window_ids = take_values(window.ids, pairs.positions - window.first)
        ids = stream_ids, window_ids
        return RowsByArrival(batch, np.maximum(*ids), np.minimum(*ids))

    def note(self, chunk: Chunk) -> None:
        probe = chunk.order.bound.probe
        for pairs in chunk.pairs:
            if probe.stream.side in self._preserved:
                self._preserved[probe.stream.side].matched(probe.stream.ids[pairs.stream])
            if probe.window_side in self._preserved:
                positions = pairs.positions - probe.window.first
                self._preserved[probe.window_side].matched(probe.window.ids[positions])

    def _close(self, alone: list[Arrival], closed: Mapping[str, ClosedRows]) -> list[RowsByArrival]:
        """Make rows of tuples without a match, by the time when they closed, then by arrival."""
        rows = [one for a in alone for one in self.alone(a)]
        parts, moments = [], []
        for side, closing in closed.items():
            if len(closing.ids):
                left, moment = self._preserved[side].unmatched(closing)
                parts += self.alone(left)
                moments.append(moment)
        if not parts:
            return rows
        unmatched = joined(parts)
        return [*rows, unmatched.take(np.lexsort((unmatched.later, np.concatenate(moments))))]


class ExistenceDelivery(RowDelivery):
    """Delivers the rows of one side with a match, or without one, each once.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables.
    """

    def __init__(self, plan: JoinPlan, schemas: Mapping[str, pa.Schema]) -> None:
        super().__init__(plan.query, schemas)
        self._side = plan.probing
        self._wanted = plan.query.kind is JoinKind.SEMI
        self._has_match: dict[int, np.ndarray] = {}

    def begin(self, batch: int, step: WindowStep, watermarks: Watermarks) -> AfterBatch | None:
        alone = [] if self._wanted else [a for a in step.timeless if a.side == self._side]
        if not step.probing and not alone:
            return None
        (probing,) = step.probing or (None,)
        self._has_match[batch] = np.zeros(0 if probing is None else len(probing.ids), bool)
        return partial(self._close, batch, probing, alone)

    def note(self, chunk: Chunk) -> None:
        has_match = self._has_match[chunk.order.batch]
        for rows, result in zip(chunk.rows, chunk.results, strict=True):
            if result.folds is not None:
                has_match[rows] |= result.folds.found
        for pairs in chunk.pairs:  # of devices without the mode EXISTS
            has_match[pairs.stream] = True

    def _close(
        self, batch: int, probing: Arrival | None, alone: list[Arrival]
    ) -> list[RowsByArrival]:
        has_match = self._has_match.pop(batch)
        rows = [one for arrival in alone for one in self.alone(arrival)]
        if probing is not None:
            rows += self.alone(probing, np.flatnonzero(has_match if self._wanted else ~has_match))
        return rows
