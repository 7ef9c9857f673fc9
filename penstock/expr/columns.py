"""Evaluation of an expression over whole columns, exactly.

Integers are held in int64 while their bounds allow it and in arrays of Python integers beyond, so
no operation overflows. This is what computes prepared keys, filters and SELECT expressions; the
per-pair work is the devices'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from penstock.expr import interval
from penstock.expr.compute import compute
from penstock.expr.evaluate import cast_value, zero_of
from penstock.expr.node import Expr, Op
from penstock.types import TIMESTAMPS, UNIT_NS, Kind, Type
from penstock.zones import zone_of

_INT64 = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True)
class Vector:
    """Values of one expression.

    Parameters
    ----------
    values : ndarray, shape (n,) or () for a constant
        int64 or object (integers), bool, float32, float64, or object (str, bytes). NULL slots
        hold zero.
    valid : ndarray of bool or None
        False where NULL; None if nothing is.
    lo, hi : int
        Bounds of the integers actually present, 0 otherwise.
    """

    values: np.ndarray
    valid: np.ndarray | None = None
    lo: int = 0
    hi: int = 0


def int_vector(values: np.ndarray, valid: np.ndarray | None = None) -> Vector:
    """Vector of integers with the bounds they really have."""
    if values.size == 0:
        return Vector(values, valid)
    return Vector(values, valid, int(values.min()), int(values.max()))


def evaluate_columns(expr: Expr, columns: Mapping[Any, Vector], rows: int) -> Vector:
    """Value of ``expr`` in each of ``rows`` rows.

    Parameters
    ----------
    expr : Expr
        Any expression; two-sided ones need the columns of both sides, aligned.
    columns : mapping of (side, name) to Vector
    rows : int
        Length of the result.

    Raises
    ------
    DataError
        A CAST met a value that does not fit.
    """
    if not expr.args:  # most keys are columns, and most batches of streams small
        return _broadcast(_RULES[expr.op](expr, (), columns), rows)
    found = compute(expr, lambda node, args: _RULES[node.op](node, args, columns))
    return _broadcast(found, rows)


def _broadcast(v: Vector, rows: int) -> Vector:
    if v.values.ndim and (v.valid is None or v.valid.ndim):
        return v
    valid = None if v.valid is None else np.broadcast_to(v.valid, rows)
    return Vector(np.broadcast_to(v.values, rows), valid, v.lo, v.hi)


def _scalar(value: object, dtype: Type) -> np.ndarray:
    if dtype.kind is Kind.BOOL:
        return np.array(value, dtype=bool)
    if dtype.kind is Kind.FLOAT32:
        return np.array(value, dtype=np.float32)
    if dtype.kind is Kind.FLOAT64:
        return np.array(value, dtype=np.float64)
    if dtype.is_integral and isinstance(value, int) and _INT64[0] <= value <= _INT64[1]:
        return np.array(value, dtype=np.int64)
    out = np.empty((), dtype=object)
    out[()] = value
    return out


def _const(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
    if expr.attr is None:
        return Vector(_scalar(zero_of(expr.type), expr.type), np.array(False))
    bounds = (expr.attr, expr.attr) if expr.type.is_integral else (0, 0)
    return Vector(_scalar(expr.attr, expr.type), None, *bounds)


def _column(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
    found: Vector = columns[expr.attr]
    if not expr.type.nullable and found.valid is not None:
        return Vector(found.values, None, min(found.lo, 0), max(found.hi, 0))
    return found


def _valid(args: Sequence[Vector]) -> np.ndarray | None:
    masks = [a.valid for a in args if a.valid is not None]
    if not masks:
        return None
    result = masks[0]
    for mask in masks[1:]:
        result = result & mask
    return result


def _fits(bounds: tuple[int, int]) -> bool:
    return _INT64[0] <= bounds[0] and bounds[1] <= _INT64[1]


def _widen(v: Vector, exact: bool) -> np.ndarray:
    return v.values if exact or v.values.dtype == object else v.values.astype(object)


def _integers(rule: Callable, compute: Callable) -> Callable:
    """Rule for an operation on integers that also has a float meaning through ``compute``."""

    def apply(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
        if not expr.type.is_integral:
            with np.errstate(all="ignore"):
                return Vector(np.asarray(compute(*(a.values for a in args))), _valid(args))
        bounds = rule(*((a.lo, a.hi) for a in args))
        exact = _fits(bounds)
        operands = [_widen(a, exact) for a in args]
        return Vector(np.asarray(compute(*operands)), _valid(args), *bounds)

    return apply


def _mod(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
    a, b = args
    zero = b.values == 0
    valid = _valid(args)
    if np.any(zero):
        valid = ~zero if valid is None else valid & ~zero
    if not expr.type.is_integral:
        with np.errstate(all="ignore"):
            divisor = np.where(zero, b.values.dtype.type(1), b.values)
            return Vector(np.fmod(a.values, divisor), valid)
    bounds = interval.mod((a.lo, a.hi), (b.lo, b.hi))
    divisor = np.where(zero, 1, b.values)
    if a.values.dtype == object or b.values.dtype == object:
        left, right = np.broadcast_arrays(_widen(a, False), divisor.astype(object))
        out = np.empty(left.shape, dtype=object)
        out[...] = abs(left) % abs(right) * np.where(left < 0, -1, 1).astype(object)
    else:
        out = np.fmod(a.values, divisor)
    return Vector(out, valid, *bounds)


def _shift(left: bool) -> Callable:
    def apply(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
        a, n = args
        rule = interval.shl if left else interval.shr
        bounds = rule((a.lo, a.hi), (max(n.lo, 0), min(max(n.hi, 0), 63)))
        exact = _fits(bounds)
        # A NULL slot may hold any number, also one that is no shift amount.
        x, by = _widen(a, exact), np.clip(_widen(n, exact), 0, 63)
        return Vector(np.asarray(x << by if left else x >> by), _valid(args), *bounds)

    return apply


def _less(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a < b`` with NaN above everything."""
    if a.dtype.kind == "f":
        return ~(a >= b) & (a == a)
    return a < b


