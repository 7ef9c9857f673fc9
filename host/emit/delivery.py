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
from penstock.plan.query import LEFT, RIGHT, JoinKind, JoinQuery, RowsWindow, TimeWindow

from ..execute.chunk import Chunk
from ..execute.order import Pairs
from ..rows.gather import take_values
from ..rows.picked import Nobody, Picked
from ..rows.sides import Arrival
from ..windows.preserved import ClosedRows, Preserved
from ..windows.probe import Watermarks, WindowStep
from ..windows.run import Snapshot
from .output import Making, RowSources, by_arrival, joined
from .restore import BATCH_ROWS, PairTester, Restorer, base_rows

#: Tells how to make further rows of a batch, once it and all batches before it have been evaluated.
AfterBatch = Callable[[], Iterable[Making]]

#: Arrival numbers of rows whose order is free.
NO_NUMBERS = np.zeros(0, np.int64)


class Delivery(ABC):
    """Makes output rows of chunks."""

    def matches(self, chunk: Chunk) -> Chunk:
        """Return a chunk from a device with only the pairs that match."""
        return chunk

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
        """Begin a batch, before its orders; return a callable for the rows after its end."""

    def rows(self, chunk: Chunk) -> Iterable[Making]:
        """Tell how to make the rows that a chunk gives at once. Called without any lock."""
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
        #: Tests a chunk's pairs; None where devices test the whole predicate.
        self._tester = PairTester(query, schemas) if query.tests_pairs else None

    @property
    def schema(self) -> pa.Schema:
        return self.restorer.schema

    def matches(self, chunk: Chunk) -> Chunk:
        return chunk if self._tester is None else self._tester.tested(chunk)

    def alone(self, arrival: Arrival, tuples: np.ndarray | None = None) -> Iterator[Making]:
        """Tell how to make rows of tuples, all by default, that leave without a match."""
        if tuples is None:
            tuples = np.arange(len(arrival.ids))
        for at in range(0, len(tuples), BATCH_ROWS):
            some = tuples[at : at + BATCH_ROWS]
            yield Making.from_sources(len(some), partial(self._alone, arrival, some), self.restorer)

    def _alone(self, arrival: Arrival, tuples: np.ndarray) -> RowSources:
        ids = arrival.ids[tuples]
        return RowSources(self.restorer.alone(arrival.side, arrival.picked(tuples)), ids, ids)


class PreservedTable:
    """Preserved rows of a whole table, left in place; it has the methods of :class:`.Preserved`."""

    def __init__(self, side: str, window: TimeWindow | RowsWindow) -> None:
        self._arrival: Arrival | None = None
        #: Whether each row is in a pair.
        self._flags = np.zeros(0, bool)

    @property
    def nbytes(self) -> int:
        return self._flags.nbytes

    def add(self, arrival: Arrival) -> None:
        """Set the rows of the table."""
        self._arrival = arrival
        self._flags = np.zeros(len(arrival.ids), bool)

    def matched(self, tuples: np.ndarray) -> None:
        """Note that these rows are in a pair."""
        self._flags[tuples] = True

    def closing(self, watermarks: Watermarks) -> ClosedRows:
        """Return all rows: each closes after the last pair."""
        assert self._arrival is not None
        return ClosedRows(self._arrival.ids, NO_NUMBERS)

    def unmatched(self, closed: ClosedRows) -> tuple[Arrival, np.ndarray]:
        """Return all rows, and flags of the rows that are in no pair."""
        assert self._arrival is not None
        return self._arrival, np.flatnonzero(~self._flags)


