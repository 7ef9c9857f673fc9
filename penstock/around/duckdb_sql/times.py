"""Times: formats, differences, intervals and windows."""

from __future__ import annotations

import re

from sqlglot import exp

from ...query import constants
from ...query.dialect import refused
from ...types import UNIT_NS
from .calls import call

#: What a format of a date is made of: codes of ``strftime``, and signs.
_DATE_CODES = re.compile(r"(%[YmdHMSyjfpI]|%-[mdHMSyI]|[^%A-Za-z])*\Z")
#: Units of one length, in microseconds.
_UNITS_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
}


def date_format(tree: exp.TimeToStr) -> exp.Expr:
    """``date_format`` with a constant format."""
    given = tree.args["format"]
    codes = given.name.replace("strict", "")  # a mark of sqlglot's own
    if not given.is_string or not _DATE_CODES.match(codes):
        raise refused("date_format takes a constant of yyyy, MM, dd, HH, mm, ss and signs", tree)
    return call("strftime", tree.this, exp.Literal.string(codes))


def as_date(tree: exp.Expr) -> exp.Expr:
    return exp.cast(tree, "date", copy=False)


def date_diff(tree: exp.DateDiff) -> exp.Expr:
    """``datediff(to, from)`` in days."""
    days = exp.Literal.string("day")
    return call("date_diff", days, as_date(tree.expression), as_date(tree.this))


def timestamp_diff(tree: exp.TimestampDiff) -> exp.Expr:
    """``timestampdiff(unit, from, to)``: whole units, rounded to 0."""
    unit = str(tree.args["unit"].name).upper()
    later, earlier = tree.this, tree.expression
    if unit in _UNITS_US:
        between = exp.Sub(this=call("epoch_us", later), expression=call("epoch_us", earlier))
        return call("ps_div", between, _UNITS_US[unit])
    return call("date_sub", exp.Literal.string(unit.lower()), earlier, later)


def added(tree: exp.Expr) -> exp.Expr:
    """``date_add``, ``date_sub`` of days, and ``timestampadd``."""
    unit = tree.args.get("unit")
    name = "DAY" if unit is None else str(unit.name).upper()
    count = tree.expression
    if isinstance(tree, exp.DateSub):
        count = exp.Neg(this=exp.paren(count))
    if isinstance(tree, exp.TimestampAdd):
        return exp.Add(this=tree.this, expression=call(f"to_{name.lower()}s", count))
    return exp.Add(this=as_date(tree.this), expression=exp.cast(count, "int"))


def interval(tree: exp.Interval) -> exp.Expr:
    """An INTERVAL; one of several units is counted in microseconds."""
    if not isinstance(tree.unit, exp.IntervalSpan):
        return tree
    return call("to_microseconds", _constant_us(tree, tree))


def day_of_week(tree: exp.DayOfWeek) -> exp.Expr:
    return exp.Add(this=call("dayofweek", tree.this), expression=exp.Literal.number(1))


def _constant_us(tree: exp.Expr, whole: exp.Expr) -> int:
    """A constant span in microseconds, written as an INTERVAL or as ``'10 seconds'``."""
    given = tree if isinstance(tree, exp.Interval) else None
    if given is None and tree.is_string:
        count, _, unit = tree.name.strip().partition(" ")
        given = exp.Interval(this=exp.Literal.string(count), unit=exp.Var(this=unit.strip()))
    if given is None:
        raise refused("window takes constant sizes, such as '10 seconds'", whole)
    span = constants.interval(given)
    return int(span.attr) * UNIT_NS[span.type.unit] // 1000


def window(tree: exp.Anonymous) -> exp.Expr:
    """A tumbling ``window(t, size[, size[, start]])``."""
    time, *sizes = tree.expressions
    spans = [_constant_us(size, tree) for size in sizes]
    if len(spans) > 1 and spans[0] != spans[1]:
        raise refused("a sliding window is a key of GROUP BY, or an item of SELECT", tree)
    return call("ps_window", time, spans[0], spans[2] if len(spans) > 2 else 0)


def slide(select: exp.Select) -> None:
    """Give each row once for each of the sliding windows that it is in."""
    names: dict[str, str] = {}
    for one in list(select.find_all(exp.Anonymous)):
        if one.name.lower() != "window" or one.find_ancestor(exp.Select) is not select:
            continue
        if len(one.expressions) < 3 or one.expressions[1] == one.expressions[2]:
            continue
        if one.sql() not in names:
            names[one.sql()] = f"sliding_{len(names)}"
            select.append("joins", exp.Join(this=_unnested(one, names[one.sql()]), kind="CROSS"))
        made = exp.column("own", table=names[one.sql()])
        made.type = one.type
        one.replace(made)


def _unnested(tree: exp.Anonymous, name: str) -> exp.Unnest:
    time, *sizes = tree.expressions
    spans = [_constant_us(size, tree) for size in sizes]
    every = call("ps_windows", time.copy(), *spans, *([0] if len(spans) < 3 else []))
    columns = [exp.to_identifier("own")]
    alias = exp.TableAlias(this=exp.to_identifier(name), columns=columns)
    return exp.Unnest(expressions=[every], alias=alias)
