"""Random expressions: the text in Spark's SQL beside a function that computes the value."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import cmp_to_key
from random import Random

import numpy as np

from tests.own_queries import clocks
from tests.own_queries.clocks import DAY, SECOND
from tests.own_queries.values import (
    BOOL,
    DATE,
    DUR,
    F32,
    INT,
    NTZ,
    STR,
    TEXTS,
    TS,
    Type,
    single,
)


class Refused(Exception):
    """The documents say that this is an error."""


@dataclass(frozen=True)
class E:
    """An expression: text, type, and what computes it from a row (alias.column to value)."""

    sql: str
    type: Type
    value: Callable
    approx: bool = False  # compared with a tolerance, never computed with

    def __str__(self) -> str:
        return self.sql


def strict(of: Type, sql: str, work: Callable, *inputs: E) -> E:
    """Return an expression that is NULL where an input is NULL."""

    def value(row):
        values = [e.value(row) for e in inputs]
        return None if any(v is None for v in values) else work(*values)

    return E(sql, of, value, any(e.approx for e in inputs))


def rank(value):
    """Return what orders values as Spark does: NaN above all numbers, text by code points."""
    if isinstance(value, float):
        return (1, 0) if math.isnan(value) else (0, value)
    return (0, value)


def group_key(value):
    """Return what is equal for values that SQL takes for equal."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def compare(left, right) -> int:
    a, b = rank(left), rank(right)
    return (a > b) - (a < b)


by_value = cmp_to_key(compare)


def as_float(value) -> float:
    """Convert a number to a double."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def float_add(a, b):
    return float(np.float64(a) + np.float64(b))


def float_multiply(a, b):
    return float(np.float64(a) * np.float64(b))


def float_divide(a, b):
    return None if b == 0 else float(np.float64(a) / np.float64(b))


def float_remainder(a, b):
    if b == 0:
        return None
    if math.isnan(a) or math.isnan(b) or math.isinf(a):
        return math.nan
    return math.fmod(a, b)


def remainder(a, b):
    """Remainder of integers or fractions with the sign of the dividend."""
    if b == 0:
        return None
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def divide_whole(a, b):
    if b == 0:
        return None
    whole = abs(a) // abs(b)
    return -whole if (a < 0) != (b < 0) else whole


def positive_remainder(a, b):
    rest = remainder(a, b)
    return rest if rest is None or rest >= 0 else remainder(rest + b, b)


def round_float(value: float, digits: int) -> float:
    if math.isnan(value) or math.isinf(value):
        return value
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _WIDE))


_WIDE = __import__("decimal").Context(prec=700)


def substring(text: str, start: int, length: int) -> str:
    """Substring as in Spark: from 1, or from the end where the start is below 0."""
    begin = start - 1 if start > 0 else (len(text) + start if start < 0 else 0)
    end = begin + length
    return text[max(begin, 0) : max(end, 0)]


def initcap(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


def pad(text: str, size: int, filler: str, left: bool) -> str:
    if len(text) >= size:
        return text[:size]
    more = (filler * size)[: size - len(text)]
    return more + text if left else text + more


def substring_index(text: str, mark: str, count: int) -> str:
    parts = text.split(mark)
    if count > 0:
        return mark.join(parts[:count])
    return mark.join(parts[count:]) if count else ""


def split_part(text: str, mark: str, place: int) -> str:
    parts = text.split(mark)
    place = place - 1 if place > 0 else len(parts) + place
    return parts[place] if 0 <= place < len(parts) else ""


def distance(a: str, b: str) -> int:
    """Levenshtein's distance of two texts."""
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        line = [i]
        for j, y in enumerate(b, 1):
            line.append(min(last[j] + 1, line[-1] + 1, last[j - 1] + (x != y)))
        last = line
    return last[-1]


def moment(value: int, kind: str, zone: str | None) -> int:
    """Return the instant of a TIMESTAMP, TIMESTAMP_NTZ or DATE."""
    if kind == "ts":
        return value
    return clocks.to_instant(zone, value if kind == "ntz" else value * DAY)


def wall(value: int, kind: str, zone: str | None) -> int:
    """Return the wall clock of a TIMESTAMP, TIMESTAMP_NTZ or DATE."""
    if kind == "ts":
        return clocks.to_wall(zone, value)
    return value if kind == "ntz" else value * DAY


TIMES = ("ts", "ntz", "date")


