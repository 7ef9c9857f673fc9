"""The conditions of a join, sorted: filters of each side, and conjuncts of both."""

from __future__ import annotations

from ..errors import QueryError
from ..expr import ops
from ..expr.node import Expr
from ..plan.query import LEFT, JoinKind
from ..plan.simplify import simplify
from ..plan.time_bounds import conjuncts_of
from .statement import Statement


def conditions(statement: Statement) -> tuple[list[list[Expr]], list[Expr]]:
    """Sort conditions into filters of each side and conjuncts of the join."""
    filters: list[list[Expr]] = [[], []]
    conjuncts = [c for condition in statement.condition for c in _members(condition)]
    nulls = statement.kind.null_supplying
    where = [member for condition in statement.where for member in _members(condition)]
    never = [member for member in where if member.is_const]
    for conjunct in never[:1] or where:
        if not conjunct.sides:
            # In ON, it would keep an outer join's rows without a match.
            for own in filters:
                own.append(conjunct)
        elif conjunct.sides & nulls:
            alias = statement.sources[0 if LEFT in conjunct.sides & nulls else 1].alias
            raise QueryError(
                f"WHERE tests {alias}, whose columns are NULL where the {statement.kind.value} "
                "JOIN finds no match, after the join; to filter its rows before it, write the "
                "condition in ON or in a subquery in FROM: (SELECT * FROM ... WHERE ...) "
                f"{alias}"
            )
        elif len(conjunct.sides) == 1:
            filters[0 if LEFT in conjunct.sides else 1].append(conjunct)
        else:
            conjuncts.append(conjunct)
    return filters, conjuncts


def _members(condition: Expr) -> list[Expr]:
    """Members of the outermost AND; those that are the same for every row become constants."""
    found = []
    for member in conjuncts_of(condition):
        value = simplify(member)
        # A bound on the time that holds for every time still defines the window.
        bounds = value is ops.TRUE and len(member.sides) > 1
        if bounds or value is not ops.TRUE:
            found.append(member if bounds or value.sides else value)
    return found


def move_one_sided(
    filters: list[list[Expr]], conjuncts: list[Expr], kind: JoinKind
) -> tuple[list[list[Expr]], list[Expr]]:
    """Make conditions of one side, in ON, filters of that side where its rows need a match.

    Only for time windows: in ROWS, a row that cannot match keeps its place in the window.
    """
    rest = []
    for conjunct in conjuncts:
        if len(conjunct.sides) == 1 and not conjunct.sides & kind.unmatched:
            filters[0 if LEFT in conjunct.sides else 1].append(conjunct)
        else:
            rest.append(conjunct)
    return filters, rest