class PairDelivery(RowDelivery):
    """Delivers pairs, and the rows that an outer join preserves.

    Parameters
    ----------
    query, schemas
        As for :class:`RowDelivery`.
    bounded : bool
        Whether whole tables are joined, in one batch.
    numbered : bool
        Whether pairs have arrival numbers.
    output_rows : int
        Most pairs whose rows are made together.
    """

    def __init__(
        self,
        query: JoinQuery,
        schemas: Mapping[str, pa.Schema],
        *,
        bounded: bool = False,
        numbered: bool = True,
        output_rows: int = BATCH_ROWS,
    ) -> None:
        super().__init__(query, schemas)
        self.bounded, self.numbered, self.output_rows = bounded, numbered, output_rows
        kept = PreservedTable if bounded else Preserved
        self._preserved = {side: kept(side, query.window) for side in query.kind.unmatched}

    @property
    def nbytes(self) -> int:
        return sum(preserved.nbytes for preserved in self._preserved.values())

    def begin(self, batch: int, step: WindowStep, watermarks: Watermarks) -> AfterBatch | None:
        for arrival in step.entered:
            if arrival.side in self._preserved:
                self._preserved[arrival.side].add(arrival)
        alone = [a for a in step.timeless if a.side in self._preserved]
        closed = {side: rows.closing(watermarks) for side, rows in self._preserved.items()}
        closed = {side: closing for side, closing in closed.items() if len(closing.ids)}
        return partial(self._unmatched, alone, closed) if alone or closed else None

    def rows(self, chunk: Chunk) -> Iterator[Making]:
        probe = chunk.order.bound.probe
        for pairs in chunk.pairs:
            for at in range(0, len(pairs), self.output_rows):
                some = pairs.pick(slice(at, at + self.output_rows))
                sources = partial(self._sources, probe.stream, probe.window, some)
                yield Making.from_sources(len(some), sources, self.restorer)

    def _sources(self, stream: Arrival, window: Snapshot, pairs: Pairs) -> RowSources:
        """Pick the base rows of pairs."""
        sides = base_rows(stream, window, pairs)
        if not self.numbered:
            return RowSources(sides, NO_NUMBERS, NO_NUMBERS)
        if pairs.tuples is None:
            stream_ids = stream.ids[pairs.i]
        else:
            stream_ids = take_values(stream.ids[pairs.tuples], pairs.i)
        ids = stream_ids, take_values(window.ids, pairs.positions - window.first)
        return RowSources(sides, np.maximum(*ids), np.minimum(*ids))

    def note(self, chunk: Chunk) -> None:
        probe = chunk.order.bound.probe
        for pairs in chunk.pairs:
            if probe.stream.side in self._preserved:
                self._matched(probe.stream.side, probe.stream.ids, pairs.stream)
            if probe.window_side in self._preserved:
                positions = pairs.j + np.int64(pairs.first - probe.window.first)
                self._matched(probe.window_side, probe.window.ids, positions)

    def _matched(self, side: str, ids: np.ndarray, tuples: np.ndarray) -> None:
        self._preserved[side].matched(tuples if self.bounded else ids[tuples])

    def _unmatched(
        self, alone: list[Arrival], closed: Mapping[str, ClosedRows]
    ) -> Iterator[Making]:
        """Tell how to make rows of tuples without a match.

        Rows of streams follow each other by the time when they closed, then by arrival.
        """
        for arrival in alone:
            yield from self.alone(arrival)
        left = [self._preserved[side].unmatched(closing) for side, closing in closed.items()]
        if self.bounded:
            for arrival, tuples in left:
                yield from self.alone(arrival, tuples)
            return
        parts = [making.make() for arrival, _ in left for making in self.alone(arrival)]
        if parts:
            rows = joined(parts)
            order = np.lexsort((rows.later, np.concatenate([moments for _, moments in left])))
            yield Making(len(order), lambda: rows.take(order))


class InOrder(Delivery):
    """Delivers the rows of another delivery in the order of arrival, after the last chunk.

    Base rows wait, not output rows: these are sorted first, so each is made once, in its place.

    Parameters
    ----------
    output : RowDelivery
        Of whole tables; numbers its rows.
    """

    def __init__(self, output: RowDelivery) -> None:
        self.output = output
        #: By side, the table of the base rows.
        self._bases: dict[str, pa.RecordBatch | pa.Table] = {}
        #: Later and earlier arrival numbers, and rows of each side's table; -1 for none.
        self._waiting: list[tuple[np.ndarray, ...]] = []

    @property
    def schema(self) -> pa.Schema:
        return self.output.schema

    def matches(self, chunk: Chunk) -> Chunk:
        return self.output.matches(chunk)

    def begin(self, batch: int, step: WindowStep, watermarks: Watermarks) -> AfterBatch:
        return partial(self._in_order, self.output.begin(batch, step, watermarks))

    def rows(self, chunk: Chunk) -> tuple[()]:
        self._keep(self.output.rows(chunk))
        return ()

    def note(self, chunk: Chunk) -> None:
        self.output.note(chunk)

    def _keep(self, makings: Iterable[Making]) -> None:
        for one in makings:
            assert one.sources is not None
            sources = one.sources()
            rows = (self._rows_of(side, sources.sides[side]) for side in (LEFT, RIGHT))
            self._waiting.append((sources.later, sources.earlier, *rows))

    def _rows_of(self, side: str, picked: Picked | Nobody) -> np.ndarray:
        """Return rows of a side's table, in 32 bits if they fit."""
        if isinstance(picked, Nobody):
            return np.full(len(picked), -1, np.int32)
        self._bases[side] = picked.base
        return picked.rows.astype(np.int32) if picked.base.num_rows < 1 << 31 else picked.rows

    def _in_order(self, after_batch: AfterBatch | None) -> Iterator[Making]:
        if after_batch is not None:
            self._keep(after_batch())
        if not self._waiting:
            return
        order, rows = self._sorted()
        for at in range(0, len(order), BATCH_ROWS):
            some = order[at : at + BATCH_ROWS]
            sources = partial(self._sources, rows, some)
            yield Making.from_sources(len(some), sources, self.output.restorer)

    def _sorted(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the order of all rows, and their rows of each side's table."""
        later, earlier, left, right = zip(*self._waiting, strict=True)
        self._waiting = []
        order = by_arrival(np.concatenate(later), np.concatenate(earlier))
        return order, {LEFT: np.concatenate(left), RIGHT: np.concatenate(right)}

    def _sources(self, rows: Mapping[str, np.ndarray], order: np.ndarray) -> RowSources:
        picked = {
            side: self.output.restorer.picked(side, self._bases.get(side), of_table[order])
            for side, of_table in rows.items()
        }
        return RowSources(picked, NO_NUMBERS, NO_NUMBERS)


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

    def _close(self, batch: int, probing: Arrival | None, alone: list[Arrival]) -> Iterator[Making]:
        has_match = self._has_match.pop(batch)
        for arrival in alone:
            yield from self.alone(arrival)
        if probing is not None:
            yield from self.alone(
                probing, np.flatnonzero(has_match if self._wanted else ~has_match)
            )
