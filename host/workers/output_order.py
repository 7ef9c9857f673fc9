"""One order of output rows for any number of workers: by the time key, then by the other keys.

Each worker gives its groups in that order. So that the parent can put those of all together, rows
carry the keys along as further columns, which nobody else sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.expr import ops
from penstock.plan.closing import time_key
from penstock.plan.group_query import GroupQuery

#: Beginning of the names of such columns; no name in SQL has it.
_HIDDEN = "\0key"


def with_keys(query: GroupQuery) -> GroupQuery:
    """Return a query whose output has the keys as further columns, the time key first."""
    made = query.aggregation
    found = time_key(query)
    places = list(range(len(made.keys)))
    if found is not None:
        places.remove(found.index)
        places.insert(0, found.index)
    hidden = [
        (f"{_HIDDEN}{at}", ops.column("key", str(k), made.keys[k].type))
        for at, k in enumerate(places)
    ]
    return replace(query, aggregation=replace(made, select=(*made.select, *hidden)))


def in_order(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of several workers in the one order, without the further columns.

    Parameters
    ----------
    schema : pyarrow.Schema
        Without those columns.
    """
    table = pa.Table.from_batches(batches).combine_chunks()
    hidden = [name for name in table.schema.names if name.startswith(_HIDDEN)]
    if len(batches) > 1 and hidden:
        keys = {name: _comparable(table.column(name)) for name in hidden}
        places = pa.table({**keys, "place": np.arange(len(table))})
        table = table.take(places.sort_by([(name, "ascending") for name in hidden])["place"])
    columns = [table.column(k).combine_chunks() for k in range(len(schema))]
    arrays = [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if pa.types.is_decimal32(column.type) or pa.types.is_decimal64(column.type):
        # Arrow sorts these as if they had no sign.
        return column.cast(pa.decimal128(column.type.precision, column.type.scale))
    return column
