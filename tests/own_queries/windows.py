"""Windows of joins and of groups, in the spellings of the documents."""

from tests.own_queries import clocks
from tests.own_queries import expressions as ex
from tests.own_queries.clocks import SECOND
from tests.own_queries.expressions import E, comparison, conjunction, strict
from tests.own_queries.queries import Join, Key
from tests.own_queries.values import BOOL, DUR, INT, Type


class Windows:
    """The part of a maker that gives joins and groups their windows."""

    def window(self, join: Join, a: E, b: E, left: str, right: str, alone: bool) -> None:
        """Give a join its window."""
        rnd, tables = self.rnd, self.tables
        if (
            alone
            and not self.nested
            and rnd.random() < 0.1
            and not tables.null_times
            and self.mode == "tables"
        ):
            n, m = rnd.randint(1, 6), rnd.randint(1, 6)
            join.last, join.times = (n, m), (a, b)
            self.options["rows"] = {left: n, right: m}
            self.named |= {left: "t", right: "t"}
            return
        unit = 1 if a.type.kind == "int" else tables.step
        low, high = sorted((rnd.randint(-8, 8), rnd.randint(-8, 8)))

        def span(count: int) -> str:
            return str(count) if unit == 1 else ex.span_text(count * unit, rnd)

        def later(e: E, count: int, down: bool = False) -> E:
            sql = f"{e} {'-' if down else '+'} {span(-count if down else count)}"
            if e.type.kind == "int":
                return strict(INT, sql, lambda v: v + count, e)
            return self.moved(e, sql, count * unit)

        form = rnd.randint(0, 5)
        if form == 4 and alone and unit == 1 and rnd.random() < 0.4:
            size = rnd.randint(0, 9)
            self.options["within"] = size
            join.within = strict(BOOL, "", lambda v, w: abs(v - w) <= size, a, b)
            return
        if form == 0:
            x, y = later(a, low, low < 0), later(a, high, high < 0)
            both = conjunction(comparison(">=", b, x, self.zone), comparison("<=", b, y, self.zone))
            join.conditions.append(E(f"{b} BETWEEN {x} AND {y}", BOOL, both.value))
        elif form == 1:
            join.conditions.append(
                comparison(rnd.choice(["<", "<="]), b, later(a, high, high < 0), self.zone)
            )
            join.conditions.append(
                comparison(rnd.choice([">", ">="]), b, later(a, low, low < 0), self.zone)
            )
        elif form == 2:
            size = rnd.randint(0, 9)
            difference = self.difference(a, b)
            sql = f"abs({a} - {b}) <= {span(size)}"
            join.conditions.append(strict(BOOL, sql, lambda d: abs(d) <= size * unit, difference))
        elif form == 3:
            join.conditions.append(comparison("=", a, b, self.zone))
        elif form == 4:
            size = rnd.randint(1, 12) * unit
            text = str(size) if unit == 1 else f"'{size // SECOND} seconds'"
            sql = f"window({a}, {text}) = window({b}, {text})"
            join.conditions.append(strict(BOOL, sql, lambda v, w: v // size == w // size, a, b))
        else:
            join.conditions.append(
                comparison(rnd.choice(["<=", "<"]), later(a, low, low < 0), b, self.zone)
            )
            join.conditions.append(
                comparison(rnd.choice(["<=", "<"]), b, later(a, high, high < 0), self.zone)
            )

    def moved(self, e: E, sql: str, span: int) -> E:
        if e.type.kind == "ntz":
            return strict(e.type, sql, lambda v: v + span, e)
        return strict(e.type, sql, lambda v: clocks.add_span(self.zone, v, span), e)

    def difference(self, a: E, b: E) -> E:
        kind = a.type.kind
        if kind == "int":
            return strict(INT, "", lambda x, y: x - y, a, b)
        return strict(
            DUR, "", lambda x, y: ex.wall(x, kind, self.zone) - ex.wall(y, kind, self.zone), a, b
        )

    def time_key(self, t: E) -> Key:
        """Make a key that follows the time."""
        rnd = self.rnd
        form = rnd.randint(0, 3)
        if form == 0:
            return Key(str(t), t)
        size = rnd.randint(1, 15) * (1 if t.type.kind == "int" else self.tables.step)
        if form == 1 and t.type.kind in ("ts", "ntz"):
            unit = rnd.choice(["minute", "hour", "day", "month"])
            kind, zone = t.type.kind, self.zone
            sql = f"date_trunc('{unit}', {t})"
            e = strict(
                Type("ts"), sql, lambda v: clocks.truncate(zone, unit, ex.moment(v, kind, zone)), t
            )
            return Key(sql, e)
        if t.type.kind == "int" and form == 1:
            sql = f"{t} - {t} % {size}"
            return Key(sql, strict(INT, sql, lambda v: v - ex.remainder(v, size), t))
        text = str(size) if t.type.kind == "int" else f"'{size // SECOND} seconds'"
        sql = f"window({t}, {text})"
        return Key(sql, strict(t.type, sql, lambda v: v // size * size, t), True)
