"""How each operation is evaluated on columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add, and_, invert, mul, neg, or_, sub, xor

import numpy as np

from ..errors import DataError
from ..types import TIMESTAMPS, UNIT_NS, Kind, Type
from ..zones import zone_of
from . import interval
from .functions import FUNCTIONS
from .interval import BOUNDS
from .node import Expr, Op
from .values import cast_value, zero_of
from .vector import Vector, fits_int64, int_vector

#: Arrays of all kinds but integers and text.
ARRAYS = {Kind.BOOL: np.bool_, Kind.FLOAT32: np.float32, Kind.FLOAT64: np.float64}


def _valid(args: Sequence[Vector]) -> np.ndarray | None:
    masks = [a.valid for a in args if a.valid is not None]
    return reduce(and_, masks) if masks else None


def _widen(v: Vector, exact: bool) -> np.ndarray:
    return v.values if exact or v.values.dtype == object else v.values.astype(object)


def _arithmetic(expr: Expr, args: Sequence[Vector]) -> Vector:
    compute = _ARITHMETIC[expr.op]
    if not expr.type.is_integral:
        with np.errstate(all="ignore"):
            return Vector(np.asarray(compute(*(a.values for a in args))), _valid(args))
    bounds = BOUNDS[expr.op](*((a.lo, a.hi) for a in args))
    exact = fits_int64(*bounds)
    operands = [_widen(a, exact) for a in args]
    return Vector(np.asarray(compute(*operands)), _valid(args), *bounds)


def _divides(args: Sequence[Vector]) -> tuple[np.ndarray, np.ndarray | None]:
    """Masks of the rows whose divisor is 0, and of those whose quotient is not NULL."""
    zero, valid = args[1].values == 0, _valid(args)
    if np.any(zero):
        valid = ~zero if valid is None else valid & ~zero
    return zero, valid


def _mod(expr: Expr, args: Sequence[Vector]) -> Vector:
    a, b = args
    zero, valid = _divides(args)
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


def _div(expr: Expr, args: Sequence[Vector]) -> Vector:
    a, b = args
    zero, valid = _divides(args)
    bounds = interval.div((a.lo, a.hi), (b.lo, b.hi))
    exact = fits_int64(*bounds)
    x, by = _widen(a, exact), np.where(zero, 1, _widen(b, exact))
    down = np.asarray(x // by)
    return Vector(down + ((down < 0) & (down * by != x)), valid, *bounds)


def _function(expr: Expr, args: Sequence[Vector]) -> Vector:
    function = FUNCTIONS[expr.attr]
    shape = np.broadcast_shapes(*(a.values.shape for a in args))
    columns = (a.values for a in args)
    # Copies, since compiled loops take no array that lies over another one's memory.
    values = function(
        *(v if v.shape == shape else np.broadcast_to(v, shape).copy() for v in columns)
    )
    if function.type.is_integral:
        return Vector(values, _valid(args), function.type.lo, function.type.hi)
    return Vector(values, _valid(args))


def _shift(expr: Expr, args: Sequence[Vector]) -> Vector:
    a, n = args
    bounds = BOUNDS[expr.op]((a.lo, a.hi), (max(n.lo, 0), min(max(n.hi, 0), 63)))
    exact = fits_int64(*bounds)
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


def _false(v: Vector) -> np.ndarray:
    """Mask of the rows for which a condition is FALSE."""
    return ~v.values if v.valid is None else ~v.values & v.valid


def _junction(expr: Expr, args: Sequence[Vector]) -> Vector:
    a, b = args
    every, some = (and_, or_) if expr.op is Op.AND else (or_, and_)
    yes = np.asarray(every(a.true, b.true))
    if a.valid is None and b.valid is None:
        return Vector(yes)
    return Vector(yes, yes | some(_false(a), _false(b)))


def _not(expr: Expr, args: Sequence[Vector]) -> Vector:
    (a,) = args
    return Vector(_false(a), a.valid)


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
    condition, value, otherwise = args
    return _select(condition.true, value, otherwise)


def _extreme(expr: Expr, args: Sequence[Vector]) -> Vector:
    """Evaluate LEAST or GREATEST of two, which skip NULL."""
    a, b = args
    x, y = a.values, b.values
    if x.dtype != y.dtype:
        x, y = x.astype(object), y.astype(object)
    better = np.asarray(_less(y, x) if expr.op is Op.LEAST else _less(x, y), dtype=bool)
    if a.valid is not None:
        better = better | ~a.valid
    if b.valid is not None:
        better = better & b.valid
    picked = _select(better, b, a)
    if a.valid is None or b.valid is None:
        return replace(picked, valid=None)
    return picked


def _cast(expr: Expr, args: Sequence[Vector]) -> Vector:
    (a,) = args
    source, target = expr.args[0].type, expr.type
    fast = _fast_cast(a, source, target)
    if fast is not None:
        return fast
    known = np.broadcast_to(_known(a), a.values.shape)
    flat, failed, error = [], np.zeros(known.size, dtype=bool), None
    for value, is_known in zip(a.values.ravel().tolist(), known.flat, strict=True):
        try:
            flat.append(cast_value(value, source, target) if is_known else zero_of(target))
        except DataError as this:
            failed[len(flat)], error = True, error or this
            flat.append(zero_of(target))
    out = np.array(flat, ARRAYS.get(target.kind, object)).reshape(known.shape)
    if target.is_float:
        return Vector(out, a.valid)
    filled = int_vector(out, a.valid)
    if error is not None:
        filled = replace(filled, failed=failed.reshape(known.shape), error=error)
    is_int64 = fits_int64(filled.lo, filled.hi)
    return replace(filled, values=out.astype(np.int64)) if is_int64 else filled


def with_errors(op: Op, args: Sequence[Vector], value: Vector) -> Vector:
    """Mark the rows of a result whose operands are errors; of CASE, only of the branch it takes."""
    failing = [one for one in (value, *args) if one.error is not None]
    if not failing or (value is failing[0] and len(failing) == 1):
        return value
    masks = [np.asarray(False if one.failed is None else one.failed) for one in args]
    if op is Op.CASE:
        masks = [masks[0], np.where(args[0].true, *masks[1:])]
    failed = reduce(or_, masks, np.asarray(False if value.failed is None else value.failed))
    return replace(value, failed=failed, error=failing[0].error if failed.any() else None)


def _checked(expr: Expr, args: Sequence[Vector]) -> Vector:
    """The value, unless there is a row in which it is an error."""
    value, *conditions = args
    for text, fails in zip(expr.attr, conditions, strict=True):
        if np.any(fails.true):
            raise DataError(text)
    return value


def _zoned(expr: Expr, args: Sequence[Vector]) -> Vector:
    """Evaluate LOCAL and INSTANT."""
    name, special = expr.attr
    zone, unit = zone_of(name), expr.type.unit
    rule = interval.add if expr.op is Op.LOCAL else interval.sub
    exact = all(fits_int64(*rule((a.lo, a.hi), zone.span(unit))) for a in args)
    value, *near = np.broadcast_arrays(*(_widen(a, exact) for a in args))
    flat = value.reshape(-1)
    if expr.op is Op.LOCAL:
        moved = zone.local(flat, unit, floor=special)
    else:
        by = near[0].reshape(-1) if near else None
        moved = zone.instant(flat, unit, near=by, start=special)
    return int_vector(moved.reshape(value.shape), _valid(args))


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
    is_narrow = source.is_float or (source.kind is Kind.INT and source.bits <= 64)
    if target.is_float and is_narrow and a.values.dtype != object:
        with np.errstate(all="ignore"):
            return Vector(a.values.astype(ARRAYS[target.kind]), a.valid)
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
#: Rules of evaluation, called with the node and its operands: for AND, OR, LEAST and GREATEST two
#: at a time, for CASE a condition, its value and the ELSE value, see :func:`~.columns.compute`.
RULES: dict[Op, Callable[[Expr, Sequence[Vector]], Vector]] = {
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys((Op.SHL, Op.SHR), _shift),
    **dict.fromkeys((Op.LT, Op.LE, Op.EQ), _compare),
    **dict.fromkeys((Op.AND, Op.OR), _junction),
    **dict.fromkeys((Op.LEAST, Op.GREATEST), _extreme),
    **dict.fromkeys((Op.LOCAL, Op.INSTANT), _zoned),
    Op.MOD: _mod,
    Op.DIV: _div,
    Op.FUNCTION: _function,
    Op.PREFIX: _prefix,
    Op.IN: _in,
    Op.NOT: _not,
    Op.IS_NULL: _is_null,
    Op.CASE: _case,
    Op.CAST: _cast,
    Op.CHECKED: _checked,
    Op.RAW: lambda expr, args: args[0],
}
