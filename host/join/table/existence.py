"""A semi or anti join of two whole tables: rows of one side by whether they match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, JoinKind, JoinQuery
from penstock.program import Mode

from ...device.base import Device
from ...emit.restore import BATCH_ROWS, Restorer
from ...rows.sides import Loaded
from .table_join import RangeJoin, TableJoin


class ExistenceJoin(TableJoin):
    """Gives each row of one side that matches (semi), or that does not (anti, outer), once.

    Of an outer join it gives the rows that match nothing, and no pairs.

    Parameters as for :class:`TableJoin`, and:

    Parameters
    ----------
    side : str
        Whose rows they are; the left one, or one that an outer join preserves.
    """

    def __init__(
        self,
        query: JoinQuery,
        tables: Mapping[str, pa.Table | Loaded],
        device: Device,
        *,
        side: str = LEFT,
        **options: Any,
    ) -> None:
        self.side = side
        super().__init__(query, tables, device, **options)

    @property
    def wanted(self) -> bool:
        """Whether the rows that match are given, or the others."""
        return self.query.kind is JoinKind.SEMI

    def _check(self, query: JoinQuery) -> None:
        query.require_pairs("a semi or anti join")

    def _prepare(self) -> None:
        self.join = RangeJoin(self.plan.existence(self.side), *self.ranges_of(self.side))
        self.joins = [self.join]
        self.pairs_in_window = self.join.pairs
        schemas = {side: table.schema for side, table in self.tables.items()}
        self.restorer = Restorer(self.query, schemas)

    @property
    def schema(self) -> pa.Schema:
        return self.restorer.schema

    def matched(self) -> np.ndarray:
        """Whether each tuple of the side has a match: bool, in the order of ``sides``."""
        self.stats.pairs_in_window = self.pairs_in_window
        columns, join = self.sides[self.side].columns, self.join
        with self.window_probe(join.evaluation) as window:
            return window.fold(columns, join.start, join.end, Mode.EXISTS, self.progressed).found

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        probing, stream = self.probing.get(self.side, slice(None)), self.sides[self.side]
        rows = stream.row[probing][self.matched()[probing] == self.wanted]
        if not self.wanted:
            rows = np.concatenate([rows, self.timeless[self.side].row])
        for at in range(0, len(rows), BATCH_ROWS):
            own = rows[at : at + BATCH_ROWS]
            both = own, np.full(len(own), -1)
            batch = self.restorer.restore(self.tables, *(both if self.side == LEFT else both[::-1]))
            self.stats.rows += batch.num_rows
            yield batch
        self.stats.stop()
