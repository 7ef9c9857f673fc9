"""Expressions of dates, times and durations."""

from tests.own_queries import clocks
from tests.own_queries import expressions as ex
from tests.own_queries.clocks import DAY, SECOND
from tests.own_queries.expressions import E, strict
from tests.own_queries.values import DATE, DUR, INT, NTZ, TS


class Times:
    """The part of a scope that makes times and what is asked of them."""

    def field(self, depth: int) -> E:
        """Make a field of a time, or its count of seconds."""
        rnd, zone = self.rnd, self.zone
        kind = rnd.choice([k for k in ("ts", "ntz", "date") if self.of(k)])
        what = self.make(kind, depth - 1)
        names = [
            "year",
            "month",
            "day",
            "quarter",
            "dayofweek",
            "weekday",
            "dayofyear",
            "weekofyear",
        ]
        counts = {
            "unix_seconds": SECOND,
            "unix_millis": 10**6,
            "unix_micros": 1000,
            "bigint": SECOND,
        }
        if kind != "date":
            names += ["hour", "minute", "second"]
        if kind == "ts" and rnd.random() < 0.4:
            name = rnd.choice(list(counts))
            sql = f"CAST({what} AS BIGINT)" if name == "bigint" else f"{name}({what})"
            return strict(INT, sql, lambda v: v // counts[name], what)
        name = rnd.choice(names)
        sql = f"{name}({what})"
        if name in ("year", "month", "day", "hour", "minute") and rnd.random() < 0.3:
            sql = f"extract({name.upper()} FROM {what})"
        return strict(INT, sql, lambda v: clocks.field(name, ex.wall(v, kind, zone)), what)

    def date(self, depth: int) -> E:
        rnd, zone = self.rnd, self.zone
        form = rnd.randint(0, 6)
        if form <= 2:
            a, n = self.make("date", depth - 1), rnd.randint(-40, 40)
            sql = [f"date_add({a}, {n})", f"date_sub({a}, {-n})", f"({a} + INTERVAL '{n}' DAY)"][
                form
            ]
            return strict(DATE, sql, lambda v: v + n, a)
        if form == 3:
            a = self.make("date", depth - 1)
            return strict(DATE, f"last_day({a})", clocks.last_day, a)
        if self.of("ts", "ntz"):
            kind = rnd.choice([e.type.kind for e in self.of("ts", "ntz")])
            a = self.make(kind, depth - 1)
            sql = f"CAST({a} AS DATE)" if form < 6 else f"to_date({a})"
            return strict(DATE, sql, lambda v: ex.wall(v, kind, zone) // DAY, a)
        return None

    def moved(self, kind: str, depth: int) -> E:
        """Add an interval to a time."""
        rnd, zone = self.rnd, self.zone
        a = self.make(kind, depth - 1)
        span = rnd.choice(
            [SECOND, 60 * SECOND, 3600 * SECOND, DAY, 12 * 3600 * SECOND]
        ) * rnd.randint(0, 40)
        sign = rnd.choice([1, -1])
        sql = f"({a} {'+' if sign > 0 else '-'} {ex.span_text(span, rnd)})"
        if kind == "ntz":
            return strict(NTZ, sql, lambda v: v + sign * span, a)
        return strict(TS, sql, lambda v: clocks.add_span(zone, v, sign * span), a)

    def ts(self, depth: int) -> E:
        rnd, zone = self.rnd, self.zone
        form = rnd.randint(0, 5)
        if form <= 1:
            return self.moved("ts", depth)
        if form <= 3:
            kind = rnd.choice([e.type.kind for e in self.of("ts", "ntz", "date")] or ["ts"])
            a = self.make(kind, depth - 1)
            unit = rnd.choice(
                ["second", "minute", "hour", "day", "week", "month", "quarter", "year"]
            )
            sql = f"date_trunc('{unit}', {a})"
            return strict(
                TS, sql, lambda v: clocks.truncate(zone, unit, ex.moment(v, kind, zone)), a
            )
        if form == 4:
            kind = rnd.choice([e.type.kind for e in self.of("ntz", "date")] or ["date"])
            a = self.make(kind, depth - 1)
            return strict(TS, f"CAST({a} AS TIMESTAMP)", lambda v: ex.moment(v, kind, zone), a)
        a = self.make("int", 0)
        return strict(
            TS, f"timestamp_seconds({a} % 100000)", lambda v: ex.remainder(v, 100_000) * SECOND, a
        )

    def ntz(self, depth: int) -> E:
        kind = self.rnd.choice([e.type.kind for e in self.of("ts", "date")] or ["ntz"])
        if self.rnd.random() < 0.6 or kind == "ntz":
            return self.moved("ntz", depth)
        a, zone = self.make(kind, depth - 1), self.zone
        return strict(NTZ, f"CAST({a} AS TIMESTAMP_NTZ)", lambda v: ex.wall(v, kind, zone), a)

    def dur(self, depth: int) -> E:
        kind = self.rnd.choice([e.type.kind for e in self.of("ts", "ntz")] or ["dur"])
        a, b, zone = self.make(kind, depth - 1), self.make(kind, depth - 1), self.zone
        work = (
            (lambda x, y: x - y)
            if kind == "dur"
            else lambda x, y: ex.wall(x, kind, zone) - ex.wall(y, kind, zone)
        )
        sign = "-"
        if kind == "dur" and self.rnd.random() < 0.5:
            sign, work = "+", lambda x, y: x + y
        return strict(DUR, f"({a} {sign} {b})", work, a, b)
