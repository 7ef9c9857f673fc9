"""The parts of the batch bridge, one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.expr import build
from penstock.query.compiler import compile_query
from penstock.query.plan import TimeWindow

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from penstock.spark_bridge import devices
from penstock.spark_bridge.batch.slices import Slices, Spread, slices_of
from penstock.spark_bridge.clock import Clock
from penstock.spark_bridge.filters import pushed
from penstock.spark_bridge.types import arrow_schema, spark_schema

TYPES = (
    "a boolean, b tinyint, c smallint, d int, e bigint, f float, g double, h string, i binary, "
    "j date, k timestamp, l timestamp_ntz, m decimal(38,10), n interval day to second"
)


def test_types_there_and_back(spark):
    schema = spark.createDataFrame([], TYPES).schema
    assert spark_schema(arrow_schema(schema)) == schema
    # What is declared is what mapInArrow hands over.
    assert arrow_schema(schema) == spark.createDataFrame([], schema).toArrow().schema


def test_null_is_what_spark_says(spark):
    fields = arrow_schema(spark.range(1).schema)
    assert fields == pa.schema([pa.field("id", pa.int64(), nullable=False)])
    assert arrow_schema(spark_types.StructType([spark_types.StructField("v", _map())]))


def _map():
    return spark_types.MapType(spark_types.StringType(), spark_types.StringType())


SCHEMA = pa.schema([("t", pa.int32()), ("at", pa.timestamp("us")), ("day", pa.date32())])


@pytest.mark.parametrize(
    ("left", "right", "clocks"),
    [
        ("t", "t", (Clock("t", 1, 0), Clock("t", 1, 0))),
        ("day", "at", (Clock("day", 86_400_000_000, 0), Clock("at", 1, 0))),
    ],
)
def test_clocks(left, right, clocks):
    query = compile_query(
        f"SELECT a.t FROM a JOIN b ON a.{left} = b.{right}",
        {"a": SCHEMA, "b": SCHEMA},
        time={"a": left, "b": right},
    )
    assert tuple(Clock.of(side) for side in query.sides) == clocks


@pytest.mark.parametrize(
    ("time", "clock"),
    [("3 * t + 7", Clock("t", 3, 7)), ("abs(t)", None), ("-t", None)],
)
def test_clocks_of_subqueries(time, clock):
    query = compile_query(
        f"SELECT a.u FROM (SELECT {time} AS u FROM b) a JOIN b ON a.u = b.t",
        {"b": SCHEMA},
        time={"a": "u", "b": "t"},
    )
    assert Clock.of(query.left) == clock


def test_reaching_a_time():
    clock = Clock("t", 3, 7)
    for time in range(-20, 20):
        least = clock.reaches(time)
        assert clock.time(least) >= time > clock.time(least - 1)


def test_slices_cut_the_longer_side():
    clocks = {"l": Clock("t", 2, 1), "r": Clock("u", 1, 0)}
    spreads = {"l": Spread(100, [10, 20, 30]), "r": Spread(10, [1, 2, 3])}
    assert slices_of(spreads, clocks, 4, 1) == Slices("l", [21, 41, 61])
    assert slices_of(spreads, clocks, 4, 50) == Slices("l", [41])
    assert slices_of(spreads, clocks, 4, 100) == Slices("l", [])
    tied = {"l": Spread(5, [1, 1, 1]), "r": Spread(100, [7, 7, 9])}
    assert slices_of(tied, clocks, 4, 1) == Slices("r", [7, 9])


WINDOWS = [
    TimeWindow(2, 5),
    TimeWindow(-3, 4),
    TimeWindow(None, 1),
    TimeWindow(0, None),
    TimeWindow(1 << 70, 1 << 70),
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("sliced", "lr")
def test_lanes_of_rows(spark, window, sliced):
    """A pair of the window meets in exactly one lane, and copies go no further than the window."""
    clock = Clock("ticks", 2, 1)
    slices = Slices(sliced, [-20, -7, 0, 1, 30])
    frame = spark.range(-30, 30).select(F.col("id").alias("ticks"))
    lanes: dict[str, dict[int, set[int]]] = {}
    for side in "lr":
        rows = slices.placed(frame, "lane", "ticks", side, clock, window).collect()
        found = lanes.setdefault(side, {})
        for row in rows:
            found.setdefault(row["ticks"], set()).add(row["lane"])
        assert sum(map(len, found.values())) == len(rows)
    for ticks, own in lanes[sliced].items():
        assert own == {int(np.searchsorted(slices.bounds, clock.time(ticks), side="right"))}
    for left, left_lanes in lanes["l"].items():
        for right, right_lanes in lanes["r"].items():
            apart = clock.time(right) - clock.time(left)
            inside = (window.before is None or -window.before <= apart) and (
                window.after is None or apart <= window.after
            )
            assert len(left_lanes & right_lanes) == 1 or not inside


def test_what_spark_may_filter(spark):
    x = build.column("l", "x", compile_type("x"))
    name = build.column("l", "name", compile_type("name"))
    price = build.column("l", "price", compile_type("price"))
    small, sums = build.lt(x, build.const(5)), build.lt(build.add(x, x), build.const(5))

    def text(condition):
        found = pushed(condition, F.col)
        return None if found is None else str(found)

    assert text(small) == str(F.col("x") < 5)
    assert text(sums) is None
    assert text(build.and_(sums, small)) == text(small)
    assert text(build.or_(sums, small)) is None
    assert text(build.not_(build.and_(sums, small))) is None
    assert text(build.eq(name, build.const("a"))) == str(F.col("name") == "a")
    assert text(build.lt(price, build.const(5))) is None
    assert text(build.TRUE) is None
    assert text(build.lt(x, build.const(1 << 64))) is None


def compile_type(name):
    from penstock.types import from_arrow

    types = {"x": pa.int32(), "name": pa.string(), "price": pa.decimal128(9, 2)}
    return from_arrow(types[name], column=name)


def test_one_device_per_process_and_options(monkeypatch):
    monkeypatch.setattr(devices, "_open", {})
    one = devices.shared_device("cpu")
    assert one.lanes == 1
    assert devices.shared_device("cpu", {}) is one
    two = devices.shared_device("cpu", {"threads": 2})
    assert two.lanes == 2
    assert devices.shared_device("cpu", {"threads": 1}) is one
    for device in (one, two):
        device.close()
