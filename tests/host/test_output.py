"""Output columns: types, values, and the rows they belong to."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import penstock
from penstock.errors import DataError, QueryError

DAY = datetime.date(2020, 2, 29)
MOMENT = datetime.datetime(2020, 2, 29, 12)
SCHEMA = pa.schema(
    [
        pa.field("t", pa.int64(), nullable=False),
        pa.field("i", pa.int32()),
        pa.field("u", pa.uint64()),
        pa.field("d", pa.decimal128(9, 2)),
        pa.field("f", pa.float32()),
        pa.field("s", pa.string()),
        pa.field("k", pa.bool_()),
        pa.field("day", pa.date32()),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("tags", pa.list_(pa.int8())),
        pa.field("word", pa.dictionary(pa.int8(), pa.string())),
    ]
)
FULL = {
    "t": 1,
    "i": -7,
    "u": (1 << 64) - 1,
    "d": Decimal("-1.25"),
    "f": 0.5,
    "s": "é",
    "k": True,
    "day": DAY,
    "ts": MOMENT.replace(tzinfo=datetime.UTC),
    "tags": [1, None],
    "word": "w",
}
EMPTY = dict.fromkeys(FULL) | {"t": 2}
TABLE = pa.Table.from_pylist([FULL, EMPTY], schema=SCHEMA)


def selected(items: str, **options) -> pa.Table:
    return penstock.sql(
        f"SELECT {items} FROM a JOIN b ON a.t = b.t", {"a": TABLE, "b": TABLE},
        time={"a": "t", "b": "t"}, **options,
    )  # fmt: skip


@pytest.mark.parametrize("name", SCHEMA.names)
def test_a_plain_column_keeps_its_type(name: str) -> None:
    found = selected(f"b.t AS at, a.{name} AS out").sort_by("at")
    dtype = SCHEMA.field(name).type
    assert found.schema.field("out").type == (pa.string() if name == "word" else dtype)
    assert found["out"].to_pylist() == [FULL[name], EMPTY[name]]


COMPUTED = [
    ("a.i + b.i", pa.int64(), -14),
    ("a.u + b.u", pa.decimal128(20, 0), Decimal(2 * ((1 << 64) - 1))),
    ("a.u - b.i", pa.decimal128(20, 0), Decimal((1 << 64) + 6)),
    ("a.u & 255", pa.int64(), 255),
    ("a.u", pa.uint64(), (1 << 64) - 1),
    ("greatest(a.u, 5)", pa.uint64(), (1 << 64) - 1),
    ("a.u * b.u * a.u", pa.decimal256(58, 0), Decimal(((1 << 64) - 1) ** 3)),
    ("a.d + b.d", pa.decimal128(10, 2), Decimal("-2.50")),
    ("a.d * b.d", pa.decimal128(19, 4), Decimal("1.5625")),
    ("a.d + 0.005", pa.decimal128(11, 3), Decimal("-1.245")),
    ("a.f + b.f", pa.float32(), 1.0),
    ("a.f + 1", pa.float64(), 1.5),
    ("a.i > 0", pa.bool_(), False),
    ("CASE WHEN a.k THEN b.s ELSE 'no' END", pa.string(), "é"),
    ("a.day + 1", pa.date32(), datetime.date(2020, 3, 1)),
    ("a.ts - INTERVAL 1 HOUR", pa.timestamp("us"), MOMENT - datetime.timedelta(hours=1)),
    ("a.ts - b.ts", pa.duration("us"), datetime.timedelta()),
    ("CAST(a.ts AS DATE)", pa.date32(), DAY),
    ("CAST(a.day AS TIMESTAMP)", pa.timestamp("us"), datetime.datetime(2020, 2, 29)),
    ("CAST(a.i AS DECIMAL(5, 1))", pa.decimal128(5, 1), Decimal("-7.0")),
    ("a.word", pa.string(), "w"),
    ("NULL", pa.null(), None),
    ("1.50", pa.decimal128(3, 2), Decimal("1.50")),
]


@pytest.mark.parametrize(("text", "dtype", "value"), COMPUTED)
def test_a_computed_column(text: str, dtype: pa.DataType, value: object) -> None:
    found = selected(f"a.t AS at, {text} AS out").sort_by("at")
    found.validate(full=True)
    assert found.schema.field("out").type == dtype
    assert found["out"][0].as_py() == value
    if "a." in text and "CASE" not in text and "greatest" not in text:
        assert found["out"][1].as_py() is None


def test_too_many_digits() -> None:
    with pytest.raises(QueryError, match="output column out may need 78 digits; CAST its operands"):
        selected("a.u * a.u * b.u * b.u AS out")


def test_no_rows_keep_the_schema() -> None:
    none = TABLE.slice(0, 0)
    text = "SELECT *, a.i + b.i AS sum FROM a JOIN b ON a.t = b.t"
    time = {"a": "t", "b": "t"}
    found = penstock.sql(text, {"a": none, "b": TABLE}, time=time)
    assert found.num_rows == 0
    full = penstock.sql(text, {"a": TABLE, "b": TABLE}, time=time)
    assert found.schema == full.schema
    assert full.num_rows == 2


def test_a_constant_alone_has_one_value_per_pair() -> None:
    assert selected("1 AS one").to_pydict() == {"one": [1, 1]}


def test_fixed_point_columns_come_back_as_they_were() -> None:
    prices = pa.table({"t": [1], "p": pa.array([1.1])})
    found = penstock.sql(
        "SELECT a.p, a.p + b.p AS sum FROM a JOIN b ON a.t = b.t AND a.p - b.p < 0.01",
        {"a": prices, "b": prices},
        time={"a": "t", "b": "t"},
        scale={"a.p": 2, "b.p": 2},
    )
    assert found.to_pylist() == [{"p": 1.1, "sum": Decimal("2.20")}]


@pytest.mark.parametrize(
    "item",
    [
        "a.t + INTERVAL 3 MINUTES",
        "CAST(a.t AS DATE)",
        "a.t - TIMESTAMP '1970-01-01' + INTERVAL 1 SECOND",
        "CASE WHEN a.k THEN a.t + INTERVAL 1 SECOND ELSE a.t END",
    ],
)
def test_a_computed_time_beyond_its_bits_is_an_error(item: str) -> None:
    moments = pa.array([0, 2**63 - 1], pa.int64()).view(pa.timestamp("s"))
    table = pa.table({"t": moments, "k": [False, True]})
    tables = {"l": table, "r": table}
    query = f"SELECT {item} AS c FROM l a JOIN r b ON a.t = b.t"
    with pytest.raises(DataError, match=r"a computed .* needs more than 64 bits|to date overflows"):
        penstock.sql(query, tables, time={"a": "t", "b": "t"})
    near = {"l": table.slice(0, 1), "r": table}
    assert penstock.sql(query, near, time={"a": "t", "b": "t"}).num_rows == 1


def test_a_group_beyond_the_end_of_time_is_an_error() -> None:
    table = pa.table({"t": pa.array([2**63 - 1], pa.int64()).view(pa.timestamp("s"))})
    query = (
        "SELECT window(a.t, '1 minutes').end AS c FROM l a JOIN r b ON a.t = b.t "
        "GROUP BY window(a.t, '1 minutes')"
    )
    with pytest.raises(DataError, match=r"a computed timestamp\[s\] needs more than 64 bits"):
        penstock.sql(query, {"l": table, "r": table}, time={"a": "t", "b": "t"})
