"""Joins of a side held in memory with one that comes in parts of bounded size.

The join decides the held rows: at the end it gives those that an outer or anti join keeps, or
folds. Rows of the other side may go to several such joins that hold different rows; so only the
held side may be preserved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.plan.plan import plan
from penstock.plan.query import JoinKind, JoinQuery, TimeWindow, other
from penstock.plan.ranges import place as place_of

from ...device.base import Device, device_list
from ...emit.delivery import ExistenceDelivery, PairDelivery
from ...emit.output import Making, RowsByArrival
from ...emit.restore import Restorer, base_rows
from ...execute.chunk import Chunk
from ...execute.order import Pairs
from ...execute.stats import Stats
from ...rows.picked import Picked
from ...rows.sides import Arrival, Loaded, counting
from ...windows.probe import Watermarks, WindowStep
from ..table.loading import loaded
from ..table.table_join import TableJoin

#: Default of the most rows of an output batch.
OUTPUT_ROWS = 1 << 16


class HeldSide:
    """Rows of one side that pass its filter, in order of time for a time window.

    Parameters
    ----------
    table : pyarrow.Table
        Rows in the order that is kept at equal times.
    owned : (int or None, int or None), optional
        Times (from, and below) of the rows that a ROWS join decides; the others only take their
        places in windows. All rows by default.
    place : ndarray of int64, shape (rows,), optional
        Place of each row in its input, for ``min_by`` and ``max_by``; by default the row number.

    Attributes
    ----------
    rows : Loaded
        The held rows; its table has those with a time, in order of time, then the others.
    owned : slice
        The rows that the join decides, by place in the order of time.
    """

    def __init__(
        self,
        query: JoinQuery,
        side: str,
        table: pa.Table,
        *,
        owned: tuple[int | None, int | None] | None = None,
        place: np.ndarray | None = None,
    ) -> None:
        self.side = side
        self._window = query.window
        read = loaded(query, query.side(side), table)
        timed, timeless = read.rows, read.timeless
        rows, number = np.concatenate([timed.row, timeless.row]), len(timed)
        is_ordered = np.array_equal(rows, np.arange(read.table.num_rows))
        self.rows = Loaded(
            read.table if is_ordered else read.table.take(pa.array(rows)),
            replace(timed, row=counting(number)),
            replace(timeless, row=np.arange(number, len(rows))),
        )
        self.place = timed.row if place is None else place[timed.row]
        low, high = owned or (None, None)
        self.owned = slice(
            0 if low is None else place_of(timed.time, low),
            len(self) if high is None else place_of(timed.time, high),
        )

    def __len__(self) -> int:
        return len(self.rows.rows)

    def reach(self, times: np.ndarray) -> slice:
        """Return the slice of held rows that rows of the other side may meet.

        Parameters
        ----------
        times : ndarray of int64, ascending
            Of the other side's rows.
        """
        if not isinstance(self._window, TimeWindow):
            return slice(0, len(self))
        if not len(times):
            return slice(0, 0)
        time = self.rows.rows.time
        low, high = self._window.reach(self.side, *times[[0, -1]].tolist())
        first, last = place_of(time, low), place_of(time, high, after=True)
        return slice(first, max(first, last))


class PartJoin(ABC):
    """Base class of joins with parts.

    Parameters
    ----------
    query : JoinQuery
        Over tables named by side.
    schemas : mapping of side to pyarrow.Schema
    output_rows : int
        Most rows of an output batch.
    options
        As for :class:`~penstock.host.join.table.table_join.TableJoin`, for the joins of the parts.
    """

    #: Whether it is only asked which held rows match.
    decides_alone = False

    def __init__(
        self,
        query: JoinQuery,
        held: HeldSide,
        schemas: Mapping[str, pa.Schema],
        device: Device | Sequence[Device],
        *,
        output_rows: int = OUTPUT_ROWS,
        **options: Any,
    ) -> None:
        self.query = query
        self.held = held
        self.schemas = schemas
        self.device = device
        self.output_rows = output_rows
        self.options = options
        self.stats = Stats.for_devices(device_list(device))
        #: Whether each held row is known to match; kept only if the output depends on it.
        self.matched = np.zeros(len(held), bool)
        self._added = 0
        #: By side, the place in its input of each tuple of the part's join.
        self.places: dict[str, np.ndarray] = {}

    def add(
        self, part: pa.Table | Loaded, place: np.ndarray | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Join a part of the other side; the join is done when the iterator has ended.

        Parameters
        ----------
        part : pyarrow.Table or Loaded
            Over ROWS, the only part, with all rows.
        place : ndarray of int64, optional
            Place of each row in its input, as for :class:`HeldSide`.
        """
        side = self.query.side(other(self.held.side))
        part_rows = loaded(self.query, side, part)
        reach = self.held.reach(part_rows.rows.time)
        held_rows = self.held.rows.pick(reach)
        row = part_rows.rows.row
        self.places = {
            self.held.side: self.held.place[reach],
            side.side: row + self._added if place is None else place[row],
        }
        self._added += part_rows.table.num_rows
        if len(held_rows.rows) and len(part_rows.rows):
            tables = {self.held.side: held_rows, side.side: part_rows}
            about = self.held.side if self.decides_alone else None
            probing = {}
            if self.query.is_rows and plan(self.query, about=about).probing is not None:
                probing[self.held.side] = self.held.owned
            options = {"about": about, "probing": probing, **self.options}
            join = TableJoin(self.query, tables, self.device, **options)
            try:
                yield from self._joined(join)
            finally:  # count the work done also after an error
                self.stats.count(join.stats)

    @abstractmethod
    def _joined(self, join: TableJoin) -> Iterator[pa.RecordBatch]:
        """Join a part with the held rows in its reach."""

    @abstractmethod
    def finish(self) -> Iterator[pa.RecordBatch]:
        """Give the output that is known once all parts were added."""

    def _batches(self, rows: Iterable[RowsByArrival]) -> Iterator[pa.RecordBatch]:
        for one in rows:
            self.stats.rows += one.batch.num_rows
            for at in range(0, one.batch.num_rows, self.output_rows):
                yield one.batch.slice(at, self.output_rows)

    def _alone(self, chosen: np.ndarray, *, timeless: bool) -> Iterator[pa.RecordBatch]:
        """Give some held rows without a match; ``timeless`` adds those without a time."""
        owned, held = self.held.owned, self.held.rows
        rows = np.flatnonzero(chosen[owned]) + owned.start
        if timeless:
            rows = np.concatenate([rows, held.timeless.row])
        restorer = Restorer(self.query, self.schemas)
        for at in range(0, len(rows), self.output_rows):
            some = Picked(held.table, rows[at : at + self.output_rows])
            self.stats.rows += len(some)
            yield restorer.restore(restorer.alone(self.held.side, some))


