"""Values of aggregates from their merged folds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.errors import DataError
from penstock.expr import ops
from penstock.expr.columns import Vector, evaluate_columns, int_vector
from penstock.plan.query import Aggregate
from penstock.types import Kind, Type

from .floats import unordered

#: Integers up to this magnitude are exact in float64.
_EXACT_FLOAT64 = 1 << 53


def value_of(one: Aggregate, folds: Sequence[np.ndarray], valid: np.ndarray | None) -> Vector:
    """Compute an aggregate of every group.

    Parameters
    ----------
    folds : sequence of ndarray, shape (groups,)
        In the order of :attr:`~penstock.plan.query.Aggregate.folds`; extremes of floats as codes,
        see :func:`~penstock.host.emit.groups.floats.ordered`.
    valid : ndarray of bool or None
        Where the group has a value that is not NULL; None if everywhere.

    Raises
    ------
    DataError
        A sum is beyond its type.
    """
    first = folds[0]
    if one.function == "count":
        return int_vector(first)
    if one.function == "avg":
        return _mean(one, first, folds[1], valid)
    if one.function == "sum":
        _check_sums(one, first if valid is None else first[valid])
    elif one.type.is_float:
        first = unordered(first, one.type)
    return group_vector(first, np.ones(len(first), bool) if valid is None else valid)


def _mean(one: Aggregate, total: np.ndarray, count: np.ndarray, valid: np.ndarray | None) -> Vector:
    """Divide sums by counts, rounded once; averages of decimals are decimals."""
    assert one.value is not None
    divisor = np.maximum(count, 1)
    if one.type.kind is not Kind.DECIMAL:
        return Vector(_float_mean(one.value.type, total, divisor), valid)
    known = np.ones(len(total), bool) if valid is None else valid
    sums, counts = group_vector(total, known), int_vector(divisor)
    a = ops.column("", "sum", Type(Kind.DECIMAL, sums.lo, sums.hi, one.value.type.scale))
    b = ops.column("", "count", Type(Kind.INT, counts.lo, counts.hi, nullable=False))
    quotient = ops.divided(a, b, one.type.precision, one.type.scale)
    return evaluate_columns(quotient, {a.attr: sums, b.attr: counts}, len(total))


def _float_mean(dtype: Type, total: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """Divide in float64."""
    if total.dtype.kind == "f":
        return total / divisor
    scale = 10**dtype.scale
    is_exact = np.zeros(len(total), bool)
    if total.dtype != object and scale <= _EXACT_FLOAT64:
        # The quotient of two exact doubles is rounded once.
        is_small = (total >= -_EXACT_FLOAT64) & (total <= _EXACT_FLOAT64)
        is_exact = is_small & (divisor <= _EXACT_FLOAT64 // scale)
    out = np.empty(len(total), np.float64)
    out[is_exact] = total[is_exact] / (divisor[is_exact] * scale)
    for row in np.flatnonzero(~is_exact).tolist():
        out[row] = int(total[row]) / (int(divisor[row]) * scale)
    return out


def _check_sums(one: Aggregate, sums: np.ndarray) -> None:
    """Refuse sums beyond an aggregate's type."""
    is_checked = one.type.is_integral and len(sums)
    if is_checked and not (one.type.lo <= sums.min() and sums.max() <= one.type.hi):
        raise DataError(
            f"{one.text} overflows {one.type}: a group's sum lies outside "
            f"{one.type.lo}..{one.type.hi}; CAST its argument to DOUBLE, or use avg"
        )


def product(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Multiply element by element, in Python integers if int64 may overflow."""
    if values.dtype.kind == "f":
        return values.astype(np.float64) * counts
    if values.dtype == object or not len(values):
        return values * counts.astype(object)
    most = max(abs(int(values.min())), abs(int(values.max()))) * int(counts.max())
    return values * counts if most < 1 << 63 else values.astype(object) * counts.astype(object)


def group_vector(values: np.ndarray, valid: np.ndarray) -> Vector:
    """Make a vector of integers with their bounds, or of floats; NULL slots hold zero."""
    mask = None if valid.all() else valid
    if values.dtype == bool or values.dtype.kind == "f":
        return Vector(np.where(valid, values, values.dtype.type(0)), mask)
    values = np.where(valid, values, 0)
    if (
        values.dtype == object
        and len(values)
        and -(1 << 63) <= values.min() <= values.max() < 1 << 63
    ):
        values = values.astype(np.int64)
    return int_vector(values, mask)