def _compare(op: Op) -> Callable:
    def apply(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
        a, b = (x.values for x in args)
        if op is Op.LT:
            out = _less(a, b)
        elif op is Op.LE:
            out = ~_less(b, a) if a.dtype != object else a <= b
        elif a.dtype.kind == "f":
            out = (a == b) | ((a != a) & (b != b))
        else:
            out = a == b
        return Vector(np.asarray(out, dtype=bool), _valid(args))

    return apply


def _prefix(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
    text, start = np.broadcast_arrays(args[0].values, args[1].values)
    flat = [t.startswith(s) for t, s in zip(text.flat, start.flat, strict=True)]
    return Vector(np.array(flat, dtype=bool).reshape(text.shape), _valid(args))


def _in(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
    (a,) = args
    return Vector(np.asarray(expr.attr.isin(a.values)), a.valid)


def _known(v: Vector) -> np.ndarray | bool:
    return True if v.valid is None else v.valid


def _junction(is_and: bool) -> Callable:
    def apply(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
        if all(a.valid is None for a in args):
            join = np.logical_and if is_and else np.logical_or
            return Vector(np.asarray(reduce(join, (a.values for a in args))))
        # What a NULL slot holds is neither.
        true = [a.values & _known(a) for a in args]
        false = [~a.values & _known(a) for a in args]
        yes = np.logical_and.reduce(np.broadcast_arrays(*true)) if is_and else _any(true)
        no = _any(false) if is_and else np.logical_and.reduce(np.broadcast_arrays(*false))
        return Vector(np.asarray(yes), yes | no)

    return apply


def _any(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.logical_or.reduce(np.broadcast_arrays(*parts))


def _not(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
    (a,) = args
    return Vector(~a.values & _known(a), a.valid)


def _is_null(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
    (a,) = args
    if a.valid is None:
        return Vector(np.zeros(a.values.shape, dtype=bool))
    return Vector(np.asarray(~a.valid))


def _select(condition: np.ndarray, yes: Vector, no: Vector, dtype: Type) -> Vector:
    if yes.values.dtype != no.values.dtype:
        yes, no = (Vector(v.values.astype(object), v.valid, v.lo, v.hi) for v in (yes, no))
    values = np.where(condition, yes.values, no.values)
    valid = None
    if yes.valid is not None or no.valid is not None:
        valid = np.where(condition, _known(yes), _known(no))
    return Vector(values, valid, min(yes.lo, no.lo), max(yes.hi, no.hi))


def _case(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
    result = args[-1]
    pairs = list(zip(args[:-1:2], args[1::2], strict=False))
    for condition, value in reversed(pairs):
        result = _select(condition.values & _known(condition), value, result, expr.type)
    return result


def _extreme(least: bool) -> Callable:
    def apply(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
        result = args[0]
        for other in args[1:]:
            a, b = other.values, result.values
            if a.dtype != b.dtype:
                a, b = a.astype(object), b.astype(object)
            better = _less(a, b) if least else _less(b, a)
            better = np.asarray(better, dtype=bool)
            if result.valid is not None:
                better = better | ~result.valid
            if other.valid is not None:
                better = better & other.valid
            picked = _select(better, other, result, expr.type)
            valid = None
            if result.valid is not None and other.valid is not None:
                valid = result.valid | other.valid
            result = Vector(picked.values, valid, picked.lo, picked.hi)
        return result

    return apply


def _cast(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
    (a,) = args
    source, target = expr.args[0].type, expr.type
    fast = _fast_cast(a, source, target)
    if fast is not None:
        return fast
    values = np.broadcast_to(a.values, np.shape(a.values))
    known = np.broadcast_to(_known(a), values.shape)
    out = np.empty(values.shape, dtype=object)
    for index in np.ndindex(values.shape):
        value = values[index]
        value = value.item() if isinstance(value, np.generic) else value
        out[index] = cast_value(value, source, target) if known[index] else zero_of(target)
    if target.is_float:
        return Vector(
            out.astype(np.float32 if target.kind is Kind.FLOAT32 else np.float64), a.valid
        )
    filled = int_vector(out, a.valid)
    if _fits((filled.lo, filled.hi)):
        return Vector(out.astype(np.int64), a.valid, filled.lo, filled.hi)
    return filled


def _zoned(expr: Expr, args: Sequence[Vector], columns: Mapping) -> Vector:
    """LOCAL and INSTANT."""
    name, special = expr.attr
    zone, unit = zone_of(name), expr.type.unit
    step = UNIT_NS["s"] // UNIT_NS[unit]
    shift = interval.mul(zone.span_s, (step, step))
    rule = interval.add if expr.op is Op.LOCAL else interval.sub
    exact = all(_fits(rule((a.lo, a.hi), shift)) for a in args)
    value, *near = np.broadcast_arrays(*(_widen(a, exact) for a in args))
    flat = value.reshape(-1)
    if expr.op is Op.LOCAL:
        found = zone.local(flat, unit, floor=special)
    else:
        by = near[0].reshape(-1) if near else None
        found = zone.instant(flat, unit, near=by, start=special)
    return int_vector(found.reshape(value.shape), _valid(args))


def _fast_cast(a: Vector, source: Type, target: Type) -> Vector | None:
    """Casts that need no look at single values; None where one does."""
    if source.is_integral and target.is_integral:
        same_unit = source.unit == target.unit
        if source.scale == target.scale and same_unit and target.lo <= a.lo and a.hi <= target.hi:
            return a
        if source.kind in TIMESTAMPS and a.values.dtype != object:
            step = UNIT_NS[target.unit or "s"] // UNIT_NS[source.unit]
            lo, hi = a.lo // step if step else a.lo, a.hi // step if step else a.hi
            if step >= 1 and target.lo <= lo and hi <= target.hi:
                return Vector(a.values // step, a.valid, lo, hi)
        return None
    if source.kind is Kind.BOOL:
        return Vector(a.values.astype(np.int64), a.valid, 0, 1)
    if target.is_float and (source.is_float or (source.kind is Kind.INT and source.bits <= 64)):
        real = np.float32 if target.kind is Kind.FLOAT32 else np.float64
        if a.values.dtype != object:
            with np.errstate(all="ignore"):
                return Vector(a.values.astype(real), a.valid)
    return None


_RULES: dict[Op, Callable[[Expr, Sequence[Vector], Mapping], Vector]] = {
    Op.CONST: _const,
    Op.COLUMN: _column,
    Op.KEY: _column,
    Op.ADD: _integers(interval.add, lambda a, b: a + b),
    Op.SUB: _integers(interval.sub, lambda a, b: a - b),
    Op.MUL: _integers(interval.mul, lambda a, b: a * b),
    Op.NEG: _integers(interval.neg, lambda a: -a),
    Op.ABS: _integers(interval.absolute, abs),
    Op.LEAST: _extreme(True),
    Op.GREATEST: _extreme(False),
    Op.MOD: _mod,
    Op.BIT_AND: _integers(interval.bit_and, lambda a, b: a & b),
    Op.BIT_OR: _integers(interval.bit_or, lambda a, b: a | b),
    Op.BIT_XOR: _integers(interval.bit_xor, lambda a, b: a ^ b),
    Op.BIT_NOT: _integers(interval.bit_not, lambda a: ~a),
    Op.SHL: _shift(True),
    Op.SHR: _shift(False),
    Op.LT: _compare(Op.LT),
    Op.LE: _compare(Op.LE),
    Op.EQ: _compare(Op.EQ),
    Op.PREFIX: _prefix,
    Op.IN: _in,
    Op.AND: _junction(True),
    Op.OR: _junction(False),
    Op.NOT: _not,
    Op.IS_NULL: _is_null,
    Op.CASE: _case,
    Op.CAST: _cast,
    Op.LOCAL: _zoned,
    Op.INSTANT: _zoned,
    Op.RAW: lambda expr, args, columns: args[0],
}