class PartPairs(PairDelivery):
    """Delivers pairs of a part; rows without a match are not known yet."""

    def __init__(self, parts: PartJoin, join: TableJoin, query: JoinQuery) -> None:
        query = replace(query, tests_pairs=join.plan.query.tests_pairs)
        super().__init__(
            query, parts.schemas, bounded=True, numbered=False, output_rows=parts.output_rows
        )
        self._held, self._flags = parts.held, parts.matched

    def begin(self, batch: int, step: WindowStep, watermarks: Watermarks) -> None:
        """Wait for nothing."""

    def matches(self, chunk: Chunk) -> Chunk:
        chunk, owned = super().matches(chunk), self._held.owned
        if owned == slice(0, len(self._held)):
            return chunk
        kept = []
        for pairs in chunk.pairs:
            held_rows = self._held_rows(chunk, pairs)
            kept.append(pairs.pick((held_rows >= owned.start) & (held_rows < owned.stop)))
        return replace(chunk, pairs=tuple(kept))

    def _held_rows(self, chunk: Chunk, pairs: Pairs) -> np.ndarray:
        """Return the held row of each pair."""
        probe = chunk.order.bound.probe
        return base_rows(probe.stream, probe.window, pairs)[self._held.side].rows

    def note(self, chunk: Chunk) -> None:
        if self._held.side in self.query.kind.unmatched:
            for pairs in filter(len, chunk.pairs):
                self._flags[self._held_rows(chunk, pairs)] = True


class PairParts(PartJoin):
    """Gives pairs, and at the end the held rows in no pair, if the join preserves them."""

    def _joined(self, join: TableJoin) -> Iterator[pa.RecordBatch]:
        return self._batches(join.run(PartPairs(self, join, self.query)))

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self.held.side in self.query.kind.unmatched:
            yield from self._alone(~self.matched, timeless=True)


class _PartFlags(ExistenceDelivery):
    """Notes which rows match; delivers none."""

    def __init__(self, join: TableJoin, flags: np.ndarray) -> None:
        super().__init__(join.plan, join.tables.schemas)
        self._flags = flags

    def _close(self, batch: int, probing: Arrival | None, alone: list[Arrival]) -> Iterator[Making]:
        has_match = self._has_match.pop(batch)
        if probing is not None:
            self._flags[probing.at(np.flatnonzero(has_match))] = True
        return iter(())


class ExistenceParts(PartJoin):
    """Gives held rows by whether they match, at the end.

    A semi join gives the rows that match; an anti join gives the others, and so does an outer join
    whose pairs come from elsewhere.
    """

    decides_alone = True

    def _joined(self, join: TableJoin) -> Iterator[pa.RecordBatch]:
        return self._batches(join.run(_PartFlags(join, self.matched)))

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self.query.kind is JoinKind.SEMI:
            return self._alone(self.matched, timeless=False)
        return self._alone(~self.matched, timeless=True)
