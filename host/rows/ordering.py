"""The order of rows by columns: Arrow's, right for all types of keys."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def order_by(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """Return the row numbers that sort rows by these columns, ascending; NULL comes last."""
    table = pa.table({str(k): _comparable(column) for k, column in enumerate(columns)})
    keys = [(name, "ascending") for name in table.column_names]
    return pc.call_function("sort_indices", [table], pc.SortOptions(keys))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if pa.types.is_decimal32(column.type) or pa.types.is_decimal64(column.type):
        # Arrow sorts these as if they had no sign.
        return column.cast(pa.decimal128(column.type.precision, column.type.scale))
    return column
