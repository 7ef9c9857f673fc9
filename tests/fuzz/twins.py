"""Queries and their twins, which give the same rows: ``python -m tests.fuzz --twins 1000``.

A random query over two or three tables with columns of every type is asked as it is, and as twins:
sorted, as a subquery, under UNION ALL with nothing, with its expressions above a subquery, its
predicate split in three, as a stream, and so on. A twin has the same rows in any order and the same
Arrow types, or is refused as the query is. What differs is shrunk and printed as a script.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial
from itertools import zip_longest
from random import Random
from time import monotonic
from typing import Any

import pyarrow as pa

import penstock
from penstock.errors import DataError, PenstockError
from penstock.host.workers import Workers
from tests.fuzz.twin_queries import TIMES, Query, random_query, smaller
from tests.fuzz.twin_tables import literal, random_tables
from tests.penstock.kit.devices import InterpretingCpu

#: Digits in which floats may differ where they are added up in another order.
DIGITS = 9
#: Said of values that are computed before a join in one form, and behind it, or by DuckDB, in the
#: other: in rows that join nothing, or that are counted only.
_BESIDE = ("cast to a wider type", "not a finite number", "is beyond", "needs more than")
#: Parts of messages that state a limit of docs/joins/sql.md, by the twin that may meet it.
LIMITS = {
    "above": (*_BESIDE, "casts a value computed from both sides", "is read in the time zone"),
    "extra column": _BESIDE,
    "OVER": _BESIDE,
    "stream": (*_BESIDE, "orders numbers, dates and times"),
    # Of rows that a predicate does not take, it is not computed.
    "split predicate": (
        *("cannot be computed", "overflows", "64 bits", "not a finite number"),
        "is read in the time zone",
    ),
    "predicate as a column": ("cannot be computed", "overflows", "64 bits"),
    "two workers": ("workers= is not for a query without", "CAST of text"),
    # Of decimals of 38 digits; in SQL around joins, which is Spark's; and what that takes, too.
    "spark": (
        *(*_BESIDE, "rounded half up", "Multiple time/session window", 'has the type "VOID"'),
        *("round does not take float32", "timestamp_seconds takes a whole"),
        "a whole number and a timestamp",
        # Spark's functions of its own types: docs/spark/tables.md, Types.
        *('Cannot resolve "window(', 'Cannot resolve "date_add('),
        'The value NaN of the type "DOUBLE" cannot be cast',
    ),
    "workers": (
        *("workers= is not for a query without", "nothing by DuckDB", "CAST of text"),
        *("and these are complete with each row", "WHERE tests"),
    ),
}
#: Rows that are printed of an answer.
MOST_ROWS = 6
#: Queries asked at most to shrink a finding.
MOST_TRIES = 100


@dataclass(frozen=True)
class Answer:
    """Rows and their schema, or the error instead of them."""

    schema: pa.Schema | None
    rows: tuple[tuple[Any, ...], ...] = ()
    error: Exception | None = None

    @property
    def is_ours(self) -> bool:
        """Whether there are rows, or an error that speaks of the query, not of its translation."""
        if self.error is None:
            return True
        text = str(self.error)
        return isinstance(self.error, PenstockError) and not any(
            part in text for part in ("Parser Error", "Binder Error", "Catalog Error", "INTERNAL")
        )

    def __str__(self) -> str:
        if self.error is not None:
            return f"{type(self.error).__name__}: {self.error}"
        assert self.schema is not None
        types = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"{types}\n" + "\n".join(
            f"  {row}" for row in sorted(self.rows, key=_order)[:MOST_ROWS]
        )


@dataclass(frozen=True)
class Case:
    """A query, its tables and the zone in which it is asked."""

    query: Query
    tables: dict[str, pa.Table]
    zone: str | None
    seed: int
    ansi: bool = False

    @property
    def options(self) -> dict[str, Any]:
        time = dict.fromkeys(self.query.tables, "t")
        return {"time": time, "time_zone": self.zone, "ansi": self.ansi}

    def ask(self, text: str, **options: Any) -> pa.Table:
        given = {name: self.tables[name] for name in self.query.tables}
        return penstock.sql(text, given, **{**self.options, **self._device, **options})

    @property
    def _device(self) -> dict[str, Any]:
        return {"device": _cpu()} if len(self.query.tables) > 1 else {}

    def stream(self, text: str, rank: Workers | None = None, **others: Any) -> pa.Table:
        """The rows of a stream that gets each table in batches, by turns and out of order.

        A rank pushes its share of the batches, under a feed of its name.
        """
        rng = Random(self.seed)
        names = self.query.tables
        schemas = {name: self.tables[name].schema for name in names}
        unique = {"a": "id"} if self.query.is_unique else None
        options: dict[str, Any] = (
            {} if self.query.is_unique and len(names) == 1 else {"disorder": _ALL[self.query.time]}
        )
        options |= {**self.options, **self._device, **others}
        stream = penstock.stream(text, schemas, unique=unique, **options)
        feed = {} if rank is None else {"feed": f"feed {rank.rank}"}
        with stream:
            for name in names if feed else ():
                stream.register(name, **feed)
            pieces = [(name, at) for name in names for at in range(self.tables[name].num_rows)]
            rng.shuffle(pieces)
            polled: list[pa.Table] = []
            while pieces:
                name = pieces[0][0]
                size = rng.randint(1, 4)
                rows = [at for other, at in pieces if other == name][:size]
                pieces = [piece for piece in pieces if piece not in {(name, at) for at in rows}]
                if rank is None or rng.randrange(rank.size) == rank.rank:
                    stream.push(name, self.tables[name].take(rows), **feed)
                if rank is None and rng.random() < 0.3:
                    polled.append(stream.poll())
            return pa.concat_tables([*polled, stream.close()])


@cache
def _cpu() -> InterpretingCpu:
    """A device that compiles nothing, since each query is asked a few times only."""
    return InterpretingCpu()


_ALL = dict.fromkeys(TIMES, timedelta(days=200_000)) | {"integer": 100_000}

Twin = Callable[[Case], pa.Table]
#: The name of a pair, and its two ways to ask.
Pair = tuple[str, Twin, Twin]


def answered(twin: Twin, case: Case) -> Answer:
    """The answer of a way to ask; that of the query itself is kept for its other twins."""
    if twin is not plain:
        return _asked(twin, case)
    if _LATEST.get("case") is not case:
        _LATEST.update(case=case, answer=_asked(twin, case))
    answer: Answer = _LATEST["answer"]
    return answer


_LATEST: dict[str, Any] = {}


def _asked(twin: Twin, case: Case) -> Answer:
    try:
        table = twin(case)
    except Exception as error:  # whatever it is, it is judged
        return Answer(None, error=error)
    columns = [_values(column) for column in table.columns]
    return Answer(table.schema, tuple(zip(*columns, strict=True)))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Values that compare: times as integers, NaN as a word."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_date64(kind):
        column = column.cast(pa.int64())
    if pa.types.is_date32(kind):  # it may be beyond Python's years
        column = column.cast(pa.int32())
    return [
        "NaN" if isinstance(value, float) and math.isnan(value) else value
        for value in column.to_pylist()
    ]


def _order(row: tuple[Any, ...]) -> list[tuple[str, str]]:
    """Sorts rows so that floats which differ in their last digits alone do not matter much."""
    coarse = [f"{v:.6e}" if isinstance(v, float) else str(v) for v in row]
    return [(type(v).__name__, text) for v, text in zip(row, coarse, strict=True)]


def _same(a: tuple[tuple[Any, ...], ...], b: tuple[tuple[Any, ...], ...]) -> bool:
    if Counter(a) == Counter(b):
        return True
    return len(a) == len(b) and all(
        _close(x, y)
        for left, right in zip(sorted(a, key=_order), sorted(b, key=_order), strict=True)
        for x, y in zip(left, right, strict=True)
    )


def _close(x: Any, y: Any) -> bool:
    if isinstance(x, float) and isinstance(y, float):
        return math.isclose(x, y, rel_tol=10**-DIGITS)
    return bool(x == y and type(x) is type(y))


def plain(case: Case) -> pa.Table:
    """The query as it is."""
    return case.ask(case.query.text())


def around(form: str, case: Case) -> pa.Table:
    """The query with something around it."""
    return case.ask(form.format(case.query.text()))


def _extra(case: Case) -> pa.Table:
    """Beside a column that no device computes."""
    query = case.query
    column = "count(DISTINCT 1)" if query.is_grouped else "row_number() OVER (ORDER BY a.id)"
    table = case.ask(query.text(extra=column))
    return table.drop_columns(["extra"])


def _distinct(case: Case) -> pa.Table:
    """With DISTINCT, which changes nothing beside the tables' ids."""
    return case.ask(case.query.text(distinct=case.query.has_ids))


