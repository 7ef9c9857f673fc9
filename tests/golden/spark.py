"""Streams in Spark of which a checkpoint is kept, and how they go on.

Their source gives one micro-batch per start, and notes no path of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock
from penstock.spark_bridge import stream

_ROWS, _STEP_MS = 20, 5_000
#: Milliseconds from one place within a batch to the next.
_PLACE_MS = 250
#: Micro-batches that a checkpoint covers, and all there are.
BEFORE, ALL = 2, 3
#: By source: factors of a row's number for its place in time, and for its column x.
_FACTORS = {"a": (7, 5), "b": (3, 4)}
#: Zone of the session.
ZONE = "America/New_York"

_NEAR = "abs(a.x - b.x) < 2 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t + INTERVAL 4 SECONDS"


@dataclass(frozen=True)
class SparkStream:
    """A query over two sources, ``a`` and ``b``, or over ``a`` and a table, ``c``.

    Parameters
    ----------
    query : str
    options : mapping
        Further arguments of :func:`penstock.spark_bridge.stream`.
    sink : str
        "delta", or "batches": each is handed to Python.
    """

    query: str
    options: Mapping[str, Any] = field(default_factory=dict)
    sink: str = "batches"

    @property
    def is_of_streams(self) -> bool:
        return " b ON " in self.query

    def joined(self, spark: Any, folder: Path) -> Any:
        """Return the streaming DataFrame."""
        tables: dict[str, Any] = {s: _frame(spark, s) for s in "ab" if f" {s} " in self.query}
        if " static c " in self.query:
            tables["static"] = spark.range(0, 9, 2, 1).selectExpr("id AS k", "id * 10 AS weight")
        elif " c " in self.query:
            tables["c"] = penstock.relation(folder / "relations" / "by key", nodes=True)
        return stream(spark, self.query, tables, lanes=2, **self.options)


def _frame(spark: Any, source: str) -> Any:
    place, x = _FACTORS[source]
    rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", _ROWS)
    rates = rates.option("advanceMillisPerBatch", _STEP_MS).option("startTimestamp", 0)
    time = f"unix_millis(timestamp) + value * {place} % {_ROWS} * {_PLACE_MS}"
    columns = "value AS n", f"timestamp_millis({time}) AS t", f"value * {x} % 9 AS x"
    frame = rates.option("numPartitions", 1).load().selectExpr(*columns)
    return frame.withWatermark("t", "5 seconds")


def table(source: str) -> pa.Table:
    """Return all rows of a source."""
    place, x = _FACTORS[source]
    numbers = range(ALL * _ROWS)
    times = [n // _ROWS * _STEP_MS + n * place % _ROWS * _PLACE_MS for n in numbers]
    ticks = pa.array(times, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    return pa.table({"n": numbers, "t": ticks, "x": [n * x % 9 for n in numbers]})


SPARK_STREAMS = {
    "full join": SparkStream(
        f"SELECT a.n AS i, b.n AS j, a.t AS t FROM a FULL JOIN b ON {_NEAR}", sink="delta"
    ),
    "by keys": SparkStream(
        f"SELECT a.n AS i, b.n AS j FROM a LEFT JOIN b ON {_NEAR}", {"partitioning": "keys"}
    ),
    "rows": SparkStream("SELECT a.n AS i, b.n AS j FROM a FULL JOIN b ON a.x = b.x", {"rows": 6}),
    "folds of rows": SparkStream(
        "SELECT a.n AS i, count(*) AS k, min_by(b.n, abs(a.x - b.x)) AS near "
        f"FROM a JOIN b ON {_NEAR} GROUP BY a.n",
        {"unique": {"a": "n"}},
    ),
    "tumbling groups": SparkStream(
        "SELECT window(a.t, '7 seconds').start AS w, b.x AS x, count(*) AS k, avg(a.x) AS m "
        f"FROM a JOIN b ON {_NEAR} GROUP BY window(a.t, '7 seconds'), b.x"
    ),
    "static": SparkStream("SELECT a.n AS i, c.weight AS w FROM a LEFT JOIN static c ON a.x = c.k"),
    "nodes": SparkStream("SELECT a.n AS i, c.label AS label FROM a JOIN c ON a.x = c.k"),
}


def played(spark: Any, folder: Path, name: str, batches: int = 1) -> list[pa.Table]:
    """Run a stream for some micro-batches; returns what its sink has got since, and what is left.

    A Delta table is given whole.
    """
    kept = folder / "spark" / name
    joined, found = SPARK_STREAMS[name].joined(spark, folder), []
    writer = joined.writeStream.option("checkpointLocation", str(kept / "checkpoint"))
    writer = writer.trigger(availableNow=True)
    is_delta = SPARK_STREAMS[name].sink == "delta"
    if not is_delta:
        writer = writer.foreachBatch(lambda rows, _: found.append(rows.toArrow()))
    else:
        writer = writer.format("delta")
    for _ in range(batches):
        query = writer.start(*[str(kept / "table")] * is_delta)
        if not query.awaitTermination(120):
            raise TimeoutError(f"{name} does not end")
    if is_delta:
        from deltalake import DeltaTable

        found.append(DeltaTable(kept / "table").to_pyarrow_table())
    if hasattr(joined, "rest"):
        found.append(joined.rest(str(kept / "checkpoint")).toArrow())
    return found
