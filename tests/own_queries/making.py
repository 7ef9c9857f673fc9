"""Random cases: tables, a query over them, and options."""

from dataclasses import replace
from random import Random

from tests.own_queries import expressions as ex
from tests.own_queries.aggregates import ROWS, aggregate, window_function
from tests.own_queries.expressions import E, comparison, strict
from tests.own_queries.queries import Case, Join, Key, Part, Query, Source
from tests.own_queries.scope import Scope
from tests.own_queries.values import BASES, BOOL, INT, Tables, Type
from tests.own_queries.windows import Windows

SETS = 8  # data sets of each query
JOINS = [
    "JOIN",
    "JOIN",
    "JOIN",
    "LEFT JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
]


class Maker(Windows):
    """One random case from a seed."""

    def __init__(self, seed: int, mode: str, decimals: bool = False):
        self.rnd = rnd = Random(f"{mode}-{seed}")
        self.mode, self.decimals = mode, decimals
        self.zone = rnd.choice([*BASES, None, None])
        self.tables = Tables(rnd, self.zone, decimals)
        self.streamed = mode != "tables"
        self.options: dict = {}
        self.number = 0
        self.nested = False
        self.named: dict[str, str] = {}

    def case(self) -> Case:
        """Make the case."""
        rnd = self.rnd
        data = {name: self.tables.make(name, self.streamed) for name in ("p", "q", "r")}
        self.data = data
        if self.mode == "tables":
            self.nested = rnd.random() < 0.3
            query = self.outer() if self.nested else self.block()
        else:
            query = self.block()
        options = dict(self.options)
        if self.named:
            options["time"] = self.named
        if self.zone is not None:
            options["time_zone"] = self.zone
        return Case(query, data, options, self.mode)

    def scope(self, columns: list[E], texts: bool = True) -> Scope:
        return Scope(
            self.rnd, columns, self.zone, self.tables.base, self.tables.step, self.decimals, texts
        )

    def alias(self) -> str:
        self.number += 1
        return "abcdefghij"[self.number - 1]

    def part(self, table: str, plain: bool = False) -> Part:
        """Take a table, or a subquery over it."""
        alias = self.alias()
        data = self.data[table]
        source = Source(table, [(c.name, c.type) for c in data.columns])
        if plain or self.rnd.random() < 0.75:
            if (
                self.tables.clock == "int"
                or len([c for c in data.columns if c.type.kind in ("ts", "ntz")]) > 1
            ):
                self.named[alias] = "t"
            return Part(alias, source)
        inner = Part(self.alias(), source)
        columns = inner.columns()
        scope = self.scope(columns)
        keep = [
            (e, e.sql.split(".")[1])
            for e in columns
            if self.rnd.random() < 0.7 or e.sql.split(".")[1] in ("id", "t", "k")
        ]
        keep.append((scope.some(2), "made"))
        query = Query(inner, items=keep)
        if self.rnd.random() < 0.7:
            query.where = [scope.condition(2)]
        if self.mode == "tables" and self.rnd.random() < 0.2:
            self.widen(query, scope, columns)
        if self.rnd.random() < 0.3:
            query.cte = f"w{self.number}"
        if (
            self.tables.clock == "int"
            or len([1 for e, _ in keep if e.type.kind in ("ts", "ntz")]) > 1
        ):
            self.named[alias] = "t"
        return Part(alias, query)

    def widen(self, query: Query, scope: Scope, columns: list[E]) -> None:
        """Add to a subquery what needs all rows of it."""
        if self.rnd.random() < 0.4:
            query.distinct = True
        else:
            leaf, ranking = window_function(scope, [columns[0]], self.number)
            query.rankings.append(ranking)
            query.items.append((leaf, "ranked"))

    def joined(self, count: int) -> tuple[Query, list[E]]:
        """Make FROM with its joins; the columns that stand behind it."""
        rnd = self.rnd
        first = self.part("p")
        query = Query(first)
        columns = first.columns()
        times = {first.alias: self.time_of(first)}
        for table in ("q", "r")[: count - 1]:
            kind = (
                rnd.choice(JOINS)
                if count == 2
                else rnd.choice(["JOIN", "JOIN", "JOIN", "LEFT JOIN"])
            )
            part = self.part(rnd.choice([table, table, "p"]))
            before = rnd.choice(list(times))
            join = Join(kind, part, [])
            right = part.columns()
            self.window(join, times[before], self.time_of(part), before, part.alias, count == 2)
            join.conditions += self.theta(columns, right, kind)
            rnd.shuffle(join.conditions)
            query.joins.append(join)
            times[part.alias] = self.time_of(part)
            if kind not in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
                columns = columns + right
        query.comma = (
            all(j.kind == "JOIN" for j in query.joins)
            and rnd.random() < 0.15
            and not self.options.get("rows")
        )
        outer = any(j.kind in ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN") for j in query.joins)
        if rnd.random() < (0.05 if outer else 0.4):
            query.where.append(self.scope(columns).condition(2))
        return query, columns

    def time_of(self, part: Part) -> E:
        return next(e for e in part.columns() if e.sql.endswith(".t"))

    def theta(self, left: list[E], right: list[E], kind: str) -> list[E]:
        """Make conditions of both sides and of one."""
        rnd = self.rnd
        made = []
        if rnd.random() < 0.5:
            a, b = (next(e for e in side if e.sql.endswith(".k")) for side in (left, right))
            made.append(comparison(rnd.choice(["=", "=", "=", "<=>", "<"]), a, b, self.zone))
        both = self.scope(left + right, rnd.random() < 0.2)
        for _ in range(rnd.choice([0, 1, 1, 2])):
            form = rnd.randint(0, 3)
            a, b = self.scope(left, both.texts), self.scope(right, both.texts)
            if form == 0:
                x, y = a.make("int", 1), b.make("int", 1)
                most = rnd.randint(0, 9)
                sql = f"abs({x} - {y}) {'<' if most % 2 else '<='} {most}"
                strictly = most % 2
                made.append(
                    strict(
                        BOOL,
                        sql,
                        lambda v, w, m=most, s=strictly: abs(v - w) < m if s else abs(v - w) <= m,
                        x,
                        y,
                    )
                )
            elif form == 1:
                kinds = [
                    k
                    for k in ("int", "f64", "f32", "str", "date", "ts", "ntz", "dur", "dec")
                    if a.of(k) and b.of(k)
                ]
                one = rnd.choice(kinds or ["int"])
                made.append(
                    comparison(
                        rnd.choice(["=", "<", ">=", "<>", "<=>"]),
                        a.make(one, 1),
                        b.make(one, 1),
                        self.zone,
                    )
                )
            elif form == 2:
                made.append(rnd.choice([a, b]).condition(2))
            else:
                made.append(both.condition(2))
        return made

    def block(self) -> Query:
        """Make a SELECT over a join, or groups of one table."""
        rnd = self.rnd
        form = rnd.random()
        if form < 0.2:
            part = self.part("p", plain=rnd.random() < 0.6)
            query, columns = Query(part), part.columns()
            if rnd.random() < 0.4:
                query.where.append(self.scope(columns).condition(2))
            self.groups(query, columns, one=True)
            return self.ended(query)
        query, columns = self.joined(3 if self.mode == "tables" and form < 0.3 else 2)
        if rnd.random() < 0.45:
            self.groups(query, columns, one=False)
        else:
            self.plain(query, columns)
        return self.ended(query)

    def plain(self, query: Query, columns: list[E]) -> None:
        """Give a query items of rows."""
        rnd = self.rnd
        scope = self.scope(columns)
        items = [
            rnd.choice(columns) if rnd.random() < 0.5 else scope.some(2)
            for _ in range(rnd.randint(1, 5))
        ]
        ids = [e for e in columns if e.sql.endswith(".id")]
        if self.mode == "tables" and rnd.random() < 0.15:
            leaf, ranking = window_function(scope, ids, self.number)
            query.rankings.append(ranking)
            items.append(leaf)
            if rnd.random() < 0.3 and leaf.type.kind == "int":
                query.qualify = comparison(
                    "<=", leaf, ex.literal(rnd.randint(1, 3), INT, None), None
                )
        query.items = [(e, f"c{n}") for n, e in enumerate(items)]
        query.distinct = rnd.random() < 0.1 and self.mode == "tables"

    def groups(self, query: Query, columns: list[E], one: bool) -> None:
        """Give a query keys and aggregates."""
        rnd = self.rnd
        scope = self.scope(columns)
        query.grouped = True
        times = [e for e in columns if e.sql.endswith(".t")]
        if self.streamed:
            query.keys.append(self.time_key(times[0]))
        for _ in range(rnd.choice([0, 1, 1, 2])):
            kind = rnd.random()
            if kind < 0.3 and not any("window(" in k.text for k in query.keys):
                query.keys.append(self.time_key(rnd.choice(times)))
            elif kind < 0.7:
                e = rnd.choice(columns)
                query.keys.append(Key(str(e), e))
            else:
                e = scope.some(1)
                if any(name in e.sql for name in [c.sql for c in columns]):
                    query.keys.append(Key(str(e), e))
        wide = self.mode == "tables" or not one
        pieces = [aggregate(scope, wide and rnd.random() < 0.5) for _ in range(rnd.randint(1, 3))]
        leaves = [leaf for key in query.keys for leaf in self.leaves(key)]
        exact = [e for e in leaves + pieces if not e.approx]
        above = self.scope(exact)
        items = leaves + pieces
        if exact and rnd.random() < 0.3:
            items = [*items, above.make("int", 2)]
        query.items = [(e, f"c{n}") for n, e in enumerate(items)]
        if exact and rnd.random() < 0.25:
            query.having = above.condition(2)

    def leaves(self, key: Key) -> list[E]:
        """Return what SELECT can write of a key."""

        def first(g):
            return key.value.value(g[ROWS][0])

        if not key.text.startswith("window("):
            return [E(key.text, key.value.type, first)]
        return [E(f"{key.text}.start", Type(key.value.type.kind), first)]

    def ended(self, query: Query) -> Query:
        """Add UNION ALL, ORDER BY and LIMIT."""
        rnd = self.rnd
        if self.streamed:
            return query
        exact = all(not e.approx for e, _ in query.items)
        if rnd.random() < 0.3:
            places = [p for p, (e, _) in enumerate(query.items) if not e.approx]
            rnd.shuffle(places)
            total = exact and rnd.random() < 0.5
            count = len(places) if total else rnd.randint(0, len(places))
            query.order = [
                (p, rnd.random() < 0.4, rnd.choice([None, None, True, False]))
                for p in places[:count]
            ]
            if total and query.order:
                query.limit = rnd.randint(0, 12)
        return query

    def outer(self) -> Query:
        """Make a query around a subquery, or a union of two."""
        rnd = self.rnd
        inner = self.block()
        kept = [(e, n) for e, n in inner.items if not e.approx]
        if not kept or not all(n == f"c{p}" for p, (_, n) in enumerate(kept)):
            return inner
        inner.items = kept
        inner.order, inner.limit = (
            (inner.order, inner.limit)
            if inner.limit is not None and len(kept) == len(inner.items)
            else ([], None)
        )
        if rnd.random() < 0.4:
            inner.cte = "u1"
        part = Part("z", inner)
        query, columns = Query(part), part.columns()
        if rnd.random() < 0.5:
            query.where.append(self.scope(columns).condition(2))
        if rnd.random() < 0.4:
            scope = self.scope(columns)
            query.grouped = True
            keys = rnd.sample(columns, min(len(columns), rnd.randint(0, 2)))
            query.keys = [Key(str(e), e) for e in keys]
            pieces = [aggregate(scope, True) for _ in range(rnd.randint(1, 3))]
            query.items = [
                (e, f"o{n}")
                for n, e in enumerate(
                    [leaf for k in query.keys for leaf in self.leaves(k)] + pieces
                )
            ]
        else:
            scope = self.scope(columns)
            items = [
                rnd.choice(columns) if rnd.random() < 0.5 else scope.some(2)
                for _ in range(rnd.randint(1, 4))
            ]
            query.items = [(e, f"o{n}") for n, e in enumerate(items)]
            query.distinct = rnd.random() < 0.2
        return self.ended(query)


def case_of(seed: int, mode: str, decimals: bool) -> Case:
    """Return the case of a seed: neighbouring seeds are one query over several data sets."""
    case = Maker(seed // SETS, mode, decimals).case()
    if seed % SETS == 0:
        return case
    rnd = Random(seed)
    return replace(case, data={n: d.mixed(rnd, mode != "tables") for n, d in case.data.items()})
