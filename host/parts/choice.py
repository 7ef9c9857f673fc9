"""Which join with parts a query asks for."""

from __future__ import annotations

from penstock.host.parts.groups import FoldGroupParts, PairGroupParts
from penstock.host.parts.join import ExistenceParts, PairParts, PartJoin
from penstock.query.plan import JoinQuery


def part_join(query: JoinQuery) -> type[PartJoin]:
    """The join with parts of a query: of pairs, rows that match, or groups."""
    if query.aggregation is not None:
        return PairGroupParts if query.aggregation.side is None else FoldGroupParts
    return ExistenceParts if query.kind.is_existence else PairParts
