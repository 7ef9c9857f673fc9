"""Blocks of a join: rows and loads as bytes, sent between workers and kept in checkpoints."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa

from ...device.fields import MalformedError
from ..dealt import packed, unpacked
from ..output_order import FEED, PLACE

#: Number of the source, kind of the block, and zeros, so that arrays stay aligned.
_HEAD = struct.Struct("<BB6x")


class BlockKind(IntEnum):
    """Kinds of blocks, by their content."""

    #: New rows of a source.
    ROWS = 0
    #: Rows of a cell that has become heavy, copied by the worker that held them.
    MOVED = 1
    #: A worker's loads of cells.
    LOADS = 2


def shipped_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of dealt rows with the columns that workers add before they send them."""
    return schema.append(pa.field(FEED, pa.uint32())).append(pa.field(PLACE, pa.int64()))


def with_places(batch: pa.RecordBatch, schema: pa.Schema, feed: int, first: int) -> pa.RecordBatch:
    """Copy dealt rows, and add columns for their feed and their number in it.

    The memory of a dealt batch is used again for the next one.
    """
    count = batch.num_rows
    feeds = pa.array(np.full(count, feed, np.uint32))
    places = pa.array(np.arange(first, first + count, dtype=np.int64))
    rows = pa.RecordBatch.from_arrays([*batch.columns, feeds, places], schema=schema)
    return unpacked(packed(rows), schema)


def write_block(source: int, batch: pa.RecordBatch, *, is_moved: bool = False) -> bytes:
    """Return rows of a source as a block."""
    kind = BlockKind.MOVED if is_moved else BlockKind.ROWS
    return b"".join([_HEAD.pack(source, kind), packed(batch)])


def write_loads(loads: bytes) -> bytes:
    """Return a worker's loads as a block."""
    return _HEAD.pack(0, BlockKind.LOADS) + loads


def read_block(block: Any, schemas: list[pa.Schema]) -> tuple[BlockKind, int, Any]:
    """Return a block's kind, its source, and its rows or loads.

    They are copies, since the memory of a block is used again.

    Parameters
    ----------
    schemas : list of pyarrow.Schema
        Of shipped rows, by source.

    Raises
    ------
    MalformedError
    """
    content = memoryview(block).cast("B")
    if len(content) < _HEAD.size or content[0] >= len(schemas) or content[1] not in list(BlockKind):
        raise MalformedError("a block of rows is cut, or of no source of this join")
    source, kind = content[0], BlockKind(content[1])
    body = bytes(content[_HEAD.size :])
    return kind, source, body if kind is BlockKind.LOADS else unpacked(body, schemas[source])
