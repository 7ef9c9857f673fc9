"""Arrow columns to exact vectors and back."""

from __future__ import annotations

import datetime
from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import DataError, QueryError, SchemaError
from penstock.expr.columns import Vector
from penstock.host.rows.columns import arrow_type, load, to_arrow, vector
from penstock.types import Kind, Type, decimal, from_arrow, integer

DAY = datetime.date(2020, 2, 29)
MOMENT = datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000)

COLUMNS = [
    pa.array([-128, None, 127], pa.int8()),
    pa.array([0, 255, None], pa.uint8()),
    pa.array([-(1 << 63), (1 << 63) - 1, None], pa.int64()),
    pa.array([0, (1 << 64) - 1, None], pa.uint64()),
    pa.array([0, 5, None], pa.uint64()),
    pa.array([0.5, None, -0.0], pa.float32()),
    pa.array([float("inf"), None, 1e300], pa.float64()),
    pa.array([True, None, False]),
    pa.array(["é", None, ""]),
    pa.array(["é", None, ""], pa.large_string()),
    pa.array([b"\xff", None, b""]),
    pa.array([b"\xff", None, b""], pa.large_binary()),
    pa.array([Decimal("-1.23"), None, Decimal("9.99")], pa.decimal128(3, 2)),
    pa.array([Decimal("-1.23"), None, Decimal("9999999.99")], pa.decimal64(9, 2)),
    pa.array([Decimal(-(10**37)), None, Decimal(10**37)], pa.decimal128(38, 0)),
    pa.array([Decimal(-(10**75)), None, Decimal(10**75)], pa.decimal256(76, 0)),
    pa.array([Decimal(1), None, Decimal(-1)], pa.decimal256(76, 3)),
    pa.array([DAY, None, datetime.date(1960, 1, 1)], pa.date32()),
    pa.array([DAY, None, datetime.date(1960, 1, 1)], pa.date64()),
    pa.array([MOMENT, None], pa.timestamp("ms")),
    pa.array([MOMENT, None], pa.timestamp("us", "Europe/Paris")),
    pa.array([MOMENT, None], pa.timestamp("ns")),
    pa.array([datetime.timedelta(seconds=-1), None], pa.duration("us")),
    pa.array([None, None], pa.null()),
]


def plain(v: Vector) -> list:
    values = [x.item() if isinstance(x, np.generic) else x for x in v.values]
    known = [True] * len(values) if v.valid is None else v.valid.tolist()
    return [x if ok else None for x, ok in zip(values, known, strict=True)]


def expected(array: pa.Array) -> list:
    """Stored integers of times and decimals, from Python's own types."""
    dtype = array.type
    if pa.types.is_decimal(dtype):
        step = 10**dtype.scale
        return [None if v is None else int(Decimal(v.scaleb(0)) * step) for v in array.to_pylist()]
    if pa.types.is_date(dtype):
        epoch = datetime.date(1970, 1, 1)
        return [None if v is None else (v - epoch).days for v in array.to_pylist()]
    if pa.types.is_temporal(dtype):
        return array.cast(pa.int64()).to_pylist()
    return array.to_pylist()


@pytest.mark.parametrize("array", COLUMNS, ids=lambda a: str(a.type))
def test_every_type(array: pa.Array) -> None:
    with localcontext(prec=100):
        wanted = expected(array)
        assert plain(vector(array, None, "x")) == wanted
        # A slice, also one that is not aligned to a byte of validity bits.
        long = pa.concat_arrays([array] * 5)
        assert plain(vector(long.slice(4, 7), None, "x")) == (wanted * 5)[4:11]
        assert plain(vector(array.slice(0, 0), None, "x")) == []
    v = vector(array, None, "x")
    if from_arrow(array.type, column="x").is_integral:
        known = [x for x in wanted if x is not None]
        assert v.lo <= min(known)
        assert max(known) <= v.hi


@pytest.mark.parametrize("array", COLUMNS, ids=lambda a: str(a.type))
def test_round_trip(array: pa.Array) -> None:
    dtype = from_arrow(array.type, column="x")
    target = arrow_type(dtype, "x")
    back = to_arrow(vector(array, None, "x"), dtype, target)
    back.validate(full=True)
    assert back.equals(array.cast(back.type, safe=False)) or str(back) == str(
        array.cast(back.type, safe=False)
    )
    assert to_arrow(vector(array.slice(0, 0), None, "x"), dtype, target).type == back.type


