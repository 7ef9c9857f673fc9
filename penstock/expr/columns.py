"""Evaluate expressions over whole columns, exactly.

Integers are held in int64 while their bounds allow it and in arrays of Python integers beyond, so
no operation overflows. This is what computes prepared keys, filters and SELECT expressions; the
per-pair work is the devices'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, and_, invert, mul, neg, or_, sub, xor
from typing import Any

import numpy as np

from ..types import TIMESTAMPS, UNIT_NS, Kind, Type
from ..zones import zone_of
from . import interval
from .compute import compute
from .interval import BOUNDS
from .node import Expr, Op, walk
from .values import cast_value, zero_of

_INT64 = (-(1 << 63), (1 << 63) - 1)
_ARRAYS = {Kind.BOOL: np.bool_, Kind.FLOAT32: np.float32, Kind.FLOAT64: np.float64}


@dataclass(frozen=True)
class Vector:
    """A column: the values of one expression.

    Parameters
    ----------
    values : ndarray, shape (n,) or () for a constant
        int64 or object (integers), bool, float32, float64, or object (str, bytes). NULL slots
        hold zero.
    valid : ndarray of bool or None
        False where NULL; None if nothing is.
    lo, hi : int
        Bounds of the integers in ``values``, 0 for other values.
    """

    values: np.ndarray
    valid: np.ndarray | None = None
    lo: int = 0
    hi: int = 0


#: Columns by (side, name).
Columns = Mapping[tuple[str, str], Vector]


def int_vector(values: np.ndarray, valid: np.ndarray | None = None) -> Vector:
    """Make a vector of integers, with the bounds that they have."""
    if values.size == 0:
        return Vector(values, valid)
    return Vector(values, valid, int(values.min()), int(values.max()))


def evaluate_columns(expr: Expr, columns: Mapping[Any, Vector], rows: int) -> Vector:
    """Evaluate an expression in each row.

    Parameters
    ----------
    expr : Expr
        One of both sides needs the columns of both, one row per pair.
    columns : mapping of (side, name) to Vector
    rows : int
        How many rows the result has, where it is the same for all.

    Raises
    ------
    DataError
        A CAST met a value that does not fit.
    """

    def rule(node: Expr, args: Sequence[Vector]) -> Vector:
        return _RULES[node.op](node, args) if node.args else _leaf(node, columns)

    # Most keys are columns, and most batches of streams small.
    v = compute(expr, rule) if expr.args else _leaf(expr, columns)
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
    found: dict[Expr, Vector] = {}
    for node in walk(expr):
        args = [found[arg] for arg in node.args]
        found[node] = _RULES[node.op](node, args) if args else _leaf(node, row, (1,))
    value = found[expr]
    return None if value.valid is not None and not value.valid[0] else value.values.item()


def _leaf(expr: Expr, columns: Mapping[Any, Vector], shape: tuple[int, ...] = ()) -> Vector:
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


def _filled(value: object, dtype: Type, shape: tuple[int, ...]) -> np.ndarray:
    real: type = object
    if dtype.kind in _ARRAYS:
        real = _ARRAYS[dtype.kind]
    elif dtype.is_integral and isinstance(value, int) and _fits((value, value)):
        real = np.int64
    out = np.empty(shape, dtype=real)
    out[...] = value
    return out


def _valid(args: Sequence[Vector]) -> np.ndarray | None:
    masks = [a.valid for a in args if a.valid is not None]
    return reduce(and_, masks) if masks else None


def _fits(bounds: tuple[int, int]) -> bool:
    return _INT64[0] <= bounds[0] and bounds[1] <= _INT64[1]


def _widen(v: Vector, exact: bool) -> np.ndarray:
    return v.values if exact or v.values.dtype == object else v.values.astype(object)


def _arithmetic(expr: Expr, args: Sequence[Vector]) -> Vector:
    compute = _ARITHMETIC[expr.op]
    if not expr.type.is_integral:
        with np.errstate(all="ignore"):
            return Vector(np.asarray(compute(*(a.values for a in args))), _valid(args))
    bounds = BOUNDS[expr.op](*((a.lo, a.hi) for a in args))
    exact = _fits(bounds)
    operands = [_widen(a, exact) for a in args]
    return Vector(np.asarray(compute(*operands)), _valid(args), *bounds)


def _mod(expr: Expr, args: Sequence[Vector]) -> Vector:
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


def _shift(expr: Expr, args: Sequence[Vector]) -> Vector:
    a, n = args
    bounds = BOUNDS[expr.op]((a.lo, a.hi), (max(n.lo, 0), min(max(n.hi, 0), 63)))
    exact = _fits(bounds)
    # A NULL slot may hold any number, also one that is no shift amount.
    x, by = _widen(a, exact), np.clip(_widen(n, exact), 0, 63)
    values = x << by if expr.op is Op.SHL else x >> by
    return Vector(np.asarray(values), _valid(args), *bounds)


def _less(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute ``a < b``, with NaN above everything."""
    if a.dtype.kind == "f":
        return ~(a >= b) & (a == a)
    return a < b


def _compare(expr: Expr, args: Sequence[Vector]) -> Vector:
    a, b = (x.values for x in args)
    if expr.op is Op.LT:
        out = _less(a, b)
    elif expr.op is Op.LE:
        out = ~_less(b, a) if a.dtype != object else a <= b
    elif a.dtype.kind == "f":
        out = (a == b) | ((a != a) & (b != b))
    else:
        out = a == b
    return Vector(np.asarray(out, dtype=bool), _valid(args))


