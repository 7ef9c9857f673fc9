"""Bytes of batches, counted without Arrow where that can be."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from penstock.host.rows.batch_bytes import byte_counter


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_fixed_widths(rows: int) -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            ("b", pa.bool_()),
            ("c", pa.timestamp("us")),
            ("d", pa.decimal128(20, 2)),
        ]
    )
    row = {"a": 1, "b": True, "c": datetime.datetime(2020, 1, 1), "d": None}
    batch = pa.RecordBatch.from_pylist([row] * rows, schema=schema)
    counted = byte_counter(schema)(batch)
    assert counted >= batch.nbytes - 4  # bits are packed by column there, by row here
    assert counted == -(-rows * (64 + 2 + 65 + 129) // 8)


def test_other_widths_are_left_to_arrow() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    batch = pa.RecordBatch.from_pylist([{"a": 1, "b": "long" * 100}], schema=schema)
    assert byte_counter(schema)(batch) == batch.nbytes


def test_a_slice_counts_its_own_rows() -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False)])
    batch = pa.RecordBatch.from_arrays([pa.array(range(100), pa.int32())], schema=schema)
    assert byte_counter(schema)(batch.slice(10, 5)) == 20
