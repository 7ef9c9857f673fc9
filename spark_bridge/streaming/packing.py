"""Rows on their way to the lanes of the state design: Arrow messages in rows of Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark_bridge.streaming.spec import IS_RIGHT

#: Which lane, order, whether the lane keeps them, an Arrow message.
PACKED = "lane int, part int, number int, is_right boolean, kept boolean, rows binary"
_FIELDS = [
    ("lane", pa.int32()),
    ("part", pa.int32()),
    ("number", pa.int32()),
    ("is_right", pa.bool_()),
    ("kept", pa.bool_()),
    ("rows", pa.binary()),
]


def packed(rows: pa.Table, part: int, keys: list[int]) -> Iterator[pa.RecordBatch]:
    """Messages of the rows of one partition: all of them for every lane, which keeps a share."""
    number = 0
    for is_right in (False, True):
        own = rows.filter(pc.field(IS_RIGHT) == is_right).drop_columns([IS_RIGHT]).combine_chunks()
        for k, keeper in enumerate(keys):
            first, last = (own.num_rows * n // len(keys) for n in (k, k + 1))
            if first == last:
                continue
            message = message_of(own.slice(first, last - first))
            for lane in keys:
                values = (lane, part, number, is_right, lane == keeper, message)
                arrays = [pa.array([v], t) for v, (_, t) in zip(values, _FIELDS, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(_FIELDS))
            number += 1


def message_of(table: pa.Table) -> bytes:
    """Rows as an Arrow message."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def table_of(message: bytes) -> pa.Table:
    """The rows of :func:`message_of`."""
    with pa.ipc.open_stream(message) as reader:
        return reader.read_all()
