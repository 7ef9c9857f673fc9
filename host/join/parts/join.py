"""Joins of a side held in memory with one that comes in parts of bounded size.

The join decides the held rows: at the end it gives those that an outer or anti join keeps, or
folds. Rows of the other side may go to several such joins that hold different rows; so only the
held side may be preserved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.plan.query import JoinKind, JoinQuery, other

from ...device.base import Device, device_list
from ...emit.delivery import ExistenceDelivery
from ...emit.making import Making
from ...emit.output import RowsByArrival
from ...emit.tables import TablePairs
from ...execute.pairs import Pairs
from ...execute.stats import Stats
from ...rows.sides import Arrival, SideRows
from ...windows.run import Snapshot
from ..table.table_join import TableJoin
from .held import HeldSide

#: Default of the most rows of an output batch.
OUTPUT_ROWS = 1 << 16


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
        self._added = 0
        #: By side, the place in its input of each row of the part's join.
        self._places: dict[str, np.ndarray] = {}

    def add(self, part: pa.Table, place: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        """Join a part of the other side; the join is done when the iterator has ended.

        Parameters
        ----------
        part : pyarrow.Table
            Over ROWS, the only part, with all rows.
        place : ndarray of int64, optional
            Place of each row in its input, as for :class:`HeldSide`.
        """
        reach = self.held.reach(self.query, part)
        held_rows = self.held.table.slice(reach.start, reach.stop - reach.start)
        self._places = {
            self.held.side: self.held.place[reach],
            other(self.held.side): np.arange(part.num_rows) + self._added
            if place is None
            else place,
        }
        self._added += part.num_rows
        if held_rows.num_rows and part.num_rows:
            tables = {self.held.side: held_rows, other(self.held.side): part}
            join = TableJoin(self.query, tables, self.device, about=self._about(), **self.options)
            try:
                yield from self._joined(join, reach)
            finally:  # count the work done also after an error
                self.stats.count(join.stats)

    def _about(self) -> str | None:
        """Return the decided side, as for :class:`~penstock.plan.plan.JoinPlan`."""
        return None

    @abstractmethod
    def _joined(self, join: TableJoin, reach: slice) -> Iterator[pa.RecordBatch]:
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
        owned = chosen if self.held.owned is None else chosen & self.held.owned
        parts = [(self.held.table, np.flatnonzero(owned))]
        if timeless:
            parts.append((self.held.timeless, np.arange(self.held.timeless.num_rows)))
        restored = TablePairs(self.query, self.schemas)
        for table, rows in parts:
            for at in range(0, len(rows), self.output_rows):
                some = rows[at : at + self.output_rows]
                none = SideRows(some, np.zeros(len(some), np.int64), {})
                yield from self._batches(
                    restored.alone(Arrival(self.held.side, none, table, some, some))
                )


class PartPairs(TablePairs):
    """Delivers pairs of a part; rows without a match are not known yet."""

    def __init__(self, join: PartJoin, reach: slice, query: JoinQuery) -> None:
        super().__init__(query, join.schemas, output_rows=join.output_rows)
        self._held = join.held
        self._reach = reach
        #: Rows of the held table that are in a pair, if the join preserves them.
        self.met = np.zeros(0, np.int64)

    def pairs(self, stream: Arrival, window: Snapshot, pairs: Pairs) -> Iterator[Making]:
        if self._held.owned is not None:
            held_rows = self.picked(stream, window, pairs)[self._held.side].rows
            pairs = pairs.pick(self._held.owned[self._reach][held_rows])
        return super().pairs(stream, window, pairs)

    def _close(self, timeless: Sequence[Arrival]) -> Iterator[RowsByArrival]:
        side = self._held.side
        if side in self.matched:
            self.met = self._preserved[side].at(np.flatnonzero(self.matched[side]))
        return iter(())


class PairParts(PartJoin):
    """Gives pairs, and at the end the held rows in no pair, if the join preserves them."""

    def __init__(self, query: JoinQuery, held: HeldSide, *args: Any, **options: Any) -> None:
        super().__init__(query, held, *args, **options)
        self._matched = np.zeros(len(held), bool)

    def _joined(self, join: TableJoin, reach: slice) -> Iterator[pa.RecordBatch]:
        pairs = PartPairs(self, reach, self.query)
        yield from self._batches(join.run(pairs))
        self._matched[reach.start + pairs.met] = True

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self.held.side in self.query.kind.unmatched:
            yield from self._alone(~self._matched, timeless=True)


class _PartFlags(ExistenceDelivery):
    """Notes which rows match; delivers none."""

    def __init__(self, join: TableJoin) -> None:
        super().__init__(join.plan, join.tables.schemas)
        self.matched = np.zeros(0, np.int64)

    def _close(
        self, batch: int, probing: Arrival | None, alone: list[Arrival]
    ) -> list[RowsByArrival]:
        has_match = self._has_match.pop(batch)
        if probing is not None:
            self.matched = probing.at(np.flatnonzero(has_match))
        return []


class ExistenceParts(PartJoin):
    """Gives held rows by whether they match, at the end.

    A semi join gives the rows that match; an anti join gives the others, and so does an outer join
    whose pairs come from elsewhere.
    """

    def __init__(self, query: JoinQuery, held: HeldSide, *args: Any, **options: Any) -> None:
        super().__init__(query, held, *args, **options)
        self._matched = np.zeros(len(held), bool)

    def _about(self) -> str | None:
        return self.held.side

    def _joined(self, join: TableJoin, reach: slice) -> Iterator[pa.RecordBatch]:
        flags = _PartFlags(join)
        yield from self._batches(join.run(flags))
        self._matched[reach.start + flags.matched] = True

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self.query.kind is JoinKind.SEMI:
            yield from self._alone(self._matched, timeless=False)
        else:
            yield from self._alone(~self._matched, timeless=True)
