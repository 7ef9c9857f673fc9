"""Chooses the join with parts for a query."""

from __future__ import annotations

from penstock.plan.plan import Output, plan
from penstock.plan.query import JoinQuery

from .groups import FoldGroupParts, PairGroupParts
from .join import ExistenceParts, PairParts, PartJoin

_JOINS: dict[Output, type[PartJoin]] = {
    Output.PAIRS: PairParts,
    Output.EXISTENCE: ExistenceParts,
    Output.FOLDS: FoldGroupParts,
    Output.PAIR_GROUPS: PairGroupParts,
}


def part_join(query: JoinQuery) -> type[PartJoin]:
    """Return the join with parts for a query: of pairs, rows that match, or groups."""
    return _JOINS[plan(query).output]
