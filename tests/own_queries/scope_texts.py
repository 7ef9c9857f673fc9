"""Expressions of texts."""

from tests.own_queries import clocks
from tests.own_queries import expressions as ex
from tests.own_queries.clocks import SECOND
from tests.own_queries.expressions import E, strict
from tests.own_queries.values import BOOL, INT, STR


class Texts:
    """The part of a scope that makes texts and what is asked of them."""

    def text_test(self, depth: int) -> E:
        rnd = self.rnd
        what, part = self.make("str", depth - 1), rnd.choice(["a", "ab", "b", "", "é", "A"])
        form = rnd.choice(
            ["startswith", "LIKE", "contains", "endswith", "LIKE%"]
            if self.texts
            else ["startswith", "LIKE"]
        )
        if form == "LIKE":
            return strict(BOOL, f"({what} LIKE '{part}%')", lambda v: v.startswith(part), what)
        if form == "LIKE%":
            return strict(
                BOOL,
                f"({what} LIKE '%{part}_')",
                lambda v: len(v) > len(part) - 0 and part == v[len(v) - 1 - len(part) : len(v) - 1],
                what,
            )
        test = {
            "startswith": str.startswith,
            "contains": str.__contains__,
            "endswith": str.endswith,
        }[form]
        return strict(BOOL, f"{form}({what}, '{part}')", lambda v: test(v, part), what)

    def measure(self, depth: int) -> E:
        """Make an integer of texts."""
        a = self.make("str", depth - 1)
        form = self.rnd.randint(0, 2)
        if form == 0:
            return strict(INT, f"length({a})", len, a)
        b = self.make("str", 0)
        if form == 1:
            return strict(INT, f"locate({b}, {a})", lambda x, y: y.find(x) + 1, b, a)
        return strict(INT, f"levenshtein({a}, {b})", ex.distance, a, b)

    def str(self, depth: int) -> E:
        if not self.texts:
            return None
        rnd = self.rnd
        a = self.make("str", depth - 1)
        n, m = rnd.randint(-3, 4), rnd.randint(0, 3)
        b = self.make("str", 0)
        forms = [
            (f"lower({a})", str.lower),
            (f"upper(replace({a}, 'ß', ''))", lambda v: v.replace("ß", "").upper()),
            (f"trim({a})", lambda v: v.strip(" ")),
            (f"ltrim({a})", lambda v: v.lstrip(" ")),
            (f"rtrim({a})", lambda v: v.rstrip(" ")),
            (f"substring({a}, {n}, {m})", lambda v: ex.substring(v, n, m)),
            (f"left({a}, {m})", lambda v: v[:m]),
            (f"right({a}, {m})", lambda v: v[len(v) - min(m, len(v)) :]),
            (f"reverse({a})", lambda v: v[::-1]),
            (f"repeat({a}, {m})", lambda v: v * m),
            (f"lpad({a}, {m}, 'xy')", lambda v: ex.pad(v, m, "xy", True)),
            (f"rpad({a}, {m}, 'xy')", lambda v: ex.pad(v, m, "xy", False)),
            (f"replace({a}, 'a', 'zz')", lambda v: v.replace("a", "zz")),
            (f"translate({a}, 'ab', 'x')", lambda v: v.replace("a", "x").replace("b", "")),
            (f"initcap(replace({a}, 'ß', ''))", lambda v: ex.initcap(v.replace("ß", ""))),
            (f"substring_index({a}, ',', {n})", lambda v: ex.substring_index(v, ",", n)),
            (f"split_part({a}, ',', {n or 1})", lambda v: ex.split_part(v, ",", n or 1)),
        ]
        form = rnd.randint(0, 22)
        if form < 17:
            sql, work = rnd.choice(forms)
            return strict(STR, sql, work, a)
        if form < 20:
            sql = f"concat({a}, {b})" if form == 17 else f"({a} || {b})"
            return strict(STR, sql, lambda x, y: x + y, a, b)
        if form == 20:
            c = self.make("int", depth - 1)
            return strict(STR, f"CAST({c} AS STRING)", str, c)
        if form == 21 and self.of("date"):
            c = self.make("date", depth - 1)
            return strict(STR, f"CAST({c} AS STRING)", lambda v: clocks.to_date(v).isoformat(), c)
        if self.of("ts", "ntz"):
            c = self.make(rnd.choice([e.type.kind for e in self.of("ts", "ntz")]), depth - 1)
            kind, zone = c.type.kind, self.zone
            sql = f"date_format({c}, 'yyyy-MM-dd HH:mm:ss')"
            return strict(
                STR, sql, lambda v: clocks.text_of(ex.wall(v, kind, zone) // SECOND * SECOND), c
            )
        return None
