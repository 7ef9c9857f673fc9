"""One order of output rows for any number of workers: by the time key, then by the other keys.

Each worker gives its groups in that order. So that the parent can put those of all together, rows
carry the keys along as further columns, which nobody else sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.expr import ops
from penstock.plan.closing import time_key
from penstock.plan.group_query import GroupQuery

from ..rows.ordering import order_by

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
        table = table.take(order_by([table.column(name) for name in hidden]))
    columns = [table.column(k).combine_chunks() for k in range(len(schema))]
    arrays = [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
