"""Every option of Spark's calls has an effect on a kind of query, or the one table refuses it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.sql import functions as F

import penstock
from penstock.errors import PenstockError
from penstock.host.relation import RelationOptions, build
from penstock.spark_bridge import explain, sql, stream
from penstock.spark_bridge.stream_frame import StreamFrame
from penstock.uses import SPARK, SPARK_STREAM, QueryKind, UnusedError, Use, Way

_TIMED = "b.t BETWEEN a.t - INTERVAL 5 SECONDS AND a.t + INTERVAL 5 SECONDS AND a.k < :lim"
#: A query of each kind, and what it is, on tables and on streams; c is a relation, d a table.
CASES: dict[str, tuple[str, set[QueryKind]]] = {
    "time": (f"SELECT a.id, b.id AS j FROM a JOIN b ON {_TIMED} AND a.x < b.x", {QueryKind.TIME}),
    "grouped": (
        f"SELECT a.t, count(*) AS n FROM a JOIN b ON {_TIMED} AND a.x < b.x GROUP BY a.t",
        {QueryKind.TIME, QueryKind.GROUPED},
    ),
    "rows": (
        "SELECT a.id, b.id AS j FROM a [ROWS 3], b [ROWS 3] WHERE a.k < :lim AND a.x < b.x",
        {QueryKind.ROWS},
    ),
    "look-up": (
        "SELECT a.id, c.name FROM a JOIN c ON a.k = c.k AND a.k < :lim",
        {QueryKind.LOOKUP},
    ),
    "groups of a look-up": (
        "SELECT a.id, a.t, count(*) AS n FROM a JOIN c ON a.k = c.k AND a.k < :lim "
        "GROUP BY a.id, a.t",
        {QueryKind.LOOKUP, QueryKind.GROUPED},
    ),
    "static": ("SELECT a.id, d.name FROM a JOIN d ON a.k = d.k AND a.k < :lim", {QueryKind.STATIC}),
    "parts": (
        f"SELECT a.id, upper(b.name) AS w FROM a JOIN b ON {_TIMED} AND a.x < b.x",
        {QueryKind.TIME, QueryKind.GROUPED},
    ),
}

#: Values that change what a query does, or that its kind of query finds wrong.
VALUES: dict[str, Any] = {
    "time": {"a": "nothing"},
    "rows": {"a": 4, "b": 4},
    "within": timedelta(seconds=-1),
    "params": {},
    "scale": {"a.nothing": 0},
    "device": "abacus",
    "device_options": {"colour": 1},
    "lanes": 0,
    "partitioning": "sideways",
    "ordered": True,
    "keys": {"a": "nothing", "b": "nothing"},
    "memory_bytes": 0,
    "pins": "/pins",
    "extended": True,
    "unique": {"a": "x"},
    "disorder": timedelta(seconds=9),
    "idle": timedelta(seconds=9),
    "pruning": False,
}
#: Pairs of which the option makes another kind of query.
ROWS_OF = {("rows", "time"), ("rows", "grouped")}
#: Options of which a plan shows nothing, by call and case: why.
HOLDS = {
    ("sql", "device_options", ""): "tasks open the device; explain says what it is",
    ("sql", "rows", "rows"): "as this",
    ("sql", "ordered", "look-up"): "rows that are joined in place are in order anyway",
    ("stream", "ordered", "look-up"): "as these",
    ("stream", "unique", "look-up"): "a look-up without groups releases rows at once",
    **{
        ("stream", option, case): "tasks open the device, and note versions; see test_lookup"
        for option in ("device_options", "pins")
        for case in ("look-up", "groups of a look-up")
    },
    ("explain", "extended", ""): "these descriptions are short enough to be whole",
}


def is_refused(
    table: Mapping[str, Use], option: str, kinds: set[QueryKind], ways: set[Way]
) -> bool:
    use = table[option]
    return bool(ways & set(use.never)) or not kinds & set(use.kinds)


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """Tables and streams, by call; those of a refused call are never read."""
    folder = tmp_path_factory.mktemp("uses")
    rows = pa.table(
        {
            "id": [1, 2],
            "k": [1, 2],
            "t": pa.array([10, 90], pa.timestamp("s", "UTC")),
            "x": [0.25, 0.5],
            "name": ["p", "q"],
        }
    )
    stored = rows.select(["k", "name"])
    build(stored, str(folder / "c.rel"), RelationOptions(key=("k",))).close()
    frame = spark.createDataFrame(rows)
    source = spark.readStream.format("rate").load()
    columns = [
        F.lit(rows[name][0].as_py()).alias(name) for name in rows.column_names if name != "t"
    ]
    streaming = source.select(F.col("timestamp").alias("t"), *columns).withWatermark(
        "t", "1 minute"
    )
    relation = penstock.relation(folder / "c.rel")
    static = spark.createDataFrame(stored)
    return {
        "batch": {"a": frame, "b": frame, "c": relation},
        "stream": {"a": streaming, "b": streaming, "c": relation, "d": static},
    }


def outcome(spark, call, tables, case: str, more: Mapping[str, Any]) -> Any:
    """What a call decides, or its error."""
    text, _ = CASES[case]
    own = {name: one for name, one in tables.items() if f" {name}" in text.partition("FROM")[2]}
    options: dict[str, Any] = {"params": {"lim": 99}}
    if case == "groups of a look-up" and call is stream:
        options["unique"] = {"a": "id"}
    if case == "rows":
        options["time"] = {"a": "t", "b": "t"}
    try:
        made = call(spark, text, own, **options | more)
    except PenstockError as error:
        return error
    if isinstance(made, str):
        return made
    if isinstance(made, StreamFrame):
        shown = repr({name: value for name, value in vars(made).items() if name != "rows"})
    else:
        shown = made._jdf.queryExecution().analyzed().toString()
    return re.sub(r"#\d+L?|(?<=\]), \d+| at 0x\w+|_pyspark_\w+|lookup \w{8}", "", shown)


#: Calls, by name: whether their tables are streams, and what refuses their options.
CALLS = {
    "sql": (sql, "batch", SPARK),
    "explain": (explain, "batch", SPARK),
    "stream": (stream, "stream", SPARK_STREAM),
}
NOT_THERE = {"sql": {"extended"}, "explain": {"ordered"}, "stream": {"extended"}}


@pytest.mark.parametrize(
    ("name", "case"),
    [(n, c) for n in CALLS for c in CASES if c != "static" or CALLS[n][1] == "stream"],
)
def test_every_option(spark, tables, name, case):
    call, kind, table = CALLS[name]
    _, kinds = CASES[case]
    ways = {Way.PARTS} if case == "parts" else set()
    ways |= {Way.BATCH} if kind == "batch" else set()
    plain = outcome(spark, call, tables[kind], case, {})
    assert not isinstance(plain, PenstockError), plain
    assert outcome(spark, call, tables[kind], case, {}) == plain
    for option in sorted(table.keys() - NOT_THERE[name]):
        spark.sparkContext.setJobGroup(f"{name} {case} {option}", option)
        value = {"a.x": 0} if (option, case) == ("scale", "parts") else VALUES[option]
        found = outcome(spark, call, tables[kind], case, {option: value})
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(f"{name} {case} {option}")
        if is_refused(table, option, kinds, ways) and (option, case) not in ROWS_OF:
            assert isinstance(found, UnusedError), (option, found)
            assert str(found).startswith(f"{option}= is not for "), found
            assert str(found).endswith(f"; leave {option}= out"), found
            assert not jobs, option
        else:
            assert not isinstance(found, UnusedError), (option, found)
            is_shown = not {(name, option, case), (name, option, "")} & HOLDS.keys()
            assert found != plain or not is_shown, option
