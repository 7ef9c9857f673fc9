"""Batches dealt by the parent to workers, as bytes that are kept until a record covers them.

The bytes are Arrow record batches without their schema, which both sides know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.plan.group_query import GroupQuery

from ..device.fields import MalformedError
from ..rows.plain import plain_array, plain_type

#: Bytes of a dealt batch: some slots of a channel. Larger pushes are cut, so that all workers share
#: them.
PIECE_BYTES = 1 << 18


def dealt_schema(schema: pa.Schema, needed: Sequence[str]) -> pa.Schema:
    """Return the schema of dealt rows: needed columns, with dictionaries as plain values."""
    # A batch without columns loses its number of rows.
    needed = needed or schema.names[:1]
    return pa.schema([_plain(field) for field in schema if field.name in needed])


def needed_columns(query: GroupQuery, outer: str | None) -> Sequence[str]:
    """Return the columns of a source that its groups need.

    Parameters
    ----------
    outer : str or None
        Side of the look-up that the source is, if its rows are looked up before they are grouped.
    """
    if outer is not None and query.lookup is not None:
        return query.lookup.columns_of(outer)
    return query.columns_of(query.source.side)


def _plain(field: pa.Field) -> pa.Field:
    """Return a field without its dictionary, which would have to travel with each batch."""
    return field.with_type(plain_type(field.type)).remove_metadata()


def projected(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a batch that a schema of dealt rows has."""
    arrays = [plain_array(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into parts of about :data:`PIECE_BYTES`, and at least one row."""
    rows = batch.num_rows
    step = max(1, rows * PIECE_BYTES // max(batch.nbytes, 1))
    for first in range(0, rows, step):
        yield batch.slice(first, step)


def packed(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as bytes, without the rows around a slice."""
    return batch.serialize()


def unpacked(body: memoryview | bytes | pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch in a body, as a view of it.

    Raises
    ------
    MalformedError
    """
    try:
        return pa.ipc.read_record_batch(pa.py_buffer(body), schema)
    except (pa.ArrowException, OSError, EOFError) as cause:
        raise MalformedError(f"a message of rows is no batch: {cause}") from cause
