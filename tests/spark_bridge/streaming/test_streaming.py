"""Streaming joins: the rows of a join of the whole tables, micro-batch by micro-batch."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.errors import UsageError
from penstock.spark_bridge import join, sql, stream
from penstock.spark_bridge.streaming import compaction
from penstock.spark_bridge.streaming.join import StreamingJoin
from penstock.spark_bridge.streaming.place import QueryPlace
from tests.kit.effort import effort
from tests.spark_bridge.kit.streams import cut, drawn, rows_of, stream_of, table, written

NEAR = "abs(a.x - b.x) < 2 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 4 SECONDS"
SPECS = {
    "inner": (f"SELECT a.n AS a, b.n AS b, a.t AS t FROM a JOIN b ON {NEAR}", {}),
    "left": (f"SELECT a.n AS a, b.n AS b FROM a LEFT JOIN b ON {NEAR}", {}),
    "right": (f"SELECT a.n AS a, b.x + 1 AS b FROM a RIGHT JOIN b ON {NEAR}", {}),
    "full": (f"SELECT a.n AS a, b.n AS b FROM a FULL JOIN b ON {NEAR}", {}),
    "semi": (f"SELECT a.n AS a FROM a LEFT SEMI JOIN b ON {NEAR}", {}),
    "anti": (f"SELECT a.n AS a FROM a LEFT ANTI JOIN b ON {NEAR}", {}),
    "rows": ("SELECT a.n AS a, b.n AS b FROM a JOIN b ON a.x = b.x", {"rows": {"a": 9, "b": 7}}),
    "rows full": ("SELECT a.n AS a, b.n AS b FROM a FULL JOIN b ON a.x = b.x", {"rows": 2}),
    "nearest": (
        f"SELECT a.n AS a, count(*) AS k, min_by(b.n, abs(a.x - b.x)) AS b FROM a JOIN b ON {NEAR} "
        "GROUP BY a.n",
        {"unique": {"a": "n"}},
    ),
    "tumbling": (
        f"SELECT window(a.t, '7 seconds').start AS w, a.x AS x, sum(b.n) AS s FROM a JOIN b "
        f"ON {NEAR} GROUP BY window(a.t, '7 seconds'), a.x",
        {},
    ),
    "pairs by both": (
        f"SELECT a.t AS t, b.x AS x, count(*) AS k FROM a JOIN b ON {NEAR} GROUP BY a.t, b.x",
        {},
    ),
    "outer groups": (
        "SELECT window(a.t, '7 seconds').start AS w, b.x AS x, count(*) AS k, sum(b.n) AS s FROM a "
        f"LEFT JOIN b ON {NEAR} GROUP BY window(a.t, '7 seconds'), b.x HAVING count(*) > 1",
        {},
    ),
    "outer groups of rows": (
        f"SELECT a.n AS n, count(b.n) AS k FROM a FULL JOIN b ON {NEAR} GROUP BY a.n, a.t",
        {"unique": {"a": "n"}},
    ),
    "sliding": (
        "SELECT window(a.t, '8 seconds', '4 seconds').start AS w, count(b.n) AS k FROM a LEFT JOIN "
        f"b ON {NEAR} GROUP BY window(a.t, '8 seconds', '4 seconds')",
        {},
    ),
    "nearest row": (
        f"SELECT a.n AS n, b.n AS m FROM a LEFT JOIN LATERAL (SELECT b.n FROM b WHERE {NEAR} "
        "ORDER BY abs(a.x - b.x), b.n LIMIT 1) b",
        {"unique": {"a": "n"}},
    ),
    "around": (
        "SELECT concat('n', a.name) AS name, a.n AS a, repeat('b', b.x) AS b FROM "
        f"(SELECT n, t, x, lpad(CAST(n AS STRING), 5, '0') AS name FROM a) a "
        f"JOIN b ON {NEAR} WHERE length(a.name) + b.x < 13",
        {},
    ),
}
for _name in ("full", "semi", "tumbling"):
    SPECS[f"{_name} by keys"] = SPECS[_name][0], {"partitioning": "keys"}
BATCHES = effort(5, 4)


def played(
    spark, folder: Path, name: str, *, lanes: int, late: int = 0, batches: int = BATCHES
) -> None:
    """Run a query over files and compare it with the join of the tables."""
    text, options = SPECS[name]
    timeless = "rows" not in options
    sides = {
        side: cut(drawn(seed, 150, disorder=5, timeless=timeless), batches)
        for seed, side in enumerate("ab")
    }
    admitted = {side: table([r for part in parts for r in part]) for side, parts in sides.items()}
    if late:
        sides["a"][3] += [(1000 + k, 50 + k, 1) for k in range(late)]
    folders = {
        side: written(folder / side, [table(part) for part in parts])
        for side, parts in sides.items()
    }
    tables = {side: stream_of(spark, path) for side, path in folders.items()}
    joined = stream(spark, text, tables, lanes=lanes, **options)
    checkpoint, output = str(folder / "checkpoint"), str(folder / "output")
    writer = joined.writeStream.option("checkpointLocation", checkpoint).outputMode("append")
    writer = writer.option("latePath", str(folder / "late")).trigger(availableNow=True)
    query = writer.start(output)
    assert query.awaitTermination(120)
    assert query.lastProgress["batchId"] == batches - 1
    found = [spark.read.schema(joined.schema).parquet(output).toArrow()]
    found.append(joined.remaining(checkpoint).toArrow())
    expected = penstock.sql(text, admitted, rows=options.get("rows"))
    names = expected.column_names
    # Spark says that a timestamp is an instant.
    parts = [t.select(names).cast(expected.schema) for t in found]
    assert parts[1].num_rows < parts[0].num_rows
    assert rows_of(pa.concat_tables(parts), names) == rows_of(expected, names)
    commit = QueryPlace(checkpoint).store.latest()
    assert commit.late_rows == {"l": late, "r": 0}
    assert commit.arrived == {"l": 150 + late, "r": 150}
    if late:
        came = spark.read.parquet(str(folder / "late" / "a")).toArrow()
        assert sorted(came.column("n").to_pylist()) == [1000 + k for k in range(late)]


@pytest.mark.parametrize(
    "name",
    [
        "full",
        "rows",
        "outer groups",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("tumbling", "tumbling by keys", "around")
        ),
    ],
)
def test_streams(spark, tmp_path, monkeypatch, name):
    # Lanes and merges of files come with far more rows than these.
    monkeypatch.setattr("penstock.spark_bridge.streaming.microbatch.PAIRS_PER_SHARD", 100)
    monkeypatch.setattr(compaction, "MOST_FILES", 3)
    batches = BATCHES if name == "full" else effort(BATCHES, 2)
    played(spark, tmp_path, name, lanes=2, late=3 if name == "full" else 0, batches=batches)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 2, 5])
@pytest.mark.parametrize("name", SPECS)
def test_all_streams(spark, tmp_path, monkeypatch, name, lanes):
    monkeypatch.setattr("penstock.spark_bridge.streaming.microbatch.PAIRS_PER_SHARD", 100)
    monkeypatch.setattr(compaction, "MOST_FILES", 3)
    played(spark, tmp_path, name, lanes=lanes)


def test_sql_and_join_of_streams(spark, tmp_path):
    rows = {side: drawn(seed, 30, disorder=5) for seed, side in enumerate("ab")}
    tables = {
        side: stream_of(spark, written(tmp_path / side, [table(own)])) for side, own in rows.items()
    }
    text, _ = SPECS["left"]
    on = {"names": ("a", "b"), "on": NEAR, "how": "left", "select": "a.n AS a, b.n AS b"}
    made = [sql(spark, text, tables, lanes=1), join(tables["a"], tables["b"], lanes=1, **on)]
    expected = penstock.sql(text, {side: table(own) for side, own in rows.items()})
    for number, joined in enumerate(made):
        assert isinstance(joined, StreamingJoin)
        found, checkpoint = {}, str(tmp_path / f"checkpoint {number}")

        def keep(rows, batch, found=found):
            found[batch] = rows.toArrow()

        writer = joined.writeStream.foreachBatch(keep).trigger(availableNow=True)
        assert writer.option("checkpointLocation", checkpoint).start().awaitTermination(120)
        keep(joined.remaining(checkpoint), -1)
        parts = pa.concat_tables(found.values())
        assert rows_of(parts, ["a", "b"]) == rows_of(expected, ["a", "b"])


def test_a_where_that_is_never_true(spark, tmp_path):
    tables = {
        side: stream_of(spark, written(tmp_path / side, [table([(1, 0, 1), (2, 50, 1)])]))
        for side in "ab"
    }
    text = f"{SPECS['left'][0]} WHERE 1 = 0"
    output, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    joined = stream(spark, text, tables, lanes=1)
    writer = joined.writeStream.option("checkpointLocation", checkpoint)
    assert writer.trigger(availableNow=True).start(output).awaitTermination(120)
    assert spark.read.schema(joined.schema).parquet(output).count() == 0
    assert joined.remaining(checkpoint).count() == 0


@pytest.mark.slow
def test_a_silent_source(spark, tmp_path):
    rows = {"a": [(k, k, 1) for k in range(30)], "b": [(k, k, 1) for k in range(3)]}
    parts = {"a": [table(part) for part in cut(rows["a"], 3)], "b": [table(rows["b"])]}
    folders = {side: written(tmp_path / side, own) for side, own in parts.items()}
    tables = {side: stream_of(spark, path, delay="0 seconds") for side, path in folders.items()}
    text, _ = SPECS["left"]
    wanted = rows_of(penstock.sql(text, {k: table(v) for k, v in rows.items()}), ["a", "b"])
    came = {}
    for idle in (None, timedelta(days=1), timedelta(microseconds=1)):
        joined = stream(spark, text, tables, idle=idle, lanes=1)
        output, checkpoint = str(tmp_path / f"out {idle}"), str(tmp_path / f"checkpoint {idle}")
        writer = joined.writeStream.option("checkpointLocation", checkpoint)
        assert writer.trigger(availableNow=True).start(output).awaitTermination(120)
        found = [spark.read.schema(joined.schema).parquet(output).toArrow()]
        came[idle] = found[0].num_rows
        found.append(joined.remaining(checkpoint).toArrow())
        parts = pa.concat_tables([one.select(["a", "b"]) for one in found])
        assert rows_of(parts, ["a", "b"]) == wanted
    # Where b follows a, rows of a leave that are older than what b's window reaches.
    assert came[None] == came[timedelta(days=1)] < came[timedelta(microseconds=1)]
    with pytest.raises(UsageError, match="idle must be a time above 0"):
        stream(spark, text, tables, idle=timedelta(0))
