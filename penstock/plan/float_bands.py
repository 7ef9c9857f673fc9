"""Bands of floats: keys of both sides that stay close in every match, but for rounding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf, isfinite

from ..expr.node import Expr, Op
from ..types import Kind
from .logic import conjuncts_of, when_true
from .query import LEFT, RIGHT

#: Many times the largest relative error of one operation, by the narrowest type in a comparison.
_SHARES = {Kind.FLOAT32: 2.0**-18, Kind.FLOAT64: 2.0**-45}
#: Constants in a comparison, since each operation rounds; and the largest one, so that only numbers
#: far beyond it overflow.
_MOST_CONSTANTS, _LARGEST = 16, 2.0**100


@dataclass(frozen=True)
class FloatBand:
    """Keys of both sides, floats, that stay close.

    Parameters
    ----------
    left, right : Expr
        Of a match, one is NaN only where the other is.
    low, high : float
        Of a match, ``left + low <= right <= left + high``, but for what rounding may hide.
    share : float
        How much that is at most, as a share of either key.
    conjuncts : tuple of Expr
        That say so.
    """

    left: Expr
    right: Expr
    low: float
    high: float
    share: float
    conjuncts: tuple[Expr, ...]


def float_bands(predicate: Expr) -> Iterator[FloatBand]:
    """Bands of floats in the outermost AND."""
    halves_of_keys: dict[tuple[Expr, Expr], list[_Half]] = {}
    for conjunct in conjuncts_of(predicate):
        for half in _halves(conjunct):
            halves_of_keys.setdefault((half.left, half.right), []).append(half)
    for halves in halves_of_keys.values():
        low = max((one.low for one in halves), default=-inf)
        high = min((one.high for one in halves), default=inf)
        if not isfinite(low) or not isfinite(high) or not _without_nan(halves):
            continue
        first = halves[0]
        share = max(one.share for one in halves)
        conjuncts = tuple(dict.fromkeys(one.conjunct for one in halves))
        yield FloatBand(first.left, first.right, low, high, share, conjuncts)


@dataclass(frozen=True)
class _Half:
    """One comparison of a key of each side with constants beside, as an end of a band."""

    left: Expr
    right: Expr
    conjunct: Expr
    share: float
    #: Whether both keys are in the lesser operand: that is FALSE if one of them is NaN.
    refuses_nan: bool
    #: Whether a key is in each operand: TRUE only if the greater one is NaN where the other is.
    is_apart: bool
    low: float = -inf
    high: float = inf


def _without_nan(halves: list[_Half]) -> bool:
    """Whether NaN matches nothing but NaN."""
    if any(one.refuses_nan for one in halves):
        return True
    apart = [one for one in halves if one.is_apart]
    return any(one.low > -inf for one in apart) and any(one.high < inf for one in apart)


def _halves(conjunct: Expr) -> Iterator[_Half]:
    formula = when_true(conjunct)
    for atom in formula.args if formula.op is Op.AND else (formula,):
        if atom.op not in (Op.LT, Op.LE) or not atom.args[0].type.is_float:
            continue
        lesser, greater = atom.args
        inner = _uncast(lesser)
        halves = [_half(lesser, 1, greater, conjunct)]
        if inner.op is Op.ABS:
            halves = [_half(inner.args[0], sign, greater, conjunct) for sign in (1, -1)]
        yield from (half for half in halves if half is not None)


def _half(lesser: Expr, sign: int, greater: Expr, conjunct: Expr) -> _Half | None:
    """The half of ``sign * lesser <= greater``."""
    whole, right = _Sum(), _Sum()
    # Both take what is greater: one to see where the keys are.
    if not (whole.add(lesser, sign) and right.add(greater, 1) and whole.add(greater, -1)):
        return None
    if set(whole.keys) != {LEFT, RIGHT} or len(whole.constants) > _MOST_CONSTANTS:
        return None
    constant, slack = sum(whole.constants), 4 * whole.share * sum(map(abs, whole.constants))
    (is_left_added, left), (is_right_added, other) = whole.keys[LEFT], whole.keys[RIGHT]
    if is_left_added == is_right_added or not all(abs(c) < _LARGEST for c in whole.constants):
        return None
    half = _Half(left, other, conjunct, whole.share, not right.keys, len(right.keys) == 1)
    if is_left_added > 0:  # left - right + constant <= 0
        return replace(half, low=constant - slack)
    return replace(half, high=slack - constant)


@dataclass
class _Sum:
    """A sum of at most one key of each side, and of constants."""

    keys: dict[str, tuple[int, Expr]] = field(default_factory=dict)
    constants: list[float] = field(default_factory=list)
    share: float = 0.0

    def add(self, expr: Expr, sign: int) -> bool:
        """Add an expression; False if it is no such sum."""
        if not expr.type.is_float:
            return False
        self.share = max(self.share, _SHARES[expr.type.kind])
        if expr.is_const:
            if expr.attr is None:
                return False
            self.constants.append(sign * float(expr.attr))
            return True
        whole = _uncast(expr)
        self.share = max(self.share, _SHARES[whole.type.kind])
        if whole.op is Op.NEG:
            return self.add(whole.args[0], -sign)
        if whole.op in (Op.ADD, Op.SUB) and _is_mixed(whole):
            second = sign if whole.op is Op.ADD else -sign
            return self.add(whole.args[0], sign) and self.add(whole.args[1], second)
        if len(expr.sides) != 1:
            return False
        (side,) = expr.sides
        if side in self.keys:
            return False
        self.keys[side] = sign, whole
        return True


def _is_mixed(expr: Expr) -> bool:
    """Whether operands of a sum are of both sides, or constants are among them."""
    return len(expr.sides) > 1 or any(arg.is_const for arg in expr.args)


def _uncast(expr: Expr) -> Expr:
    """The operand below casts to wider floats, which do not round."""
    while expr.op is Op.CAST and expr.type.kind is Kind.FLOAT64 and expr.args[0].type.is_float:
        expr = expr.args[0]
    return expr
