"""A join of two whole tables whose pairs are grouped by keys of both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from penstock.plan.query import JoinQuery

from ...device.base import Device
from ...emit.groups.pairs import PairGroups
from ...rows.sides import Loaded
from .batch import BatchJoin


class GroupedJoin(BatchJoin):
    """Gives one row per group, in one batch; parameters as for :class:`TableJoin`."""

    def __init__(
        self,
        query: JoinQuery,
        tables: Mapping[str, pa.Table | Loaded],
        device: Device,
        **options: Any,
    ) -> None:
        self.groups = PairGroups(query, {s.side: _schema(tables[s.table]) for s in query.sides})
        super().__init__(self.groups.pairs, tables, device, **options)

    @property
    def schema(self) -> pa.Schema:
        return self.groups.select.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in super().__iter__():
            self.groups.add(self.groups.partial(batch))
        found = self.groups.finish()
        self.stats.rows = found.num_rows
        yield found


def _schema(table: pa.Table | Loaded) -> pa.Schema:
    return table.table.schema if isinstance(table, Loaded) else table.schema
