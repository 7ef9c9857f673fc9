"""Groups of a join whose other side comes in parts: partial aggregates, to be merged elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from penstock.plan.plan import Output, plan
from penstock.plan.query import JoinQuery, other

from ...emit.folding import FoldDelivery
from ...emit.groups.closing import Limit
from ...emit.groups.folds import FoldGroups, NearestPairs, RowPlaces
from ...emit.groups.pairs import PairGroups
from ...emit.groups.partial import PartialGroups
from ...emit.groups.probed import ProbedRows
from ...emit.output import RowsByArrival
from ..table.table_join import TableJoin
from .held import HeldSide
from .join import PartJoin, PartPairs

#: Type that holds the groups of a join.
Groups = TypeVar("Groups", bound=PartialGroups)


class GroupParts(PartJoin, Generic[Groups]):
    """Gives partial aggregates at the end, as rows of ``groups.schema``."""

    kind: type[Groups]

    def __init__(
        self,
        query: JoinQuery,
        held: HeldSide,
        schemas: Mapping[str, pa.Schema],
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(query, held, schemas, *args, **options)
        self.groups = self.kind(query, schemas)

    def finish(self) -> Iterator[pa.RecordBatch]:
        yield from self.groups.held().to_batches(self.output_rows)


class PairGroupParts(GroupParts[PairGroups]):
    """Groups by keys of both sides."""

    kind = PairGroups

    def _joined(self, join: TableJoin, reach: slice) -> Iterator[pa.RecordBatch]:
        for rows in join.run(PartPairs(self, reach, self.groups.pairs)):
            self.groups.add(self.groups.partial(rows.batch))
        return iter(())


class FoldGroupParts(GroupParts[FoldGroups]):
    """Groups by keys of one side; its rows are folded over their matches.

    Over ROWS that side must be the held one.
    """

    kind = FoldGroups

    def _joined(self, join: TableJoin, reach: slice) -> Iterator[pa.RecordBatch]:
        for _ in join.run(_PartFolds(self, join)):
            pass
        return iter(())

    def folded(self, probed: ProbedRows, join: TableJoin) -> None:
        """Add rows folded over their matches in a part."""
        assert join.plan.probing is not None
        side, window = join.plan.probing, join.tables.sides[other(join.plan.probing)]
        rows = join.tables.sides[side].row[probed.ids]
        if self.held.owned is not None:
            kept = np.flatnonzero(self.held.owned[rows])
            probed, rows = probed.pick(kept), rows[kept]
        places = self._places

        def best(k: int, row: np.ndarray, position: np.ndarray) -> NearestPairs:
            met = RowPlaces(window.time[position], places[other(side)][window.row[position]])
            return NearestPairs(probed.values[k].take(pa.array(row)), met)

        probed_places = RowPlaces(probed.times, places[side][rows])
        self.groups.add(self.groups.partial(probed.folded, join.plan.folds, probed_places, best))


class _PartFolds(FoldDelivery):
    """Keeps rows folded over their matches in a part; delivers none."""

    def __init__(self, parts: FoldGroupParts, join: TableJoin) -> None:
        super().__init__(join.plan, join.tables.schemas, bounded=True)
        self._parts, self._join = parts, join

    def _add(self, probed: ProbedRows) -> None:
        self._parts.folded(probed, self._join)

    def _complete(self, probed: ProbedRows | None, limit: Limit) -> list[RowsByArrival]:
        return []


def merged_groups(query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> PartialGroups:
    """Return groups that merge the partial aggregates of a query's parts."""
    kind = PairGroups if plan(query).output is Output.PAIR_GROUPS else FoldGroups
    return kind(query, schemas)
