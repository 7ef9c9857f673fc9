"""Random lookup joins, and what they must give: brute force in Python, and DuckDB.

Written from the description of lookup joins alone, without a look at how they are done.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import reject
from hypothesis import strategies as st

import penstock
from penstock.errors import UsageError
from penstock.host.relation import FolderRelation, RelationOptions, build
from tests.host.relation.model import Model, row_list

ALGORITHMS = ("auto", "meshjoin", "hybridjoin", "cachejoin", "d-cachejoin")

NAN = float("nan")


@dataclass(frozen=True)
class Kind:
    """A column of a key.

    Parameters
    ----------
    stored, given : DataType
        In the relation, and in the stream.
    values : sequence
    sought : sequence of (SQL over ``{}``, function of the value)
        What the stream looks up; plain by default.
    duck : bool
        Whether DuckDB has the type.
    """

    stored: pa.DataType
    given: pa.DataType
    values: Sequence[Any]
    sought: Sequence[tuple[str, Callable[[Any], Any]]] = (("{}", lambda v: v),)
    duck: bool = True


PLAIN: tuple[tuple[str, Callable[[Any], Any]], ...] = (("{}", lambda v: v),)
COMPUTED = (
    *PLAIN,
    ("{} + 1", lambda v: None if v is None else v + 1),
    ("2 - {}", lambda v: None if v is None else 2 - v),
    ("abs({})", lambda v: None if v is None else abs(v)),
    ("coalesce({}, 3)", lambda v: 3 if v is None else v),
    ("3", lambda v: 3),
)
SMALL = (-2, -1, 0, 1, 2, 3, 4, 5)
UNSIGNED = (0, 1, 2, 3, 4, 5)
KINDS = {
    "int8": Kind(pa.int8(), pa.int64(), (*SMALL, -128, 127), COMPUTED),
    "int16": Kind(pa.int16(), pa.int8(), SMALL, COMPUTED),
    "int32": Kind(pa.int32(), pa.int32(), (*SMALL, 2**31 - 1, -(2**31)), COMPUTED),
    "int64": Kind(pa.int64(), pa.int64(), (*SMALL, 2**63 - 1, -(2**63)), COMPUTED),
    "narrow": Kind(pa.int64(), pa.uint16(), UNSIGNED, COMPUTED),
    "uint8": Kind(pa.uint8(), pa.int16(), (*UNSIGNED, 127), COMPUTED),
    "uint32": Kind(pa.uint32(), pa.int64(), (*UNSIGNED, 2**32 - 1), COMPUTED),
    "uint64": Kind(pa.uint64(), pa.uint64(), (*UNSIGNED, 2**64 - 1, 2**63), COMPUTED),
    "mixed": Kind(pa.uint64(), pa.int64(), (*UNSIGNED, 2**63 - 1), COMPUTED),
    "decimal": Kind(
        pa.decimal128(12, 2), pa.decimal128(18, 2), [Decimal(n) / 4 for n in range(-3, 4)]
    ),
    "wide": Kind(
        pa.decimal128(38, 0), pa.decimal128(38, 0), [Decimal(n * 10**30) for n in range(-3, 3)]
    ),
    "wider": Kind(
        pa.decimal256(60, 0),
        pa.decimal256(60, 0),
        [Decimal(n) * Decimal(10) ** 25 for n in range(-3, 3)],
        duck=False,
    ),
    "text": Kind(pa.string(), pa.large_string(), ["", "a", "b", "ab", "a" * 9, "ä", "a\0"]),
    "words": Kind(pa.large_string(), pa.dictionary(pa.int8(), pa.string()), ["", "a", "b" * 40]),
    "binary": Kind(pa.binary(), pa.binary(), [b"", b"\0", b"\0\0", b"x", b"x" * 8 + b"\0"]),
    "date": Kind(pa.date32(), pa.date32(), [date(1970, 1, n) for n in range(1, 7)]),
    "time": Kind(
        pa.timestamp("us"),
        pa.timestamp("us"),
        [datetime(1969, 12, 31, 23, 59, 59, n) for n in range(999_995, 1_000_000)]
        + [datetime(2024, 1, 1)],
    ),
    "float": Kind(
        pa.float64(), pa.float64(), [0.0, -0.0, 1.5, NAN, math.inf, -math.inf, 5e-324, -2.0]
    ),
    "single": Kind(pa.float32(), pa.float32(), [0.0, -0.0, 1.5, NAN, math.inf, -2.0]),
    "bool": Kind(pa.bool_(), pa.bool_(), [False, True]),
}


def _less(a: Any, b: Any) -> bool:
    """Order of floats: NaN is above everything, and equal to NaN."""
    if a == "NaN":
        return False
    return b == "NaN" or a < b


def _three(*values: Any) -> bool:
    return None in values


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


#: Conditions beside the key: SQL, and the same of a stream's and a relation's row, None for NULL.
REST: Sequence[tuple[str, Callable[[dict, dict], bool | None]]] = (
    ("TRUE", lambda o, c: True),
    ("o.w >= c.v", lambda o, c: None if _three(o["w"], c["v"]) else o["w"] >= c["v"]),
    (
        "c.v BETWEEN o.w - 1 AND o.w + 2",
        lambda o, c: None if _three(o["w"], c["v"]) else o["w"] - 1 <= c["v"] <= o["w"] + 2,
    ),
    ("c.v + o.w < 3", lambda o, c: None if _three(o["w"], c["v"]) else o["w"] + c["v"] < 3),
    (
        "abs(o.w - c.v) <= 1",
        lambda o, c: None if _three(o["w"], c["v"]) else abs(o["w"] - c["v"]) <= 1,
    ),
    ("c.name LIKE 'a%'", lambda o, c: None if _three(c["name"]) else c["name"].startswith("a")),
    ("o.name LIKE 'a%'", lambda o, c: None if _three(o["name"]) else o["name"].startswith("a")),
    (
        "o.name = c.name",
        lambda o, c: None if _three(o["name"], c["name"]) else o["name"] == c["name"],
    ),
    ("c.f <= o.f", lambda o, c: None if _three(o["f"], c["f"]) else not _less(o["f"], c["f"])),
    ("c.v IS NULL", lambda o, c: c["v"] is None),
    ("o.w > 0", lambda o, c: None if o["w"] is None else o["w"] > 0),
    ("c.v > 0", lambda o, c: None if c["v"] is None else c["v"] > 0),
    (
        "(o.w IS NULL OR c.v <> o.w)",
        lambda o, c: o["w"] is None or (None if c["v"] is None else c["v"] != o["w"]),
    ),
    ("NOT (o.w = c.v)", lambda o, c: None if _three(o["w"], c["v"]) else o["w"] != c["v"]),
    ("c.v IN (1, 2, NULL)", lambda o, c: _in(c["v"], (1, 2, None))),
    ("FALSE", lambda o, c: False),
)


def _in(value: Any, among: Sequence[Any]) -> bool | None:
    if value is None:
        return None
    if value in among:
        return True
    return None if None in among else False


JOINS = ("inner", "comma", "left", "right", "swapped", "semi", "anti", "groups", "distinct")
#: Where the relation's rows come from in FROM.
FROMS = {
    "table": "customers c",
    "filtered": "(SELECT * FROM customers WHERE v > 0) c",
    "renamed": "(SELECT {keys}, rid, v + 0 AS v, f, name, payload FROM customers) c",
}


@dataclass(frozen=True)
class Query:
    join: str
    source: str
    keys: tuple[tuple[str, Callable[[Any], Any]], ...]
    rest: tuple[int, ...]
    #: A condition of WHERE on the stream.
    where: bool
    is_mirrored: bool

    def sql(self, *, duck: bool = False) -> str:
        conditions = []
        renamed = self.source == "renamed"
        for n, (text, _) in enumerate(self.keys):
            own = f"c.a{n}" if renamed else f"c.k{n}"
            given = text.format(f"o.k{n}::HUGEINT" if duck and text != "{}" else f"o.k{n}")
            if text == "3":
                given = text
            sides = [own, given] if self.is_mirrored else [given, own]
            conditions.append(" = ".join(sides))
        conditions += [REST[k][0] for k in self.rest]
        if self.is_mirrored:
            conditions.reverse()
        on = " AND ".join(conditions)
        keys = ", ".join(f"k{n} AS a{n}" for n in range(len(self.keys)))
        relation = FROMS[self.source].format(keys=keys)
        where = "o.w < 4" if self.where else ""
        both = "o.id, o.w, c.rid, c.v, c.payload"
        semi, anti = ("SEMI", "ANTI") if duck else ("LEFT SEMI", "LEFT ANTI")
        text = {
            "inner": f"SELECT {both} FROM orders o JOIN {relation} ON {on}",
            "comma": f"SELECT {both} FROM orders o, {relation} WHERE {on}",
            "left": f"SELECT {both} FROM orders o LEFT JOIN {relation} ON {on}",
            "right": f"SELECT {both} FROM {relation} RIGHT JOIN orders o ON {on}",
            "swapped": f"SELECT {both} FROM {relation} JOIN orders o ON {on}",
            "semi": f"SELECT o.id, o.w FROM orders o {semi} JOIN {relation} ON {on}",
            "anti": f"SELECT o.id, o.w FROM orders o {anti} JOIN {relation} ON {on}",
            "groups": "SELECT o.id, count(*) AS n, sum(c.v) AS s, max(c.rid) AS m, count(c.v) AS k "
            f"FROM orders o JOIN {relation} ON {on}",
            "distinct": f"SELECT DISTINCT o.id FROM orders o JOIN {relation} ON {on}",
        }[self.join]
        if where:
            text += f" AND {where}" if self.join == "comma" else f" WHERE {where}"
        return text + (" GROUP BY o.id" if self.join == "groups" else "")

    def rows(self, stream: Sequence[dict], relation: Sequence[dict]) -> Counter:
        """What comes out, by brute force."""
        out: Counter = Counter()
        rows = [c for c in relation if self.source != "filtered" or (c["v"] or 0) > 0]
        for o in stream:
            if self.where and not (o["w"] is not None and o["w"] < 4):
                continue
            found = [c for c in rows if self._matches(o, c)]
            out.update(self._given(o, found))
        return out

    def _matches(self, o: dict, c: dict) -> bool:
        for n, (_, sought) in enumerate(self.keys):
            given, own = sought(o[f"k{n}"]), c[f"k{n}"]
            if given is None or own is None or given != own:
                return False
        return all(REST[k][1](o, c) for k in self.rest)

    def _given(self, o: dict, found: list[dict]) -> list[tuple]:
        if self.join in ("semi", "anti"):
            return [(o["id"], o["w"])] * (bool(found) == (self.join == "semi"))
        if self.join == "distinct":
            return [(o["id"],)] * bool(found)
        if self.join == "groups":
            known = [c["v"] for c in found if c["v"] is not None]
            total = sum(known) if known else None
            group = (o["id"], len(found), total, max((c["rid"] for c in found), default=0))
            return [(*group, len(known))] * bool(found)
        pairs = [(o["id"], o["w"], c["rid"], c["v"], c["payload"]) for c in found]
        if not pairs and self.join in ("left", "right"):
            return [(o["id"], o["w"], None, None, None)]
        return pairs

    @property
    def unique(self) -> dict[str, str] | None:
        return {"o": "id"} if self.join in ("groups", "distinct") else None


@dataclass(frozen=True)
class Change:
    """A change of the relation between two pushes."""

    how: str
    rows: pa.Table | None = None
    deletes: pa.Table | None = None


@dataclass(frozen=True)
class Case:
    kinds: tuple[str, ...]
    query: Query
    relation: pa.Table
    stream: pa.Table
    #: Changes of the relation, and numbers of rows that are pushed, in their order.
    steps: tuple[Change | int, ...]
    algorithm: str
    hash: str
    page_bytes: int
    #: 0 for the default; else this many times the least memory, in eighths.
    memory: int
    refresh: str
    latency_s: float
    keys: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(f"k{n}" for n in range(len(self.kinds))))

    @property
    def in_duck(self) -> bool:
        return all(KINDS[kind].duck for kind in self.kinds)

    def build(self, location: str) -> FolderRelation:
        options = RelationOptions(key=self.keys, page_bytes=self.page_bytes, hash=self.hash)
        return build(self.relation, location, options)

    def source(self, location: str) -> Any:
        return penstock.relation(location, refresh=self.refresh, algorithm=self.algorithm)


def dicts(rows: pa.Table | Counter, names: Sequence[str]) -> list[dict]:
    plain = row_list(rows) if isinstance(rows, pa.Table) else list(rows.elements())
    return [dict(zip(names, row, strict=True)) for row in plain]


def apply(case: Case, change: Change, relation: FolderRelation, model: Model) -> None:
    """Change the relation and its model."""
    if change.how == "compact":
        after = relation.compact()
    elif change.how == "vacuum":
        relation.vacuum(keep=50)
        return
    elif change.how == "append":
        after = relation.append(change.rows, compact=False)
        model.append(change.rows)
    else:
        after = relation.update(change.rows, change.deletes, compact=False)
        model.update(change.rows, change.deletes)
    if change.how == "compact" and after == len(model.versions):
        model.versions.append(model.newest)
    del model.versions[after + 1 :]  # a change that changes nothing makes no version


LEAST = re.compile(r"needs ([\d,]+) at least")
#: For the indexes of the versions to come.
ROOM = 1 << 14
#: What is not there yet; such cases count once it is.
UNBUILT = "the scan path is not built yet"


def memory_of(case: Case, ask: Callable[[int], Any]) -> int | None:
    """The memory of a case: found from what the refusal of too little says."""
    if not case.memory:
        return None
    with pytest.raises(UsageError) as refusal:
        ask(1)
    message = str(refusal.value)
    if UNBUILT in message:
        reject()
    least = LEAST.search(message)
    assert least, f"the message does not say the least: {message}"
    spare = ROOM if any(isinstance(step, Change) for step in case.steps) else 0
    return int(least[1].replace(",", "")) * case.memory // 8 + spare


# -- DuckDB ---------------------------------------------------------------------------------------


@cache
def _duck() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def duck_rows(query: Query, stream: pa.Table, relation: pa.Table) -> Counter:
    db = _duck()
    db.register("orders", stream)
    db.register("customers", relation)
    return Counter(row_list(db.sql(query.sql(duck=True)).to_arrow_table()))


# -- strategies -----------------------------------------------------------------------------------


def _relation_row(kinds: Sequence[str], known: bool) -> st.SearchStrategy[tuple]:
    keys = [st.sampled_from(list(KINDS[kind].values)) for kind in kinds]
    if not known:
        keys = [key | st.none() for key in keys]
    number = st.none() | st.integers(-3, 4)
    floats = st.sampled_from([None, 0.0, -0.0, NAN, 1.0, -math.inf])
    name = st.sampled_from([None, "", "a", "ab", "b"])
    payload = st.sampled_from([None, "", "x", "y" * 30, "z" * 400])
    return st.tuples(*keys, number, floats, name, payload)


def _stream_row(kinds: Sequence[str]) -> st.SearchStrategy[tuple]:
    keys = []
    for kind in kinds:
        info = KINDS[kind].given.bit_width if pa.types.is_integer(KINDS[kind].given) else None
        values = list(KINDS[kind].values)
        if info is not None:
            low = -(2 ** (info - 1)) if pa.types.is_signed_integer(KINDS[kind].given) else 0
            values = [v for v in values if low <= v < low + 2**info]
        keys.append(st.sampled_from(values) | st.none())
    number = st.none() | st.integers(-3, 5)
    floats = st.sampled_from([None, 0.0, -0.0, NAN, 1.0, math.inf])
    return st.tuples(*keys, number, floats, st.sampled_from([None, "", "a", "ab", "b"]))


def relation_schema(kinds: Sequence[str]) -> pa.Schema:
    keys = [pa.field(f"k{n}", KINDS[kind].stored) for n, kind in enumerate(kinds)]
    rest = [("rid", pa.int64()), ("v", pa.int32()), ("f", pa.float64())]
    return pa.schema([*keys, *rest, ("name", pa.string()), ("payload", pa.string())])


def stream_schema(kinds: Sequence[str]) -> pa.Schema:
    keys = [pa.field(f"k{n}", KINDS[kind].given) for n, kind in enumerate(kinds)]
    rest = [("w", pa.int32()), ("f", pa.float64()), ("name", pa.string())]
    return pa.schema([("id", pa.int64()), *keys, *rest])


def table_of(rows: Sequence[tuple], schema: pa.Schema) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


@st.composite
def queries(draw: st.DrawFn, kinds: Sequence[str]) -> Query:
    return Query(
        join=draw(st.sampled_from(JOINS)),
        source=draw(st.sampled_from(["table", "table", *FROMS])),
        keys=tuple(draw(st.sampled_from(list(KINDS[kind].sought))) for kind in kinds),
        rest=tuple(draw(st.lists(st.integers(0, len(REST) - 1), max_size=2))),
        where=draw(st.sampled_from([False, False, True])),
        is_mirrored=draw(st.booleans()),
    )


@st.composite
def cases(draw: st.DrawFn, most: int = 40) -> Case:
    kinds = tuple(draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3)))
    schema = relation_schema(kinds)
    numbers = iter(range(10**6))

    def rows(count: int, known: bool = False) -> pa.Table:
        found = draw(st.lists(_relation_row(kinds, known), max_size=count))
        width = len(kinds)
        return table_of([(*r[:width], next(numbers), *r[width:]) for r in found], schema)

    relation = rows(most)
    stream = draw(st.lists(_stream_row(kinds), max_size=most))
    left = len(stream)
    steps: list[Change | int] = []
    keys = [f"k{n}" for n in range(len(kinds))]
    while left or draw(st.integers(0, 3)) == 0:
        how = draw(
            st.sampled_from(["push", "push", "push", "append", "update", "compact", "vacuum"])
        )
        if how == "push":
            count = draw(st.integers(0, left))
            steps.append(count)
            left -= count
        elif how == "append":
            steps.append(Change(how, rows(8)))
        elif how == "update":
            upserts = rows(8, known=True)
            gone = rows(5, known=True).select(keys)
            held = set(row_list(upserts.select(keys)))
            apart = [k for k, key in enumerate(row_list(gone)) if key not in held]
            steps.append(Change(how, upserts, gone.take(pa.array(apart, pa.int64()))))
        else:
            steps.append(Change(how))
    return Case(
        kinds=kinds,
        query=draw(queries(kinds)),
        relation=relation,
        stream=table_of([(n, *row) for n, row in enumerate(stream)], stream_schema(kinds)),
        steps=tuple(steps),
        algorithm=draw(st.sampled_from(ALGORITHMS)),
        hash=draw(st.sampled_from(["splitmix64-1", "splitmix64-1/8", "splitmix64-1/2"])),
        page_bytes=draw(st.sampled_from([256, 700, 1 << 14])),
        memory=draw(st.sampled_from([0, 8, 9, 16])),
        refresh=draw(st.sampled_from(["batch", "batch", "start"])),
        latency_s=draw(st.sampled_from([0.0, 0.0, 0.05, 60.0])),
    )


def damaged(location: str) -> tuple[Path, bytes]:
    """Flip bytes of all pages of a relation; returns the file and what was there."""
    file = next(Path(location, "data").glob("*.pages"))
    good = file.read_bytes()
    bad = np.frombuffer(good, np.uint8).copy()
    bad[::97] ^= 0xFF
    file.write_bytes(bad.tobytes())
    return file, good