def _split(case: Case) -> pa.Table:
    """Rows where the predicate is TRUE, FALSE and NULL."""
    predicate = case.query.where
    assert predicate is not None
    parts = [f"{predicate}", f"NOT ({predicate})", f"({predicate}) IS NULL"]
    return pa.concat_tables([case.ask(case.query.text(where=part)) for part in parts])


def _alone(place: int, case: Case) -> pa.Table:
    """A column of the query without the others."""
    return case.ask(replace(case.query, columns=(case.query.columns[place],)).text())


def _predicates(case: Case) -> pa.Table:
    """The rows where the predicate, selected as a column above, is TRUE."""
    query = case.query
    names = ", ".join(f"x.{name}" for name, _ in query.columns)
    return case.ask(
        f"SELECT {names} FROM ({query.text(where=None, extra=str(query.where))}) x WHERE x.extra"
    )


def pairs(query: Query, rng: Random) -> Iterator[Pair]:
    """Pairs of ways to ask a query that give the same, each with its name."""
    yield "ORDER BY", plain, partial(around, "{} ORDER BY 1")
    yield "subquery", plain, partial(around, "SELECT * FROM ({}) x")
    yield "LIMIT", plain, partial(around, "{} LIMIT 100000")
    nothing = "SELECT * FROM ({0}) x UNION ALL SELECT * FROM ({0}) y WHERE 1 = 0"
    yield "UNION ALL", plain, partial(around, nothing)
    yield "extra column", plain, _extra
    yield "above", plain, lambda case: case.ask(case.query.above())
    yield "WITH", plain, partial(around, "WITH q AS ({}) SELECT * FROM q")
    if not query.is_grouped:
        if query.has_ids:
            yield "DISTINCT", plain, _distinct
        if query.is_split:
            yield "split predicate", lambda case: case.ask(case.query.text(where=None)), _split
            yield "predicate as a column", plain, _predicates
    elif query.is_over:
        yield "OVER", plain, lambda case: case.ask(case.query.over())
    if len(query.tables) == 1:
        yield "two workers", plain, lambda case: case.ask(case.query.text(), workers=2)
    if query.can_stream:
        yield "stream", plain, lambda case: case.stream(case.query.text())
    # Of rows with equal values, either may be first.
    first = replace(query, columns=query.columns[:1]).text()
    yield (
        "NULLS FIRST",
        *(
            partial(lambda text, case: case.ask(text), f"{first} ORDER BY 1{nulls} LIMIT 2")
            for nulls in ("", " NULLS FIRST")
        ),
    )
    if len(query.columns) > 1 and not query.has_windows:
        place = rng.randrange(len(query.columns))
        yield f"column {place} alone", lambda c: plain(c).select([place]), partial(_alone, place)


