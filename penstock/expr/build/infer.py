"""Types of nodes whose operands are aligned already: bounds, and whether there may be NULL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.expr import interval
from penstock.expr.build.leaves import ExprTypeError
from penstock.expr.interval import Interval
from penstock.expr.node import Expr, Op, node
from penstock.types import UNIT_NS, Type
from penstock.zones import zone_of

#: Most bits of an exact integer: beyond it an expression is a mistake, not a query.
MAX_BITS = 512

_EXTREMES = frozenset({Op.LEAST, Op.GREATEST})
_RULES: dict[Op, Callable[..., Interval]] = {
    Op.ADD: interval.add,
    Op.SUB: interval.sub,
    Op.NEG: interval.neg,
    Op.ABS: interval.absolute,
    Op.MOD: interval.mod,
    Op.BIT_AND: interval.bit_and,
    Op.BIT_OR: interval.bit_or,
    Op.BIT_XOR: interval.bit_xor,
    Op.BIT_NOT: interval.bit_not,
    Op.SHL: interval.shl,
    Op.SHR: interval.shr,
}


def typed(op: Op, args: Sequence[Expr], like: Type, attr: Any = None) -> Expr:
    """A node on aligned operands, with the bounds and the nullability that those give it.

    Parameters
    ----------
    op : Op
        Any but those of leaves.
    args : sequence of Expr
    like : Type
        Kind, scale and unit of the value; of a CAST also the bounds that it checks.
    attr : optional
        Of the node.

    Raises
    ------
    ExprTypeError
        The value may need too many bits.
    """
    args = tuple(args)
    dtype = like.as_nullable(is_nullable(op, args))
    if dtype.is_integral:
        lo, hi = _bounds(op, args, dtype, attr)
        if max(abs(lo), abs(hi)).bit_length() > MAX_BITS:
            raise ExprTypeError(f"the value may need more than {MAX_BITS} bits")
        dtype = dtype.within(lo, hi)
    return node(op, args, dtype, attr)


def keeps_raw(source: Type, target: Type) -> bool:
    """Whether a CAST leaves every stored integer as it is and can never overflow."""
    return (
        source.is_integral
        and target.is_integral
        and raw_factor(source, target) == 1
        and target.lo <= source.lo
        and source.hi <= target.hi
    )


def raw_factor(source: Type, target: Type) -> int | None:
    """What an integral CAST multiplies the stored integer by; None if it may round."""
    if source.unit or target.unit:
        if not (source.unit and target.unit):
            return None
        factor, rest = divmod(UNIT_NS[source.unit], UNIT_NS[target.unit])
        return None if rest else factor
    return 10 ** (target.scale - source.scale) if target.scale >= source.scale else None


def is_nullable(op: Op, args: Sequence[Expr]) -> bool:
    """Whether the value may be NULL, by what the operands say."""
    if op is Op.IS_NULL:
        return False
    if op in _EXTREMES:  # they skip NULL
        return all(a.type.nullable for a in args)
    if op is Op.CASE:
        return any(a.type.nullable for a in (*args[1::2], args[-1]))
    if any(a.type.nullable for a in args):
        return True
    if op is not Op.MOD:
        return False
    divisor = args[1]
    if divisor.type.is_float:
        return not (divisor.is_const and divisor.attr)
    return divisor.type.lo <= 0 <= divisor.type.hi


def _bounds(op: Op, args: Sequence[Expr], like: Type, attr: Any) -> Interval:
    own = [(a.type.lo, a.type.hi) for a in args]
    if op is Op.MUL:
        return interval.square(own[0]) if args[0] is args[1] else interval.mul(*own)
    if op in _EXTREMES:
        return _extreme(op, args, own)
    if op is Op.CASE:
        values = (*args[1::2], args[-1])
        return _hull([(v.type.lo, v.type.hi) for v in values if not _is_null(v)] or [(0, 0)])
    if op is Op.CAST:
        return own[0] if keeps_raw(args[0].type, like) else (like.lo, like.hi)
    if op is Op.RAW:
        return own[0]
    if op in (Op.LOCAL, Op.INSTANT):
        step = UNIT_NS["s"] // UNIT_NS[like.unit]
        span = interval.mul(zone_of(attr[0]).span_s, (step, step))
        return (interval.add if op is Op.LOCAL else interval.sub)(own[0], span)
    return _RULES[op](*own)


def _extreme(op: Op, args: Sequence[Expr], own: Sequence[Interval]) -> Interval:
    rule = interval.least if op is Op.LEAST else interval.greatest
    bounds = own[0]
    for other in own[1:]:
        bounds = rule(bounds, other)
    # A NULL is skipped, which leaves any other operand as the value.
    return _hull([bounds, *own]) if any(a.type.nullable for a in args) else bounds


def _hull(parts: Sequence[Interval]) -> Interval:
    return min(lo for lo, _ in parts), max(hi for _, hi in parts)


def _is_null(expr: Expr) -> bool:
    return expr.is_const and expr.attr is None
