"""The output of rows of a stream and the rows of a relation that they may match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.expr import ops
from penstock.plan.group_query import is_per_row
from penstock.plan.lookup import GROUP, LookupPlan
from penstock.plan.plan import plan as plan_of
from penstock.plan.query import named_by_side, other
from penstock.types import int_of

from ...device.base import Device
from ...emit.open_delivery import open_delivery
from ...execute.residence import BlockCache, Residence
from ...execute.stats import Stats
from ...prune.sizes import Pruning
from ...rows.sides import Loaded
from ...rows.stretches import NamedBlock
from ..parts.groups import GroupParts, merged_groups, part_join
from ..parts.join import HeldSide, PartJoin

#: Hidden column with the number of a row of the stream, by which an ordered output is sorted.
NUMBER = "\0number"

_NUMBER = pa.field(NUMBER, pa.int64(), nullable=False)
_GROUP = pa.field(GROUP, pa.int64(), nullable=False)
#: Name of the block of rows that are kept.
_KEPT = "relation"


class Answering:
    """Makes the output of a join with a relation.

    Groups of several rows of the stream are merged, and leave at the end; where each row is a group
    of its own, as declared, it leaves when the row is answered.

    Parameters
    ----------
    plan : LookupPlan
    outer, inner : pyarrow.Schema
        Of the stream, and of the columns of the relation that are read.
    devices : sequence of Device
    ordered : bool
        Whether rows are numbered in the output, by :data:`NUMBER`, and sorted.
    pruning : Pruning or None
    """

    def __init__(
        self,
        plan: LookupPlan,
        outer: pa.Schema,
        inner: pa.Schema,
        devices: Sequence[Device],
        *,
        ordered: bool,
        pruning: Pruning | None,
    ) -> None:
        query = named_by_side(plan.query)
        self._side, self.devices, self._pruning = plan.outer.side, devices, pruning
        self._schemas = {plan.outer.side: outer, plan.inner.side: inner}
        self.schema = open_delivery(plan_of(query), self._schemas, bounded=True).schema
        self.stats = Stats.for_devices(devices)
        #: What is kept of the relation, and of searching it.
        self.cache = BlockCache(1 << 62)
        self.is_ordered = ordered and query.aggregation is None
        if self.is_ordered:
            self._schemas[self._side] = outer.append(_NUMBER)
            number = ops.column(self._side, NUMBER, int_of(64, nullable=False))
            query = replace(query, select=(*query.select, (NUMBER, number)))
        self._query = query
        self._groups = None
        if query.aggregation is not None:
            self._groups = merged_groups(query, self._schemas)
            self._is_per_row = is_per_row(query)

    def kept(self, rows: pa.Table) -> Loaded:
        """All rows of the relation, in group 0, as a part that stays until the cache is closed."""

        def make() -> tuple[NamedBlock, pa.Table]:
            held = HeldSide(self._query, other(self._side), rows).rows
            return NamedBlock(_KEPT, held.rows), held.table

        return Loaded.of_block(*self.cache.block(_KEPT, _KEPT, make), 0, 0)

    def begin(self, rows: pa.Table, ids: np.ndarray, group: np.ndarray) -> Answer:
        """Begin the output of rows of the stream.

        Parameters
        ----------
        rows : Table
        ids : ndarray of int64, shape (rows,)
            Their numbers, which give the order of the output.
        group : ndarray of int64, shape (rows,)
            Rows of the relation that each may match, by their column of this group.
        """
        rows = rows.append_column(_GROUP, pa.array(group))
        if self.is_ordered:
            rows = rows.append_column(_NUMBER, pa.array(ids))
        held = HeldSide(self._query, self._side, rows, place=ids)
        keeps = all(device.searches for device in self.devices)  # others have no order to keep
        join = part_join(self._query)(
            self._query,
            held,
            self._schemas,
            self.devices,
            pruning=self._pruning,
            residence=Residence(_KEPT, self.cache) if keeps else None,
        )
        return Answer(self, join)

    def last_batches(self, join: PartJoin) -> Iterator[pa.RecordBatch]:
        """Give the output that is known once a join has all its parts."""
        if self._groups is None:
            yield from join.finish()
            return
        assert isinstance(join, GroupParts)
        self._groups.add(join.groups.held())
        if self._is_per_row:
            yield self._groups.finish()

    def end(self) -> Iterator[pa.RecordBatch]:
        """Give the groups of all answered rows."""
        if self._groups is not None and not self._is_per_row:
            yield self._groups.finish()

    def partial(self) -> pa.Table:
        """Return partial aggregates of all answered rows, for groups of several rows."""
        assert self._groups is not None
        return self._groups.held()


class Answer:
    """The output of some rows of the stream, while the relation's rows come in parts."""

    def __init__(self, answering: Answering, join: PartJoin) -> None:
        self._answering, self._join = answering, join
        self._held: list[pa.RecordBatch] = []

    def add(self, part: pa.Table | Loaded) -> Iterator[pa.RecordBatch]:
        """Join a part of the relation's rows, which have a column of groups; each comes once."""
        yield from self._leaving(self._join.add(part))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Give the output that is known once all parts have been added."""
        answering, stats = self._answering, self._join.stats
        yield from self._leaving(answering.last_batches(self._join))
        if self._held:
            table = pa.Table.from_batches(self._held).sort_by(NUMBER)
            yield from table.drop_columns([NUMBER]).to_batches()
        answering.stats.pairs_evaluated += stats.pairs_evaluated
        answering.stats.pairs_pruned += stats.pairs_pruned

    def _leaving(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give rows that may leave now; if rows are sorted, hold all until the end."""
        for batch in batches:
            if self._answering.is_ordered:
                self._held.append(batch)
            else:
                yield batch


def in_group(batch: pa.RecordBatch, group: np.ndarray) -> pa.Table:
    """Add each row's group to rows of the relation."""
    return pa.Table.from_batches([batch]).append_column(_GROUP, pa.array(group))
