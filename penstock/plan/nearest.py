"""The plan of a join of nearest rows: what its search can use of the condition and the value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..expr import ops
from ..expr.node import Expr, show
from .logic import conjuncts_of, equalities
from .query import LEFT, RIGHT, JoinQuery, Nearest
from .shown import Fact
from .simplify import simplify


@dataclass(frozen=True)
class NearestPlan:
    """How the nearest rows of each left row are found.

    Parameters
    ----------
    query : JoinQuery
        With :attr:`~.query.JoinQuery.nearest`.
    """

    query: JoinQuery

    @property
    def nearest(self) -> Nearest:
        """The order of the rows, and how many join."""
        assert self.query.nearest is not None
        return self.query.nearest

    @cached_property
    def keys(self) -> tuple[tuple[Expr, Expr], ...]:
        """Values of the left and of the right side that are equal in every pair."""
        return tuple((b, a) for _, a, b in self._equalities)

    @cached_property
    def remainder(self) -> Expr:
        """The condition without the keys."""
        keys = {conjunct for conjunct, _, _ in self._equalities}
        members = conjuncts_of(self.query.predicate)
        return simplify(ops.and_(*(one for one in members if one not in keys)))

    @cached_property
    def _equalities(self) -> list[tuple[Expr, Expr, Expr]]:
        conjuncts = conjuncts_of(self.query.predicate)
        return [
            (conjunct, a, b)
            for conjunct, a, b in equalities(conjuncts, RIGHT)
            if b.sides == {LEFT} and a.type.kind is b.type.kind and not conjunct.may_fail
        ]


def nearest_facts(plan: NearestPlan) -> list[Fact]:
    """Say in text which rows join, and by which keys they are searched for."""
    nearest, names = plan.nearest, plan.query.names
    order = "greatest" if nearest.is_greatest else "least"
    keys = [f"{show(a, names)} = {show(b, names)}" for a, b in plan.keys]
    return [
        ("nearest", f"{nearest.count} with the {order} {show(nearest.value, names)}"),
        ("  keys", ", ".join(keys) or "none"),
    ]
