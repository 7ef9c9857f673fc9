"""The nearest and the latest rows of streams: windowed joins whose pairs are ranked."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlglot import exp

from ..errors import QueryError
from .shapes import put_items
from .sides import aliases_in, column_of, conditions_of, is_closed, set_where

#: Clauses of the SELECT in LATERAL.
_RANKED = {"kind", "hint", "expressions", "from_", "where", "order", "limit"}


def rank_nearest(select: exp.Select, unique_of: Callable[[exp.Expr], Collection[str]]) -> None:
    """Write LATERAL (... ORDER BY ... LIMIT k) and ASOF JOIN as joins whose pairs are ranked.

    Tables take them as they are; of a stream it is known when the pairs of a row are complete.

    Parameters
    ----------
    unique_of : callable
        Gives the columns of an item of FROM that no two of its rows share.

    Raises
    ------
    QueryError
        There are no such columns.
    """
    joins = select.args.get("joins") or []
    if len(joins) != 1 or select.args.get("qualify") or select.args.get("group"):
        return
    source, join = select.args["from_"].this, joins[0]
    if not is_closed(source):
        return
    is_asof = join.method.upper() == "ASOF"
    ranked = _latest(source, join) if is_asof else _lateral(select, join)
    if ranked is None:
        return
    joined, order, count = ranked
    unique = sorted(unique_of(source))
    if not unique:
        name = source.alias_or_name
        raise QueryError(
            f"the rows that each row of {name} meets are ranked once they are complete: name "
            f"columns that differ from row to row of {name}, as in unique={{'{name}': 'id'}}"
        )
    keys = [column_of(source.alias_or_name, name) for name in unique]
    rank = exp.Window(this=exp.RowNumber(), partition_by=keys, order=order, over="OVER")
    kept: list[exp.Expr] = []
    later: list[exp.Expr] = [exp.LTE(this=rank, expression=count)]
    for one in conditions_of(select.args.get("where")):
        # Of what has been ranked.
        (kept if aliases_in(one) <= {source.alias_or_name} else later).append(one)
    select.set("joins", [joined])
    set_where(select, kept)
    select.set("qualify", exp.Qualify(this=exp.and_(*later, copy=False)))


def _lateral(
    select: exp.Select, join: exp.Join
) -> tuple[exp.Join, exp.Order | None, exp.Expr] | None:
    """The join of a LATERAL, its order, and how many rows it takes."""
    lateral = join.this
    inner = lateral.this.this if isinstance(lateral, exp.Lateral) else None
    if not isinstance(inner, exp.Select) or not inner.args.get("limit"):
        return None
    clauses = {key for key, arg in inner.args.items() if arg}
    item = inner.args["from_"].this if inner.args.get("from_") else None
    if clauses - _RANKED or item is None or not is_closed(item):
        return None
    if any(one.find(exp.AggFunc, exp.Window) for one in inner.expressions):
        return None
    if join.args.get("on") not in (None, exp.true()):
        return None
    put_items(select, lateral.alias, inner)
    where = inner.args.get("where")
    joined = exp.Join(this=item, on=exp.true() if where is None else where.this)
    joined.set("side", join.side or None)
    return joined, inner.args.get("order"), inner.args["limit"].expression


def _latest(source: exp.Expr, join: exp.Join) -> tuple[exp.Join, exp.Order, exp.Expr] | None:
    """An ASOF JOIN as a join, and the order by which its row comes first."""
    first, other = source.alias_or_name, join.this.alias_or_name
    on = conditions_of(join)
    for one in on:
        if not isinstance(one, exp.GT | exp.GTE | exp.LT | exp.LTE):
            continue
        sides = [aliases_in(side) for side in (one.this, one.expression)]
        if sides not in ([{first}, {other}], [{other}, {first}]):
            continue
        is_first = sides[0] == {first}
        value = one.expression if is_first else one.this
        is_before = isinstance(one, exp.GT | exp.GTE) == is_first
        order = exp.Order(expressions=[exp.Ordered(this=value.copy(), desc=is_before)])
        joined = exp.Join(this=join.this, on=exp.and_(*on), side=join.side or None)
        return joined, order, exp.Literal.number(1)
    return None
