"""A join whose one side is held in memory, while the other comes in parts of bounded size.

The join is told of all rows of the held side and decides about them: at the end it gives those that
an outer or anti join keeps, or folds. Rows of the other side may come to several such joins, which
hold different rows; so only the held side may be one that the join preserves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, RIGHT, JoinKind, JoinQuery, other

from ...device.base import Device
from ...emit.restore import Restorer
from ...execute.stats import Stats
from ..table.batch import BatchJoin
from ..table.existence import ExistenceJoin
from .held import HeldSide

#: Rows of an output batch unless the caller wants another number.
OUTPUT_ROWS = 1 << 16


class PartJoin(ABC):
    """What joins with parts share.

    Parameters
    ----------
    query : JoinQuery
        Over tables named by side.
    held : HeldSide
    schemas : mapping of side to pyarrow.Schema
    device : Device
    output_rows : int
        Most rows of an output batch.
    options
        For the joins of the parts, see :class:`~penstock.host.join.table.table_join.TableJoin`.
    """

    def __init__(
        self,
        query: JoinQuery,
        held: HeldSide,
        schemas: Mapping[str, pa.Schema],
        device: Device,
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
        self.stats = Stats(device.name)
        self._added = 0
        #: By side, which row of its input each row of the part's join is.
        self._places: dict[str, np.ndarray] = {}

    def add(self, part: pa.Table, place: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        """Join a part of the other side; it is done when the iterator has ended.

        Parameters
        ----------
        part : pyarrow.Table
            Over ROWS it is the only part, and has all rows.
        place : ndarray of int64, optional
            Which row of its input each is, as for :class:`HeldSide`.
        """
        reach = self.held.reach(self.query, part)
        own = self.held.table.slice(reach.start, reach.stop - reach.start)
        self._places = {
            self.held.side: self.held.place[reach],
            other(self.held.side): np.arange(part.num_rows) + self._added
            if place is None
            else place,
        }
        self._added += part.num_rows
        if own.num_rows and part.num_rows:
            yield from self._joined({self.held.side: own, other(self.held.side): part}, reach)

    def _pairs_of(self, query: JoinQuery, tables: Mapping[str, pa.Table]) -> PairsOfPart:
        """The pairs of a part for a query over the same sides."""
        return PairsOfPart(
            self.held, query, tables, self.device, output_rows=self.output_rows, **self.options
        )

    @abstractmethod
    def _joined(self, tables: Mapping[str, pa.Table], reach: slice) -> Iterator[pa.RecordBatch]:
        """Join a part with the rows in its reach."""

    @abstractmethod
    def finish(self) -> Iterator[pa.RecordBatch]:
        """What is known once all parts were added."""

    def _count(self, stats: Stats) -> None:
        self.stats.rows += stats.rows
        self.stats.pairs_in_window += stats.pairs_in_window
        self.stats.pairs_pruned += stats.pairs_pruned
        self.stats.pairs_evaluated += stats.pairs_evaluated

    def _alone(self, chosen: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Held rows without a match, and those without a time, which have none."""
        yield from self._rows(self.held.table, self._owned(np.flatnonzero(chosen)))
        yield from self._rows(self.held.timeless, np.arange(self.held.timeless.num_rows))

    def _owned(self, rows: np.ndarray) -> np.ndarray:
        """Of held rows, by index, those that the join is about."""
        return rows if self.held.owned is None else rows[self.held.owned[rows]]

    def _rows(self, table: pa.Table, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Output rows of held rows alone."""
        restorer = Restorer(self.query, self.schemas)
        nothing = self.schemas[other(self.held.side)].empty_table()
        tables = {self.held.side: table, other(self.held.side): nothing}
        for at in range(0, len(rows), self.output_rows):
            part = rows[at : at + self.output_rows]
            index = {self.held.side: part, other(self.held.side): np.full(len(part), -1)}
            yield restorer.restore(tables, index[LEFT], index[RIGHT])


class PairsOfPart(BatchJoin):
    """Pairs of a part; which rows stay alone is not known yet."""

    def __init__(self, held: HeldSide, *args: Any, output_rows: int, **options: Any) -> None:
        self._held = held
        self.output_rows = output_rows
        super().__init__(*args, **options)

    def alone(self) -> Iterator[pa.RecordBatch]:
        return iter(())

    def _given(self, rows: Mapping[str, np.ndarray]) -> Iterator[pa.RecordBatch]:
        if self._held.owned is not None:
            keep = self._held.owned[rows[self._held.side]]
            rows = {name: own[keep] for name, own in rows.items()}
        return super()._given(rows)


class PairParts(PartJoin):
    """Pairs, and at the end the held rows in none, if the join preserves them."""

    def __init__(self, query: JoinQuery, held: HeldSide, *args: Any, **options: Any) -> None:
        super().__init__(query, held, *args, **options)
        self._matched = np.zeros(len(held), bool)

    def _joined(self, tables: Mapping[str, pa.Table], reach: slice) -> Iterator[pa.RecordBatch]:
        side = self.held.side
        join = self._pairs_of(self.query, tables)
        yield from join
        if side in join.matched:
            self._matched[reach] |= join.matched[side]
        self._count(join.stats)

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self.held.side in self.query.kind.unmatched:
            yield from self._alone(~self._matched)


class ExistenceParts(PartJoin):
    """Held rows by whether they match, at the end.

    Rows that match leave with a semi join, the others with an anti join and with an outer join,
    whose pairs come from elsewhere.
    """

    def __init__(self, query: JoinQuery, held: HeldSide, *args: Any, **options: Any) -> None:
        super().__init__(query, held, *args, **options)
        self._matched = np.zeros(len(held), bool)

    def _joined(self, tables: Mapping[str, pa.Table], reach: slice) -> Iterator[pa.RecordBatch]:
        side = self.held.side
        join = ExistenceJoin(self.query, tables, self.device, side=side, **self.options)
        rows = join.sides[side].row[join.matched()]
        self._matched[reach.start + rows] = True
        self._count(join.stats)
        return iter(())

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self.query.kind is JoinKind.SEMI:
            yield from self._rows(self.held.table, self._owned(np.flatnonzero(self._matched)))
        else:
            yield from self._alone(~self._matched)
