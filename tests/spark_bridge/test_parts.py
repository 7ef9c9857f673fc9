"""The parts of the batch bridge, one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.expr import ops
from penstock.plan.query import TimeWindow
from penstock.query.compiler import compile_query

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from penstock.spark_bridge import devices
from penstock.spark_bridge.batch.choose import Limits, choose, dividable
from penstock.spark_bridge.batch.rows_shards import shards_of_rows
from penstock.spark_bridge.batch.shards import GridShards, TimeShards
from penstock.spark_bridge.batch.statistics import Spread
from penstock.spark_bridge.blobs import blobs_of, tables_of
from penstock.spark_bridge.clock import TickClock
from penstock.spark_bridge.filters import push
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
        ("t", "t", (TickClock("t", 1, 0), TickClock("t", 1, 0))),
        ("day", "at", (TickClock("day", 86_400_000_000, 0), TickClock("at", 1, 0))),
    ],
)
def test_clocks(left, right, clocks):
    query = compile_query(
        f"SELECT a.t FROM a JOIN b ON a.{left} = b.{right}",
        {"a": SCHEMA, "b": SCHEMA},
        time={"a": left, "b": right},
    )
    assert tuple(TickClock.from_side(side) for side in query.sides) == clocks


@pytest.mark.parametrize(
    ("time", "clock"),
    [("3 * t + 7", TickClock("t", 3, 7)), ("abs(t)", None), ("-t", None)],
)
def test_clocks_of_subqueries(time, clock):
    query = compile_query(
        f"SELECT a.u FROM (SELECT {time} AS u FROM b) a JOIN b ON a.u = b.t",
        {"b": SCHEMA},
        time={"a": "u", "b": "t"},
    )
    assert TickClock.from_side(query.left) == clock


def test_reaching_a_time():
    clock = TickClock("t", 3, 7)
    for time in range(-20, 20):
        least = clock.reaches(time)
        assert clock.time(least) >= time > clock.time(least - 1)


WINDOWS = [
    TimeWindow(2, 5),
    TimeWindow(-3, 4),
    TimeWindow(None, 1),
    TimeWindow(0, None),
    TimeWindow(1 << 70, 1 << 70),
]
CLOCKS = dict.fromkeys("lr", TickClock("ticks", 2, 1))


def shards_of(spark, shards, times):
    """Shards of rows with these ticks (None too), by side and row."""
    frame = spark.createDataFrame([(i, t) for i, t in enumerate(times)], "id long, ticks long")
    found = {}
    for side in "lr":
        column = shards.row_shards(side, F.col("ticks"), F.xxhash64("id"))
        column = F.explode(column) if shards.is_copied(side) else column
        own = found.setdefault(side, {})
        for row in frame.select("id", column.alias("shard")).collect():
            assert 0 <= row["shard"] < shards.count
            assert row["shard"] not in own.setdefault(row["id"], set())
            own[row["id"]].add(row["shard"])
    return found


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("side", "lr")
def test_shards_of_time(spark, window, side):
    """A pair of the window meets in exactly one shard; a divided row is in one."""
    shards = TimeShards(side, [-20, -7, 1, 3, 30], [1, 1, 3, 1, 2, 1], CLOCKS, window)
    times = [*range(-30, 30), 0, 0, 0, 0]
    found = shards_of(spark, shards, times)
    assert all(len(own) == 1 for own in found[side].values())
    assert set().union(*found[side].values()) == set(range(shards.count))
    for left, left_shards in found["l"].items():
        for right, right_shards in found["r"].items():
            apart = 2 * (times[right] - times[left])
            inside = (window.before is None or -window.before <= apart) and (
                window.after is None or apart <= window.after
            )
            assert len(left_shards & right_shards) == 1 or not inside


def test_rows_without_a_time_are_in_one_shard(spark):
    shards = TimeShards("l", [0, 9], [1, 2, 1], CLOCKS, TimeWindow(1, 1))
    found = shards_of(spark, shards, [None] * 40)["l"]
    assert all(len(own) == 1 for own in found.values())
    assert len(set().union(*found.values())) > 1


@pytest.mark.parametrize(("rows", "columns"), [(1, 4), (3, 1), (3, 2)])
def test_shards_of_a_grid(spark, rows, columns):
    shards = GridShards("l", rows, columns)
    found = shards_of(spark, shards, range(30))
    for left in found["l"].values():
        assert len(left) == columns
        assert all(len(left & right) == 1 for right in found["r"].values())


def test_shards_of_arrivals(spark):
    """Each shard gets its own rows, and at least as many before and after as the windows have."""
    rng = np.random.default_rng(3)
    times = {side: np.sort(rng.integers(0, 60, 100)) for side in "lr"}
    schema = pa.schema([("t", pa.int64())])
    query = compile_query(
        "SELECT l.t FROM l JOIN r ON l.t < r.t", {"l": schema, "r": schema},
        time={"l": "t", "r": "t"}, rows={"l": 4, "r": 7},
    )  # fmt: skip
    clocks = dict.fromkeys("lr", TickClock("t", 1, 0))
    edges = sorted({int(t) for t in times["l"][::3]} | {int(t) for t in times["r"][::7]})
    counts = {
        side: np.bincount(np.searchsorted(edges, t, side="right"), minlength=len(edges) + 1)
        for side, t in times.items()
    }
    limits = Limits(4, True, 10, 10)
    shards = shards_of_rows(query, clocks, edges, counts, limits, ["l"]).shards
    assert shards.count == 4
    for (low, high), mine, others in zip(
        shards.owned, shards.reached["l"], shards.reached["r"], strict=True
    ):

        def between(side, reach):
            return (times[side] >= (reach[0] or 0)) & (times[side] < (reach[1] or 60))

        own = between("l", (low, high))
        assert own.any()
        later = times["l"][times["l"] >= (high or 60)]
        assert (between("l", mine) & (times["l"] >= (high or 60))).sum() >= min(4, len(later))
        earlier = times["r"][times["r"] < (low or 0)]
        assert (between("r", others) & (times["r"] < (low or 0))).sum() >= min(7, len(earlier))
        assert mine[1] == others[1]
    one = shards_of_rows(query, clocks, edges, counts, Limits(9, False, 1, 1 << 20), ["l"])
    assert one.shards.count == 200 // 22


def query_of(kind="JOIN", select="l.t"):
    schema = pa.schema([("t", pa.int64()), ("x", pa.int64())])
    text = f"SELECT {select} FROM l {kind} r ON r.t BETWEEN l.t - 5 AND l.t + 5 AND l.x < r.x"
    return compile_query(text, {"l": schema, "r": schema}, time={"l": "t", "r": "t"})


def even(rows, first, last, steps=64):
    quantiles = [first + (last - first) * k // steps for k in range(steps + 1)]
    return Spread(rows, TickClock("t", 1, 0), quantiles)


def choice(query, left, right, partitioning="auto", limits=None):
    limits = limits or Limits(8, False, 1000, 1 << 20)
    spreads = {"l": left, "r": right}
    return choose(query, spreads, limits, partitioning, dividable(query))


def test_short_windows_are_cut_by_time_on_the_longer_side():
    made = choice(query_of(), even(5000, 0, 10**6), even(1000, 0, 10**6))
    assert isinstance(made.shards, TimeShards)
    assert made.shards.side == "l"
    assert made.shards.count in (6, 7)
    assert made.moved == pytest.approx(6000, rel=0.05)
    right = choice(query_of("RIGHT JOIN"), even(5000, 0, 10**6), even(1000, 0, 10**6))
    assert right.shards.side == "r"


def test_windows_as_long_as_the_data_get_a_grid():
    spread = even(4000, 0, 5)
    made = choice(query_of(), spread, spread)
    assert isinstance(made.shards, GridShards)
    assert (made.shards.rows, made.shards.columns) in ((2, 3), (3, 2))
    assert made.evaluations == pytest.approx(4000**2, rel=0.05)
    # Rows about which the join decides are in one row of the grid, or in one slice.
    kept = choice(query_of("LEFT JOIN"), spread, spread).shards
    assert kept.side == "l"
    assert not kept.is_copied("l")
    assert isinstance(choice(query_of(), spread, spread, "time").shards, TimeShards)
    grid = choice(query_of("LEFT ANTI JOIN"), spread, spread, "grid").shards
    assert (grid.rows, grid.columns) == (8, 1)


def test_a_crowded_time_is_spread_over_shards():
    quantiles = [*range(0, 3200, 200), *[3200] * 32, *range(3400, 6800, 200)]
    crowded = Spread(8000, TickClock("t", 1, 0), quantiles)
    made = choice(query_of("LEFT JOIN"), crowded, even(10, 0, 6800)).shards
    assert made.count <= 8
    assert max(made.parts) >= 3
    heavy = made.parts.index(max(made.parts))
    assert made.bounds[heavy - 1] <= 3200 < made.bounds[heavy]


def test_shards_hold_no_more_rows_than_they_should():
    left, right = even(10_000, 0, 10**6), even(10, 0, 10**6)
    limits = Limits(2, False, 10**9, 1000)
    assert choice(query_of("LEFT JOIN"), left, right, "time", limits).shards.count == 10
    # Where either may be held, it is the few.
    assert choice(query_of(), left, right, "time", limits).shards.side == "r"


def test_no_rows_need_one_shard():
    nothing = Spread(0, TickClock("t", 1, 0))
    assert choice(query_of(), nothing, nothing).shards.count == 1


def test_what_spark_may_filter(spark):
    x = ops.column("l", "x", compile_type("x"))
    name = ops.column("l", "name", compile_type("name"))
    price = ops.column("l", "price", compile_type("price"))
    small, sums = ops.lt(x, ops.const(5)), ops.lt(ops.add(x, x), ops.const(5))

    def text(condition):
        found, _ = push(condition, F.col)
        return None if found is None else str(found)

    assert text(small) == str(F.col("x") < 5)
    assert text(sums) is None
    assert text(ops.and_(sums, small)) == text(small)
    assert text(ops.or_(sums, small)) is None
    assert text(ops.not_(ops.and_(sums, small))) is None
    assert text(ops.eq(name, ops.const("a"))) == str(F.col("name") == "a")
    assert text(ops.lt(price, ops.const(5))) is None
    assert text(ops.TRUE) is None
    assert text(ops.lt(x, ops.const(1 << 64))) is None
    few, wide = [ops.const(k) for k in (1, 5)], [ops.const(1 << 64), ops.const(1)]
    assert text(ops.is_in(x, few)) == str(F.col("x").isin([1, 5]))
    assert text(ops.is_in(x, wide)) is None
    assert text(ops.is_in(x, [ops.const(2 * k) for k in range(1001)])) is None


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


def test_equal_keys_share_a_bucket_wherever_they_come_from():
    """A NULL elsewhere in a batch, or another batch, changes no bucket."""
    columns = {
        "key 0": pa.array([1, None, 3, 1, 2**62], pa.int64()),
        "key 1": pa.array(["a", "é", None, "a", ""]),
        "key 2": pa.array([b"x", b"", b"y", b"x", None]),
        "key 3": pa.array([0.5, 1.0, None, 0.5, float("nan")]),
        "key 4": pa.array([1, 2, 3, 1, None], pa.timestamp("us")),
        "key 5": pa.array([True, None, False, True, True]),
        "key 6": pa.array([1, 2, 3, 1, None], pa.decimal128(30, 2)),
    }
    table = pa.record_batch(columns)
    found = {}
    for batch in (table, *(table.slice(k, 1) for k in range(5))):
        for rows in blobs_of(batch, list(columns), 7):
            for bucket, part in zip(
                rows.column("bucket").to_pylist(), tables_of([rows]), strict=True
            ):
                for row in part.to_pylist():
                    assert found.setdefault(repr(row), bucket) == bucket
    assert len(found) == 4
    assert len(set(found.values())) > 1
