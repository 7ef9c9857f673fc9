"""The columns of partial aggregates.

A group is held as sums, counts and extremes. Integers are exact: sums are decimals wide enough for
2**31 terms. Floating-point extremes are held as integers in Spark's order, in which NaN is the
greatest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.columns import Vector
from penstock.plan.folds import least_of
from penstock.plan.query import Aggregate
from penstock.types import Type

from ...rows.columns import to_arrow
from .floats import ordered

#: Additional bits of a sum of up to 2**31 terms.
_SUM_BITS = 31
#: Decimals of Arrow by the bits that they hold.
_DECIMALS = {126: pa.decimal128(38, 0), 252: pa.decimal256(76, 0)}


@dataclass(frozen=True)
class PartialColumn:
    """A column of partial aggregates.

    Parameters
    ----------
    function : str
        "count", "sum", "min" or "max".
    value : int or None
        Number of the aggregate whose value it merges; None for all pairs.
    type : pyarrow.DataType
    """

    function: str
    value: int | None
    type: pa.DataType

    @property
    def name(self) -> str:
        return f"{self.function} {self.value}"

    @property
    def merge(self) -> str:
        """Name of pyarrow's function that merges the column."""
        return "sum" if self.function == "count" else self.function

    def terms(self, v: Vector, dtype: Type) -> pa.Array:
        """Return values, one per row, as the column merges them."""
        if dtype.is_float:
            # A sum is 0.0 where its one term is -0.0, as pyarrow's.
            is_sum = self.function == "sum"
            values = v.values.astype(np.float64) + 0.0 if is_sum else ordered(v.values)
            return pa.array(values, mask=None if v.valid is None else ~v.valid)
        if v.values.dtype != object and max(-v.lo, v.hi) * len(v.values) < 1 << 63:
            return to_arrow(v, dtype, pa.int64())  # the sum fits, and costs less
        return to_arrow(v, dtype, self.type)


@dataclass(frozen=True)
class NearestColumns:
    """Columns of each group's best pair: its value, and the columns by which pairs are compared.

    Pairs are compared by ``by``, then by the other columns in their order.

    Parameters
    ----------
    by, value : pyarrow.DataType
    """

    aggregate: int
    by: pa.DataType
    value: pa.DataType

    @property
    def by_name(self) -> str:
        return f"by {self.aggregate}"

    @property
    def value_name(self) -> str:
        return f"best {self.aggregate}"

    @property
    def tie_names(self) -> list[str]:
        """Names of columns: time and place of the other side's row, then of the group's own."""
        names = ("other time", "other place", "own time", "own place")
        return [f"{name} {self.aggregate}" for name in names]

    @property
    def columns(self) -> dict[str, pa.DataType]:
        ties = dict.fromkeys(self.tie_names, pa.int64())
        return {self.by_name: self.by, **ties, self.value_name: self.value}


def by_type(one: Aggregate) -> Type:
    """Return the type of the values by which ``min_by`` and ``max_by`` compare."""
    return least_of(one).type


def parts_of(k: int, one: Aggregate) -> tuple[PartialColumn, ...]:
    """Return the columns that an aggregate is made from, in the order of its folds."""
    return () if one.by is not None else tuple(_part(name, k, one) for name in one.folds)


def _part(name: str, k: int, one: Aggregate) -> PartialColumn:
    if name == "count":
        return PartialColumn(name, None if one.value is None else k, pa.int64())
    assert one.value is not None
    dtype = one.value.type
    if name in ("min", "max"):
        return PartialColumn(name, k, extreme(dtype, one))
    is_exact = not dtype.is_float
    return PartialColumn(name, k, _exact(dtype.bits + _SUM_BITS, one) if is_exact else pa.float64())


def extreme(dtype: Type, one: Aggregate) -> pa.DataType:
    """Return the Arrow type that holds an extreme."""
    is_narrow = dtype.is_float or dtype.bits + (not dtype.signed) <= 64
    return pa.int64() if is_narrow else _exact(dtype.bits, one)


def _exact(bits: int, one: Aggregate) -> pa.DataType:
    for most, dtype in _DECIMALS.items():
        if bits < most:
            return dtype
    raise QueryError(f"{one.text} may need more than 76 digits; CAST its argument to DOUBLE")
