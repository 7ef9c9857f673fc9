"""Partial aggregates as Spark rows: a bucket, and an Arrow table as bytes.

As bytes, because partial sums may have more digits than Spark's decimals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.host.join.parts.groups import merged_groups

from .compiled import Compiled
from .rows import in_batches, message_of, table_of

#: Columns of the rows, and their types.
BUCKET, BLOB = "bucket", "blob"
SCHEMA = pa.schema([(BUCKET, pa.int32()), (BLOB, pa.binary())])


def blobs_of(
    partial: pa.RecordBatch, keys: Sequence[str], buckets: int
) -> Iterator[pa.RecordBatch]:
    """Rows with the partial aggregates of the groups of each bucket."""
    if not partial.num_rows:
        return
    bucket = _hashed(partial, keys) % np.uint64(buckets)
    numbers = np.unique(bucket)
    blobs = [message_of(partial.filter(pa.array(bucket == one))) for one in numbers]
    yield pa.RecordBatch.from_arrays(
        [pa.array(numbers.astype(np.int32)), pa.array(blobs, pa.binary())], schema=SCHEMA
    )


def tables_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The tables in rows of :func:`blobs_of`; an empty blob has none."""
    for batch in batches:
        for blob in batch.column(BLOB):
            data = blob.as_buffer()
            if data is not None and data.size:
                yield table_of(data)


def merge(
    compiled: Compiled, output: pa.Schema, output_rows: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Merge partial aggregates into groups with the types that Spark expects.

    Parameters
    ----------
    compiled : Compiled
    output : pyarrow.Schema
    output_rows : int
        Most rows of an output batch.
    batches : iterator of RecordBatch
        Rows of :func:`blobs_of`.
    """
    groups = merged_groups(compiled.query(), compiled.by_side())
    for table in tables_of(batches):
        groups.add(table)
    yield from in_batches(groups.finish(), output, output_rows)


def _hashed(partial: pa.RecordBatch, keys: Sequence[str]) -> np.ndarray:
    """A hash of each row's keys, as uint64, that is the same in every process."""
    from pandas.core.util.hashing import hash_array

    total = np.zeros(partial.num_rows, np.uint64)
    for name in keys:
        column = partial.column(name)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        hashed = np.where(valid, hash_array(_plain(column)), np.uint64(1))
        with np.errstate(over="ignore"):
            total = total * np.uint64(0x9E3779B97F4A7C15) + hashed
    return total


def _plain(column: pa.Array) -> np.ndarray:
    """Numbers or text that are equal where the keys are; any value for NULL."""
    dtype = column.type
    if pa.types.is_temporal(dtype):
        column = column.cast(pa.int32() if dtype.bit_width == 32 else pa.int64())
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if is_number or pa.types.is_boolean(column.type):
        zero = pa.scalar(0).cast(column.type)
        return column.fill_null(zero).to_numpy(zero_copy_only=False)
    return np.array([_text(v) for v in column.to_pylist()], object)


def _text(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
