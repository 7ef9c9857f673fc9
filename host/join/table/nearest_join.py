"""Joins of each row of a table with the nearest rows of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.expr import ops
from penstock.expr.columns import Vector, evaluate_all, evaluate_columns
from penstock.expr.node import Expr, Op, walk
from penstock.plan.nearest import NearestPlan
from penstock.plan.query import LEFT, RIGHT, JoinQuery

from ...emit.restore import Restorer
from ...keys.hashing import float_bits
from ...rows.sides import SideRows, filtered, read_side, take

#: Pairs that are evaluated together, about: what lies between the operations fits some MiB.
_PAIRS = 1 << 20


class NearestJoin:
    """Joins the rows of a table with those nearest to them; iterate to get the output.

    Rows leave in the order of the left table, those of one row by nearness, then by place.

    Parameters
    ----------
    query : JoinQuery
        With :attr:`~penstock.plan.query.JoinQuery.nearest`.
    tables : mapping of table name to pyarrow.Table

    Raises
    ------
    DataError
        A value is off its declared grid.
    """

    def __init__(self, query: JoinQuery, tables: Mapping[str, pa.Table]) -> None:
        self.plan = NearestPlan(query)
        self._tables = {one.side: tables[one.table].combine_chunks() for one in query.sides}
        schemas = {side: table.schema for side, table in self._tables.items()}
        self._restorer = Restorer(query, schemas)
        #: Rows of the output so far.
        self.rows = 0

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._restorer.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        query = self.plan.query
        left, right = (
            filtered(one, read_side(query, one, self._tables[one.side]).timed)
            for one in query.sides
        )
        preserved = LEFT in query.kind.unmatched
        for low, high, i, j in _Exhaustive(self.plan, left, right).pairs():
            if preserved:
                alone = np.setdiff1d(np.arange(low, high), i)
                order = np.argsort(np.concatenate([i, alone]), kind="stable")
                i = np.concatenate([i, alone])[order]
                j = np.concatenate([j, np.full(len(alone), -1)])[order]
            self.rows += len(i)
            if len(i):
                # The right row of a row without one is the last entry here.
                rows = left.row[i], np.append(right.row, -1)[j]
                picked = {
                    side: self._restorer.picked(side, self._tables[side], row)
                    for side, row in zip((LEFT, RIGHT), rows, strict=True)
                }
                yield self._restorer.restore(picked)


class _Exhaustive:
    """Evaluates each pair of rows with equal keys.

    Parameters
    ----------
    left, right : SideRows
        Rows that pass the filters of their sides, in the order of the tables.
    """

    def __init__(self, plan: NearestPlan, left: SideRows, right: SideRows) -> None:
        self._plan, self._left, self._right = plan, left, right

    def pairs(self) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
        """Yield the pairs of blocks of left rows.

        Yields
        ------
        low, high : int
            The left rows of the block.
        i, j : ndarray of int64, shape (pairs,)
            Left and right rows; by left row, nearness and place.
        """
        order, start, end = _ranges(self._plan.keys, self._left, self._right)
        sizes, low, rows = end - start, 0, len(self._left)
        upto = np.cumsum(sizes)
        while low < rows:
            done = upto[low - 1] if low else 0
            high = max(low + 1, int(np.searchsorted(upto, done + _PAIRS, side="right")))
            i, j = np.zeros(0, np.int64), np.zeros(0, np.int64)
            for at in range(0, int(sizes[low]) if high == low + 1 else 1, _PAIRS):
                first = start[low:high] + at
                count = np.minimum(end[low:high] - first, _PAIRS if high == low + 1 else _PAIRS * 2)
                new_i = np.repeat(np.arange(low, high), count)
                within = np.arange(len(new_i)) - np.repeat(np.cumsum(count) - count, count)
                new_j = order[np.repeat(first, count) + within]
                i, j = self.ranked(np.append(i, new_i), np.append(j, new_j))
            yield low, high, i, j
            low = high

    def ranked(self, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Keep the nearest pairs of each left row, in the order of nearness."""
        if self._plan.remainder is not ops.TRUE:
            matches = np.flatnonzero(self._values(self._plan.remainder, i, j).true)
            i, j = i[matches], j[matches]
        nearest = self._plan.nearest
        value = self._values(nearest.value, i, j)
        codes = _ordered(value)
        if nearest.is_greatest:
            codes = ~codes
        known = np.flatnonzero(_known(value, len(i)))
        order = known[np.lexsort((j[known], codes[known], i[known]))]
        i, j = i[order], j[order]
        begins = np.flatnonzero(np.append(True, i[1:] != i[:-1])[: len(i)])
        place = np.arange(len(i)) - np.repeat(begins, np.diff(np.append(begins, len(i))))
        kept = place < nearest.count
        return i[kept], j[kept]

    def _values(self, expr: Expr, i: np.ndarray, j: np.ndarray) -> Vector:
        columns: dict[tuple[str, str], Vector] = {}
        for leaf in walk(expr):
            if leaf.op is Op.COLUMN:
                rows, index = (self._left, i) if leaf.attr[0] == LEFT else (self._right, j)
                columns[leaf.attr] = take(rows.columns[leaf.attr], index)
        return evaluate_columns(expr, columns, len(i))


