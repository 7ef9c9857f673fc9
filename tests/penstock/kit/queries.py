"""Random joins in SQL over small random tables, and an independent answer from DuckDB.

Columns of the DuckDB views are widened (integers to HUGEINT), so that its arithmetic is exact too.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("t", pa.int32(), nullable=False),
        pa.field("ts", pa.timestamp("ms")),
        pa.field("a", pa.int8()),
        pa.field("b", pa.int64()),
        pa.field("u", pa.uint8(), nullable=False),
        pa.field("w", pa.uint64()),
        pa.field("d", pa.decimal128(9, 2)),
        pa.field("f", pa.float64()),
        pa.field("s", pa.string()),
        pa.field("k", pa.bool_()),
    ]
)

_INTEGERS = ("a", "b", "u", "w")
_FLOATS = (0.0, -0.0, 1.5, -2.0, 3.25, float("nan"), float("inf"))
_TEXTS = ("", "a", "ab", "abc", "b", "é", "éa", "zz")
_EPOCH = datetime.datetime(2020, 1, 1)


@dataclass
class Join:
    """A query and its tables.

    Parameters
    ----------
    sql : str
        With its time window, if it has one.
    bare : str
        The same without the window, as DuckDB is asked it for ROWS.
    rows : tuple of int or None
        ROWS of the left and the right side.
    """

    sql: str
    bare: str
    time: dict[str, str]
    rows: tuple[int, int] | None
    tables: dict[str, pa.Table] = field(repr=False)

    @property
    def options(self) -> dict[str, Any]:
        rows = None if self.rows is None else dict(zip("lr", self.rows, strict=True))
        return {"time": self.time, "rows": rows}


class Grammar:
    """Draws joins from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)

    # -- tables -----------------------------------------------------------------------------------

    def table(self, most: int) -> pa.Table:
        count = self.rng.choice((0, 1, *[most] * 10))
        rows = [self.row(k) for k in range(count)]
        if rows and self.rng.random() < 0.3:
            rows[-1] = {**rows[0], "id": rows[-1]["id"]}
        return pa.Table.from_pylist(rows, SCHEMA)

    def row(self, number: int) -> dict[str, Any]:
        rng = self.rng
        row = {
            "id": number,
            "t": rng.randint(0, 8),
            "ts": _EPOCH + datetime.timedelta(milliseconds=500 * rng.randint(0, 8)),
            "a": rng.choice((-128, 127, *range(-3, 4))),
            "b": rng.choice((-(1 << 63), (1 << 63) - 1, *range(-3, 4))),
            "u": rng.choice((255, 128, *range(5))),
            "w": rng.choice(((1 << 64) - 1, 1 << 63, *range(5))),
            "d": Decimal(rng.choice((-150, -100, -1, 0, 1, 25, 100, 150, 999999))) / 100,
            "f": rng.choice(_FLOATS),
            "s": rng.choice(_TEXTS),
            "k": rng.random() < 0.5,
        }
        for name in row:
            if SCHEMA.field(name).nullable and rng.random() < 0.12:
                row[name] = None
        return row

    # -- queries ----------------------------------------------------------------------------------

    def join(self, most: int = 12, depth: int = 3) -> Join:
        rng = self.rng
        tables = {"l": self.table(most), "r": self.table(most)}
        predicate = self.condition(rng.randint(0, depth))
        where = f" WHERE {self.one_sided()}" if rng.random() < 0.3 else ""
        head = f"SELECT l.id AS lid, r.id AS rid, {self.integer(1)} AS v, l.s, r.d AS d"
        source = "FROM l JOIN r ON"
        bare = f"{head} {source} ({predicate}){where}"
        if rng.random() < 0.3:
            rows = (rng.randint(1, 5), rng.randint(1, 5))
            return Join(bare, bare, {"l": "t", "r": "t"}, rows, tables)
        name = rng.choice(("t", "ts"))
        window = self.window(name)
        parts = [f"({predicate})", *window]
        rng.shuffle(parts)
        sql = f"{head} {source} {' AND '.join(parts)}{where}"
        return Join(sql, bare, {"l": name, "r": name}, None, tables)

    def window(self, name: str) -> list[str]:
        """Conjuncts that bound the time, in some spelling."""
        rng = self.rng
        low, high = rng.randint(-4, 2), rng.randint(0, 4)
        low, high = min(low, high), max(low, high)
        if name == "t":
            spellings = [
                [f"r.t BETWEEN l.t + {low} AND l.t + {high}"],
                [f"r.t >= l.t + {low}", f"l.t + {high} >= r.t"],
                [f"l.t - r.t <= {-low}", f"r.t - {high + 1} < l.t"],
                [f"abs(l.t - r.t) <= {high}"],
                [f"{high + 1} > abs(r.t - l.t)"],
                [f"2 * r.t <= 2 * l.t + {2 * high + 1}"],
                [f"r.t >= l.t + {low}"],
                ["l.t = r.t"],
                [f"r.t - l.t <= l.u AND r.t >= l.t + {low}"],
            ]
        else:
            unit = rng.choice((("SECONDS", 1), ("MILLISECOND", 500), ("MICROSECONDS", 1_000_000)))

            def moved(side: str, by: int) -> str:
                sign = "-" if by < 0 else "+"
                return f"{side}.ts {sign} INTERVAL {abs(by) * unit[1]} {unit[0]}"

            spellings = [
                [f"r.ts BETWEEN {moved('l', low)} AND {moved('l', high)}"],
                [f"r.ts >= {moved('l', low)}", f"{moved('l', high)} > r.ts"],
                [f"{moved('r', -low)} >= l.ts", f"{moved('r', -high)} <= l.ts"],
                [f"r.ts <= {moved('l', high)}"],
                ["l.ts = r.ts"],
            ]
        return rng.choice(spellings)

    def one_sided(self) -> str:
        rng = self.rng
        side = rng.choice("lr")
        return rng.choice(
            (f"{side}.a > 0", f"{side}.s IS NOT NULL", f"NOT {side}.k", f"{side}.u <> 0")
        )

    def column(self, names: Iterable[str]) -> str:
        return f"{self.rng.choice('lr')}.{self.rng.choice(tuple(names))}"

    def integer(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0:
            return rng.choice(
                (self.column(_INTEGERS), self.column(_INTEGERS), str(rng.randint(0, 9)))
            )
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        return rng.choice(
            (
                f"({a} + {b})",
                f"({a} - {b})",
                f"({self.column('au')} * {self.column('abu')})",
                f"abs({a} - {b})",
                f"(-{a})",
                f"({a} % {rng.choice((b, '3', '-2', '0'))})",
                f"least({a}, {b})",
                f"greatest({a}, {b}, 1)",
                f"({self.column('abu')} & {self.column('abu')})",
                f"({self.column('abu')} | {self.column('abu')})",
                f"({self.column('uw')} ^ {self.column('uw')})",
                f"(~{self.column('abu')})",
                f"({self.column('u')} << ({self.column('u')} & 3))",
                f"({self.column('u')} >> ({self.column('u')} & 3))",
                f"CASE WHEN {self.simple()} THEN {a} ELSE {b} END",
                f"CASE WHEN NOT ({self.simple()} AND {self.simple()}) THEN {a} END",
                f"CAST({a} AS BIGINT)" if a[0] in "lr" and a[-1] in "abu" else a,
            )
        )

    def simple(self) -> str:
        """A condition without choices below it."""
        rng = self.rng
        plain = f"{self.column('abu')} {rng.choice(('<', '<=', '=', '<>'))} {self.column('abu')}"
        return rng.choice((plain, plain, self.column("k"), f"{self.column('as')} IS NULL"))

    def condition(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0:
            return self.atom()
        a, b = self.condition(depth - 1), self.condition(depth - 1)
        return rng.choice(
            (
                f"({a} AND {b})",
                f"({a} OR {b})",
                f"(NOT {a})",
                f"(({a}) IS NULL)",
                f"(CASE WHEN {a} THEN {b} ELSE {self.atom()} END)",
                self.atom(),
            )
        )

    def atom(self) -> str:
        rng = self.rng
        op = rng.choice(("<", "<=", "=", "<>", ">", ">=", "<>", "="))
        a, b = rng.choice((("l", "r"), ("r", "l")))
        d = rng.choice("au")
        return rng.choice(
            (
                f"({self.integer(1)} {op} {self.integer(1)})",
                f"({a}.{d} {op} {b}.{d})",
                f"(abs(l.a - r.a) {op} {rng.randint(0, 4)})",
                f"(abs(l.a - r.a) + abs(l.u - r.u) {op} {rng.choice(('5', 'l.u', 'r.a'))})",
                f"((l.w ^ r.w) {op} {rng.choice((1, 4, 5, 256))})",
                f"({a}.a BETWEEN {b}.a - 1 AND {b}.a + {b}.u)",
                f"({a}.d {op} {b}.d + 0.5)",
                f"(abs(l.d - r.d) {op} {self.column('au')})",
                f"({a}.f {op} {b}.f)",
                f"(abs(l.f - r.f) {op} 1.5)",
                f"({a}.f * 2 {op} {b}.u)",
                f"({a}.s {rng.choice(('=', '<>'))} {b}.s)",
                f"({a}.s LIKE '{rng.choice(('a%', 'ab', 'é%', '%'))}')",
                "(startswith(l.s, r.s))",
                f"({a}.a IN ({rng.randint(-3, 3)}, 2, {rng.choice(('NULL', '127'))}))",
                f"({a}.a NOT IN (1, 2))",
                f"({self.column('abdfsk')} IS {rng.choice(('NULL', 'NOT NULL'))})",
                f"{a}.k",
                "(l.k = r.k)",
                f"((l.a - r.a) * (l.a - r.a) + (l.u - r.u) * (l.u - r.u) {op} 9)",
                f"(((l.u + r.u) % 3) {op} 1)",
                f"(if({a}.k, {b}.a, {a}.u) {op} 1)",
            )
        )


# -- answers --------------------------------------------------------------------------------------


class Oracle:
    """DuckDB with the tables of one join at a time."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET error_on_division_by_zero = false")

    def __call__(self, join: Join) -> Counter:
        """The joined rows, with how often each occurs."""
        for name, table in join.tables.items():
            self.connection.register(f"{name}_raw", table)
            columns = [f"{f.name}::{_WIDE.get(f.name, 'HUGEINT')} AS {f.name}" for f in SCHEMA]
            self.connection.execute(
                f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT {', '.join(columns)} FROM {name}_raw"
            )
        text = sqlglot.transpile(join.bare if join.rows else join.sql, "spark", "duckdb")[0]
        found = [_plain(row) for row in self.connection.execute(text).fetchall()]
        if join.rows:
            window = rows_pairs(join)
            found = [row for row in found if row[:2] in window]
        return Counter(found)


_WIDE = {"ts": "TIMESTAMP", "d": "DECIMAL(18, 2)", "f": "DOUBLE", "s": "VARCHAR", "k": "BOOLEAN"}


def rows_pairs(join: Join) -> set[tuple[int, int]]:
    """Pairs that ROWS admit among the rows that pass WHERE, from the definition."""
    assert join.rows is not None
    _, _, where = join.bare.partition(" WHERE ")
    arrivals = []
    for place, side in enumerate("lr"):
        for row in join.tables[side].to_pylist():
            if not where.removeprefix("NOT ").startswith(side) or _keeps(where, row):
                arrivals.append((row["t"], place, row["id"]))
    arrivals.sort()
    seen: tuple[list[int], list[int]] = ([], [])
    pairs = set()
    for _, place, number in arrivals:
        for other in seen[1 - place][-join.rows[1 - place] :]:
            pairs.add((number, other) if place == 0 else (other, number))
        seen[place].append(number)
    return pairs


def _keeps(where: str, row: dict[str, Any]) -> bool:
    """The conditions that :meth:`Grammar.one_sided` draws."""
    test = where.replace("l.", "").replace("r.", "")
    if test == "a > 0":
        return row["a"] is not None and row["a"] > 0
    if test == "s IS NOT NULL":
        return row["s"] is not None
    return row["k"] is False if test == "NOT k" else row["u"] != 0


def _plain(row: Iterable[Any]) -> tuple:
    return tuple(int(v) if isinstance(v, Decimal) and v == int(v) else v for v in row)


def delivered(table: pa.Table) -> Counter:
    """Rows of a result, comparable to the oracle's."""
    return Counter(_plain(row.values()) for row in table.to_pylist())
