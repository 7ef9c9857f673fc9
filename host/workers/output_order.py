"""Order of output rows, the same for any number of workers.

Groups come by the time key, then by the other keys. Joined rows come by their later row, then by
their earlier one, and rows by time, left before right, then by their feed and their place in it.
Workers add these values to their output as hidden columns, which are dropped after sorting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from penstock.expr import ops
from penstock.expr.node import Expr
from penstock.plan.group_query import GroupQuery, time_key
from penstock.plan.query import JoinQuery, Side
from penstock.types import int_of

from ..rows.gather import order_by

#: Prefixes of the names of hidden columns; no name in SQL has them.
_KEY, _ROW = "\0key", "\0row"
#: Columns of a row that say where it comes from: the number of its feed, and its own in that feed.
FEED, PLACE = "\0feed", "\0place"

_Query = TypeVar("_Query", GroupQuery, JoinQuery)


def with_keys(query: _Query) -> _Query:
    """Return a query whose output has the keys as hidden columns, the time key first."""
    aggregation = query.aggregation
    assert aggregation is not None
    key = time_key(query)
    places = list(range(len(aggregation.keys)))
    if key is not None:
        places.remove(key.index)
        places.insert(0, key.index)
    hidden = [
        (f"{_KEY}{at}", ops.column("key", str(k), aggregation.keys[k].type))
        for at, k in enumerate(places)
    ]
    return replace(query, aggregation=replace(aggregation, select=(*aggregation.select, *hidden)))


def with_rows(query: JoinQuery) -> JoinQuery:
    """Return a join whose output has time, feed and place of both joined rows as hidden columns."""
    sides = query.by_event_time.sides[: 1 if query.kind.is_existence else 2]
    hidden = [one for side in sides for one in _row_of(side)]
    return replace(query, select=(*query.select, *hidden))


def _row_of(side: Side) -> list[tuple[str, Expr]]:
    assert side.time is not None
    feed, place = int_of(32, signed=False), int_of(64)
    return [
        (f"{_ROW}{side.side}{name}", expr)
        for name, expr in (
            ("time", side.time),
            ("feed", ops.column(side.side, FEED, feed)),
            ("place", ops.column(side.side, PLACE, place)),
        )
    ]


def without_hidden(schema: pa.Schema) -> pa.Schema:
    """Return a schema without its hidden columns."""
    return pa.schema([field for field in schema if not field.name.startswith((_KEY, _ROW))])


def in_order(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Sort the output rows of several workers, and drop the hidden columns.

    Parameters
    ----------
    schema : pyarrow.Schema
        Without hidden columns.
    """
    table = pa.Table.from_batches(batches).combine_chunks()
    hidden = [name for name in table.schema.names if name.startswith(_KEY)]
    if any(name.startswith(_ROW) for name in table.schema.names):
        table = table.take(pa.array(_order_of_rows(table)))
    elif hidden:
        table = table.take(order_by([table.column(name) for name in hidden]))
    columns = [table.column(k).combine_chunks() for k in range(len(schema))]
    arrays = [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _order_of_rows(table: pa.Table) -> np.ndarray:
    """Return the order of joined rows by their hidden columns."""
    least = np.iinfo(np.int64).min
    rows = []
    for place, side in enumerate("lr"):
        names = [f"{_ROW}{side}{name}" for name in ("time", "feed", "place")]
        if names[0] not in table.schema.names:
            continue
        hidden = [table.column(name).cast(pa.int64()) for name in names]
        # A missing row comes before all others, as does one without a time.
        time, feed, number = (c.fill_null(least).to_numpy() for c in hidden)
        rows.append(np.stack([time, np.where(number == least, -1, place), feed, number]))
    if len(rows) == 1:
        return np.lexsort(rows[0][::-1])
    left, right = rows
    is_right_later = (right[1] >= 0) & ((left[1] < 0) | (right[0] >= left[0]))
    later = np.where(is_right_later, right, left)
    earlier = np.where(is_right_later, left, right)
    return np.lexsort(np.concatenate([later, earlier])[::-1])
