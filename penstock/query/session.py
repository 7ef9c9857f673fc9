"""What depends on the session's time zone, as in Spark: how times of different kinds meet.

A TIMESTAMP is an instant, a TIMESTAMP_NTZ a wall clock, and a DATE the start of its day. Where they
meet, wall clocks and dates become instants in the session's zone. Expressions below this know the
zone only as an operation, ``LOCAL`` or ``INSTANT``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.expr import build
from penstock.expr.build.align import finer, to_unit
from penstock.expr.node import Expr
from penstock.query.tumbling import tumbling
from penstock.types import TIMES, UNIT_NS, Kind, Type
from penstock.zones import Zone

#: Units of ``date_trunc`` with a fixed length, in seconds, and the offset of their start.
TRUNCATIONS = {
    "SECOND": (1, 0),
    "MINUTE": (60, 0),
    "HOUR": (3600, 0),
    "DAY": (86_400, 0),
    "WEEK": (7 * 86_400, 4 * 86_400),  # the epoch was a Thursday, weeks begin on Monday
}


@dataclass(frozen=True)
class Session:
    """The time zone in which a query is read."""

    zone: Zone

    def alike(self, *args: Expr) -> Sequence[Expr]:
        """Operands that are compared, times among them as one kind."""
        kinds = {a.type.kind for a in args}
        # In UTC the numbers are the same, and what aligns operands knows the kinds.
        if Kind.TIMESTAMP not in kinds or len(kinds & TIMES) < 2 or self.zone.fixed_s == 0:
            return args
        return [self.instant(a) if a.type.kind in TIMES else a for a in args]

    def instant(self, time: Expr) -> Expr:
        """A time as a TIMESTAMP."""
        if time.type.kind is Kind.TIMESTAMP:
            return time
        return build.to_instant(time, self.zone, start=time.type.kind is Kind.DATE)

    def add(self, a: Expr, b: Expr) -> Expr:
        """``a + b``."""
        for time, by in ((a, b), (b, a)):
            if time.type.kind in TIMES and by.type.kind is Kind.DURATION:
                return self._moved(time, by, 1)
        return build.add(a, b)

    def sub(self, a: Expr, b: Expr) -> Expr:
        """``a - b``: of two timestamps, what lies between their wall clocks."""
        if a.type.kind in TIMES and b.type.kind is Kind.DURATION:
            return self._moved(a, b, -1)
        if a.type.kind in TIMES and b.type.kind in TIMES:
            if Kind.TIMESTAMP_NTZ not in (a.type.kind, b.type.kind):
                a, b = self.alike(a, b)
            a, b = self._local(a), self._local(b)
        return build.sub(a, b)

    def _local(self, time: Expr) -> Expr:
        """A timestamp as a wall clock; in UTC it is one."""
        is_instant = time.type.kind is Kind.TIMESTAMP and self.zone.fixed_s != 0
        return build.to_local(time, self.zone) if is_instant else time

    def _moved(self, time: Expr, by: Expr, sign: int) -> Expr:
        """``time ± by``: whole days are days of the calendar, however long, and the rest is not."""
        move = build.add if sign > 0 else build.sub
        if time.type.kind is Kind.DATE and by.type.unit != "D" and self.zone.fixed_s != 0:
            time = self.instant(time)
        day = build.duration_const(1, "D")
        most = UNIT_NS["D"] // UNIT_NS[by.type.unit]
        is_short = -most < by.type.lo and by.type.hi < most
        if time.type.kind is not Kind.TIMESTAMP or self.zone.fixed_s is not None or is_short:
            return move(time, by)
        unit = finer(time.type.unit, by.type.unit)
        time, by = to_unit(time, unit), to_unit(by, unit)
        rest = build.mod(by, to_unit(day, unit))
        days = build.sub(by, rest)
        if by.is_const and by.attr is not None:
            over = abs(by.attr) % (UNIT_NS["D"] // UNIT_NS[unit]) * (1 if by.attr >= 0 else -1)
            rest = build.duration_const(over, unit)
            days = build.duration_const(by.attr - over, unit)
        wall = move(build.to_local(time, self.zone), days)
        found = build.to_instant(wall, self.zone, time)
        return found if rest.is_const and rest.attr == 0 else move(found, rest)

    def cast(self, a: Expr, to: Type) -> Expr:
        """``CAST(a AS to)``."""
        kinds = (a.type.kind, to.kind)
        if self.zone.fixed_s != 0:
            if kinds in ((Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ), (Kind.TIMESTAMP, Kind.DATE)):
                a = build.to_local(a, self.zone)
            elif kinds in ((Kind.TIMESTAMP_NTZ, Kind.TIMESTAMP), (Kind.DATE, Kind.TIMESTAMP)):
                a = self.instant(a)
        return build.cast(a, to)

    def truncated(self, name: str, time: Expr) -> Expr:
        """``date_trunc(name, time)``, a TIMESTAMP: the start of a second, ..., week of the zone."""
        seconds, offset = TRUNCATIONS[name]
        size = build.duration_const(seconds, "s")
        time = self.instant(time)
        fixed = 0 if name == "SECOND" else self.zone.fixed_s
        if fixed is not None:
            since = build.duration_const((offset - fixed) % seconds, "s")
            return tumbling(time, size, since).start
        time = to_unit(time, finer(time.type.unit, "s"))
        since = build.duration_const(offset, "s")
        wall = tumbling(build.to_local(time, self.zone), size, since).start
        if name == "WEEK":  # by way of the date, whose start may be later than its midnight
            return build.to_instant(wall, self.zone, start=True)
        return build.to_instant(wall, self.zone, time)