def test_dictionary_and_chunks() -> None:
    words = pa.array(["b", None, "a", "b"]).dictionary_encode()
    assert plain(vector(words, None, "x")) == ["b", None, "a", "b"]
    chunked = pa.table({"x": pa.chunked_array([pa.array([1]), pa.array([None, 3])])})
    assert plain(load(chunked, ["x"], {}, "a")["x"]) == [1, None, 3]
    empty = pa.table({"x": pa.chunked_array([], pa.int32())})
    assert plain(load(empty, ["x"], {}, "a")["x"]) == []


def test_fixed_point() -> None:
    prices = pa.array([1.1, None, -0.25, 100.0])
    assert plain(vector(prices, 2, "a.p")) == [110, None, -25, 10000]
    single = pa.array([1.1, 0.07], pa.float32())
    assert plain(vector(single, 2, "a.p")) == [110, 7]
    assert plain(vector(pa.array([5, None]), 2, "a.p")) == [500, None]


@pytest.mark.parametrize("value", [1.005, float("nan"), float("inf"), 1e300])
def test_values_off_the_grid(value: float) -> None:
    array = pa.array([1.0, value])
    with pytest.raises(DataError, match=r"a\.p is declared with 2 decimal digits, but row 1 holds"):
        vector(array, 2, "a.p")


def test_integers_too_large_for_fixed_point() -> None:
    with pytest.raises(DataError, match=r"a\.p with 2 decimal digits needs more than 18 digits"):
        vector(pa.array([10**16]), 2, "a.p")


def test_errors_name_the_column() -> None:
    table = pa.table({"x": [1]})
    with pytest.raises(SchemaError, match="table a has no column y; it has x"):
        load(table, ["y"], {}, "a")
    promised = pa.table({"x": [1, None]}, schema=pa.schema([pa.field("x", pa.int64(), False)]))
    with pytest.raises(DataError, match=r"a\.x holds NULL, but its schema says that it never does"):
        load(promised, ["x"], {}, "a")
    with pytest.raises(SchemaError, match=r"column a\.x has type list<.*>, which cannot be joined"):
        from_arrow(pa.list_(pa.int8()), column="a.x")


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        (integer(-5, 5), pa.int64()),
        (integer(0, (1 << 64) - 1), pa.uint64()),
        (integer(-1, 1 << 63), pa.decimal128(19, 0)),
        (integer(-(1 << 200), 0), pa.decimal256(61, 0)),
        (decimal(9, 2), pa.decimal128(9, 2)),
        (decimal(40, 2), pa.decimal256(40, 2)),
        (Type(Kind.DECIMAL, 0, 1, scale=3), pa.decimal128(3, 3)),
        (Type(Kind.TIMESTAMP, 0, 1, unit="ms"), pa.timestamp("ms")),
        (Type(Kind.DURATION, 0, 1, unit="us"), pa.duration("us")),
        (Type(Kind.DATE, 0, 1, unit="D"), pa.date32()),
    ],
)
def test_types_of_computed_columns(dtype: Type, wanted: pa.DataType) -> None:
    assert arrow_type(dtype, "x") == wanted


def test_a_computed_column_too_wide_for_any_type() -> None:
    with pytest.raises(QueryError, match="output column x may need 78 digits"):
        arrow_type(integer(0, 1 << 256), "x")


@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string()])
def test_texts_that_come_often_are_one_object_each(dtype: pa.DataType) -> None:
    texts = [None if k % 11 == 0 else f"t{k % 5}" for k in range(2000)]
    often = vector(pa.array(texts, dtype), None, "t")
    assert often.valid is not None
    assert often.valid.tolist() == [text is not None for text in texts]
    assert often.values.tolist() == [text or "" for text in texts]
    assert len({id(text) for text in often.values}) == 6
    rare = vector(pa.array([f"t{k}" for k in range(2000)], dtype), None, "t")
    assert rare.values.tolist() == [f"t{k}" for k in range(2000)]
