"""Rows of a join on their way between workers, and in checkpoints."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from ...device.fields import MalformedError
from ..dealt import packed, unpacked
from ..output_order import FEED, PLACE

#: Number of the source, and zeros, so that arrays stay aligned.
_HEAD = struct.Struct("<B7x")


def shipped_schema(dealt: pa.Schema) -> pa.Schema:
    """Return the columns of rows that workers send each other."""
    return dealt.append(pa.field(FEED, pa.uint32())).append(pa.field(PLACE, pa.int64()))


def with_places(batch: pa.RecordBatch, schema: pa.Schema, feed: int, first: int) -> pa.RecordBatch:
    """Return a copy of dealt rows, with the columns that say where they come from.

    The memory of a dealt batch is used again for the next one.
    """
    count = batch.num_rows
    feeds = pa.array(np.full(count, feed, np.uint32))
    places = pa.array(np.arange(first, first + count, dtype=np.int64))
    rows = pa.RecordBatch.from_arrays([*batch.columns, feeds, places], schema=schema)
    return unpacked(packed(rows), schema)


def write_block(source: int, batch: pa.RecordBatch) -> bytes:
    """Return rows of a source as bytes."""
    return b"".join([_HEAD.pack(source), packed(batch)])


def read_block(block: Any, schemas: list[pa.Schema]) -> tuple[int, pa.RecordBatch]:
    """Return the source and the rows of a block, as a copy: its memory is used again.

    Parameters
    ----------
    schemas : list of pyarrow.Schema
        Of shipped rows, by source.

    Raises
    ------
    MalformedError
    """
    content = memoryview(block).cast("B")
    if len(content) < _HEAD.size or content[0] >= len(schemas):
        raise MalformedError("a block of rows is cut, or of no source of this join")
    source = content[0]
    return source, unpacked(bytes(content[_HEAD.size :]), schemas[source])
