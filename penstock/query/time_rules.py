"""Rules for times in the session's time zone, as in Spark.

A TIMESTAMP is an instant, a TIMESTAMP_NTZ a wall clock, and a DATE the start of its day. Where two
kinds are compared, wall clocks and dates become instants in the session's zone. The expressions
that result know the zone only in the operations ``LOCAL`` and ``INSTANT``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..expr import ops
from ..expr.node import Expr
from ..expr.ops.align import finer, to_unit
from ..expr.periods import PERIODS, period_start, tumbling
from ..types import TIMES, UNIT_NS, Kind, Type, from_arrow
from ..zones import Zone

_DATE = from_arrow(pa.date32(), column="")
#: Units of ``trunc``, which gives a date.
OF_DATES = ("YEAR", "QUARTER", "MONTH", "WEEK")
#: Units of ``date_trunc`` with a fixed length, in seconds, and the offset of their start.
TRUNCATIONS = {
    "SECOND": (1, 0),
    "MINUTE": (60, 0),
    "HOUR": (3600, 0),
    "DAY": (86_400, 0),
    "WEEK": (7 * 86_400, 4 * 86_400),  # the epoch was a Thursday, weeks begin on Monday
}
#: Shorter units of it, which begin alike in every zone.
SHORT = {"MILLISECOND": "ms", "MICROSECOND": "us"}
_ALIASES = {"YYYY": "YEAR", "YY": "YEAR", "MM": "MONTH", "MON": "MONTH", "DD": "DAY"}


def truncation(name: str) -> str:
    """The unit that a name of ``date_trunc`` or ``trunc`` means."""
    return _ALIASES.get(name.upper(), name.upper())


@dataclass(frozen=True)
class TimeRules:
    """How times of different kinds are compared, moved and cast, in one time zone."""

    zone: Zone

    def alike(self, *args: Expr) -> Sequence[Expr]:
        """Prepare operands for a comparison: times of different kinds become instants."""
        kinds = {a.type.kind for a in args}
        # In UTC the numbers are the same, and what aligns operands knows the kinds.
        if Kind.TIMESTAMP not in kinds or len(kinds & TIMES) < 2 or self.zone.fixed_s == 0:
            return args
        return [self.instant(a) if a.type.kind in TIMES else a for a in args]

    def instant(self, time: Expr) -> Expr:
        """Convert a time to a TIMESTAMP."""
        if time.type.kind is Kind.TIMESTAMP:
            return time
        return ops.to_instant(time, self.zone, start=time.type.kind is Kind.DATE)

    def add(self, a: Expr, b: Expr) -> Expr:
        """``a + b``."""
        for time, by in ((a, b), (b, a)):
            if time.type.kind in TIMES and by.type.kind is Kind.DURATION:
                return self._moved(time, by, 1)
        return ops.add(a, b)

    def sub(self, a: Expr, b: Expr) -> Expr:
        """``a - b``; for two timestamps, the duration between their wall clocks."""
        if a.type.kind in TIMES and b.type.kind is Kind.DURATION:
            return self._moved(a, b, -1)
        if a.type.kind in TIMES and b.type.kind in TIMES:
            if Kind.TIMESTAMP_NTZ not in (a.type.kind, b.type.kind):
                a, b = self.alike(a, b)
            a, b = self.local(a), self.local(b)
        return ops.sub(a, b)

    def local(self, time: Expr) -> Expr:
        """Convert an instant to a wall clock; in UTC it is one."""
        is_instant = time.type.kind is Kind.TIMESTAMP and self.zone.fixed_s != 0
        return ops.to_local(time, self.zone) if is_instant else time

    def _moved(self, time: Expr, by: Expr, sign: int) -> Expr:
        """``time ± by``: whole days are days of the calendar, however long; the rest is exact."""
        move = ops.add if sign > 0 else ops.sub
        if time.type.kind is Kind.DATE and by.type.unit != "D" and self.zone.fixed_s != 0:
            time = self.instant(time)
        day = ops.duration_const(1, "D")
        most = UNIT_NS["D"] // UNIT_NS[by.type.unit]
        is_short = -most < by.type.lo and by.type.hi < most
        if time.type.kind is not Kind.TIMESTAMP or self.zone.fixed_s is not None or is_short:
            return move(time, by)
        unit = finer(time.type.unit, by.type.unit)
        time, by = to_unit(time, unit), to_unit(by, unit)
        exact = ops.mod(by, to_unit(day, unit))
        days = ops.sub(by, exact)
        if by.is_const and by.attr is not None:
            over = abs(by.attr) % (UNIT_NS["D"] // UNIT_NS[unit]) * (1 if by.attr >= 0 else -1)
            exact = ops.duration_const(over, unit)
            days = ops.duration_const(by.attr - over, unit)
        wall = move(ops.to_local(time, self.zone), days)
        instant = ops.to_instant(wall, self.zone, time)
        return instant if exact.is_const and exact.attr == 0 else move(instant, exact)

    def date(self, time: Expr) -> Expr:
        """The date of a time."""
        return self.cast(time, _DATE)

    def cast(self, a: Expr, to: Type) -> Expr:
        """``CAST(a AS to)``."""
        kinds = (a.type.kind, to.kind)
        if self.zone.fixed_s != 0:
            if kinds in ((Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ), (Kind.TIMESTAMP, Kind.DATE)):
                a = ops.to_local(a, self.zone)
            elif kinds in ((Kind.TIMESTAMP_NTZ, Kind.TIMESTAMP), (Kind.DATE, Kind.TIMESTAMP)):
                a = self.instant(a)
        return ops.cast(a, to)

    def truncated(self, name: str, time: Expr) -> Expr:
        """``date_trunc(name, time)``: the start of a second, ..., year in the zone, a TIMESTAMP."""
        if name in PERIODS:
            return self.instant(period_start(name, self.date(time)))
        if name in SHORT:
            return tumbling(self.instant(time), ops.duration_const(1, SHORT[name])).start
        seconds, offset = TRUNCATIONS[name]
        size = ops.duration_const(seconds, "s")
        time = self.instant(time)
        fixed = 0 if name == "SECOND" else self.zone.fixed_s
        if fixed is not None:
            since = ops.duration_const((offset - fixed) % seconds, "s")
            return tumbling(time, size, since).start
        time = to_unit(time, finer(time.type.unit, "s"))
        since = ops.duration_const(offset, "s")
        wall = tumbling(ops.to_local(time, self.zone), size, since).start
        if name == "WEEK":  # by way of the date, whose start may be later than its midnight
            return ops.to_instant(wall, self.zone, start=True)
        return ops.to_instant(wall, self.zone, time)
