"""The bridge through Spark Connect: no ``sparkContext``, no ``_jvm``, frames of another class."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")
pytest.importorskip("grpc", reason="needs pip install 'penstock[dev]'")

from tests.spark_bridge.kit.apps import SERVER_ENV, light_java, run_app, said_by

# A process of its own: one process has one kind of session.
BATCH = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from penstock.spark_bridge.java import ensure_java
ensure_java()
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
import penstock
from penstock.spark_bridge import explain, join, sql, watch
frames = {
    name: spark.range(rows).selectExpr("id", "cast(id * 7 % 50 AS int) t", "id % 9 AS x")
    for name, rows in (("a", 400), ("b", 300))
}
tables = {name: frame.toArrow() for name, frame in frames.items()}
time = {"a": "t", "b": "t"}
on = "b.t BETWEEN a.t - 3 AND a.t + 1 AND abs(a.x - b.x) < 2 AND a.t > 5"
for query in (
    f"SELECT a.id AS i, b.id AS j FROM a FULL JOIN b ON {on}",
    "SELECT a.x, count(*) AS n, min_by(b.id, abs(a.id - b.id)) AS m "
    f"FROM a JOIN b ON {on} GROUP BY a.x",
):
    found = sql(spark, query, frames, time=time, lanes=3).toArrow()
    expected = penstock.sql(query, tables, time=time)
    order = [(name, "ascending") for name in expected.schema.names]
    print("EQUAL", found.cast(expected.schema).sort_by(order).equals(expected.sort_by(order)))
"""
SAID = ["EQUAL True", "EQUAL True"]
MORE = """
print("SMALL", "Spark estimates" in explain(spark, query, frames, time=time))
spark.conf.set("spark.penstock.batch.lanes", "2")
print("LANES", "2 lanes" in explain(spark, query, frames, time=time))
made = frames["a"].transform(join, frames["b"], on="l.x = r.x", time="t", within=3, lanes=1)
print("ROWS", made.count() > 0)
from penstock.spark_bridge import relation
kept = relation(spark, frames["b"], "kept.rel", key="x", lanes=2)
looked = "SELECT a.id AS i, b.id AS j FROM a LEFT JOIN b ON a.x = b.x AND a.t > b.t"
joined = sql(spark, looked, {"a": frames["a"], "b": kept})
for name, frame in frames.items():
    frame.createTempView(name)
nulls = [[field.nullable for field in one.schema] for one in (joined, spark.sql(looked))]
print("NULLS", nulls[0] == nulls[1])
expected = penstock.sql(looked, {"a": tables["a"], "b": kept})
order = [(name, "ascending") for name in expected.schema.names]
# Spark says of a column that it is NOT NULL; in-process results do not.
joined = joined.toArrow().cast(expected.schema)
print("EQUAL", joined.sort_by(order).equals(expected.sort_by(order)))
frames["a"].repartition(2).write.parquet("source")
source = spark.readStream.schema(frames["a"].schema).option("maxFilesPerTrigger", 1)
source = source.parquet("source")
heard = watch(spark)
query = (
    sql(spark, looked, {"a": source, "b": kept}, lanes=2).writeStream.format("parquet")
    .option("path", "looked").option("checkpointLocation", "checkpoint")
    .trigger(availableNow=True).start()
)
print("ENDED", query.awaitTermination(240))
# Its tasks know the query and the batch by Spark's local properties.
batches = [str(k) for k, name in enumerate(f for f in os.listdir("source") if f[-1] == "t")]
print("PINNED", sorted(os.listdir(f"kept.rel/pins/{query.id}")) == batches, len(batches))
heard.wait(query, len(batches) - 1, 120)
print("HEARD", sum(one.lookup.sought for one in heard.batches(query)))
heard.close()
found = spark.read.parquet("looked").toArrow().select(expected.schema.names)
print("EQUAL", found.sort_by(order).equals(expected.sort_by(order)))
"""
MORE_SAID = ["SMALL True", "LANES True", "ROWS True", "NULLS True", "EQUAL True", "ENDED True"]
MORE_SAID += ["PINNED True 2", "HEARD 400", "EQUAL True"]


@pytest.mark.parametrize(
    ("program", "wanted"),
    [(BATCH, SAID), pytest.param(BATCH + MORE, SAID + MORE_SAID, marks=pytest.mark.slow)],
    ids=["batch", "all"],
)
def test_through_a_server(tmp_path, program, wanted):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{program}spark.stop()"],
        cwd=tmp_path,
        env={**os.environ, **SERVER_ENV, **light_java()},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.split(" ")[0].isupper()]
    assert said == wanted, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.mark.slow
def test_streams_through_a_server(tmp_path):
    found = said_by(run_app("connect_app", str(tmp_path), timeout_s=570, env=SERVER_ENV))
    assert found.pop("rows") > 100
    assert found == {
        "session": "pyspark.sql.connect.session",
        "errors": ["", ""],
        "ended": True,
        "equal": True,
    }
