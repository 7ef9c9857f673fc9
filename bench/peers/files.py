"""Sides of a join from files, with plain types and in the order of time."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def data_folder() -> Path | None:
    """Where the real streams are; None if nobody said so."""
    named = os.environ.get("PENSTOCK_DATA")
    return Path(named) if named else None


def stream(
    name: str,
    time: str,
    columns: tuple[str, ...],
    size: float,
    where: pc.Expression | None = None,
) -> pa.Table:
    """The earlier rows of a real stream that meet a filter, which no contender has to evaluate.

    Parameters
    ----------
    size : float
        Share of the rows.
    """
    folder = data_folder()
    assert folder is not None  # the list of workloads has none of these then
    table = read_side(folder / f"{name}.parquet", time, columns, where)
    return table.slice(0, round(table.num_rows * size))


def read_side(
    path: Path, time: str, columns: tuple[str, ...], where: pc.Expression | None = None
) -> pa.Table:
    """A file's rows in the order of time, ties by id; ``time`` becomes ``t``."""
    table = pq.read_table(path)
    table = table if where is None else table.filter(where)
    table = table.sort_by([(time, "ascending"), ("id", "ascending")])
    shown = {"id": table["id"].cast(pa.int32()), "t": table[time].cast(pa.int64())}
    for column in columns:
        values = table[column]
        narrow = values.type.bit_width < 32 or values.type == pa.int32()
        shown[column] = values.cast(pa.int32() if narrow else pa.int64())
    return pa.table(shown).combine_chunks()
