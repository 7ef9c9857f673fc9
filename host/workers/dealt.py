"""Batches on their way from the parent to a worker: bytes that are kept until a record covers them.

A message is a head of 64 bytes and an Arrow record batch without its schema, which both know.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

from penstock.expr.node import Op, walk
from penstock.plan.group_query import GroupQuery
from penstock.plan.query import columns

from ..device.fields import MalformedError

#: Feed, rows, and number of the first row in its feed.
_HEAD = struct.Struct("<IIQ")
#: Bytes of the head: Arrow's buffers stay aligned behind it.
_HEAD_BYTES = 64
#: Bytes of a batch that one worker gets at a time: some slots of a channel. Larger pushes are cut,
#: so that all workers share them.
PIECE_BYTES = 1 << 18


def dealt_schema(query: GroupQuery, schema: pa.Schema) -> pa.Schema:
    """Return the columns of a source that its groups need, with dictionaries as plain values."""
    made, source = query.aggregation, query.source
    roots = [source.filter, *made.keys]
    roots += [e for a in made.aggregates for e in (a.value, a.by) if e is not None]
    roots += [] if source.time is None else [source.time]
    leaves = [leaf for leaf in walk(*roots) if leaf.op is Op.COLUMN]
    names = {name for leaf in leaves for _, name in columns(leaf)}
    return pa.schema([_plain(field) for field in schema if field.name in names])


def _plain(field: pa.Field) -> pa.Field:
    """Return a field without a dictionary, which would have to travel beside each batch."""
    if pa.types.is_dictionary(field.type):
        return field.with_type(field.type.value_type).remove_metadata()
    return field.remove_metadata()


def projected(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a batch that are dealt."""
    arrays = [batch.column(field.name) for field in schema]
    plain = [a.dictionary_decode() if isinstance(a, pa.DictionaryArray) else a for a in arrays]
    return pa.RecordBatch.from_arrays(plain, schema=schema)


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into parts of about :data:`PIECE_BYTES`, and at least one row."""
    rows = batch.num_rows
    step = max(1, rows * PIECE_BYTES // max(batch.nbytes, 1))
    for first in range(0, rows, step):
        yield batch.slice(first, step)


def packed(batch: pa.RecordBatch, feed: int, first: int) -> bytes:
    """Return a batch as a message.

    Parameters
    ----------
    feed : int
        Number of the feed.
    first : int
        Number of the first row among the rows of its feed that are dealt.
    """
    head = _HEAD.pack(feed, batch.num_rows, first).ljust(_HEAD_BYTES, b"\0")
    return b"".join((head, batch.serialize()))


def unpacked(message: memoryview | bytes, schema: pa.Schema) -> tuple[pa.RecordBatch, int, int]:
    """Return the batch of a message, which looks into it, with feed and first row.

    Raises
    ------
    MalformedError
    """
    view = memoryview(message)
    if len(view) < _HEAD_BYTES:
        raise MalformedError(f"a message of rows has {len(view)} bytes, fewer than its head")
    feed, rows, first = _HEAD.unpack_from(view)
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(view[_HEAD_BYTES:]), schema)
    except (pa.ArrowException, OSError) as cause:
        raise MalformedError(f"a message of rows is no batch: {cause}") from cause
    if batch.num_rows != rows:
        raise MalformedError(f"a message of {rows} rows has {batch.num_rows}")
    return batch, feed, first