@dataclass(frozen=True)
class Difference:
    """How two ways to ask differ; those with one ``sort`` are likely to have one cause."""

    what: str
    sort: str
    plain: Answer
    twin: Answer


def difference(case: Case, name: str, one: Twin, other: Twin) -> Difference | None:
    """How two ways to ask differ, or None if they do not."""
    a, b = answered(one, case), answered(other, case)
    for answer in (a, b):
        if not answer.is_ours:
            return Difference("crash", _spirit(answer.error), a, b)
    if a.error is not None and (b.error is not None or "column" in name):
        return None
    if a.error is not None or b.error is not None:
        error = a.error or b.error
        if any(part in str(error) for part in LIMITS.get(name, ())):
            return None
        what = "fails" if isinstance(error, DataError) else "refused"
        return Difference(what, _spirit(error), a, b)
    types = _types(a.schema), _types(b.schema)
    if types[0] != types[1]:
        differ = sorted({f"{x} {y}" for x, y in zip_longest(*types) if x != y})
        return Difference("types", " ".join(differ), a, b)
    assert a.schema is not None
    assert b.schema is not None
    if _same(a.rows, b.rows):
        zones = Counter(a.schema.types) == Counter(b.schema.types)
        return None if zones else Difference("zones", "", a, b)
    places = [
        place
        for place in range(len(types[0]))
        if not _same(tuple((r[place],) for r in a.rows), tuple((r[place],) for r in b.rows))
    ]
    wrong = sorted({f"{types[0][place]}" for place in places})
    kind = "groups" if case.query.is_grouped else "pairs"
    return Difference("rows", f"{name} of {kind}: {' '.join(wrong)}", a, b)


