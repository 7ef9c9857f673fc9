"""Rows of a join on their way between workers, and in checkpoints."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa

from ...device.fields import MalformedError
from ..dealt import packed, unpacked
from ..output_order import FEED, PLACE

#: Number of the source, what is behind it, and zeros, so that arrays stay aligned.
_HEAD = struct.Struct("<BB6x")


class Head(IntEnum):
    """What is in a block."""

    #: New rows of a source.
    ROWS = 0
    #: Rows that another worker holds, of a cell that has become heavy.
    MOVED = 1
    #: What a worker tells of its loads.
    LOADS = 2


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


def write_block(source: int, batch: pa.RecordBatch, *, is_moved: bool = False) -> bytes:
    """Return rows of a source as bytes."""
    return b"".join([_HEAD.pack(source, Head.MOVED if is_moved else Head.ROWS), packed(batch)])


def write_loads(told: bytes) -> bytes:
    """Return what a worker tells of its loads, as a block."""
    return _HEAD.pack(0, Head.LOADS) + told


def read_block(block: Any, schemas: list[pa.Schema]) -> tuple[Head, int, Any]:
    """Return what a block is, its source, and its rows or loads; all is a copy.

    The memory of a block is used again.

    Parameters
    ----------
    schemas : list of pyarrow.Schema
        Of shipped rows, by source.

    Raises
    ------
    MalformedError
    """
    content = memoryview(block).cast("B")
    if len(content) < _HEAD.size or content[0] >= len(schemas) or content[1] not in list(Head):
        raise MalformedError("a block of rows is cut, or of no source of this join")
    source, head = content[0], Head(content[1])
    body = bytes(content[_HEAD.size :])
    return head, source, body if head is Head.LOADS else unpacked(body, schemas[source])
