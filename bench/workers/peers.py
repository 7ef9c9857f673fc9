"""The same in DuckDB and Polars, two threads, from memory to an Arrow table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import duckdb
import pyarrow as pa

from bench.workers.jobs import Job, in_ms
from bench.workers.joins import JoinJob

THREADS = 2
# Polars reads it once, when it is first imported.
os.environ.setdefault("POLARS_MAX_THREADS", str(THREADS))
# Nor does it give memory back between two turns: workers keep theirs, too.
os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1")
#: DuckDB's ways to keep memory, of versions that have them; a turn of 28 million rows needs less.
_KEPT = {"block_allocator_memory": "6GB", "allocator_flush_threshold": "1TB"}


def contenders(
    job: Job | JoinJob, rows: Mapping[str, pa.Table]
) -> dict[str, Callable[[], pa.Table]]:
    """Calls by name: of each engine, the forms that its users would try.

    Parameters
    ----------
    rows : mapping of stream to Table
        Of all workers; the time of an engine's own copy of them does not count.
    """
    if isinstance(job, JoinJob):
        return {**_duckdb_joins(job, rows), **_polars_joins(job, rows)}
    whole = rows[job.stream]
    if not job.is_table:
        whole = in_ms(whole)
    return {**_duckdb(job, whole), **_polars(job, whole)}


def _connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": THREADS})
    for name, value in _KEPT.items():
        if connection.sql(f"FROM duckdb_settings() WHERE name = '{name}'"):
            connection.execute(f"SET {name} = '{value}'")
    connection.execute("SET preserve_insertion_order = false")
    return connection


def _duckdb(job: Job, rows: pa.Table) -> dict[str, Callable[[], pa.Table]]:
    connection = _connected()
    connection.register("lying", rows)
    connection.execute("CREATE TEMP TABLE loaded AS SELECT * FROM lying")
    where = f"WHERE {job.where}" if job.where else ""
    width = job.window_ms

    def run(source: str) -> pa.Table:
        if job.is_table:
            text = f"SELECT {job.key}, {job.aggregate} FROM {source} GROUP BY {job.key}"
            return connection.sql(text).to_arrow_table()
        # The quotient groups; it becomes a time in the result alone.
        return connection.sql(
            f"SELECT key, w * {width} AS w, value FROM (SELECT {job.key} AS key, t // {width} AS w,"
            f" {job.aggregate} AS value FROM {source} {where} GROUP BY {job.key}, t // {width})"
        ).to_arrow_table()

    return {"DuckDB": lambda: run("loaded"), "DuckDB, Arrow": lambda: run("lying")}


def _duckdb_joins(job: JoinJob, rows: Mapping[str, pa.Table]) -> dict[str, Callable]:
    forms, text = {}, job.workload.oracle()
    for name, is_loaded in (("DuckDB", True), ("DuckDB, Arrow", False)):
        connection = _connected()
        for stream, own in rows.items():
            connection.register("lying" if is_loaded else stream, own)
            if is_loaded:
                connection.execute(f"CREATE TEMP TABLE {stream} AS SELECT * FROM lying")
        forms[name] = lambda made=connection: made.sql(text).to_arrow_table()
    return forms


def _polars(job: Job, rows: pa.Table) -> dict[str, Callable[[], pa.Table]]:
    import polars as pl

    frame = pl.DataFrame(rows).rechunk()
    width = job.window_ms
    value = {
        "count(*)": pl.len(),
        "max(price)": pl.col("price").max() if "price" in rows.schema.names else None,
        "avg(cpu)": pl.col("cpu").cast(pl.Float64).mean() if "cpu" in rows.schema.names else None,
    }[job.aggregate]
    assert value is not None

    def run(engine) -> pa.Table:
        lazy = frame.lazy()
        if job.where:
            lazy = lazy.filter(pl.sql_expr(job.where))
        keys = [pl.col(job.key).alias("key")]
        if job.is_table:
            return lazy.group_by(keys).agg(value.alias("value")).collect(engine=engine).to_arrow()
        lazy = lazy.group_by(*keys, (pl.col("t") // width).alias("w"))
        lazy = lazy.agg(value.alias("value")).with_columns(pl.col("w") * width)
        return lazy.collect(engine=engine).to_arrow()

    return {
        "Polars": lambda: run("in-memory"),
        "Polars, streaming": lambda: run("streaming"),
    }


def _polars_joins(job: JoinJob, rows: Mapping[str, pa.Table]) -> dict[str, Callable]:
    """A join by windows; Polars has none by sessions."""
    import polars as pl

    if job.is_by_session:
        return {}
    left, right = (pl.DataFrame(in_ms(own)).rechunk() for own in rows.values())
    width = 1000 * job.window_s
    window = (pl.col("t") // width).alias("w")

    def run(engine) -> pa.Table:
        sellers = right.lazy().select(pl.col("id").alias("seller"), window)
        joined = left.lazy().select("seller", "id", window).join(sellers, on=["seller", "w"])
        lazy = joined.select("seller", "id", pl.col("w") * width)
        return lazy.collect(engine=engine).to_arrow()

    return {
        "Polars": lambda: run("in-memory"),
        "Polars, streaming": lambda: run("streaming"),
    }
