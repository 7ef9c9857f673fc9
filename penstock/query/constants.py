"""Constants of a query: numbers, times, intervals, parameters, and the types that CAST names.

Dates and times are read as Spark reads them.
"""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from ..errors import QueryError
from ..expr import ops
from ..expr.node import Expr
from ..types import UNIT_NS, Kind, Type, decimal, from_arrow
from ..zones import find_zone
from .dialect import beyond, refused, snippet
from .parse import HALF_CHARACTER, MOST_CHARACTERS, MOST_DIGITS
from .time_rules import TimeRules

#: Units of one length, in microseconds.
INTERVAL_US = {
    unit: datetime.timedelta(**{f"{unit.lower()}s": 1}) // datetime.timedelta(microseconds=1)
    for unit in ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
}
#: Units of the calendar, in months.
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
#: Arrow's types of those that SQL names.
ARROW_TYPES: dict[exp.DType, pa.DataType] = {
    exp.DType.BOOLEAN: pa.bool_(),
    exp.DType.TINYINT: pa.int8(),
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(),
    exp.DType.BIGINT: pa.int64(),
    exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: pa.float64(),
    exp.DType.TEXT: pa.string(),
    exp.DType.VARCHAR: pa.string(),
    exp.DType.BINARY: pa.binary(),
    exp.DType.DATE: pa.date32(),
    exp.DType.TIMESTAMP: pa.timestamp("us", "UTC"),
    exp.DType.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    exp.DType.TIMESTAMPLTZ: pa.timestamp("us", "UTC"),
    exp.DType.TIMESTAMPNTZ: pa.timestamp("us"),
}


#: Digits of Arrow's widest decimal.
_MOST_PRECISION = 76


def cast_type(tree: exp.Cast) -> Type:
    """The type a CAST names."""
    to = tree.to
    if to.this is exp.DataType.Type.DECIMAL:
        named = [str(p.this.this) for p in to.expressions] or ["10", "0"]
        plain = all(n.isascii() and n.isdecimal() and len(n) < 4 for n in named)
        if not plain or max(map(int, named)) > _MOST_PRECISION:
            raise refused(f"{snippet(to)}: a decimal has at most {_MOST_PRECISION} digits", tree)
        return decimal(*map(int, (*named, "0")[:2]))
    if to.this not in ARROW_TYPES:
        raise refused(f"CAST to {snippet(to)} is not supported", tree)
    return from_arrow(ARROW_TYPES[to.this], column="")


def _duration(micros: int) -> Expr:
    """Make a duration in the coarsest unit that holds it, so that it fits any time column."""
    for unit in ("s", "ms"):
        step = UNIT_NS[unit] // 1000
        if micros % step == 0:
            return ops.duration_const(micros // step, unit)
    return ops.duration_const(micros, "us")


def number(text: str) -> Expr:
    """Read a number: an integer, a decimal, or with an exponent a float."""
    if text.isascii() and text.isdecimal():
        return ops.const(int(text))
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise QueryError(f"{text!r} is not a number") from None
    if "e" in text.lower():
        return ops.const(float(text))
    return _decimal(value)


def _decimal(value: Decimal) -> Expr:
    if not value.is_finite() or not -MOST_DIGITS < value.adjusted() < MOST_DIGITS:
        raise QueryError(f"{value} is no number of at most {MOST_DIGITS} digits")
    # By its digits, since arithmetic of decimals rounds.
    sign, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    unscaled = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale)
    return ops.decimal_const(-unscaled if sign else unscaled, scale)


