"""Rows on their way to the shards of the state design: Arrow messages in rows of Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ..rows import message_of
from .spec import IS_RIGHT

#: Which shard, order, whether the shard keeps them, an Arrow message.
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
    """Messages of the rows of one partition: all of them for every shard, which keeps a share."""
    number = 0
    for is_right in (False, True):
        own = rows.filter(pc.field(IS_RIGHT) == is_right).drop_columns([IS_RIGHT]).combine_chunks()
        for k, keeper in enumerate(keys):
            first, last = (own.num_rows * n // len(keys) for n in (k, k + 1))
            if first == last:
                continue
            message = message_of(own.slice(first, last - first))
            for shard in keys:
                values = (shard, part, number, is_right, shard == keeper, message)
                arrays = [pa.array([v], t) for v, (_, t) in zip(values, _FIELDS, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(_FIELDS))
            number += 1
