"""Finds rows of a join whose values cannot be computed, before they are taken."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.expr.columns import Columns
from penstock.expr.node import Expr
from penstock.plan.forms import JoinForm
from penstock.plan.query import LEFT, RIGHT, JoinQuery, columns

from ...keys.prepare import check_casts, expressions
from ...rows.sides import Arrival, side_columns


class JoinChecks:
    """The casts of single rows, in filters, keys and groups.

    Parameters
    ----------
    query : JoinQuery
    forms : sequence of JoinForm
        Forms that the join evaluates.
    """

    def __init__(self, query: JoinQuery, forms: Sequence[JoinForm]) -> None:
        self._query = query
        self._kept = {side: _of_groups(query, side) for side in (LEFT, RIGHT)}
        self._checked = {
            side: [
                expr
                for form in forms
                for expr in expressions(form, form.window == side)
                if expr.may_fail
            ]
            for side in (LEFT, RIGHT)
        }
        self._may_fail = {side: self._casts(side) for side in (LEFT, RIGHT)}

    def _casts(self, side: str) -> bool:
        exprs = [self._query.side(side).filter, *self._kept[side], *self._checked[side]]
        return any(expr.may_fail for expr in exprs)

    def may_fail(self, side: str) -> bool:
        """Whether a CAST of a side's rows can fail, in its filter, its keys or its groups."""
        return self._may_fail[side]

    def check(self, arrived: Arrival) -> None:
        """Refuse rows, which pass their filter, with a value that cannot be computed.

        Raises
        ------
        DataError
        """
        side, rows = arrived.side, arrived.rows
        check_casts(self._checked[side], rows.columns, len(rows))
        check_casts(self._kept[side], self._columns(arrived), len(rows))

    def _columns(self, arrived: Arrival) -> Columns:
        """Compute the columns for a side's keys and groups, with values of min_by and max_by."""
        side, known = arrived.side, arrived.rows.columns
        needed = {column for expr in self._kept[side] if expr.may_fail for column in columns(expr)}
        names = sorted(name for owner, name in needed if (owner, name) not in known)
        if not names:
            return known
        return {**known, **side_columns(self._query, side, arrived.base, names)}


def _of_groups(query: JoinQuery, side: str) -> list[Expr]:
    """Return the expressions of single rows of a side that are computed when groups leave."""
    aggregation = query.aggregation
    if aggregation is None:
        return []
    exprs = [
        *aggregation.keys,
        *(e for a in aggregation.aggregates for e in (a.value, a.by) if e is not None),
    ]
    return [expr for expr in exprs if expr.sides == {side}]