def _prefix(expr: Expr, args: Sequence[Vector]) -> Vector:
    text, start = np.broadcast_arrays(args[0].values, args[1].values)
    flat = [t.startswith(s) for t, s in zip(text.flat, start.flat, strict=True)]
    return Vector(np.array(flat, dtype=bool).reshape(text.shape), _valid(args))


def _in(expr: Expr, args: Sequence[Vector]) -> Vector:
    (a,) = args
    return Vector(np.asarray(expr.attr.isin(a.values)), a.valid)


def _known(v: Vector) -> np.ndarray | bool:
    return True if v.valid is None else v.valid


def _junction(expr: Expr, args: Sequence[Vector]) -> Vector:
    every, some = np.logical_and, np.logical_or
    if expr.op is Op.OR:
        every, some = some, every
    if all(a.valid is None for a in args):
        return Vector(np.asarray(reduce(every, (a.values for a in args))))
    # What a NULL slot holds is neither.
    yes = np.asarray(reduce(every, (a.values & _known(a) for a in args)))
    return Vector(yes, yes | reduce(some, (~a.values & _known(a) for a in args)))


def _not(expr: Expr, args: Sequence[Vector]) -> Vector:
    (a,) = args
    return Vector(~a.values & _known(a), a.valid)


def _is_null(expr: Expr, args: Sequence[Vector]) -> Vector:
    (a,) = args
    if a.valid is None:
        return Vector(np.zeros(a.values.shape, dtype=bool))
    return Vector(np.asarray(~a.valid))


def _select(condition: np.ndarray, yes: Vector, no: Vector) -> Vector:
    if yes.values.dtype != no.values.dtype:
        yes, no = (Vector(v.values.astype(object), v.valid, v.lo, v.hi) for v in (yes, no))
    values = np.where(condition, yes.values, no.values)
    valid = None
    if yes.valid is not None or no.valid is not None:
        valid = np.where(condition, _known(yes), _known(no))
    return Vector(values, valid, min(yes.lo, no.lo), max(yes.hi, no.hi))


def _case(expr: Expr, args: Sequence[Vector]) -> Vector:
    result = args[-1]
    pairs = list(zip(args[:-1:2], args[1::2], strict=False))
    for condition, value in reversed(pairs):
        result = _select(condition.values & _known(condition), value, result)
    return result


def _extreme(expr: Expr, args: Sequence[Vector]) -> Vector:
    result = args[0]
    for other in args[1:]:
        a, b = other.values, result.values
        if a.dtype != b.dtype:
            a, b = a.astype(object), b.astype(object)
        better = np.asarray(_less(a, b) if expr.op is Op.LEAST else _less(b, a), dtype=bool)
        if result.valid is not None:
            better = better | ~result.valid
        if other.valid is not None:
            better = better & other.valid
        picked = _select(better, other, result)
        valid = None
        if result.valid is not None and other.valid is not None:
            valid = result.valid | other.valid
        result = Vector(picked.values, valid, picked.lo, picked.hi)
    return result


def _cast(expr: Expr, args: Sequence[Vector]) -> Vector:
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


def _zoned(expr: Expr, args: Sequence[Vector]) -> Vector:
    """Evaluate LOCAL and INSTANT."""
    name, special = expr.attr
    zone, unit = zone_of(name), expr.type.unit
    rule = interval.add if expr.op is Op.LOCAL else interval.sub
    exact = all(_fits(rule((a.lo, a.hi), zone.span(unit))) for a in args)
    value, *near = np.broadcast_arrays(*(_widen(a, exact) for a in args))
    flat = value.reshape(-1)
    if expr.op is Op.LOCAL:
        found = zone.local(flat, unit, floor=special)
    else:
        by = near[0].reshape(-1) if near else None
        found = zone.instant(flat, unit, near=by, start=special)
    return int_vector(found.reshape(value.shape), _valid(args))


def _fast_cast(a: Vector, source: Type, target: Type) -> Vector | None:
    """Cast whole columns; None where values must be cast one by one."""
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


#: Operations on integers that also have a meaning for floats, and those on bits.
_ARITHMETIC: dict[Op, Callable] = {
    Op.ADD: add,
    Op.SUB: sub,
    Op.MUL: mul,
    Op.NEG: neg,
    Op.ABS: abs,
    Op.BIT_AND: and_,
    Op.BIT_OR: or_,
    Op.BIT_XOR: xor,
    Op.BIT_NOT: invert,
}
_RULES: dict[Op, Callable[[Expr, Sequence[Vector]], Vector]] = {
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys((Op.SHL, Op.SHR), _shift),
    **dict.fromkeys((Op.LT, Op.LE, Op.EQ), _compare),
    **dict.fromkeys((Op.AND, Op.OR), _junction),
    **dict.fromkeys((Op.LEAST, Op.GREATEST), _extreme),
    **dict.fromkeys((Op.LOCAL, Op.INSTANT), _zoned),
    Op.MOD: _mod,
    Op.PREFIX: _prefix,
    Op.IN: _in,
    Op.NOT: _not,
    Op.IS_NULL: _is_null,
    Op.CASE: _case,
    Op.CAST: _cast,
    Op.RAW: lambda expr, args: args[0],
}
