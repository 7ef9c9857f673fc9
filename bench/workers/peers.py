"""The same ``GROUP BY`` in DuckDB and Polars, two threads, from memory to an Arrow table."""

from __future__ import annotations

import os
from collections.abc import Callable

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


def tables(job: Job | JoinJob, worker: int) -> dict[str, pa.Table]:
    """Rows of one worker by stream."""
    if isinstance(job, JoinJob):
        return job.tables(worker)
    return {job.stream: pa.Table.from_batches(job.batches(worker))}


def contenders(job: Job, rows: pa.Table) -> dict[str, Callable[[], pa.Table]]:
    """Calls by name: of each engine, the forms that its users would try.

    Parameters
    ----------
    rows : Table
        Of all workers; the time of an engine's own copy of them does not count.
    """
    return {**_duckdb(job, in_ms(rows)), **_polars(job, in_ms(rows))}


def _duckdb(job: Job, rows: pa.Table) -> dict[str, Callable[[], pa.Table]]:
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS})
    for name, value in _KEPT.items():
        if connection.sql(f"FROM duckdb_settings() WHERE name = '{name}'"):
            connection.execute(f"SET {name} = '{value}'")
    connection.execute("SET preserve_insertion_order = false")
    connection.register("lying", rows)
    connection.execute("CREATE TEMP TABLE loaded AS SELECT * FROM lying")
    where = f"WHERE {job.where}" if job.where else ""
    width = job.window_ms

    def run(source: str) -> pa.Table:
        # The quotient groups; it becomes a time in the result alone.
        return connection.sql(
            f"SELECT key, w * {width} AS w, value FROM (SELECT {job.key} AS key, t // {width} AS w,"
            f" {job.aggregate} AS value FROM {source} {where} GROUP BY {job.key}, t // {width})"
        ).to_arrow_table()

    return {"DuckDB": lambda: run("loaded"), "DuckDB, Arrow": lambda: run("lying")}


def _polars(job: Job, rows: pa.Table) -> dict[str, Callable[[], pa.Table]]:
    import polars as pl

    frame = pl.DataFrame(rows).rechunk()
    width = job.window_ms
    value = {"count(*)": pl.len(), "max(price)": pl.col("price").max()}[job.aggregate]

    def run(engine) -> pa.Table:
        lazy = frame.lazy()
        if job.where:
            lazy = lazy.filter(pl.sql_expr(job.where))
        lazy = lazy.group_by(pl.col(job.key).alias("key"), (pl.col("t") // width).alias("w"))
        lazy = lazy.agg(value.alias("value")).with_columns(pl.col("w") * width)
        return lazy.collect(engine=engine).to_arrow()

    return {
        "Polars": lambda: run("in-memory"),
        "Polars, streaming": lambda: run("streaming"),
    }
