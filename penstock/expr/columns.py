"""Evaluate expressions over whole columns, exactly.

Integers are held in int64 while their bounds allow it and in arrays of Python integers beyond, so
no operation overflows. This computes prepared keys, filters and SELECT expressions; devices do the
work per pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..types import Type
from .compute import compute
from .node import Expr
from .rules import ARRAYS, RULES
from .values import zero_of
from .vector import Columns, Vector, fits_int64, int_vector

__all__ = ["Columns", "Vector", "evaluate", "evaluate_columns", "int_vector"]


def evaluate_columns(expr: Expr, columns: Mapping[Any, Vector], rows: int) -> Vector:
    """Evaluate an expression in each row.

    Parameters
    ----------
    expr : Expr
        An expression of both sides needs the columns of both, one row per pair.
    columns : mapping of (side, name) to Vector
    rows : int
        Number of rows of a constant result.

    Raises
    ------
    DataError
        A CAST met a value that does not fit.
    """
    v = _evaluate(expr, columns, ())
    if v.values.ndim and (v.valid is None or v.valid.ndim):
        return v
    valid = None if v.valid is None else np.broadcast_to(v.valid, rows)
    return Vector(np.broadcast_to(v.values, rows), valid, v.lo, v.hi)


def evaluate(expr: Expr, columns: Mapping[Expr, Any] | None = None) -> Any:
    """Evaluate an expression for one value of each of its columns; None is NULL.

    Raises
    ------
    DataError
        A CAST met a value that does not fit.
    """
    # As columns of one row: without dimensions, NumPy turns objects into integers of its own.
    row = {c.attr: _constant(value, c.type, (1,)) for c, value in (columns or {}).items()}
    value = _evaluate(expr, row, (1,))
    return None if value.valid is not None and not value.valid[0] else value.values.item()


def _evaluate(expr: Expr, columns: Mapping[Any, Vector], shape: tuple[int, ...]) -> Vector:
    """Evaluate an expression; ``shape`` is that of constants."""

    def rule(node: Expr, args: Sequence[Vector]) -> Vector:
        return RULES[node.op](node, args) if node.args else _leaf(node, columns, shape)

    # Most keys are columns, and most batches of streams small.
    return compute(expr, rule) if expr.args else _leaf(expr, columns, shape)


def _leaf(expr: Expr, columns: Mapping[Any, Vector], shape: tuple[int, ...]) -> Vector:
    if expr.is_const:
        return _constant(expr.attr, expr.type, shape)
    found = columns[expr.attr]
    if not expr.type.nullable and found.valid is not None:
        return Vector(found.values, None, min(found.lo, 0), max(found.hi, 0))
    return found


def _constant(value: Any, dtype: Type, shape: tuple[int, ...]) -> Vector:
    if value is None:
        return Vector(_filled(zero_of(dtype), dtype, shape), np.zeros(shape, dtype=bool))
    bounds = (value, value) if dtype.is_integral else (0, 0)
    return Vector(_filled(value, dtype, shape), None, *bounds)


def _filled(value: Any, dtype: Type, shape: tuple[int, ...]) -> np.ndarray:
    is_int64 = dtype.is_integral and fits_int64(value, value)
    out = np.empty(shape, dtype=np.int64 if is_int64 else ARRAYS.get(dtype.kind, object))
    out[...] = value
    return out
