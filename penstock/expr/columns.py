"""Evaluate expressions over whole columns, exactly.

Integers are held in int64 while their bounds allow it and in arrays of Python integers beyond, so
no operation overflows. This computes prepared keys, filters and SELECT expressions; devices do the
work per pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np

from ..types import Type
from .node import Expr, Op, walk
from .rules import ARRAYS, RULES, with_errors
from .values import zero_of
from .vector import Columns, Vector, fits_int64, int_vector

T = TypeVar("T")

#: Operations that take up their operands one by one, and how many each step takes.
_STEPWISE = {Op.AND: 1, Op.OR: 1, Op.LEAST: 1, Op.GREATEST: 1, Op.CASE: 2}
#: Rows that are evaluated together.
BLOCK = 1 << 16

__all__ = ["Columns", "Vector", "evaluate", "evaluate_all", "evaluate_columns", "int_vector"]


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
    return evaluate_all((expr,), columns, rows)[0]


def evaluate_all(
    exprs: Sequence[Expr], columns: Mapping[Any, Vector], rows: int
) -> Sequence[Vector]:
    """Evaluate several expressions, as :func:`evaluate_columns`; what they share, once."""
    if rows > 2 * BLOCK and any(e.args for e in exprs) and not any(e.may_fail for e in exprs):
        return _by_blocks(exprs, columns, rows)
    shared: dict[Expr, Vector | None] = dict.fromkeys(in_common(tuple(exprs)))
    return [_broadcast(_evaluate(e, columns, (), shared), rows) for e in exprs]


def _broadcast(v: Vector, rows: int) -> Vector:
    if v.values.ndim and (v.valid is None or v.valid.ndim):
        return v
    valid = None if v.valid is None else np.broadcast_to(v.valid, rows)
    return Vector(np.broadcast_to(v.values, rows), valid, v.lo, v.hi)


def _by_blocks(exprs: Sequence[Expr], columns: Mapping[Any, Vector], rows: int) -> Sequence[Vector]:
    """Evaluate many rows: what lies between the operations of a block fits a cache."""
    leaves = {node.attr for node in walk(*exprs) if not node.args and not node.is_const}
    used = {name: columns[name] for name in leaves}
    out: list[Vector] = []
    for low in range(0, rows, BLOCK):
        high = min(low + BLOCK, rows)
        block = {name: whole.between(low, high) for name, whole in used.items()}
        parts = evaluate_all(exprs, block, high - low)
        if not low:
            out = [Vector(np.empty(rows, v.values.dtype), None, v.lo, v.hi) for v in parts]
        out = [_filled_in(whole, v, low, high) for whole, v in zip(out, parts, strict=True)]
    return out


def _filled_in(whole: Vector, part: Vector, low: int, high: int) -> Vector:
    """Write a part of a vector; it becomes one of objects if the part is, and gets its bounds."""
    values, valid = whole.values, whole.valid
    if values.dtype != part.values.dtype:
        values = values.astype(object)
    values[low:high] = part.values
    if part.valid is not None:
        valid = whole.is_known
        valid[low:high] = part.valid
    return Vector(values, valid, min(whole.lo, part.lo), max(whole.hi, part.hi))


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


def _evaluate(
    expr: Expr,
    columns: Mapping[Any, Vector],
    shape: tuple[int, ...],
    shared: dict[Expr, Vector | None] | None = None,
) -> Vector:
    """Evaluate an expression; constants become arrays of ``shape``."""

    def rule(node: Expr, args: Sequence[Vector]) -> Vector:
        if not node.args:
            return _leaf(node, columns, shape)
        value = RULES[node.op](node, args)
        return with_errors(node.op, args, value) if node.may_fail else value

    # Most keys are columns, and most batches of streams small.
    value = compute(expr, rule, shared) if expr.args else _leaf(expr, columns, shape)
    if value.error is not None:
        raise value.error
    return value


def _leaf(expr: Expr, columns: Mapping[Any, Vector], shape: tuple[int, ...]) -> Vector:
    if expr.is_const:
        return _constant(expr.attr, expr.type, shape)
    column = columns[expr.attr]
    values = column.values
    if values.dtype.kind in "iu" and values.dtype != np.int64:
        values = values.astype(np.int64)
        column = Vector(values, column.valid, column.lo, column.hi)
    if not expr.type.nullable and column.valid is not None:
        lo, hi = min(column.lo, 0), max(column.hi, 0)
        return Vector(values, None, lo, hi, texts=column.texts)
    return column


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


def compute(
    root: Expr, rule: Callable[[Expr, Sequence[T]], T], shared: dict[Expr, T | None] | None = None
) -> T:
    """Compute the root by ``rule(node, values of its operands)``, operands first.

    The values of nodes in ``shared`` are kept there: None is a value still to compute.

    AND, OR, LEAST, GREATEST and CASE take many operands one by one, so that a thousand values are
    never in memory together: the rule is called for the first two operands, then for its result and
    the third, and so on; for CASE from the end, with a condition, its value and the ELSE value so
    far.
    """
    uses = dict(_uses(root))
    shared = {} if shared is None else shared
    done: dict[Expr, T] = {}
    open_nodes = [_Open(root, rule)]
    while True:
        current = open_nodes[-1]
        if not current.waiting:
            open_nodes.pop()
            value = current.value()
            if current.expr in shared:
                shared[current.expr] = value
            if not open_nodes:
                return value
            done[current.expr] = value
        elif (known := shared.get(current.waiting[-1])) is not None:
            current.waiting.pop()
            current.take(known)
        elif (arg := current.waiting[-1]) in done:
            current.waiting.pop()
            uses[arg] -= 1
            current.take(done[arg] if uses[arg] else done.pop(arg))
        else:
            open_nodes.append(_Open(arg, rule))


@lru_cache(maxsize=256)
def in_common(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The nodes that more than one of the roots needs."""
    uses = Counter(node for root in roots for node in walk(root))
    return tuple(node for node, count in uses.items() if count > 1 and not node.is_const)


@lru_cache(maxsize=256)
def _uses(root: Expr) -> Counter[Expr]:
    """Count how often each node is an operand; cached, since a stream evaluates the same roots."""
    return Counter(arg for node in walk(root) for arg in node.args)


class _Open(Generic[T]):
    """A node that waits for operands.

    ``waiting`` has the operands to compute, the next one last; ``pending`` the values that are not
    yet in ``so_far``.
    """

    def __init__(self, expr: Expr, rule: Callable[[Expr, Sequence[T]], T]) -> None:
        self.expr = expr
        self.rule = rule
        self.waiting = list(expr.args if expr.op is Op.CASE else reversed(expr.args))
        self.pending: list[T] = []
        self.so_far: T | None = None

    def take(self, operand: T) -> None:
        self.pending.append(operand)
        step = _STEPWISE.get(self.expr.op)
        if step is None:
            return
        if self.so_far is None:
            self.so_far = self.pending.pop()
        elif len(self.pending) == step:
            before = [self.so_far]
            operands = self.pending[::-1] + before if step > 1 else before + self.pending
            self.so_far = self.rule(self.expr, operands)
            self.pending = []

    def value(self) -> T:
        return self.rule(self.expr, self.pending) if self.so_far is None else self.so_far
