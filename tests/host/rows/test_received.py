"""Rows in other types than a stream was opened with: what loses nothing is taken, in each type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import SchemaError
from penstock.host.relation import RelationOptions, build
from penstock.host.rows.received import one_batch, received_schema, received_table

#: Whole numbers in bounds of all types of numbers, and values for each other kind.
DAY = dt.date(2024, 2, 29)
MOMENT = dt.datetime(2024, 2, 29, 12, 30, 1)
_WORDS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())
_UNITS = ("s", "ms", "us", "ns")

#: Values, and all types in which they can come: each is taken for each other.
KINDS: dict[str, tuple[list[Any], list[pa.DataType]]] = {
    "numbers": (
        [1, None, 100],
        [
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
            *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
            *(pa.float16(), pa.float32(), pa.float64()),
            *(pa.decimal32(9, 2), pa.decimal64(18, 0), pa.decimal128(20, 4), pa.decimal256(50, 1)),
        ],
    ),
    "text": (
        ["b", None, ""],
        [
            *_WORDS,
            *(pa.dictionary(pa.int8(), words) for words in _WORDS),
            pa.dictionary(pa.uint32(), pa.string()),
            pa.run_end_encoded(pa.int32(), pa.string()),
            pa.run_end_encoded(pa.int16(), pa.large_string()),
        ],
    ),
    "bytes": (
        [b"b\0", None, b"aa"],
        [*_BYTES, pa.binary(2), pa.dictionary(pa.int32(), pa.binary())],
    ),
    "booleans": ([True, None, False], [pa.bool_()]),
    "dates": ([DAY, None, DAY], [pa.date32(), pa.date64()]),
    "times": (
        [dt.time(1), None, dt.time(2)],
        [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    ),
    "durations": ([dt.timedelta(1), None, dt.timedelta(-2)], [pa.duration(u) for u in _UNITS]),
    "wall clocks": ([MOMENT, None, MOMENT], [pa.timestamp(u) for u in _UNITS]),
    "instants": (
        [MOMENT.replace(tzinfo=dt.UTC), None, MOMENT.replace(tzinfo=dt.UTC)],
        [pa.timestamp(u, zone) for u in _UNITS for zone in ("UTC", "Europe/Berlin")],
    ),
    "lists": (
        [["a"], None, []],
        [f(words) for f in (pa.list_, pa.large_list) for words in _WORDS]
        + [pa.list_view(pa.string()), pa.large_list_view(pa.string())],
    ),
    "structs": ([{"x": "a"}, None, {"x": None}], [pa.struct({"x": words}) for words in _WORDS]),
    "maps": (
        [[("a", 1)], None, []],
        [pa.map_(words, value) for words in _WORDS for value in (pa.int8(), pa.int64())],
    ),
    "uuids": ([bytes(16), None, bytes(range(16))], [pa.uuid(), pa.binary(16), pa.binary()]),
}
#: Types of Arrow's of which there are no rows to push.
_OTHERS = {
    *("INTERVAL_MONTHS", "INTERVAL_DAY_TIME", "INTERVAL_MONTH_DAY_NANO", "FIXED_SIZE_LIST"),
    *("SPARSE_UNION", "DENSE_UNION", "MAX_ID"),
}


def array_of(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """An array of a type, of which Arrow makes some in steps only."""
    if pa.types.is_run_end_encoded(dtype):
        return pc.run_end_encode(pa.array(values, dtype.value_type), dtype.run_end_type)
    if pa.types.is_dictionary(dtype):
        words = sorted({one for one in values if one is not None})
        codes = pa.array([None if v is None else words.index(v) for v in values], dtype.index_type)
        return pa.DictionaryArray.from_arrays(codes, pa.array(words, dtype.value_type))
    if pa.types.is_decimal(dtype):
        values = [None if v is None else Decimal(v) for v in values]
    return pa.array(values, dtype)


def shown(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values; of each kind that can be compared, whatever types they have."""
    values = array.to_pylist()
    return [str(one.bytes if hasattr(one, "bytes") else one) for one in values]


def test_all_types_of_arrow_are_in_the_list() -> None:
    known = {one.id for _, kind in KINDS.values() for one in kind} | {pa.null().id}
    ids = {name[5:]: n for name, n in vars(pa.lib).items() if name.startswith("Type_")}
    assert {name for name, n in ids.items() if n not in known} <= _OTHERS


