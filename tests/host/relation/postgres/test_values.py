"""Values of PostgreSQL as columns and keys: NULLs, numbers, times, odd texts, arrays."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.errors import DataError, FileError, PenstockError, SchemaError
from penstock.host.join.lookup.relation_source import RelationTable
from penstock.host.relation.postgres.relation import PostgresRelation

NAN, INF = math.nan, math.inf
LEFT = "SELECT o.id, c.rid FROM o LEFT JOIN c ON "
D = Decimal

#: Type in PostgreSQL, type in the stream, values that the table may hold, others to look up.
KINDS: dict[str, tuple[str, pa.DataType, Sequence[Any], Sequence[Any]]] = {
    "int2": ("int2", pa.int64(), [-(2**15), -1, 0, 1, 2**15 - 1], [2**15, -(2**63), 2**63 - 1]),
    "int4": ("int4", pa.int64(), [-(2**31), -1, 0, 1, 2**31 - 1], [2**31, -(2**63), 2**63 - 1]),
    "int8": ("int8", pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1], [7, -8]),
    "unsigned": ("int8", pa.uint64(), [0, 1, 2**63 - 1], [2**63, 2**64 - 1]),
    "numeric": ("numeric(12, 2)", pa.decimal128(18, 2), [D("-0.25"), D(0), D("9999999999.99")],
                [D("0.01"), D("10000000000.00")]),
    "wide": ("numeric(38, 5)", pa.decimal128(38, 5), [D(10) ** 30, -(D(10) ** 30), D("0.00001")],
             [D(10) ** 31]),
    "wider": ("numeric(60, 0)", pa.decimal256(60, 0), [D(10) ** 50, -(D(10) ** 50), D(3)],
              [D(10) ** 55]),
    "float4": ("float4", pa.float64(), [0.0, -0.0, 1.5, NAN, INF, -INF], [0.1, 1e300]),
    "float8": ("float8", pa.float64(), [0.0, -0.0, 0.1, NAN, INF, -INF, 5e-324], [0.2]),
    "text": ("text", pa.string(), ["", "a", "A", "ab", "ä", "a" * 9, "'; --", "a b "],
             ["a\0", "a b", "Ж", "\U0001f600"]),
    "varchar": ("varchar(9)", pa.large_string(), ["", "a", "A", "'", "\\"], ["a" * 20]),
    "bytea": ("bytea", pa.binary(), [b"", b"\0", b"\0\0", b"x", b"\\x"], [b"y"]),
    "bool": ("bool", pa.bool_(), [True, False], []),
    "date": ("date", pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)],
             [date(2000, 2, 29)]),
    "timestamp": ("timestamp", pa.timestamp("us"),
                  [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999)],
                  [datetime(2000, 1, 1)]),
    "nanoseconds": ("timestamp", pa.timestamp("ns"), [datetime(1970, 1, 1), datetime(2024, 1, 1)],
                    [datetime(2000, 1, 1)]),
    "instant": ("timestamptz", pa.timestamp("us", "UTC"),
                [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)],
                [datetime(2000, 1, 1, tzinfo=UTC)]),
}  # fmt: skip


def literal(value: Any) -> str:
    """A value as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    text = value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)
    return "'" + text.replace("'", "''") + "'"


def canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def table_of(postgres, types: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    columns = ", ".join(f"k{n} {kind}" for n, kind in enumerate(types))
    statements = ["DROP TABLE IF EXISTS v", f"CREATE TABLE v (rid int, {columns})"]
    if rows:
        lines = (f"({rid}, {', '.join(map(literal, row))})" for rid, row in enumerate(rows))
        statements.append(f"INSERT INTO v VALUES {', '.join(lines)}")
    postgres.run(*statements)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_random_keys(postgres, data):
    names = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    kinds = [KINDS[name] for name in names]
    stored = [st.sampled_from(list(kind[2])) | st.none() for kind in kinds]
    sought = [st.sampled_from([*kind[2], *kind[3]]) | st.none() for kind in kinds]
    rows = data.draw(st.lists(st.tuples(*stored), max_size=12))
    orders = data.draw(st.lists(st.tuples(*sought), min_size=1, max_size=20))
    table_of(postgres, [kind[0] for kind in kinds], rows)
    keys = [f"k{n}" for n in range(len(kinds))]
    columns = [pa.array([row[n] for row in orders], kind[1]) for n, kind in enumerate(kinds)]
    stream = pa.table([pa.array(range(len(orders))), *columns], ["id", *keys])
    hash = data.draw(st.sampled_from(["splitmix64-1", "splitmix64-1/1", "splitmix64-1/4"]))
    age = data.draw(st.sampled_from(["0", "60s"]))
    location = postgres.address("v", ",".join(keys), max_age=age)
    on = " AND ".join(f"o.{key} = c.{key}" for key in keys)
    relation = RelationTable(location)
    opened = PostgresRelation(location, hash)  # many keys share one
    object.__setattr__(relation, "open", lambda: opened)
    cut = data.draw(st.integers(1, len(orders)))
    with penstock.stream(LEFT + on, {"o": stream.schema, "c": relation}) as running:
        running.push("o", stream.slice(0, cut))
        running.push("o", stream.slice(cut))
        found = Counter(zip(*running.close().to_pydict().values(), strict=True))
    expected: Counter = Counter()
    for number, order in enumerate(orders):
        matches = [
            rid
            for rid, row in enumerate(rows)
            if all(
                a is not None and b is not None and canonical(a) == canonical(b)
                for a, b in zip(order, row, strict=True)
            )
        ]
        expected.update((number, rid) for rid in matches or [None])
    assert found == expected


def answered(location: str, column: str, key: Any, dtype: pa.DataType):
    """The values of a column in the rows with a key."""
    stream = pa.table({"k": pa.array([key], dtype)})
    tables = {"o": stream, "c": penstock.relation(location)}
    return penstock.sql(f"SELECT c.{column} FROM o JOIN c ON o.k = c.k0", tables)[column]


def test_columns_of_all_types_come_as_they_are(postgres):
    types = {
        "a": ("int2", "1", 1, pa.int16()),
        "b": ("numeric(7, 3)", "'1.5'", D("1.500"), pa.decimal128(7, 3)),
        "c": ("char(4)", "'ab'", "ab  ", pa.string()),
        "d": ("uuid", "'a81b3995-6880-4f75-a549-4811abfa1b12'",
              "a81b3995-6880-4f75-a549-4811abfa1b12", pa.string()),
        "e": ("jsonb", """'{"x": 1}'""", '{"x": 1}', pa.string()),
        "f": ("int[]", "'{1,NULL,3}'", [1, None, 3], pa.list_(pa.int32())),
        "g": ("text[]", "'{}'", [], pa.list_(pa.string())),
        "h": ("float4", "1.5", 1.5, pa.float32()),
        "i": ("date", "'2024-02-29'", date(2024, 2, 29), pa.date32()),
        "j": ("timestamptz", "'2024-01-01 01:00+01'", datetime(2024, 1, 1, tzinfo=UTC),
              pa.timestamp("us", "UTC")),
        "k": ("dn", "'2.5'", D("2.50"), pa.decimal128(10, 2)),
        "l": ("mood", "'sad'", "sad", pa.string()),
        "m": ("inet", "'10.0.0.1'", "10.0.0.1/32", pa.string()),
        "o": ("float8[]", "NULL", None, pa.list_(pa.float64())),
    }  # fmt: skip
    columns = ", ".join(f"{name} {kind[0]}" for name, kind in types.items())
    postgres.run(
        "CREATE DOMAIN dn AS numeric(10, 2)",
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        f"CREATE TABLE types (id int PRIMARY KEY, {columns})",
        f"INSERT INTO types VALUES (1, {', '.join(kind[1] for kind in types.values())})",
        "INSERT INTO types (id) VALUES (2)",
    )
    names = ", ".join(f"c.{name}" for name in types)
    tables = {"o": pa.table({"k": [1, 2, 3]}), "c": penstock.relation(postgres.address("types"))}
    by_key = penstock.sql(f"SELECT o.k AS n, {names} FROM o JOIN c ON o.k = c.id", tables)
    scanned = penstock.sql(f"SELECT o.k AS n, {names} FROM o JOIN c ON abs(o.k - c.id) < 1", tables)
    assert by_key.sort_by("n").equals(scanned.sort_by("n"))
    first, second = by_key.sort_by("n").to_pylist()
    assert first == {"n": 1, **{name: kind[2] for name, kind in types.items()}}
    assert second == {"n": 2, **dict.fromkeys(types)}
    for name, kind in types.items():
        assert by_key.schema.field(name).type == kind[3], name


REFUSED = [
    ("u numeric", "1.5", "numeric without digits.*CAST it to numeric"),
    ("u interval", "'1 day'", "type interval has no like in Arrow.*CAST it in a view"),
    ("u numeric(5, 2)[]", "'{1}'", "type _numeric has no like"),
    ("u point", "'(1,2)'", "type point has no like"),
    ("u numeric(3, -2)", "100", "numeric.3, -2. has no like"),
]


@pytest.mark.parametrize(("column", "value", "said"), REFUSED)
def test_a_column_without_a_like_in_arrow(postgres, column, value, said):
    postgres.run(
        "DROP TABLE IF EXISTS odd",
        f"CREATE TABLE odd (k0 int PRIMARY KEY, {column}, rest int)",
        f"INSERT INTO odd VALUES (1, {value}, 5)",
    )
    location = postgres.address("odd")
    assert answered(location, "rest", 1, pa.int64()).to_pylist() == [5]
    with pytest.raises(SchemaError, match=said):
        answered(location, "u", 1, pa.int64())


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("u timestamp", "'infinity'", "u holds infinity"),
        ("u timestamp", "'-infinity'", "u holds infinity"),
        ("u date", "'infinity'", "u holds infinity"),
        ("u timestamptz[]", "'{infinity}'", "u holds infinity"),
        ("u numeric(5, 2)", "'NaN'", "u holds a value .*NaN"),
        ("u int[]", "'{{1,2},{3,4}}'", "several dimensions"),
    ],
)
def test_a_value_without_a_like_in_arrow(postgres, column, value, said):
    postgres.run(
        "DROP TABLE IF EXISTS odd",
        f"CREATE TABLE odd (k0 int PRIMARY KEY, {column})",
        f"INSERT INTO odd VALUES (1, {value}), (2, NULL)",
    )
    location = postgres.address("odd")
    assert answered(location, "u", 2, pa.int64()).to_pylist() == [None]
    with pytest.raises((DataError, SchemaError), match=said):
        answered(location, "u", 1, pa.int64())