def _spirit(error: Exception | None) -> str:
    """An error without what it says of this query."""
    text = re.sub(r"\(at line.*", "", str(error), flags=re.DOTALL)
    return f"{type(error).__name__} {re.sub(r'[^a-z ]', '', text)[:90]}"


def _types(schema: pa.Schema | None) -> list[str]:
    assert schema is not None
    return [re.sub(", tz=[^]]*", "", f"{field.type}") for field in schema]


def shrink(case: Case, name: str, one: Twin, other: Twin, sort: str) -> Case:
    """A smaller case that differs in the same way."""
    tries = 0
    shrunk = True
    while shrunk and tries < MOST_TRIES:
        shrunk = False
        for less in _smaller(case):
            tries += 1
            if tries > MOST_TRIES:
                break
            found = difference(less, name, one, other)
            if found is not None and found.sort == sort:
                case, shrunk = less, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    for query in smaller(case.query):
        yield replace(case, query=query)
    for name in case.query.tables:
        table = case.tables[name]
        for size in {table.num_rows // 2, 1} if table.num_rows > 1 else ():
            for first in range(0, table.num_rows, size):
                kept = table.slice(0, first), table.slice(first + size)
                yield replace(case, tables={**case.tables, name: pa.concat_tables(kept)})
                yield replace(case, tables={**case.tables, name: table.slice(first, size)})
    if case.zone is not None:
        yield replace(case, zone=None)


def random_case(seed: int) -> Case:
    rng = Random(seed)
    zone = rng.choice([None, "America/New_York", "America/New_York", "UTC"])
    query = random_query(rng)
    return Case(query, random_tables(rng, query.time), zone, seed, rng.random() < 0.2)


def findings(
    seed: int,
    sorts: Counter[str],
    most: int | None = None,
    place: Callable[[Case], tuple[Case, Pair] | None] | None = None,
) -> Iterator[str]:
    """For each pair of a seed what is wrong, or nothing; the first of a sort is shrunk."""
    case = random_case(seed)
    if place is None:
        chosen = list(pairs(case.query, Random(seed)))
    else:
        at = place(case)
        case, chosen = (case, []) if at is None else (at[0], [at[1]])
    if most is not None:
        chosen = Random(seed).sample(chosen, min(most, len(chosen)))
    for name, one, other in chosen:
        if not answered(plain, case).is_ours and name != chosen[0][0]:
            return
        differ = difference(case, name, one, other)
        if differ is None:
            yield ""
            continue
        sort = f"{differ.what} {differ.sort}"
        sorts[sort] += 1
        if sorts[sort] > 1:
            yield f"as before: {sort}"
            continue
        less = case if place or "column" in name else shrink(case, name, one, other, differ.sort)
        yield _shown(less, name, difference(less, name, one, other) or differ)


def _shown(case: Case, name: str, differ: Difference) -> str:
    """A script of a finding, with both answers behind it."""
    names = case.query.tables
    used = {"id", "t", *case.query.used()}
    lines = [f"# seed {case.seed}, {name}: {differ.what}, {differ.sort}"]
    for table in names:
        kept = case.tables[table]
        kept = kept.select([column for column in kept.column_names if column in used])
        lines.append(f"{table} = {literal(kept)}")
    tables = "{" + ", ".join(f'"{table}": {table}' for table in names) + "}"
    options = ", ".join(f"{name}={value!r}" for name, value in case.options.items())
    lines.append(f'penstock.sql("""{case.query.text()}""", {tables}, {options})')
    lines += [f"# {line}" for line in f"plain: {differ.plain}\n{name}: {differ.twin}".splitlines()]
    return "\n".join(lines)


def campaign(first: int, seconds: float, *chosen: Any) -> Iterator[tuple[int, list[str]]]:
    """Seeds from ``first`` on until the time is over, each with what its pairs say."""
    end = monotonic() + seconds
    sorts: Counter[str] = Counter()
    seed = first
    while monotonic() < end:
        yield seed, list(findings(seed, sorts, *chosen))
        seed += 1
