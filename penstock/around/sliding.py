"""Sliding windows of streams: the pairs of a join once for each window that they are in."""

from __future__ import annotations

from sqlglot import exp

from ..query.window_function import is_session
from .shapes import SLIDING, needs_all, put_items, slides
from .sides import column_of, conditions_of, field_of, in_spark, set_where


def merge(select: exp.Select) -> None:
    """Write groups of a subquery's rows as groups of the tables in it, if it is row by row."""
    source = select.args["from_"].this if select.args.get("from_") else None
    inner = source.this if isinstance(source, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or not select.args.get("group") or source is None:
        return
    alone = inner.copy()
    alone.set("joins", None)
    if needs_all(alone) or not inner.args.get("joins") or select.args.get("joins"):
        return
    if any(map(is_session, select.args["group"].expressions)):
        return
    put_items(select, source.alias, inner)
    set_where(
        select, [one for query in (inner, select) for one in conditions_of(query.args.get("where"))]
    )
    for clause in ("from_", "joins"):
        select.set(clause, inner.args.get(clause))


def calls_in(select: exp.Select) -> dict[str, exp.Expr]:
    """The sliding windows among the keys of a SELECT, each under a name."""
    group = select.args.get("group")
    calls: dict[str, exp.Expr] = {}
    for key in [] if group is None else group.expressions:
        call = key.this if isinstance(key, exp.Dot) else key
        if slides(call):
            calls.setdefault(in_spark(call), call)
    return {f"{SLIDING}{count}": call for count, call in enumerate(calls.values())}


def put_columns(select: exp.Select, calls: dict[str, exp.Expr], table: str) -> None:
    """Put columns of a table in the place of the columns, and calls, of the one that it is made of.

    Parameters
    ----------
    calls : mapping of str to expression
        As :func:`calls_in` gives them.
    """
    names = {in_spark(call): name for name, call in calls.items()}
    for one in list(select.find_all(exp.Anonymous)):
        if in_spark(one) in names:
            column = column_of(table, names[in_spark(one)])
            column.type = one.type
            one.replace(column)
    for column in select.find_all(exp.Column):
        column.set("table", exp.to_identifier(table, quoted=True))


def last_moment(column: exp.Column, time: exp.Expr) -> exp.Expr:
    """A value that rises with the windows in a column; of rows without one, their time."""
    end = field_of(column.copy(), "end")
    before = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this="MICROSECOND"))
    return exp.Coalesce(this=exp.Sub(this=end, expression=before), expressions=[time])
