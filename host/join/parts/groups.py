"""Groups of a join whose other side comes in parts: partial aggregates, to be merged elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from penstock.plan.plan import Output, plan
from penstock.plan.query import JoinQuery, other

from ...emit.grouped import FoldDelivery
from ...emit.groups.closing import Limit
from ...emit.groups.fold_groups import FoldGroups, RowPlaces
from ...emit.groups.partial import PairGroups, PartialGroups
from ...emit.output import Making
from ...rows.sides import Arrival
from ...windows.run import Snapshot
from ..table.table_join import TableJoin
from .join import ExistenceParts, PairParts, PartJoin, PartPairs

#: Type that holds the groups of a join.
Groups = TypeVar("Groups", bound=PartialGroups)


class GroupParts(PartJoin, Generic[Groups]):
    """Gives partial aggregates at the end, as rows of ``groups.schema``."""

    kind: type[Groups]

    @cached_property
    def groups(self) -> Groups:
        """The groups so far."""
        return self.kind(self.query, self.schemas)

    def finish(self) -> Iterator[pa.RecordBatch]:
        yield from self.groups.held().to_batches(self.output_rows)


class PairGroupParts(GroupParts[PairGroups]):
    """Groups by keys of both sides."""

    kind = PairGroups

    def _joined(self, join: TableJoin) -> Iterator[pa.RecordBatch]:
        for rows in join.run(PartPairs(self, join, self.groups.pairs)):
            self.groups.add(self.groups.partial(rows.batch))
        return iter(())


class FoldGroupParts(GroupParts[FoldGroups]):
    """Groups by keys of one side; its rows are folded over their matches.

    Over ROWS that side must be the held one.
    """

    kind = FoldGroups

    def _joined(self, join: TableJoin) -> Iterator[pa.RecordBatch]:
        return self._batches(join.run(_PartFolds(self, join)))


class _PartFolds(FoldDelivery):
    """Folds rows over their matches in a part, into groups that wait for all parts."""

    def __init__(self, parts: FoldGroupParts, join: TableJoin) -> None:
        super().__init__(join.plan, parts.groups, bounded=True)
        self._places = parts.places

    def places(self, rows: Arrival) -> RowPlaces:
        return RowPlaces(rows.rows.time, self._places[self.side][rows.ids])

    def met_places(self, window: Snapshot, positions: np.ndarray) -> RowPlaces:
        return RowPlaces(window.times[positions], self._places[other(self.side)][positions])

    def leave(self, limit: Limit) -> list[Making]:
        return []


_JOINS: dict[Output, type[PartJoin]] = {
    Output.PAIRS: PairParts,
    Output.EXISTENCE: ExistenceParts,
    Output.FOLDS: FoldGroupParts,
    Output.PAIR_GROUPS: PairGroupParts,
}


def part_join(query: JoinQuery) -> type[PartJoin]:
    """Return the join with parts for a query: of pairs, rows that match, or groups."""
    return _JOINS[plan(query).output]


def merged_groups(query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> PartialGroups:
    """Return groups that merge the partial aggregates of a query's parts."""
    kind = PairGroups if plan(query).output is Output.PAIR_GROUPS else FoldGroups
    return kind(query, schemas)