def param(name: str, value: Any) -> Expr:
    """Make the constant for a named parameter.

    Raises
    ------
    QueryError
        The value has no SQL meaning.
    """
    if isinstance(value, str | bytes) and len(value) > MOST_CHARACTERS:
        unit = "characters" if isinstance(value, str) else "bytes"
        raise QueryError(
            f"parameter {name} has {len(value):,} {unit}, more than {MOST_CHARACTERS:,}; "
            "put it into a table and join it"
        )
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, datetime.timedelta):
        return _duration(value // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.datetime):
        return moment(value)
    if isinstance(value, float) and math.isfinite(value):
        # As if written in the query, where 0.5 is a decimal and 1e-3 a float.
        return number(repr(value))
    if isinstance(value, str) and (half := HALF_CHARACTER.search(value)):
        raise QueryError(f"parameter {name} has half a character, U+{ord(half[0]):X}; leave it out")
    if isinstance(value, int) and value.bit_length() > ops.MAX_BITS:
        raise QueryError(f"parameter {name} has more than {ops.MAX_BITS} bits")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise QueryError(f"parameter {name} has half a character: {value!r}") from None
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return ops.const(value)
    raise QueryError(
        f"parameter {name} is a {type(value).__name__}; give a number, text, time or None"
    )


#: Units that an INTERVAL counts together, from the longest on: ``'1 02:30' DAY TO MINUTE``.
_CLOCK = ("DAY", "HOUR", "MINUTE", "SECOND")


def _clock(tree: exp.Interval, unit: exp.IntervalSpan, text: str, *, negative: bool) -> Expr:
    """Read an INTERVAL of several units."""
    first, last = str(unit.this.name).upper(), str(unit.expression.name).upper()
    if first not in _CLOCK or last not in _CLOCK or _CLOCK.index(first) >= _CLOCK.index(last):
        raise refused("INTERVAL takes DAY, HOUR, MINUTE or SECOND TO a shorter one of them", tree)
    units = _CLOCK[_CLOCK.index(first) : _CLOCK.index(last) + 1]
    parts = re.fullmatch(r"([+-]?)(\d{1,9}(?:[ :]\d{1,2})*(?:\.\d{1,6})?)", text.strip())
    counts = re.split("[ :]", parts[2]) if parts else []
    if parts is None or len(counts) != len(units) or ("." in text and last != "SECOND"):
        shown = {"DAY": "1 ", "HOUR": "02:", "MINUTE": "30:", "SECOND": "00"}
        example = "".join(shown[one] for one in units).rstrip(": ")
        raise refused(f"INTERVAL {first} TO {last} is written as in '{example}'", tree)
    micros = sum(int(Decimal(n) * INTERVAL_US[one]) for n, one in zip(counts, units, strict=True))
    return _duration(-micros if negative ^ (parts[1] == "-") else micros)


def months_of(tree: exp.Expr) -> int | None:
    """Read how many months an INTERVAL has; None if it is of units of one length."""
    unit = tree.args.get("unit") if isinstance(tree, exp.Interval) else None
    step = MONTHS.get("" if unit is None else unit.name.upper().removesuffix("S"))
    if step is None:
        return None
    amount = tree.this
    text = (amount.this if isinstance(amount, exp.Neg) else amount).name
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", text):
        raise refused("an INTERVAL of months, quarters or years takes a whole number", tree)
    return int(text) * (-step if isinstance(amount, exp.Neg) else step)


def interval(tree: exp.Interval) -> Expr:
    """Read an INTERVAL; one of whole days or weeks is counted in days.

    Raises
    ------
    QueryError
        It is not a number of a known unit, or is finer than a microsecond.
    """
    unit = tree.args.get("unit")
    name = "" if unit is None else unit.name.upper()
    amount = tree.this
    negative = isinstance(amount, exp.Neg)
    text = (amount.this if negative else amount).name if amount is not None else ""
    if isinstance(unit, exp.IntervalSpan):
        return _clock(tree, unit, text, negative=negative)
    step = INTERVAL_US.get(name.removesuffix("S"))
    if step is None:
        raise refused(f"INTERVAL needs a number and one of {', '.join(INTERVAL_US)}", tree)
    try:
        exact = Decimal(text) * step
    except InvalidOperation:
        raise refused(f"INTERVAL {text[:40]!r} is not a number", tree) from None
    if not exact.is_finite() or not -MOST_DIGITS < exact.adjusted() < MOST_DIGITS:
        raise refused(f"INTERVAL {text[:40]!r} is too long or too short", tree)
    if exact != int(exact):
        raise refused(f"INTERVAL {text} {name} is finer than 1 us", tree)
    micros = -int(exact) if negative else int(exact)
    days, remainder = divmod(micros, INTERVAL_US["DAY"])
    if not remainder and name.removesuffix("S") in ("DAY", "WEEK"):
        return ops.duration_const(days, "D")
    return _duration(micros)


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
        raise beyond(f"CAST of text to {dtype} is not supported", tree)
    pattern = _DATE_ONLY if dtype.kind is Kind.DATE else _DATE_TIME
    match = pattern.fullmatch(text.strip())
    days = None if match is None else _days(*match.groups()[:3])
    if match is None or days is None:
        raise refused(f"{text!r} is not an ISO date or time", tree)
    if dtype.kind is Kind.DATE:
        return ops.const(days, dtype)
    hour, minute, second, fraction, name = match.groups()[3:]
    clock = [int(part or 0) for part in (hour, minute, second)]
    if clock[0] > 23 or max(clock) > 59:
        raise refused(f"{text!r} is not an ISO date or time", tree)
    seconds = days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    nanos = seconds * _SECOND_NS + int((fraction or "")[:9].ljust(9, "0"))
    unit = "ns" if nanos % UNIT_NS[dtype.unit] else dtype.unit
    wall = ops.const(nanos // UNIT_NS[unit], Type(Kind.TIMESTAMP_NTZ, unit=unit))
    if dtype.kind is Kind.TIMESTAMP_NTZ:
        return wall
    zone = rules.zone if name is None else find_zone(name.strip())
    if zone is None:
        raise refused(f"{text!r} ends with no time zone that is known", tree)
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
