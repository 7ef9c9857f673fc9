"""Columns of values, the inputs and results of expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from ..types import INT64


@dataclass(frozen=True)
class Vector:
    """A column: the values of one expression.

    Parameters
    ----------
    values : ndarray, shape (n,) or () for a constant
        int64 or object (integers; those of columns may be narrower), bool, float32, float64, or
        object (str, bytes). Arbitrary where NULL.
    valid : ndarray of bool or None
        False where NULL; None if there is no NULL.
    lo, hi : int
        Bounds of the integers in ``values``, 0 for other values.
    failed : ndarray of bool or None
        Where the value is an error, until it is known whether a branch of CASE takes it.
    error : DataError or None
        Of the first of these rows.
    texts : tuple of ndarray or None
        Of texts that are numbered: the distinct ones as bytes, ascending, and the place of each
        row's among them. Some of them may be no row's.
    """

    values: np.ndarray
    valid: np.ndarray | None = None
    lo: int = 0
    hi: int = 0
    failed: np.ndarray | None = None
    error: DataError | None = None
    texts: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def known(self) -> np.ndarray:
        """The values that are not NULL."""
        return self.values if self.valid is None else self.values[self.valid]

    @property
    def is_known(self) -> np.ndarray:
        """Mask of the rows that are not NULL."""
        return np.ones(len(self.values), bool) if self.valid is None else self.valid

    @property
    def true(self) -> np.ndarray:
        """Mask of the rows for which a condition is TRUE."""
        return self.values if self.valid is None else self.values & self.valid

    def at(self, rows: np.ndarray | slice) -> Vector:
        """Some rows, with the bounds of all."""
        valid = None if self.valid is None else self.valid[rows]
        texts = None if self.texts is None else (self.texts[0], self.texts[1][rows])
        return Vector(self.values[rows], valid, self.lo, self.hi, texts=texts)

    def between(self, low: int, high: int) -> Vector:
        """The rows ``[low, high)``, with the bounds of all."""
        return self.at(slice(low, high))


#: Columns by (side, name).
Columns = Mapping[tuple[str, str], Vector]


def int_vector(values: np.ndarray, valid: np.ndarray | None = None) -> Vector:
    """Make a vector of integers, with the bounds that they have."""
    if values.size == 0:
        return Vector(values, valid)
    return Vector(values, valid, int(values.min()), int(values.max()))


def fits_int64(lo: int, hi: int) -> bool:
    """Whether int64 holds all integers of an interval."""
    return INT64[0] <= lo and hi <= INT64[1]
