"""Comparisons, conditions, lists of constants, and choices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from ...types import BOOL, Kind
from ..node import Expr, Op, node
from ..values import Members
from .align import align, choice_type
from .typed_nodes import FALSE, TRUE, ExprTypeError, const, typed


def _compare(op: Op, a: Expr, b: Expr) -> Expr:
    left, right = align((a, b), f"`{op.value}`", as_written=True)
    if op is not Op.EQ and left.type.kind is Kind.BOOL:
        raise ExprTypeError(f"`{op.value}` does not order conditions; they have equality")
    return typed(op, (left, right), BOOL)


lt = partial(_compare, Op.LT)
le = partial(_compare, Op.LE)
eq = partial(_compare, Op.EQ)


def ne(a: Expr, b: Expr) -> Expr:
    return not_(eq(a, b))


def order(op: Op, a: Expr, b: Expr) -> Expr:
    """Compare aligned operands of any kind, for rewrites; text is ordered by bytes."""
    return typed(op, (a, b), BOOL)


def prefix(text: Expr, start: Expr) -> Expr:
    """Whether ``text`` starts with ``start``."""
    left, right = align((text, start), "startswith")
    if not left.type.is_text:
        raise ExprTypeError(f"startswith needs text, not {left.type}")
    return typed(Op.PREFIX, (left, right), BOOL)


def _booleans(name: str, args: Sequence[Expr]) -> list[Expr]:
    done = []
    for arg in args:
        if arg.type.kind is Kind.NULL:
            done.append(const(None, BOOL))
        elif arg.type.kind is not Kind.BOOL:
            raise ExprTypeError(f"{name} needs conditions, not {arg.type}")
        else:
            done.append(arg)
    return done


def and_(*args: Expr) -> Expr:
    return _junction(Op.AND, "AND", args, TRUE, FALSE)


def or_(*args: Expr) -> Expr:
    return _junction(Op.OR, "OR", args, FALSE, TRUE)


def _junction(op: Op, name: str, args: Sequence[Expr], unit: Expr, zero: Expr) -> Expr:
    """Make a flat AND or OR, without its unit and without repeated members."""
    flat: dict[Expr, None] = {}
    for arg in _booleans(name, args):
        for part in arg.args if arg.op is op else (arg,):
            if part is zero:
                return zero
            if part is not unit:
                flat[part] = None
    parts = tuple(flat)
    if not parts:
        return unit
    if len(parts) == 1:
        return parts[0]
    return typed(op, parts, BOOL)


def not_(a: Expr) -> Expr:
    (arg,) = _booleans("NOT", (a,))
    if arg.op is Op.NOT:
        return arg.args[0]
    if arg.is_const:
        return const(None if arg.attr is None else not arg.attr, BOOL)
    return typed(Op.NOT, (arg,), BOOL)


def is_null(a: Expr) -> Expr:
    if not a.type.nullable:
        return FALSE
    if a.is_const:
        return TRUE
    return typed(Op.IS_NULL, (a,), BOOL)


def case(pairs: Sequence[tuple[Expr, Expr]], otherwise: Expr | None = None) -> Expr:
    """``CASE WHEN condition THEN value ... ELSE otherwise END``."""
    conditions = _booleans("CASE WHEN", [c for c, _ in pairs])
    last = const(None) if otherwise is None else otherwise
    choices = [*(v for _, v in pairs), last]
    values = align(choices, "CASE")
    args = [x for pair in zip(conditions, values[:-1], strict=True) for x in pair]
    return typed(Op.CASE, (*args, values[-1]), choice_type(choices, values))


#: Most ranges of values that a test of both sides is written out as: devices other than the CPU
#: know comparisons only.
MAX_RANGES = 64


def is_in(value: Expr, options: Sequence[Expr]) -> Expr:
    """``value IN (options)`` for constants: TRUE where the value equals an option."""
    groups: dict[tuple, list[Expr]] = {}
    comparisons = []
    for option in options:
        if option.is_const and option.attr is not None and option.type.kind is not Kind.BOOL:
            kind = (option.type.kind, option.type.scale, option.type.unit)
            groups.setdefault(kind, []).append(option)
        else:
            comparisons.append(eq(value, option))
    return or_(*(_one_of(value, group) for group in groups.values()), *comparisons)


def _one_of(value: Expr, options: Sequence[Expr]) -> Expr:
    """Make IN for constants of one kind, scale and unit."""
    if len(options) == 1:
        return eq(value, options[0])
    left, *aligned = align((value, *options), "`=`")
    if left.is_const and left.attr is None:
        return eq(left, aligned[0])
    return in_members(left, Members(option.attr for option in aligned))


def in_members(value: Expr, members: Members) -> Expr:
    """Test whether a value is one of a list of the same type.

    That of one side is one node, computed once for each row. That of both sides, which is computed
    for each pair, is written out as ranges where there are few.
    """
    if len(value.sides) > 1:
        ranges = _ranges(members.values) if value.type.is_integral else None
        if ranges is None and len(members) <= MAX_RANGES:
            return or_(*(eq(value, const(v, value.type)) for v in members.values))
        if ranges is not None and len(ranges) <= MAX_RANGES:
            return or_(*(_between(value, low, high) for low, high in ranges))
    return node(Op.IN, (value,), BOOL.as_nullable(value.type.nullable), members)


def _ranges(values: Iterable[int]) -> list[tuple[int, int]]:
    """Group ascending integers into ranges without gaps, both ends included."""
    ranges: list[tuple[int, int]] = []
    for value in values:
        if ranges and ranges[-1][1] + 1 == value:
            ranges[-1] = (ranges[-1][0], value)
        else:
            ranges.append((value, value))
    return ranges


def _between(value: Expr, low: int, high: int) -> Expr:
    least, most = const(low, value.type), const(high, value.type)
    return eq(value, least) if low == high else and_(le(least, value), le(value, most))