@pytest.mark.parametrize("kind", KINDS)
def test_each_type_is_taken_for_each_other(kind: str) -> None:
    values, dtypes = KINDS[kind]
    for declared in dtypes:
        schema = received_schema(pa.schema([pa.field("x", declared)]))
        for dtype in dtypes:
            came = pa.table({"x": array_of(values, dtype)})
            found = one_batch(came, schema, "a")
            assert found.schema == schema
            assert shown(found["x"]) == shown(array_of(values, declared)), (dtype, declared)
            cut = pa.concat_tables([came.slice(1, 1), came.slice(0, 1)])
            assert (
                one_batch(cut, schema, "a")["x"].to_pylist() == found["x"].take([1, 0]).to_pylist()
            )
        for rows in (0, 3):  # nothing but NULL
            found = one_batch(pa.table({"x": pa.nulls(rows)}), schema, "a")
            assert found["x"].null_count == found.num_rows == rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_has_no_runs_and_views(kind: str) -> None:
    values, dtypes = KINDS[kind]
    for dtype in dtypes:
        table = received_table(pa.table({"x": array_of(values, dtype)}))
        assert "view" not in str(table.schema)
        assert "run_end" not in str(table.schema)
        assert shown(table["x"]) == shown(array_of(values, dtype))


def test_no_type_is_taken_for_one_of_another_kind() -> None:
    for kind, (values, dtypes) in KINDS.items():
        for other, (_, others) in KINDS.items():
            if kind == other or {kind, other} == {"bytes", "uuids"}:
                continue
            came, schema = pa.table({"x": array_of(values, dtypes[0])}), pa.schema({"x": others[0]})
            with pytest.raises(SchemaError, match=r"column x of a batch of a is .*, but"):
                one_batch(came, schema, "a")


@pytest.mark.parametrize(
    ("values", "dtype", "declared", "shown"),
    [
        ([1, 2, 300, 400], pa.int64(), pa.int8(), "300 of row 2"),
        ([-1], pa.int8(), pa.uint64(), "-1 of row 0"),
        ([1.0, None, 1.5], pa.float64(), pa.int64(), "1.5 of row 2"),
        ([1.0, float("nan")], pa.float64(), pa.int64(), "nan of row 1"),
        ([2**53 + 1], pa.int64(), pa.float64(), "9007199254740993 of row 0"),
        ([1.5, 0.1], pa.float64(), pa.float32(), "0.1 of row 1"),
        ([0.25, 0.125], pa.float64(), pa.decimal128(5, 2), "0.125 of row 1"),
        ([Decimal("1.0"), Decimal("1.5")], pa.decimal128(5, 1), pa.int64(), "1.5 of row 1"),
        ([1000, 1500], pa.timestamp("ns"), pa.timestamp("us"), "01 00:00:00.000001500 of row 1"),
        ([0, 10**15], pa.timestamp("s"), pa.timestamp("ns"), "of row 1"),
        ([b"ab", b"abc"], pa.binary(), pa.binary(2), "abc of row 1"),
    ],
)
def test_the_first_value_that_does_not_fit_is_named(
    values: list[Any], dtype: pa.DataType, declared: pa.DataType, shown: str
) -> None:
    came = pa.table({"x": pa.array(values, dtype)})
    with pytest.raises(SchemaError) as caught:
        one_batch(came, pa.schema({"x": declared}), "a")
    assert f" is {dtype}, but the stream was opened with {declared}, which" in str(caught.value)
    assert str(caught.value).endswith(shown)


@pytest.mark.parametrize("row", range(9))
def test_the_first_of_several_rows_is_named(row: int) -> None:
    values = [1] * row + [300] + [1, 400] * 3
    with pytest.raises(SchemaError, match=f"cannot hold 300 of row {row}$"):
        one_batch(pa.table({"x": values}), pa.schema({"x": pa.int8()}), "a")


def test_fields_of_a_struct_keep_their_names() -> None:
    with pytest.raises(SchemaError, match="but the stream was opened with"):
        one_batch(pa.table({"x": [{"z": 1}]}), pa.schema({"x": pa.struct({"y": pa.int8()})}), "a")


def test_columns_are_named_once() -> None:
    schema = pa.schema({"x": pa.int64()})
    with pytest.raises(SchemaError, match="a batch of a has no column x"):
        one_batch(pa.table({"y": [1]}), schema, "a")
    with pytest.raises(SchemaError, match="a batch of a has 2 columns x"):
        one_batch(pa.table([[1], [2]], names=["x", "x"]), schema, "a")


# -- streams --------------------------------------------------------------------------------------

#: One column of each kind that can be compared; and of others, which are carried along.
COMPARED = ("numbers", "text", "bytes", "booleans", "dates", "durations", "wall clocks", "instants")
CARRIED = ("lists", "structs", "maps", "times", "uuids")
NAMES = [f"c{k}" for k in range(len(COMPARED))]
OTHERS = [f"d{k}" for k in range(len(CARRIED))]
_TIMES = [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 1), dt.datetime(2024, 1, 2)]


