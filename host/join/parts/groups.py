"""Groups of a join whose other side comes in parts: partial aggregates, to be merged elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from penstock.plan.plan import Output, plan
from penstock.plan.query import JoinQuery

from ...emit.groups.folded import Folded, picked
from ...emit.groups.folds import FoldGroups, NearestPairs, RowPlaces
from ...emit.groups.pairs import PairGroups
from ...emit.groups.partial import PartialGroups
from ...rows.sides import take
from ..table.aggregate import AggregateJoin, FoldedRows
from .held import HeldSide
from .join import PartJoin

#: What the groups of a join are kept in.
Groups = TypeVar("Groups", bound=PartialGroups)


class GroupParts(PartJoin, Generic[Groups]):
    """Partial aggregates at the end, as rows of ``groups.schema``."""

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

    def _joined(self, tables: Mapping[str, pa.Table], reach: slice) -> Iterator[pa.RecordBatch]:
        join = self._pairs_of(self.groups.pairs, tables)
        for batch in join:
            self.groups.add(self.groups.partial(batch))
        self._count(join.stats)
        return iter(())


class FoldGroupParts(GroupParts[FoldGroups]):
    """Groups by keys of one side, whose rows are folded over their matches.

    Over ROWS that side must be the held one.
    """

    kind = FoldGroups

    def _joined(self, tables: Mapping[str, pa.Table], reach: slice) -> Iterator[pa.RecordBatch]:
        join = AggregateJoin(self.query, tables, self.device, **self.options)
        folded = self._about(join.folded())
        places = self._places

        def best(k: int, row: np.ndarray, position: np.ndarray) -> NearestPairs:
            window = join.sides[join.window_side]
            other = RowPlaces(window.time[position], places[join.window_side][window.row[position]])
            return NearestPairs(join.at_pairs(k, folded.row[row], position), other)

        own = RowPlaces(folded.time, places[join.side][folded.row])
        self.groups.add(self.groups.partial(folded.rows, join.plan.folds, own, best))
        self._count(join.stats)
        return iter(())

    def _about(self, folded: FoldedRows) -> FoldedRows:
        """Those of the rows that the join is about."""
        if self.held.owned is None:
            return folded
        kept = np.flatnonzero(self.held.owned[folded.row])
        rows = Folded(
            folded.rows.keys.take(pa.array(kept)),
            len(kept),
            {k: take(v, kept) for k, v in folded.rows.own.items()},
            {key: picked(part, kept) for key, part in folded.rows.folds.items()},
        )
        return FoldedRows(rows, folded.row[kept], folded.time[kept])


def merged_groups(query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> PartialGroups:
    """What merges the partial aggregates of a query's parts."""
    kind = PairGroups if plan(query).output is Output.PAIR_GROUPS else FoldGroups
    return kind(query, schemas)