def _known(value: Vector, rows: int) -> np.ndarray:
    return np.ones(rows, bool) if value.valid is None else value.valid


def _ordered(value: Vector) -> np.ndarray:
    """Integers in the order of values; NaN is the greatest, and -0.0 is 0.0."""
    if value.values.dtype == object:  # integers beyond 64 bits
        return np.unique(value.values, return_inverse=True)[1].astype(np.int64)
    if value.values.dtype.kind != "f":
        return value.values.astype(np.int64)
    bits = float_bits(value.values).view(np.int64)
    return bits ^ (bits >> 63 & np.int64(0x7FFFFFFFFFFFFFFF))


def _ranges(
    keys: Sequence[tuple[Expr, Expr]], left: SideRows, right: SideRows
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort the right rows by their keys, then by place.

    Returns
    -------
    order : ndarray of int64
        Right rows.
    start, end : ndarray of int64, shape (left rows,)
        The range of each left row's key in the order.
    """
    if not keys:
        rows = len(right)
        return np.arange(rows), np.zeros(len(left), np.int64), np.full(len(left), rows)
    columns = [
        evaluate_all([key[side] for key in keys], rows.columns, len(rows))
        for side, rows in enumerate((left, right))
    ]
    known = [
        np.logical_and.reduce([_known(v, len(rows)) for v in vectors])
        for vectors, rows in zip(columns, (left, right), strict=True)
    ]
    codes = np.zeros(len(left) + len(right), np.int64)
    for number, pair in enumerate(zip(*columns, strict=True)):
        code = _codes(*pair)
        if number:
            spread = int(code.max(initial=0)) + 1
            code = np.unique(codes, return_inverse=True)[1] * spread + code
        codes = code
    of_left, of_right = codes[: len(left)], codes[len(left) :]
    order = np.flatnonzero(known[1])
    order = order[np.argsort(of_right[order], kind="stable")]
    start, end = (np.searchsorted(of_right[order], of_left, side=s) for s in ("left", "right"))
    return order, start, np.where(known[0], end, start)


def _codes(a: Vector, b: Vector) -> np.ndarray:
    """Numbers of the values of two columns, one after the other; equal for equal values."""
    values = np.concatenate([a.values, b.values])
    if values.dtype.kind == "f":
        values = float_bits(values).view(np.int64)
    elif values.dtype == object:
        numbers: dict[object, int] = {}
        codes = np.zeros(len(values), np.int64)
        for at, value in enumerate(values):
            codes[at] = numbers.setdefault(value, len(numbers))
        return codes
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
