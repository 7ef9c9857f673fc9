"""Times: formats, intervals, and texts that are read as times."""

from __future__ import annotations

import re

from sqlglot import exp

from ...query import constants
from ...query.dialect import refused
from ...types import UNIT_NS
from ..computed_calls import TEXTS, call, is_of

#: What a format of a date is made of: codes of ``strftime``, and signs.
_DATE_CODES = re.compile(r"(%[YmdHMSyjfpI]|%-[mdHMSyI]|[^%A-Za-z])*\Z")
#: What a format has by which text is read: a whole date, of whole fields; no fractions, whose
#: digits DuckDB counts otherwise.
_READ_CODES = re.compile(r"(?=.*%Y)(?=.*%m)(?=.*%d)(%[YmdHMS]|[^%A-Za-z0-9])*\Z")


def date_format(tree: exp.TimeToStr) -> exp.Expr:
    """``date_format`` with a constant format."""
    return call("strftime", tree.this, _codes(tree, "date_format", _DATE_CODES))


def from_unixtime(tree: exp.UnixToStr) -> exp.Expr:
    """``from_unixtime(seconds[, format])``: text of an instant."""
    if is_of(tree.this, *TEXTS, "double", "float", "decimal"):
        raise refused("from_unixtime takes a whole number", tree)
    codes = _codes(tree, "from_unixtime", _DATE_CODES)
    return call("strftime", _typed(call("ps_instant", tree.this), "timestamptz"), codes)


def read(tree: exp.StrToTime | exp.TsOrDsToDate) -> exp.Expr:
    """``to_timestamp`` and ``to_date`` of a text that has the format as a whole."""
    is_date = isinstance(tree, exp.TsOrDsToDate)
    codes = _codes(tree, "to_date" if is_date else "to_timestamp", _READ_CODES)
    return _typed(call("ps_read_time", tree.this, codes), "date" if is_date else "timestamptz")


def from_parts(tree: exp.TimestampFromParts) -> exp.Expr:
    """``make_timestamp(year, month, day, hour, minute, second)``."""
    if tree.this is not None or tree.expression:
        raise refused("make_timestamp takes year, month, day, hour, minute and second", tree)
    parts = [tree.args[name] for name in ("year", "month", "day", "hour", "min", "sec")]
    return _typed(call("make_timestamp", *parts), "timestamptz")


def _typed(tree: exp.Expr, kind: str) -> exp.Expr:
    """Cast a time; one without a zone is read in the session's."""
    return exp.Cast(this=tree, to=exp.DataType.build(kind), _type=exp.DataType.build(kind))


def _codes(tree: exp.Expr, name: str, known: re.Pattern[str]) -> exp.Expr:
    """Return a constant format in DuckDB's codes; refuse one with codes that may differ."""
    constant = tree.args["format"]
    codes = constant.name.replace("strict", "")  # a mark of sqlglot's own
    if not constant.is_string or not known.match(codes):
        raise refused(f"{name} takes a constant of yyyy, MM, dd, HH, mm, ss and signs", tree)
    return exp.Literal.string(codes)


#: Fields of EXTRACT, as the functions that give them.
_FIELDS: dict[str, type[exp.Func]] = {
    "YEAR": exp.Year,
    "QUARTER": exp.Quarter,
    "MONTH": exp.Month,
    "WEEK": exp.WeekOfYear,
    "DAY": exp.Day,
    "HOUR": exp.Hour,
    "MINUTE": exp.Minute,
    "DOY": exp.DayOfYear,
}


def extracted(tree: exp.Extract) -> exp.Expr:
    """``EXTRACT(field FROM time)``, where it is what the field's function gives."""
    field = tree.this.name.upper()
    if field in ("DOW", "DAYOFWEEK"):
        return day_of_week(exp.DayOfWeek(this=tree.expression))
    if field not in _FIELDS:
        known = ", ".join([*_FIELDS, "DOW"])
        raise refused(f"EXTRACT takes {known}; of seconds, write second(...)", tree)
    return _FIELDS[field](this=tree.expression)


def to_date(tree: exp.TsOrDsToDate) -> exp.Expr:
    if tree.args.get("format") is not None:
        return read(tree)
    return _typed(tree.this, "date")


def interval(tree: exp.Interval) -> exp.Expr:
    """An INTERVAL; one of several units is counted in microseconds."""
    if not isinstance(tree.unit, exp.IntervalSpan):
        return tree
    span = constants.interval(tree)
    return call("to_microseconds", int(span.attr) * UNIT_NS[span.type.unit] // 1000)


def day_of_week(tree: exp.DayOfWeek) -> exp.Expr:
    return exp.Add(this=call("dayofweek", tree.this), expression=exp.Literal.number(1))
