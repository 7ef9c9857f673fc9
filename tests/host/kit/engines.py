"""A query for each way in which windows let rows in and out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

SCHEMA = pa.schema({"id": pa.int64(), "k": pa.string(), "t": pa.int64()})
NEAR = "AND {u}.t BETWEEN {t}.t - 5 AND {t}.t + 5"
ON = "ON a.k = b.k " + NEAR.format(t="a", u="b")
#: Queries by kind of window and of probing, and what they are opened with.
ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "time": (f"SELECT a.id FROM a JOIN b {ON}", {}),
    "time, probing once": (f"SELECT a.id FROM a LEFT SEMI JOIN b {ON}", {}),
    "rows": ("SELECT a.id FROM a JOIN b ON a.k = b.k", {"rows": 3}),
    "rows, probing once": ("SELECT a.id FROM a LEFT SEMI JOIN b ON a.k = b.k", {"rows": 3}),
}


def batch(*rows: tuple[int, str, int]) -> pa.RecordBatch:
    """Rows of an id, a key and a time."""
    named = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(named, SCHEMA)
