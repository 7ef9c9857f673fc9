"""Base rows of output rows, picked but not copied yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from . import gather
from .plain import plain_array, plain_type


@dataclass(frozen=True, eq=False)
class Picked:
    """The base rows of one side, one for each output row.

    Parameters
    ----------
    base : RecordBatch or Table
    index : ndarray of int, shape (n,), optional
        Row k is row ``first + index[k]`` of the base, or ``first + among[index[k]]``; by default it
        is row k.
    among : ndarray of int, optional
        Rows of which each is picked many times: they are copied first, and then lie together.
    first : int
    lacks : bool
        Whether ``index`` may be -1: all columns are NULL there.
    """

    base: pa.RecordBatch | pa.Table
    index: np.ndarray | None = None
    among: np.ndarray | None = None
    first: int = 0
    lacks: bool = False

    def __len__(self) -> int:
        return self.base.num_rows if self.index is None else len(self.index)

    @property
    def rows(self) -> np.ndarray:
        """The row of the base of each output row."""
        if self.index is None:
            return np.arange(len(self))
        if self.among is not None:
            return self.among[self.index]
        return self.index + np.int64(self.first) if self.first else self.index

    @property
    def present(self) -> np.ndarray:
        """Whether there is a base row."""
        if self.lacks and self.index is not None:
            return self.index >= 0
        return np.ones(len(self), bool)

    def column(self, name: str) -> pa.Array:
        """One column of the rows; of a dictionary, its values."""
        values, index, among = self._of_base(name), self.index, self.among
        if index is None:
            return _decoded(values)
        if self.lacks:
            return _decoded(values.take(pa.array(index, mask=index < 0)))
        if among is not None and len(among) < len(index):
            values = _decoded(gather.take(values, among))
        elif among is not None:
            index = among[index]
        return _decoded(gather.take(values, index))

    def _of_base(self, name: str) -> pa.Array:
        column = self.base.column(name)
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return column.slice(self.first) if self.first else column


@dataclass(frozen=True, eq=False)
class Nobody:
    """A side of output rows that has no base row: all columns are NULL.

    Parameters
    ----------
    schema : Schema
        Of the base rows.
    count : int
        Output rows.
    """

    schema: pa.Schema
    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def present(self) -> np.ndarray:
        """False for each row."""
        return np.zeros(self.count, bool)

    def column(self, name: str) -> pa.Array:
        """NULL for each row, in the column's plain type."""
        return pa.nulls(self.count, plain_type(self.schema.field(name).type))


def _decoded(array: pa.Array) -> pa.Array:
    return plain_array(array, plain_type(array.type))
