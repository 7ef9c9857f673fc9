"""Periods in which a time lies: windows of one size, and months, quarters and years.

The first day of a month is found by whole-number arithmetic that any device has.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types import TIMESTAMPS, Kind, Type, integer
from . import ops
from .node import Expr, Op, node
from .ops.align import finer, to_unit

#: Periods of the calendar, with the most days that have passed of one, and 1.
PERIODS = {"MONTH": 31, "QUARTER": 92, "YEAR": 366}

#: Days of 400 years, after which the calendar repeats, and from 0000-03-01 to the epoch.
_CYCLE_YEARS, _CYCLE, _EPOCH = 400, 146_097, 719_468
#: Days, in whole cycles, that no date lies before the epoch.
_BEFORE = 14_700 * _CYCLE
#: Days of a year that begins in March, before January.
_TO_JANUARY = 306


@dataclass(frozen=True)
class Tumbling:
    """A tumbling window over an expression: ``window(t, '10 seconds')``, as in Spark.

    A time is mapped to the start of its window, ``[start, start + size)``; windows begin at the
    Unix epoch, or at 0 of an integer column, plus an offset.

    Parameters
    ----------
    time : Expr
    start : Expr
        Of the window in which the time lies.
    size : Expr
        Constant: a duration, or an integer where the time is one.
    offset : Expr, optional
        Constant as ``size`` is: where windows begin after the epoch; 0 by default.
    """

    time: Expr
    start: Expr
    size: Expr
    offset: Expr | None = None

    @property
    def end(self) -> Expr:
        return ops.add(self.start, self.size)


def tumbling(time: Expr, size: Expr, offset: Expr | None = None) -> Tumbling:
    """Make the tumbling windows of a size over a time."""
    since = time
    if time.type.kind is not Kind.INT:
        spans = [size] if offset is None else [size, offset]
        unit = finer(time.type.unit, *(span.type.unit for span in spans))
        kind = Kind.TIMESTAMP if time.type.kind is Kind.DATE else time.type.kind
        time = to_unit(time, unit, kind)
        epoch = ops.const(0, Type(kind, unit=unit))
        since = ops.sub(time, epoch)
    if offset is not None and offset.attr:
        since = ops.sub(since, offset)
    inside = ops.mod(ops.add(ops.mod(since, size), size), size)  # of negative times, too
    return Tumbling(time, ops.sub(time, inside), size, offset)


def as_tumbling(expr: Expr) -> Tumbling | None:
    """Recognize the start of a tumbling window; None for any other expression."""
    if expr.op is not Op.SUB:
        return None
    time, inside = expr.args
    if inside.op is not Op.MOD or inside.args[0].op is not Op.ADD:
        return None
    first, size = inside.args[0].args[0], inside.args[1]
    if first.op is not Op.MOD or not size.is_const or not size.attr or size.attr < 0:
        return None
    since = first.args[0]
    if time.type.kind not in TIMESTAMPS | {Kind.INT}:
        return None
    candidates: list[Expr | None] = [None]
    if since.op is Op.SUB and since.args[1].is_const:
        candidates.append(since.args[1])
    for offset in candidates:
        window = tumbling(time, size, offset)
        if window.start is expr:
            return window
    return None


def period_start(name: str, date: Expr) -> Expr:
    """Return the first day of the month, quarter or year in which a date lies."""
    # No change but to its type.
    passed = ops.mod(_passed(name, _raw(date)), ops.const(PERIODS[name]))
    return ops.sub(date, ops.cast(passed, integer(0, PERIODS[name] - 1)))


def dated(expr: Expr) -> Expr | None:
    """Return the ``date`` of a :func:`period_start`; None for any other expression."""
    if expr.op is not Op.SUB or expr.type.kind is not Kind.DATE:
        return None
    return expr.args[0] if any(period_start(n, expr.args[0]) is expr for n in PERIODS) else None


def month_of(date: Expr) -> tuple[Expr, Expr]:
    """Return which month a date lies in, counted from March of some year, and its day, from 0."""
    days = ops.add(_raw(date), ops.const(_EPOCH + _BEFORE))
    year, _, month, day = _civil(ops.mod(days, ops.const(_CYCLE)))
    years = ops.add(_times(_part(days, _CYCLE), _CYCLE_YEARS), year)
    return ops.add(_times(years, 12), month), day


def days_of_months(date: Expr, count: Expr) -> Expr:
    """Return how many days lie between a date and the one ``count`` months later.

    That has the same day of the month, or is the last day of a shorter month.
    """
    month, day = month_of(date)
    month = ops.add(month, count)
    cycles = max(0, -(month.type.lo // (12 * _CYCLE_YEARS)))  # so that none is below 0
    month = ops.add(month, ops.const(cycles * 12 * _CYCLE_YEARS))
    years = _part(month, 12)
    month, year = ops.mod(month, ops.const(12)), ops.mod(years, ops.const(_CYCLE_YEARS))
    later = ops.add(year, ops.const(1))
    length = ops.sub(ops.add(_days_before(later), _part(later, _CYCLE_YEARS)), _days_before(year))
    ends = [ops.sub(end, ops.const(1)) for end in (_first(month, 1), length)]
    moved = ops.add(_days_before(year), ops.least(ops.add(_first(month), day), *ends))
    moved = ops.add(_times(_part(years, _CYCLE_YEARS), _CYCLE), moved)
    passed = ops.sub(moved, ops.add(_raw(date), ops.const(_EPOCH + _BEFORE + cycles * _CYCLE)))
    if not count.is_const or count.attr is None:
        return passed
    return ops.cast(passed, integer(*sorted((28 * count.attr, 31 * count.attr))))


def _raw(date: Expr) -> Expr:
    """Return the days since the epoch."""
    dtype = integer(date.type.lo, date.type.hi, nullable=date.type.nullable)
    return node(Op.RAW, (date,), dtype)


def _part(value: Expr, size: int) -> Expr:
    return ops.div(value, ops.const(size))


def _times(value: Expr, factor: int) -> Expr:
    return ops.mul(value, ops.const(factor))


def _days_before(year: Expr) -> Expr:
    """Return how many days of a cycle lie before a year of it."""
    return ops.sub(ops.add(_times(year, 365), _part(year, 4)), _part(year, 100))


def _first(month: Expr, later: int = 0) -> Expr:
    """Return on which day of the year a month begins, or one some months later."""
    return _part(ops.add(_times(month, 153), ops.const(2 + 153 * later)), 5)


def _civil(cycle: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """Return the year, day of the year, month and day of the month of a day in a cycle.

    Years are counted from March on, so that the leap day is the last one.
    """
    leaps = ops.sub(_part(cycle, 36_524), ops.add(_part(cycle, 1460), _part(cycle, _CYCLE - 1)))
    year = _part(ops.add(cycle, leaps), 365)
    day = ops.sub(cycle, _days_before(year))
    month = _part(ops.add(_times(day, 5), ops.const(2)), 153)
    return year, day, month, ops.sub(day, _first(month))


def _passed(name: str, days: Expr) -> Expr:
    """Return how many days of its period are over, for a day counted from the epoch."""
    cycle = ops.mod(ops.add(days, ops.const(_EPOCH + _BEFORE)), ops.const(_CYCLE))
    year, day, month, of_month = _civil(cycle)
    if name == "MONTH":
        return of_month
    is_leap = ops.and_(
        ops.eq(ops.mod(year, ops.const(4)), ops.const(0)),
        ops.or_(ops.ne(ops.mod(year, ops.const(100)), ops.const(0)), ops.eq(year, ops.const(0))),
    )
    winter = ops.add(day, ops.case([(is_leap, ops.const(60))], ops.const(59)))
    if name == "QUARTER":
        within = ops.mod(ops.add(month, ops.const(2)), ops.const(3))
        since = ops.sub(day, _first(ops.sub(month, within)))
        return ops.case([(ops.lt(day, ops.const(31)), winter)], since)
    in_new_year = ops.le(ops.const(_TO_JANUARY), day)
    return ops.case([(in_new_year, ops.sub(day, ops.const(_TO_JANUARY)))], winter)
