"""Streams from files: one file of each side per micro-batch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.timestamp("us", "UTC")), ("x", pa.int32())])
DDL = "n long, t timestamp, x int"
SECOND = 1_000_000
Row = tuple[int, int | None, int | None]


def drawn(seed: int, count: int, *, disorder: int, timeless: bool = True) -> list[Row]:
    """Rows of number, time in seconds, and a small integer; times rise, but for some disorder."""
    rng = Random(seed)
    rows: list[Row] = []
    for number in range(count):
        time = None if timeless and rng.random() < 0.02 else number - rng.randint(0, disorder)
        rows.append((number, time, None if rng.random() < 0.05 else rng.randint(0, 9)))
    return rows


def cut(rows: Sequence[Row], parts: int) -> list[list[Row]]:
    """The rows in parts of about one size."""
    ends = [len(rows) * k // parts for k in range(parts + 1)]
    return [list(rows[a:b]) for a, b in pairwise(ends)]


def table(rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [[], [], []]
    times = [None if t is None else t * SECOND for t in columns[1]]
    return pa.table([pa.array(columns[0], pa.int64()), times, columns[2]], schema=SCHEMA)


def written(folder: Path, parts: Sequence[pa.Table]) -> Path:
    """One file per part, in an order that Spark's source of files keeps."""
    folder.mkdir(parents=True)
    for k, part in enumerate(parts):
        put(folder, k, part)
    return folder


def put(folder: Path, number: int, part: pa.Table) -> None:
    """One file, which appears whole, after those of smaller numbers."""
    path, partial = folder / f"{number:04}.parquet", folder / f".{number:04}.partial"
    pq.write_table(part, partial)
    os.utime(partial, (1_000_000_000 + number, 1_000_000_000 + number))
    partial.rename(path)


def stream_of(spark, folder: Path, ddl: str = DDL, delay: str | None = "5 seconds"):
    """A streaming DataFrame that reads a file per micro-batch."""
    source = spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return source if delay is None else source.withWatermark("t", delay)


def rows_of(tables: pa.Table, names: Sequence[str]) -> list[tuple]:
    """Rows in a fixed order."""
    columns = [tables.column(name).to_pylist() for name in names]
    return sorted(zip(*columns, strict=True), key=repr)
