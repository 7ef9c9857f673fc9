"""First days of months, quarters and years, by whole-number arithmetic that any device has."""

from __future__ import annotations

from ..types import Kind, integer
from . import ops
from .node import Expr, Op, node

#: Periods of the calendar, with the most days that have passed of one, and 1.
PERIODS = {"MONTH": 31, "QUARTER": 92, "YEAR": 366}

#: Days of 400 years, after which the calendar repeats, and from 0000-03-01 to the epoch.
_CYCLE, _EPOCH = 146_097, 719_468
#: Days, in whole cycles, that no date lies before the epoch.
_BEFORE = 14_700 * _CYCLE
#: Days of a year that begins in March, before January.
_TO_JANUARY = 306


def period_start(name: str, date: Expr) -> Expr:
    """Return the first day of the month, quarter or year in which a date lies."""
    days = node(Op.RAW, (date,), integer(date.type.lo, date.type.hi, nullable=date.type.nullable))
    passed = ops.mod(_passed(name, days), ops.const(PERIODS[name]))  # no change but to its type
    return ops.sub(date, ops.cast(passed, integer(0, PERIODS[name] - 1)))


def dated(expr: Expr) -> Expr | None:
    """Return the ``date`` of a :func:`period_start`; None for any other expression."""
    if expr.op is not Op.SUB or expr.type.kind is not Kind.DATE:
        return None
    return expr.args[0] if any(period_start(n, expr.args[0]) is expr for n in PERIODS) else None


def _passed(name: str, days: Expr) -> Expr:
    """Return how many days of its period are over, for a day counted from the epoch.

    Years are counted from March on, so that the leap day is the last one.
    """

    def number(value: int) -> Expr:
        return ops.const(value)

    def part(value: Expr, size: int) -> Expr:
        return ops.div(value, number(size))

    def times(value: Expr, factor: int) -> Expr:
        return ops.mul(value, number(factor))

    cycle = ops.mod(ops.add(days, number(_EPOCH + _BEFORE)), number(_CYCLE))
    leaps = ops.sub(part(cycle, 36_524), ops.add(part(cycle, 1460), part(cycle, _CYCLE - 1)))
    year = part(ops.add(cycle, leaps), 365)
    before = ops.sub(ops.add(times(year, 365), part(year, 4)), part(year, 100))
    day = ops.sub(cycle, before)
    month = part(ops.add(times(day, 5), number(2)), 153)

    def since(first: Expr) -> Expr:
        return ops.sub(day, part(ops.add(times(first, 153), number(2)), 5))

    if name == "MONTH":
        return since(month)
    is_leap = ops.and_(
        ops.eq(ops.mod(year, number(4)), number(0)),
        ops.or_(ops.ne(ops.mod(year, number(100)), number(0)), ops.eq(year, number(0))),
    )
    winter = ops.add(day, ops.case([(is_leap, number(60))], number(59)))
    if name == "QUARTER":
        within = ops.mod(ops.add(month, number(2)), number(3))
        return ops.case([(ops.lt(day, number(31)), winter)], since(ops.sub(month, within)))
    in_new_year = ops.le(number(_TO_JANUARY), day)
    return ops.case([(in_new_year, ops.sub(day, number(_TO_JANUARY)))], winter)
