"""Read dates and times in a query, as Spark does."""

from __future__ import annotations

import datetime
import re

import numpy as np
from sqlglot import exp

from ..expr import ops
from ..expr.node import Expr
from ..types import UNIT_NS, Kind, Type
from ..zones import find_zone
from .dialect import mistaken, refused
from .time_rules import TimeRules

_DATE = r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2}))?)?"
_TIME = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?"
_DATE_ONLY = re.compile(_DATE + r"(?:[ T].*)?", re.DOTALL)
_DATE_TIME = re.compile(_DATE + r"(?:[ T]" + _TIME + r"(?:\s*([A-Za-z+-].*))?)?")
_SECOND_NS = 10**9
_EPOCH = datetime.datetime(1970, 1, 1)


def time_literal(text: str, dtype: Type, rules: TimeRules, tree: exp.Expr) -> Expr:
    """Read a text that is cast to a date or time.

    A TIMESTAMP without a zone is read in the session's; the zone of a TIMESTAMP_NTZ is ignored.

    Raises
    ------
    QueryError
    """
    if not dtype.unit:
        raise refused(f"CAST of text to {dtype} is not supported", tree)
    pattern = _DATE_ONLY if dtype.kind is Kind.DATE else _DATE_TIME
    match = pattern.fullmatch(text.strip())
    days = None if match is None else _days(*match.groups()[:3])
    if match is None or days is None:
        raise mistaken(f"{text!r} is not an ISO date or time", tree)
    if dtype.kind is Kind.DATE:
        return ops.const(days, dtype)
    hour, minute, second, fraction, name = match.groups()[3:]
    clock = [int(part or 0) for part in (hour, minute, second)]
    if clock[0] > 23 or max(clock) > 59:
        raise mistaken(f"{text!r} is not an ISO date or time", tree)
    seconds = days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    nanos = seconds * _SECOND_NS + int((fraction or "")[:9].ljust(9, "0"))
    unit = "ns" if nanos % UNIT_NS[dtype.unit] else dtype.unit
    wall = ops.const(nanos // UNIT_NS[unit], Type(Kind.TIMESTAMP_NTZ, unit=unit))
    if dtype.kind is Kind.TIMESTAMP_NTZ:
        return wall
    zone = rules.zone if name is None else find_zone(name.strip())
    if zone is None:
        raise mistaken(f"{text!r} ends with no time zone that is known", tree)
    return ops.to_instant(wall, zone)


def _days(year: str, month: str | None, day: str | None) -> int | None:
    """Days since 1970 in the proleptic Gregorian calendar, None if there is no such date."""
    of_month, of_day = int(month or 1), int(day or 1)
    if not 1 <= of_month <= 12:
        return None
    first = np.datetime64(int(year) - 1970, "Y").astype("M8[M]") + (of_month - 1)
    date = first.astype("M8[D]") + (of_day - 1)
    return int(date.astype(np.int64)) if of_day >= 1 and date.astype("M8[M]") == first else None


def moment(time: datetime.datetime) -> Expr:
    """Make the constant for a datetime: an instant, or without a zone a wall clock."""
    kind = Kind.TIMESTAMP_NTZ if time.tzinfo is None else Kind.TIMESTAMP
    # Not by astimezone, since Python's years end where those of a zone do not.
    offset = time.utcoffset() or datetime.timedelta()
    micros = (time.replace(tzinfo=None) - _EPOCH - offset) // datetime.timedelta(microseconds=1)
    return ops.const(micros * 1000 // UNIT_NS["us"], Type(kind, unit="us"))
