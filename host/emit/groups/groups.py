"""Groups rows with equal keys, and merges values by group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError

from ...device.merge import exact_sum


class RowGroups:
    """Groups of rows by their keys, in order of first appearance.

    NULL equals NULL, NaN equals NaN and -0.0 equals 0.0, as in Spark.

    Parameters
    ----------
    keys : RecordBatch
        Key columns; without any, all rows are one group, which exists even without rows.
    rows : int
        Number of rows.

    Raises
    ------
    QueryError
        A key has a type that cannot be compared.
    """

    def __init__(self, keys: pa.RecordBatch, rows: int) -> None:
        if keys.num_columns == 0:
            self.ids, self.count, self.keys = np.zeros(rows, np.int64), 1, []
            return
        codes = np.zeros(rows, np.int64)
        for column in keys.columns:
            inner = _codes(column)
            codes = np.unique(codes * (inner.max(initial=0) + 1) + inner, return_inverse=True)[1]
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(first), np.int64)
        rank[order] = np.arange(len(first))
        self.ids, self.count = rank[inverse], len(first)
        self.keys = [column.take(pa.array(first[order])) for column in keys.columns]

    def any(self, flags: np.ndarray) -> np.ndarray:
        """Return, per group, whether any row has the flag."""
        has_flag = np.zeros(self.count, bool)
        has_flag[self.ids[flags]] = True
        return has_flag

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of each group: exact for integers, in order of rows for floats."""
        if values.dtype.kind == "f":
            total = np.zeros(self.count, np.float64)
            with np.errstate(all="ignore"):  # infinity - infinity is NaN, as it should be
                np.add.at(total, self.ids, values)
            return total
        if values.dtype == object or not len(values):
            total = np.zeros(self.count, object if values.dtype == object else np.int64)
            np.add.at(total, self.ids, values)
            return total
        halves = []
        for part in (values & 0xFFFF_FFFF, values >> 32):
            half = np.zeros(self.count, np.int64)
            np.add.at(half, self.ids, part)
            halves.append(half)
        low, high = halves
        # Below 2**31 rows neither half overflows; together they may.
        if (np.abs(high) < 1 << 30).all():
            return exact_sum(high << 32, low)
        return (high.astype(object) << 32) + low.astype(object)

    def least(
        self,
        values: np.ndarray,
        has_value: np.ndarray,
        position: np.ndarray | None,
        *,
        greatest: bool = False,
    ) -> np.ndarray:
        """Return the row of each group's least (or greatest) value; -1 without a value.

        Among equal values, the lowest position wins, then the first row.
        """
        rows = np.flatnonzero(has_value)
        best = np.full(self.count, -1, np.int64)
        if not len(rows):
            return best
        # Ranks sort NaN above all else, and take -0.0 and 0.0 as equal.
        rank = np.unique(values[rows], return_inverse=True)[1]
        tie = rank if position is None else position[rows]
        order = np.lexsort((tie, -rank if greatest else rank, self.ids[rows]))
        ids = self.ids[rows][order]
        leads = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        best[ids[leads]] = rows[order[leads]]
        return best


def ungroupable(types: str) -> QueryError:
    """Make the error for a GROUP BY key of a type that cannot be grouped."""
    return QueryError(
        f"GROUP BY a column of type {types} is not supported; group by a number, text, date or time"
    )


def _codes(column: pa.Array) -> np.ndarray:
    """Return int64 codes that are equal for equal keys."""
    if pa.types.is_floating(column.type):
        plain = column.to_numpy(zero_copy_only=False) + column.type.to_pandas_dtype()(0)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        codes = np.unique(plain, return_inverse=True)[1].astype(np.int64) + 1
        return np.where(valid, codes, 0)
    if pa.types.is_decimal(column.type) and column.type.bit_width < 128:
        # Arrow has no dictionaries of narrower decimals.
        column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    try:
        encoded = column.dictionary_encode("encode")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise ungroupable(str(column.type)) from None
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
