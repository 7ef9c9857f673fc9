"""The order of a chain of joins: by how many pairs each has in its window, relations last.

The nearest and the latest rows of streams are windowed joins whose pairs are ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import combinations
from math import inf

from sqlglot import exp

from ..errors import QueryError
from ..query.dialect import COUNT, NEAREST
from ..query.nearest import MOST_NEAREST
from .parts import PLACE
from .shapes import is_row_by_row, put_items
from .sides import aliases_in, column_of, conditions_of, is_closed, items_of, kind_of, set_where

#: Says how many pairs two items of FROM have under some conditions; None if it is not known.
Estimate = Callable[[exp.Expr, exp.Expr, list[exp.Expr]], int | None]


def order_joins(select: exp.Select, estimate: Estimate) -> None:
    """Put the joins of a SELECT with the fewest pairs first, if all are inner joins.

    Items whose pairs are not known keep their place behind the others.
    """
    joins = select.args.get("joins") or []
    items = _items(select)
    if len(joins) < 2 or len(items) <= len(joins) or not all(map(_is_inner, joins)):
        return
    if not all(map(is_closed, items.values())):
        return
    conditions = [one for join in joins for one in conditions_of(join)]
    if any(one.find(exp.Query) for one in conditions):
        return
    pairs: dict[frozenset[str], int] = {}
    for a, b in combinations(items, 2):
        between = [one for one in conditions if aliases_in(one) <= {a, b}]
        meet = any(aliases_in(one) == {a, b} for one in between)
        if meet and (count := estimate(items[a], items[b], between)) is not None:
            pairs[frozenset((a, b))] = count
    if len(pairs) < 2:
        return
    _reorder(select, items, list(_ordered(list(items), pairs)))


def relations_last(select: exp.Select, relations: Collection[str]) -> None:
    """Join what comes as rows first, and look up relations for the rows that this gives.

    Where the joins are not all inner joins, those with relations follow others that do not read
    their columns, since what is left as it is, or given a NULL, is the same then.
    """
    joins = select.args.get("joins") or []
    items = _items(select)
    lookups = [
        name for name, one in items.items() if isinstance(one, exp.Table) and one.name in relations
    ]
    if not lookups or len(lookups) == len(items) or len(items) <= len(joins):
        return
    if all(map(_is_inner, joins)) and all(map(is_closed, items.values())):
        if not any(one.find(exp.Query) for join in joins for one in conditions_of(join)):
            _reorder(select, items, sorted(items, key=lambda name: name in lookups))
        return
    kept_joins = [join for join in joins if join.this.alias_or_name not in lookups]
    is_read = any(aliases_in(join) & set(lookups) for join in kept_joins)
    kept = all(str(join.side or "").upper() in ("", "LEFT") for join in joins)
    if kept and not is_read and select.args["from_"].this.alias_or_name not in lookups:
        moved = [join for join in joins if join.this.alias_or_name in lookups]
        select.set("joins", [*kept_joins, *moved])


def _items(select: exp.Select) -> dict[str, exp.Expr]:
    """Items of FROM by alias."""
    return {one.alias_or_name: one for one in items_of(select)}


def _reorder(select: exp.Select, items: dict[str, exp.Expr], order: list[str]) -> None:
    """Put the inner joins of a SELECT in an order, each condition where all it reads is there."""
    if order == list(items):
        return
    left = [one for join in select.args["joins"] for one in conditions_of(join)]
    select.set("from_", exp.From(this=items[order[0]]))
    reordered = []
    for place, name in enumerate(order[1:], 1):
        known = set(order[: place + 1])
        on = [one for one in left if aliases_in(one) <= known]
        left = [one for one in left if not aliases_in(one) <= known]
        reordered.append(exp.Join(this=items[name], on=exp.and_(*on) if on else exp.true()))
    select.set("joins", reordered)


def _ordered(names: list[str], pairs: dict[frozenset[str], int]) -> Iterator[str]:
    """Yield the two tables with the fewest pairs, then the next with the fewest, and so on."""
    first = min(pairs, key=lambda both: pairs[both])
    done = [name for name in names if name in first]
    yield from done

    def fewest(name: str) -> float:
        return min((pairs.get(frozenset((name, one)), inf) for one in done), default=inf)

    while left := [name for name in names if name not in done]:
        done.append(min(left, key=fewest))
        yield done[-1]


def _is_inner(join: exp.Join) -> bool:
    return not kind_of(join) and not join.args.get("using")


#: Clauses of the SELECT in LATERAL.
_RANKED = {"kind", "hint", "expressions", "from_", "where", "order", "limit"}


def rank_nearest(
    select: exp.Select,
    unique_of: Callable[[exp.Expr], Collection[str]],
    *,
    keeps_arrival: bool,
) -> str:
    """Write NEAREST, LATERAL (... ORDER BY ... LIMIT k) and ASOF JOIN as joins with ranked pairs.

    Tables take them as they are; of a stream it is known when the pairs of a row are complete.

    Parameters
    ----------
    unique_of : callable
        Gives the columns of an item of FROM that no two of its rows share.
    keeps_arrival : bool
        Whether rows can be numbered as they arrive, so that of equal values the row that came
        first is nearer.

    Returns
    -------
    str
        The table whose rows are ranked by :data:`~.parts.PLACE`, too; empty if there is none.

    Raises
    ------
    QueryError
        There are no such columns, or NEAREST has no such order.
    """
    joins = select.args.get("joins") or []
    is_grouped = select.args.get("group") or any(
        one.find(exp.AggFunc) and not one.find(exp.Window) for one in select.expressions
    )
    if len(joins) != 1 or select.args.get("qualify") or is_grouped:
        return ""
    source, join = select.args["from_"].this, joins[0]
    if not is_closed(source):
        return ""
    is_asof = join.method.upper() == "ASOF"
    if join.args.get(NEAREST):
        ranked = _nearest(join)
    else:
        ranked = _latest(source, join) if is_asof else _lateral(select, join)
    if ranked is None:
        return ""
    joined, order, count = ranked
    numbered = _numbered(joined.this) if keeps_arrival and order is not None else ""
    if numbered and order is not None:
        place = column_of(joined.this.alias_or_name, PLACE)
        order.append("expressions", exp.Ordered(this=place, desc=False))
    elif join.args.get(NEAREST):
        raise QueryError(
            "NEAREST on streams is for penstock.stream, where the right side is a table or a "
            "subquery of one that filters and computes its rows"
        )
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
    return numbered


def _numbered(item: exp.Expr) -> str:
    """Give an item of FROM the place of each row of its table; the table, or "" if it has none."""
    if isinstance(item, exp.Subquery):
        inner = item.this
        if not isinstance(inner, exp.Select) or not is_row_by_row(inner):
            return ""
        item = inner.args["from_"].this
        if isinstance(item, exp.Table):
            column = column_of(item.alias_or_name, PLACE)
            inner.append("expressions", exp.alias_(column, PLACE, quoted=True))
    return item.name if isinstance(item, exp.Table) else ""


def _nearest(join: exp.Join) -> tuple[exp.Join, exp.Order, exp.Expr]:
    """A join of nearest rows as a join, its order, and how many rows it takes."""
    nearest = join.args[NEAREST].copy()
    on = conditions_of(join)
    if nearest.args.get("nulls_first") is None:
        on.append(exp.Not(this=exp.Is(this=nearest.this.copy(), expression=exp.Null())))
    joined = exp.Join(this=join.this, on=exp.and_(*on), side=join.side or None)
    return joined, exp.Order(expressions=[nearest]), join.args[COUNT]


def as_nearest(select: exp.Select) -> bool:
    """Write the first join of a SELECT, if it is one of these, as a join of nearest rows."""
    joins = select.args.get("joins") or []
    if not joins or joins[0].args.get(NEAREST):
        return False
    source, join = select.args["from_"].this, joins[0]
    is_asof = join.method.upper() == "ASOF"
    if not is_asof and isinstance(join.this, exp.Lateral) and join.side and not _of_columns(join):
        return False
    ranked = _latest(source, join) if is_asof else _lateral(select, join)
    if ranked is None:
        return False
    joined, order, count = ranked
    if order is None or len(order.expressions) != 1 or not count.is_int:
        return False
    (ordered,) = order.expressions
    nulls_first = None if is_asof else bool(ordered.args.get("nulls_first"))
    is_greatest = bool(ordered.args.get("desc"))
    value = exp.Ordered(this=ordered.this.copy(), desc=is_greatest, nulls_first=nulls_first)
    joined.set(NEAREST, value)
    joined.set(COUNT, count.copy())
    select.set("joins", [joined, *joins[1:]])
    return 1 <= int(count.name) <= MOST_NEAREST


def _of_columns(join: exp.Join) -> bool:
    """Whether LATERAL gives columns as they are, which are NULL where there is no row."""
    inner = join.this.this.this
    item = inner.args["from_"].this if inner.args.get("from_") else None
    columns = (one.unalias() for one in inner.expressions)
    return item is not None and all(
        isinstance(one, exp.Column) and one.table == item.alias_or_name for one in columns
    )


def _lateral(
    select: exp.Select, join: exp.Join
) -> tuple[exp.Join, exp.Order | None, exp.Expr] | None:
    """The join of a LATERAL, its order, and how many rows it takes."""
    lateral = join.this
    inner = lateral.this.this if isinstance(lateral, exp.Lateral) else None
    if not isinstance(inner, exp.Select) or not inner.args.get("limit"):
        return None
    if lateral.alias_column_names:
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
