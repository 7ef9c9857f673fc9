"""Partial aggregates of the groups of a join with a relation."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.host.execute.stats import Stats
from penstock.host.join.lookup.join import LookupJoin
from penstock.host.join.parts.choice import part_join
from penstock.host.join.parts.groups import GroupParts
from penstock.host.join.parts.held import HeldSide
from penstock.host.lookup.cache import Groups
from penstock.plan.query import JoinQuery


def group_keys(query: JoinQuery) -> list[str]:
    """Columns of partial aggregates that name a group."""
    assert query.aggregation is not None
    return [f"key {k}" for k in range(len(query.aggregation.keys))]


class PartialLookup(LookupJoin):
    """Gives partial aggregates, to be merged by key elsewhere, in place of the groups' rows."""

    def _join(self, rows: pa.Table, groups: Groups) -> PartialGroupsJoin:
        return PartialGroupsJoin(self, rows, self.candidates(groups))


class PartialGroupsJoin:
    """A join of some rows of a stream with those of the relation that they may match."""

    def __init__(self, lookup: LookupJoin, rows: pa.Table, candidates: pa.Table) -> None:
        plan = lookup.plan
        outer, inner = plan.outer.side, plan.inner.side
        held = HeldSide(plan.query, outer, rows)
        schemas = {outer: rows.schema, inner: candidates.schema}
        kind = part_join(plan.query)
        join = kind(plan.query, held, schemas, lookup.devices[0], pruning=lookup.options.pruning)
        assert isinstance(join, GroupParts)
        self._join, self._candidates = join, candidates
        self.schema: pa.Schema = join.groups.schema

    @property
    def stats(self) -> Stats:
        return self._join.stats

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._join.add(self._candidates)
        yield from self._join.finish()