def meet(left: E, right: E, zone: str | None) -> Callable:
    """Return what brings values of two types to one before they are compared."""
    kinds = {left.type.kind, right.type.kind}
    if kinds & {"f32", "f64"} and len(kinds) > 1:
        return lambda a, b: (as_float(a), as_float(b))
    if len(kinds) > 1 and kinds <= set(TIMES):
        change = moment if "ts" in kinds else wall
        return lambda a, b: (change(a, left.type.kind, zone), change(b, right.type.kind, zone))
    return lambda a, b: (a, b)


TESTS = {
    "=": lambda c: c == 0,
    "<>": lambda c: c != 0,
    "<": lambda c: c < 0,
    "<=": lambda c: c <= 0,
    ">": lambda c: c > 0,
    ">=": lambda c: c >= 0,
}


def comparison(sign: str, left: E, right: E, zone: str | None) -> E:
    """Compare two values; <=> takes NULL for a value."""
    bring = meet(left, right, zone)
    sql = f"({left} {sign} {right})"
    if sign == "<=>":

        def same(row):
            a, b = left.value(row), right.value(row)
            return a is b if a is None or b is None else compare(*bring(a, b)) == 0

        return E(sql, BOOL, same)
    return strict(BOOL, sql, lambda a, b: TESTS[sign](compare(*bring(a, b))), left, right)


def conjunction(*parts: E) -> E:
    """AND in three-valued logic."""

    def value(row):
        values = [p.value(row) for p in parts]
        return False if False in values else None if None in values else True

    return parts[0] if len(parts) == 1 else E(f"({' AND '.join(map(str, parts))})", BOOL, value)


def disjunction(*parts: E) -> E:
    """OR in three-valued logic."""

    def value(row):
        values = [p.value(row) for p in parts]
        return True if True in values else None if None in values else False

    return E(f"({' OR '.join(map(str, parts))})", BOOL, value)


def negation(of: E) -> E:
    return strict(BOOL, f"(NOT {of})", lambda v: not v, of)


def literal(value, of: Type, zone: str | None) -> E:
    """Write a constant."""
    kind = of.kind
    if value is None:
        sql = "NULL"
    elif kind == "int":
        sql = str(value) if value >= 0 else f"({value})"
    elif kind == "bool":
        sql = str(value).upper()
    elif kind == "str":
        sql = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    elif kind == "date":
        sql = f"DATE '{clocks.to_date(value).isoformat()}'"
    elif kind == "ntz":
        sql = f"TIMESTAMP_NTZ '{clocks.text_of(value)}'"
    elif kind == "ts":
        shown = value // 1000 * 1000
        sql = f"TIMESTAMP '{clocks.text_of(clocks.to_wall(zone, shown))}'"
        value = clocks.to_instant(zone, clocks.to_wall(zone, shown))
    elif kind == "f64":
        sql = (
            "CAST('NaN' AS DOUBLE)"
            if math.isnan(value)
            else f"{value!r}D"
            if value >= 0
            else f"({value!r}D)"
        )
    elif kind == "dec":
        count = abs(value) * 10**of.scale
        written = str(int(count)).rjust(of.scale + 1, "0")
        text = written[: len(written) - of.scale] + (
            "." + written[len(written) - of.scale :] if of.scale else ""
        )
        sql = text if value >= 0 else f"(-{text})"
    else:
        raise ValueError(kind)
    return E(sql, of, lambda row: value)


def span_text(span: int, rnd: Random) -> str:
    """Write an interval in a unit that divides it."""
    sizes = {
        "WEEKS": 7 * DAY,
        "DAYS": DAY,
        "HOURS": 3600 * SECOND,
        "MINUTES": 60 * SECOND,
        "SECONDS": SECOND,
    }
    sizes |= {"MILLISECONDS": 10**6, "MICROSECONDS": 10**3}
    names = [name for name, size in sizes.items() if span % size == 0]
    name = names[0] if rnd.random() < 0.7 else rnd.choice(names)
    count = span // sizes[name]
    if rnd.random() < 0.3 and name not in ("MILLISECONDS", "MICROSECONDS"):
        return f"INTERVAL '{count}' {name[:-1]}"
    return f"INTERVAL {count} {name}" if count >= 0 else f"INTERVAL '{count}' {name}"


__all__ = ["DATE", "DUR", "F32", "INT", "NTZ", "STR", "TEXTS", "TS", "Fraction", "single"]
