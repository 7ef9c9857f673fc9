"""Tests for membership in a list of constants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.expr.build.align import align
from penstock.expr.build.leaves import const
from penstock.expr.build.logic import and_, eq, le, or_
from penstock.expr.members import Members
from penstock.expr.node import Expr, Op, node
from penstock.types import BOOL, Kind

#: Most ranges of values that a test of both sides is written out as: devices other than the CPU
#: know comparisons only.
MAX_RANGES = 64


def is_in(value: Expr, options: Sequence[Expr]) -> Expr:
    """``value IN (options)`` for constants: TRUE where it equals one of them."""
    groups: dict[tuple, list[Expr]] = {}
    others = []
    for option in options:
        if option.is_const and option.attr is not None and option.type.kind is not Kind.BOOL:
            kind = (option.type.kind, option.type.scale, option.type.unit)
            groups.setdefault(kind, []).append(option)
        else:
            others.append(eq(value, option))
    return or_(*(_one_of(value, group) for group in groups.values()), *others)


def _one_of(value: Expr, options: Sequence[Expr]) -> Expr:
    """The same for constants of one kind, scale and unit."""
    if len(options) == 1:
        return eq(value, options[0])
    left, *aligned = align((value, *options), "`=`")
    if left.is_const and left.attr is None:
        return eq(left, aligned[0])
    return in_members(left, Members(option.attr for option in aligned))


def in_members(value: Expr, members: Members) -> Expr:
    """Whether a value is one of a list of the same type.

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
    """Ascending integers as ranges without gaps, both ends included."""
    found: list[tuple[int, int]] = []
    for value in values:
        if found and found[-1][1] + 1 == value:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    return found


def _between(value: Expr, low: int, high: int) -> Expr:
    least, most = const(low, value.type), const(high, value.type)
    return eq(value, least) if low == high else and_(le(least, value), le(value, most))
