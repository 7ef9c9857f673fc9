"""Parquet files. Timestamps in their oldest form, INT96, are instants, as for Spark.

Arrow reads INT96 as timestamps without a zone, and by default in nanoseconds, of which years before
1677 and after 2262 have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

import pyarrow as pa
import pyarrow.parquet as pq

_UNIT = "us"  # Spark's, in which its years up to 9999 fit


def read_schema(path: str | PathLike) -> pa.Schema:
    """Schema of a file, or of the files of a folder."""
    dataset = pq.ParquetDataset(path, coerce_int96_timestamp_unit=_UNIT)
    return _with_instants(dataset.schema, dataset.files)


def read_table(path: str | PathLike, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows of a file, or of the files of a folder."""
    wanted = None if columns is None else list(columns)
    table = pq.read_table(path, columns=wanted, coerce_int96_timestamp_unit=_UNIT)
    files = pq.ParquetDataset(path).files
    return table.cast(_with_instants(table.schema, files))


def read_group(path: str | PathLike, group: int, columns: Sequence[str]) -> pa.Table:
    """A row group of a file."""
    with pq.ParquetFile(path, coerce_int96_timestamp_unit=_UNIT) as file:
        rows = file.read_row_group(group, columns=list(columns))
    return rows.cast(_with_instants(rows.schema, [path]))


def _with_instants(schema: pa.Schema, files: Sequence[str | PathLike]) -> pa.Schema:
    """The schema with a zone for the timestamps that are INT96 in the first of some files."""
    naive = [f.name for f in schema if pa.types.is_timestamp(f.type) and f.type.tz is None]
    if not naive or not files:
        return schema
    with pq.ParquetFile(files[0]) as file:
        stored = file.schema
        old = {
            c.path for k in range(len(stored)) if (c := stored.column(k)).physical_type == "INT96"
        }
    for name in old.intersection(naive):
        index = schema.get_field_index(name)
        field = schema.field(index)
        schema = schema.set(index, field.with_type(pa.timestamp(field.type.unit, "UTC")))
    return schema
