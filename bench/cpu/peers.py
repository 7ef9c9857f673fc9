"""The same theta query in DuckDB, Polars and Spark, as brute force and with hand-made pruning.

Every system counts the pairs of the same two tables. Counting is the form in which the peers are
fastest, since none of them has to hold the pairs; Penstock writes each pair all the same. Each
system keeps its tables in memory in its own form; loading is not measured.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass

from bench.cpu.workload import Points
from penstock.errors import MissingToolError

QUERY = "SELECT count(*) FROM l JOIN r ON abs(l.x - r.x) + abs(l.y - r.y) < {d}"
#: What the predicate implies about x, written out by hand: engines do not find it themselves.
PRUNED = QUERY + " AND r.x > l.x - {d} AND r.x < l.x + {d}"


@dataclass(frozen=True)
class Peer:
    """A system under comparison.

    Parameters
    ----------
    name : str
    target : float
        How many times faster Penstock means to be than its brute force.
    count : callable
        ``count(pruned)`` runs the query and gives the number of pairs.
    close : callable
        Frees its tables and threads.
    """

    name: str
    target: float
    count: Callable[[bool], int]
    close: Callable[[], None]


def _need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise MissingToolError(f"{package} is not installed; pip install {package}")


def duckdb_peer(points: Points, threads: int) -> Peer:
    _need("duckdb")
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    for name, (x, y) in (("l", points.stream), ("r", points.resident)):
        columns = {"x": x, "y": y}
        connection.register("fresh", _arrow(columns))
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM fresh")

    def count(pruned: bool) -> int:
        text = (PRUNED if pruned else QUERY).format(d=points.d)
        return connection.execute(text).fetchall()[0][0]

    return Peer("DuckDB", 25, count, connection.close)


def polars_peer(points: Points, threads: int) -> Peer:
    """Polars reads its number of threads from the environment, when it is imported."""
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    _need("polars")
    import polars as pl

    left = pl.DataFrame({"x": points.stream[0], "y": points.stream[1]}).lazy()
    right = pl.DataFrame({"xr": points.resident[0], "yr": points.resident[1]}).lazy()
    near = (pl.col("x") - pl.col("xr")).abs() + (pl.col("y") - pl.col("yr")).abs() < points.d
    ranges = (pl.col("xr") > pl.col("x") - points.d, pl.col("xr") < pl.col("x") + points.d)

    def count(pruned: bool) -> int:
        predicates = (*ranges, near) if pruned else (near,)
        return left.join_where(right, *predicates).select(pl.len()).collect().item()

    return Peer("Polars", 15, count, lambda: None)


def spark_peer(points: Points, threads: int) -> Peer:
    _need("pyspark")
    _need("pandas")
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(f"local[{threads}]")
        .appName("bench-cpu")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", str(threads))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    for name, (x, y) in (("l", points.stream), ("r", points.resident)):
        table = session.createDataFrame(_arrow({"x": x, "y": y})).repartition(threads)
        table.cache().createOrReplaceTempView(name)
        table.count()

    def count(pruned: bool) -> int:
        text = (PRUNED if pruned else QUERY).format(d=points.d)
        return session.sql(text).collect()[0][0]

    return Peer("Spark", 100, count, session.stop)


def _arrow(columns: dict):
    import pyarrow as pa

    return pa.table(columns)


PEERS = (duckdb_peer, polars_peer, spark_peer)
