"""Random queries of ``tests.fuzz.twins``: joins, groups of them, and groups of one table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.fuzz.twin_tables import COLUMNS, TYPES

UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
#: By the kind of the tables' times: how far before and after a row another joins it, and an hour.
TIMES = {
    "timestamp": ("INTERVAL 90 MINUTES", "INTERVAL 2 HOURS", "'1 hour'"),
    "integer": ("5400", "7200", "3600"),
    "date": ("INTERVAL 1 DAY", "INTERVAL 2 DAYS", "'1 day'"),
}
SPANS = ("3 SECONDS", "90 MINUTES", "1 DAY", "36 HOURS", "2 WEEKS", "5 MICROSECONDS")
#: Ways to write a value of a kind: each with the kinds of what stands in it.
FORMS: dict[str, tuple[str, ...]] = {
    "int": (
        "({int} + {int})",
        "({int} - {int})",
        "window({int}, 10).end",
        "({int} * {int})",
        "({int} % {int})",
        "({int} DIV {int})",
        "(- {int})",
        "abs({int})",
        "pmod({int}, {int})",
        "least({int}, {int})",
        "greatest({int}, {int})",
        "nullif({int}, {int})",
        "({int} & {int})",
        "(~ {int})",
        "round({int}, -1)",
        "floor({float})",
        "ceil({decimal})",
        "CAST({bool} AS INT)",
        "CAST({int} AS BIGINT)",
        "CAST({decimal} AS BIGINT)",
        "CAST({float} AS INT)",
        "length({text})",
        "year({date})",
        "hour({instant})",
        "minute({clock})",
        "dayofweek({date})",
        "extract(MONTH FROM {clock})",
        "datediff({date}, {date})",
        "timestampdiff(UNIT, {clock}, {clock})",
        "timestampdiff(UNIT, {instant}, {instant})",
        "unix_seconds({instant})",
        "unix_millis({instant})",
        "unix_micros({instant})",
        "unix_timestamp({instant})",
        "CAST({instant} AS BIGINT)",
    ),
    "decimal": (
        "({decimal} + {decimal})",
        "({decimal} - {int})",
        "({decimal} * {decimal})",
        "({decimal} % {decimal})",
        "({decimal} / {decimal})",
        "(- {decimal})",
        "abs({decimal})",
        "round({decimal}, 1)",
        "least({decimal}, {decimal})",
        "greatest({decimal}, {int})",
        "CAST({int} AS DECIMAL(20, 2))",
        "CAST({decimal} AS DECIMAL(38, 4))",
        "CAST({float} AS DECIMAL(20, 4))",
    ),
    "float": (
        "({float} + {float})",
        "({float} - {int})",
        "({float} * {decimal})",
        "({int} / {int})",
        "({float} % {float})",
        "(- {float})",
        "abs({float})",
        "sqrt({float})",
        "round({float}, 2)",
        "least({float}, {float})",
        "greatest({float}, {float})",
        "nanvl({float}, {float})",
        "CAST({int} AS DOUBLE)",
        "CAST({decimal} AS FLOAT)",
        "CAST({float} AS FLOAT)",
        "pow({float}, 2)",
    ),
    "bool": (
        "({int} < {int})",
        "({int} = {decimal})",
        "({decimal} >= {decimal})",
        "({float} > {float})",
        "({float} <= {int})",
        "({text} = {text})",
        "({date} < {date})",
        "({clock} >= {clock})",
        "({instant} < {instant})",
        "({instant} <= {clock})",
        "({date} < {instant})",
        "({span} > {span})",
        "({float} <=> {float})",
        "({int} <> {int})",
        "({int} IN (0, 1, 7))",
        "({int} BETWEEN {int} AND {int})",
        "({int} IS NULL)",
        "({float} IS NOT NULL)",
        "isnan({float})",
        "({bool} AND {bool})",
        "({bool} OR {bool})",
        "(NOT {bool})",
        "({text} LIKE 'a%')",
    ),
    "text": ("lower({text})", "concat({text}, {text})"),
    "date": (
        "({date} + INTERVAL 3 DAYS)",
        "date_add({date}, 7)",
        "date_sub({date}, {int})",
        "CAST({clock} AS DATE)",
        "CAST({instant} AS DATE)",
        "last_day({date})",
    ),
    "clock": (
        "({clock} + INTERVAL SPAN)",
        "({clock} - INTERVAL SPAN)",
        "timestampadd(UNIT, 2, {clock})",
        "timestampadd(UNIT, {int}, {clock})",
        "CAST({date} AS TIMESTAMP_NTZ)",
        "CAST({instant} AS TIMESTAMP_NTZ)",
        "greatest({clock}, {clock})",
        "({clock} + {span})",
        "window({clock}, '10 minutes').end",
    ),
    "instant": (
        "({instant} + INTERVAL SPAN)",
        "({instant} - INTERVAL SPAN)",
        "date_trunc('UNIT', {instant})",
        "date_trunc('UNIT', {clock})",
        "timestampadd(UNIT, -1, {instant})",
        "CAST({date} AS TIMESTAMP)",
        "CAST({clock} AS TIMESTAMP)",
        "timestamp_seconds({int})",
        "least({instant}, {instant})",
        "({instant} - {span})",
        "window({instant}, '1 day').start",
    ),
    "span": (
        "({clock} - {clock})",
        "({instant} - {instant})",
        "({span} + {span})",
        "(- {span})",
        "abs({span})",
        "least({span}, {span})",
    ),
}
#: Of columns of one type, which may not hold the value.
EXACT = ("({COLUMN} + {COLUMN})", "({COLUMN} - {COLUMN})", "({COLUMN} * {COLUMN})")
LITERALS = {
    "int": ("0", "1", "-1", "7", "127", "255", "2147483647", "9223372036854775807", "NULL"),
    "decimal": ("0.5", "1.25", "-3.10", "99999999999.999"),
    "float": ("1e0", "-0.5e0", "1e10", "CAST('NaN' AS DOUBLE)"),
    "bool": ("TRUE", "FALSE", "NULL"),
    "text": ("'a'", "''", "'B'"),
    "date": ("DATE '2024-03-10'", "DATE '1969-12-31'"),
    "clock": ("TIMESTAMP_NTZ '2024-03-10 02:30:00'",),
    "instant": ("TIMESTAMP '2024-11-03 01:30:00'", "TIMESTAMP '1960-01-01 00:00:00Z'"),
    "span": ("INTERVAL 90 MINUTES",),
}
KINDS = tuple(FORMS)
_HOLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Value:
    """An expression: a form whose holes are filled by others."""

    kind: str
    form: str
    parts: tuple[Value, ...] = ()

    def __str__(self) -> str:
        parts = iter(self.parts)
        return _HOLE.sub(lambda _: str(next(parts)), self.form)

    def smaller(self) -> Iterator[Value]:
        for part in self.parts:
            yield from part.of_kind(self.kind)
        for place, part in enumerate(self.parts):
            for less in part.smaller():
                yield replace(self, parts=(*self.parts[:place], less, *self.parts[place + 1 :]))

    def of_kind(self, kind: str) -> Iterator[Value]:
        if self.kind == kind:
            yield self
        else:
            for part in self.parts:
                yield from part.of_kind(kind)


def random_value(rng: Random, kind: str, depth: int, tables: str) -> Value:
    if kind in TYPES:
        return Value(kind, f"{rng.choice(tables)}.{kind}")
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.2:
            return Value(kind, rng.choice(LITERALS[kind]))
        return Value(kind, f"{rng.choice(tables)}.{rng.choice(list(COLUMNS[kind]))}")
    same = f"{{{kind}}}"
    general = (
        f"CASE WHEN {{bool}} THEN {same} ELSE {same} END",
        f"CASE WHEN {{bool}} THEN {same} END",
        f"coalesce({same}, {same})",
        f"if({{bool}}, {same}, {same})",
    )
    form = rng.choice(FORMS[kind] if rng.random() < 0.75 else general)
    if kind in ("int", "decimal") and rng.random() < 0.3:
        form = rng.choice(EXACT).replace("COLUMN", rng.choice(list(COLUMNS[kind])))
    if "UNIT" in form:
        form = form.replace("UNIT", rng.choice(UNITS))
    form = form.replace("SPAN", rng.choice(SPANS))
    return filled(rng, kind, form, depth - 1, tables)


def filled(rng: Random, kind: str, form: str, depth: int, tables: str) -> Value:
    parts = [random_value(rng, hole, depth, tables) for hole in _HOLE.findall(form)]
    return Value(kind, form, tuple(parts))


AGGREGATES = (
    "count(*)",
    "count({any})",
    "sum({int})",
    "sum({decimal})",
    "avg({int})",
    "avg({decimal})",
    "sum({tame})",
    "avg({tame})",
    "min({ordered})",
    "max({ordered})",
    "min_by({any}, {one})",
    "max_by({any}, {one})",
    "count_if({bool})",
)
ORDERED = ("int", "decimal", "float", "date", "clock", "instant", "bool", "span")


def random_aggregate(rng: Random, tables: str, depth: int) -> Value:
    form = rng.choice(AGGREGATES)
    form = form.replace("{any}", f"{{{rng.choice(KINDS)}}}")
    form = form.replace("{ordered}", f"{{{rng.choice(ORDERED)}}}")
    form = form.replace("{tame}", f"{rng.choice(tables)}.g")
    ids = " + ".join(f"{20**place} * {name}.id" for place, name in enumerate(tables))
    form = form.replace("{one}", f"({ids})")
    if rng.random() < 0.25:
        form += " FILTER (WHERE {bool})"
    return filled(rng, "aggregate", form, depth, tables)


@dataclass(frozen=True)
class Query:
    """A query over tables a, b and c; the rows that it joins are in its ``source``."""

    tables: str
    join: str
    on: Value | None
    where: Value | None
    columns: tuple[tuple[str, Value], ...]
    keys: tuple[Value, ...] | None = None
    having: Value | None = None
    time: str = "timestamp"

    @property
    def is_grouped(self) -> bool:
        return self.keys is not None

    @property
    def is_streamed(self) -> bool:
        return self.is_unique or any("window(a.t," in str(key) for key in self.keys or ())

    @property
    def can_stream(self) -> bool:
        return len(self.tables) < 3 and (not self.is_grouped or self.is_streamed)

    @property
    def is_unique(self) -> bool:
        return "a.id" in map(str, self.keys or ())

    @property
    def has_windows(self) -> bool:
        """Whether an expression leaves rows out, those that are in no window."""
        return "window(" in self.text(where=None).replace("window(a.t,", "")

    @property
    def is_split(self) -> bool:
        return self.where is not None and "window(" not in str(self.where)

    @property
    def has_ids(self) -> bool:
        texts = {str(value) for _, value in self.columns}
        return {f"{table}.id" for table in self.tables} <= texts

    @property
    def is_over(self) -> bool:
        simple = not any("FILTER" in str(v) or "_by" in str(v) for _, v in self.columns)
        keys = set(map(str, self.keys or ()))
        selected = {str(value) for _, value in self.columns}
        return bool(keys) and keys <= selected and simple and self.having is None

    def source(self) -> str:
        text = "a"
        before, after, _ = TIMES[self.time]
        for table in self.tables[1:]:
            on = f" AND {self.on}" if self.on is not None and table == self.tables[-1] else ""
            text += (
                f" {self.join} {table} ON {table}.t BETWEEN a.t - {before} AND a.t + {after}{on}"
            )
        return text

    def text(self, where: object = ..., extra: str | None = None, distinct: bool = False) -> str:
        condition = self.where if where is ... else where
        columns = [f"{value} AS {name}" for name, value in self.columns]
        if extra is not None:
            columns.append(f"{extra} AS extra")
        text = f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(columns)} FROM {self.source()}"
        if condition is not None:
            text += f" WHERE {condition}"
        return text + self._groups()

    def _groups(self) -> str:
        text = f" GROUP BY {', '.join(map(str, self.keys))}" if self.keys else ""
        return text + (f" HAVING {self.having}" if self.having is not None else "")

    def above(self) -> str:
        """The query over a subquery that gives the columns it reads."""
        columns = [f"{value} AS {name}" for name, value in self.columns]
        outer = f"SELECT {', '.join(columns)} FROM (INNER) x"
        if self.where is not None:
            outer += f" WHERE {self.where}"
        outer += self._groups()
        names = sorted(set(_COLUMN.findall(outer))) or [("a", "id")]
        inner = ", ".join(f"{table}.{name} AS {table}_{name}" for table, name in names)
        outer = _COLUMN.sub(r"x.\1_\2", outer)
        return outer.replace("INNER", f"SELECT {inner} FROM {self.source()}")

    def over(self) -> str:
        """Groups as window functions of which one row per key is kept."""
        keys = ", ".join(map(str, self.keys or ()))
        columns = [
            f"{value} OVER (PARTITION BY {keys}) AS {name}"
            if value.kind == "aggregate"
            else f"{value} AS {name}"
            for name, value in self.columns
        ]
        text = f"SELECT DISTINCT {', '.join(columns)} FROM {self.source()}"
        return text + (f" WHERE {self.where}" if self.where is not None else "")

    def used(self) -> set[str]:
        """Names of the columns that are read."""
        return {name for _, name in _COLUMN.findall(self.text())}


_COLUMN = re.compile(r"\b([abc])\.(\w+)\b")


def random_query(rng: Random) -> Query:
    tables = rng.choice(["a", "ab", "ab", "ab", "ab", "abc"])
    join = rng.choice(["JOIN", "JOIN", "LEFT JOIN"]) if tables == "ab" else "JOIN"
    depth = rng.choice([1, 1, 2, 3])
    time = rng.choice(["timestamp", "timestamp", *TIMES])

    def value(kind: str) -> Value:
        return random_value(rng, kind, depth, tables)

    on = value("bool") if len(tables) > 1 and rng.random() < 0.2 else None
    where = value("bool") if join == "JOIN" and rng.random() < 0.5 else None
    if tables == "a" or rng.random() < 0.5:
        query = Query(tables, join, on, where, (), time=time)
        return _groups(rng, query, depth)
    kinds = (*KINDS, "int", "int", "decimal", "instant", "instant")
    columns = [value(rng.choice(kinds)) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.5:
        columns += [Value("int", f"{table}.id") for table in tables]
    return Query(tables, join, on, where, _named(columns), time=time)


def _named(columns: list[Value]) -> tuple[tuple[str, Value], ...]:
    return tuple((f"v{place}", column) for place, column in enumerate(columns))


def _groups(rng: Random, query: Query, depth: int) -> Query:
    tables = query.tables
    time = Value("key", f"window(a.t, {TIMES[query.time][-1]}).start")
    choices = [[], [Value("key", "a.id")], [time], [time, Value("key", "a.s")]]
    kind = rng.choice([kind for kind in KINDS if kind != "span"])
    choices += [[replace(random_value(rng, kind, depth, tables[:2]), kind="key")]] * 2
    keys = tuple(key for key in rng.choice(choices) if _COLUMN.search(str(key)))
    columns = [*keys]
    columns += [random_aggregate(rng, tables, depth - 1) for _ in range(rng.randint(1, 3))]
    having = None
    if rng.random() < 0.2:
        having = Value("bool", rng.choice(["count(*) > 1", "min(a.i32) < 5", "max(a.n2) >= 1.25"]))
    return replace(query, columns=_named(columns), keys=keys, having=having)


def smaller(query: Query) -> Iterator[Query]:
    """Queries with a column, a condition or a part of an expression less."""
    for name in ("on", "where", "having"):
        value = getattr(query, name)
        if value is not None:
            yield replace(query, **{name: None})
    if len(query.tables) == 3:
        yield replace(query, tables="ab")
    if query.join != "JOIN":
        yield replace(query, join="JOIN")
    for place, (name, value) in enumerate(query.columns):
        rest = query.columns[:place], query.columns[place + 1 :]
        if len(query.columns) > 1:
            yield replace(query, columns=(*rest[0], *rest[1]))
        for less in value.smaller():
            if value.kind != "key":
                yield replace(query, columns=(*rest[0], (name, less), *rest[1]))
    if query.keys:
        yield replace(query, keys=query.keys[1:])
        yield replace(query, keys=(), columns=query.columns[-1:])
    for name in ("on", "where", "having"):
        value = getattr(query, name)
        if value is not None:
            for less in value.smaller():
                yield replace(query, **{name: less})