@pytest.mark.parametrize("kind", ["char(4)", "uuid", "numeric", "int[]", "jsonb"])
def test_a_key_that_cannot_be_one(postgres, kind):
    postgres.run("DROP TABLE IF EXISTS odd", f"CREATE TABLE odd (k0 {kind})")
    with pytest.raises(SchemaError, match=r"k0 of .*in a view|k0 of .*make a view"):
        penstock.relation(postgres.address("odd", "k0"))


def test_a_collation_that_ignores_case(postgres):
    postgres.run(
        "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', "
        "deterministic = false)",
        "CREATE TABLE folded (a text COLLATE nocase, b int)",
        "INSERT INTO folded VALUES ('a', 1), ('A', 2), ('b', 3)",
    )
    stream = pa.table({"k": ["a", "A", "B"], "n": [1, 2, 3]})
    for key, on in (("a", "o.k = c.a"), ("a,b", "o.k = c.a AND o.n = c.b")):
        tables = {"o": stream, "c": penstock.relation(postgres.address("folded", key))}
        found = penstock.sql(f"SELECT o.n, c.b FROM o JOIN c ON {on}", tables)
        assert Counter(zip(*found.to_pydict().values(), strict=True)) == Counter([(1, 1), (2, 2)])


def database(postgres, encoding: str) -> str:
    name = encoding.lower()
    postgres.run(
        f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' "
        "TEMPLATE template0"
    )
    return name


def test_latin1(postgres):
    name = database(postgres, "LATIN1")
    postgres.run(
        "CREATE TABLE odd (k0 text PRIMARY KEY, v text)",
        "INSERT INTO odd VALUES (convert_from('\\xe4', 'LATIN1'), convert_from('\\xdf', 'LATIN1'))",
        database=name,
    )
    location = postgres.address("odd", "k0", database=name)
    # The second one is in no database of LATIN1, so it has no row.
    for key, values in (("ä", ["ß"]), ("Ж", []), ("\U0001f600", [])):
        assert answered(location, "v", key, pa.string()).to_pylist() == values


def test_bytes_that_are_no_text(postgres):
    name = database(postgres, "SQL_ASCII")
    postgres.run(
        "CREATE TABLE odd (k0 int PRIMARY KEY, v text)",
        "INSERT INTO odd VALUES (1, convert_from('\\xe4', 'SQL_ASCII')), (2, 'plain')",
        database=name,
    )
    location = postgres.address("odd", "k0", database=name)
    assert answered(location, "v", 2, pa.int64()).to_pylist() == ["plain"]
    with pytest.raises(DataError, match=r"holds a value that cannot be read.*UTF"):
        answered(location, "v", 1, pa.int64())


def test_names_that_need_quotes(postgres):
    postgres.run(
        'CREATE SCHEMA "Odd; schema"',
        'CREATE TABLE "Odd; schema"."a ""table""" ("the key" int PRIMARY KEY, "select" text)',
        'INSERT INTO "Odd; schema"."a ""table""" ' + "VALUES (1, 'x')",
    )
    table = "%22Odd;%20schema%22.%22a%20%22%22table%22%22%22"
    location = postgres.address(table, "the%20key")
    tables = {"o": pa.table({"k": [1]}), "c": penstock.relation(location)}
    found = penstock.sql("SELECT c.`select` AS s FROM o JOIN c ON o.k = c.`the key`", tables)
    assert found["s"].to_pylist() == ["x"]


def test_a_key_of_another_type(postgres):
    postgres.run("DROP TABLE IF EXISTS odd", "CREATE TABLE odd (k0 int PRIMARY KEY, v int)")
    with pytest.raises(PenstockError, match="CAST"):
        answered(postgres.address("odd"), "v", 1.0, pa.float64())


def test_single_floats_are_what_they_are(postgres):
    postgres.run(
        "DROP TABLE IF EXISTS odd",
        "CREATE TABLE odd (k0 float4, v int)",
        "INSERT INTO odd VALUES (0.1, 1)",
    )
    location = postgres.address("odd", "k0")
    single = struct.unpack("f", struct.pack("f", 0.1))[0]
    assert answered(location, "v", single, pa.float64()).to_pylist() == [1]
    assert answered(location, "v", 0.1, pa.float64()).to_pylist() == []


def test_files_errors_are_errors_of_servers():
    with pytest.raises(FileError):
        penstock.relation("postgresql://u@127.0.0.1:1/d?table=t")