def rows_as(turn: int) -> pa.Table:
    """The same rows, each column in the type that is this one of its kind, from the first on."""
    columns = {"id": pa.array([1, 2, 3], KINDS["numbers"][1][3 + turn % 5])}
    columns["t"] = pa.array(_TIMES, KINDS["wall clocks"][1][2 - turn % 3])
    for name, kind in zip(NAMES + OTHERS, COMPARED + CARRIED, strict=True):
        values, dtypes = KINDS[kind]
        columns[name] = array_of([values[0], values[-1], values[0]], dtypes[turn % len(dtypes)])
    return pa.table(columns)


SCHEMA = rows_as(0).schema
SAME = " AND ".join(f"a.{name} = b.{name}" for name in NAMES)
NEAR = "b.t BETWEEN a.t - INTERVAL 2 SECONDS AND a.t + INTERVAL 2 SECONDS"
KEYS = ", ".join(f"a.{name}" for name in NAMES)
ALL = ", ".join(f"a.{name}, b.{name} AS b_{name}" for name in NAMES + OTHERS)
FIRST = f"SELECT a.id, b.id AS b_id, {ALL} FROM a "

#: A query by kind of stream, the sources it reads, and what it is opened with besides.
STREAMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "join": (f"{FIRST} JOIN b ON {SAME} AND {NEAR}", "ab", {}),
    "left": (f"{FIRST} LEFT JOIN b ON {SAME} AND {NEAR}", "ab", {}),
    "ROWS": (f"{FIRST} JOIN b ON {SAME}", "ab", {"rows": 5, "time": {"a": "t", "b": "t"}}),
    "sessions": (f"{FIRST} JOIN b ON {SAME} AND session_window(a.t, '5 seconds') = "
                 "session_window(b.t, '5 seconds')", "ab", {}),
    "groups of a join": (f"SELECT a.t, {KEYS}, count(*) AS n FROM a JOIN b ON {SAME} AND {NEAR} "
                         f"GROUP BY a.t, {KEYS}", "ab", {"time": {"a": "t", "b": "t"}}),
    "groups": (f"SELECT t, {KEYS}, count(*) AS n FROM a GROUP BY t, {KEYS}", "a",
               {"time": {"a": "t"}}),
    "around": (f"SELECT lower(a.c1) AS low, a.id, {ALL} FROM a JOIN b ON {SAME} AND {NEAR}", "ab",
               {}),
    "looked up": (f"{FIRST} JOIN r b ON a.c1 = b.c1", "a", {}),
    "workers": (f"SELECT t, {KEYS}, count(*) AS n FROM a GROUP BY t, {KEYS}", "a",
                {"time": {"a": "t"}, "workers": 1}),
}  # fmt: skip


#: Kinds that go the way of others until rows are taken.
_SLOW = ("left", "groups of a join")


@pytest.fixture(scope="module")
def relation(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("relation") / "r"
    build(rows_as(2), str(place), RelationOptions(key=("c1",))).close()
    return penstock.relation(place)


def rows_of(name: str, relation: Any, turns: list[int]) -> list[str]:
    """Output rows of a stream that gets the same rows several times, in these types."""
    query, sources, options = STREAMS[name]
    schemas = dict.fromkeys(sources, SCHEMA) | ({"r": relation} if " r b" in query else {})
    if name != "looked up":
        options = {**options, "disorder": dt.timedelta(days=2)}
    with penstock.stream(query, schemas, **options) as stream:
        for turn in turns:
            for source in sources:
                stream.push(source, rows_as(turn))
        return sorted(map(str, stream.close().to_pylist()))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in _SLOW else ()) for n in STREAMS]
)
def test_each_kind_of_stream_takes_rows_in_each_type(name: str, relation: Any) -> None:
    turns = range(0, max(len(dtypes) for _, dtypes in KINDS.values()), 4)
    found = rows_of(name, relation, [*turns])
    assert found == rows_of(name, relation, [0 for _ in turns])
    assert len(found) > 1


FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "Polars": pl.DataFrame,
    "reader": lambda table: table.to_reader(),
    "batch": lambda table: table.to_batches()[0],
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", ["groups", "looked up", "around"])
def test_each_kind_of_stream_takes_frames(name: str, frame: str, relation: Any) -> None:
    query, sources, options = STREAMS[name]
    schema = pa.schema({"id": pa.int64(), "t": pa.timestamp("us"), "c1": pa.string()})
    short = query.replace(SAME, "a.c1 = b.c1").replace(KEYS, "a.c1").replace(ALL, "a.c1, b.t AS u")
    rows = pa.table({"id": [1, None], "t": _TIMES[:2], "c1": ["x", None]}, schema)
    found = []
    for make in (lambda table: table, FRAMES[frame]):
        schemas = dict.fromkeys(sources, schema)
        schemas |= {"r": relation} if " r b" in query else {}
        with penstock.stream(short, schemas, **options) as stream:
            for source in sources:
                stream.push(source, make(rows))
            found.append(stream.close())
    assert found[0].equals(found[1])
