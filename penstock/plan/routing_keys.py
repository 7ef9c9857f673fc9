"""Keys of both sides that a join condition ties to each other, by which rows are dealt to lanes.

Keys are equal, or stay close in every match: integers in a band, and floats but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf, isfinite

from ..expr.node import Expr, Op, show
from ..types import Kind
from .band import Bound
from .linear import Linear, linear, total
from .logic import conjuncts_of, equalities, when_true
from .plan import plan
from .query import LEFT, RIGHT, JoinQuery, columns
from .search import search_of


@dataclass(frozen=True)
class RoutingKeys:
    """Keys of both sides that are equal, or differ by little, wherever two rows match.

    Parameters
    ----------
    left, right : tuple of Expr
        The key of each side, over its own columns; of a match, values at the same place are equal.
        Of a band there is one on each side, integers or floats. If one is NULL, the row matches
        nothing.
    conjuncts : tuple of Expr
        That say so.
    band : (int, int) or (float, float), optional
        Of a match, ``low <= right - left <= high``.
    share : float, optional
        Of a band of floats: it holds but for this share of either key, which rounding may hide.
    grouped : str, optional
        The side whose groups these are keys of, where the condition ties none: rows of the other
        side have no key, and may match any of them.
    """

    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    conjuncts: tuple[Expr, ...]
    band: tuple[float, float] | None = None
    share: float | None = None
    grouped: str | None = None

    def side_keys(self, side: str) -> tuple[Expr, ...]:
        """The key of a side."""
        return self.left if side == LEFT else self.right

    def names(self, side: str) -> set[str]:
        """The columns that the key of a side needs."""
        return {name for key in self.side_keys(side) for _, name in columns(key)}

    def text(self, names: Mapping[str, str]) -> str:
        """The conjuncts, or keys of groups, with the sides called by these names."""
        if self.grouped is not None:
            return "groups of " + ", ".join(
                show(key, names) for key in self.side_keys(self.grouped)
            )
        return " AND ".join(show(conjunct, names) for conjunct in self.conjuncts)

    def are_keys_of_groups(self, query: JoinQuery) -> bool:
        """Whether all rows of a group have one key; so of rows that wait for a time key."""
        planned = plan(query)
        if query.aggregation is None or planned.closing_key is None:
            return True
        (side,) = planned.decided_once
        return set(self.side_keys(side)) <= set(query.aggregation.keys)


def routing_keys(
    predicate: Expr, wanted: Mapping[str, frozenset[str]] | None = None
) -> RoutingKeys | None:
    """The keys of a predicate: all that it compares by =, or else its first band; None if none.

    Parameters
    ----------
    predicate : Expr
    wanted : mapping of side to set of columns, optional
        Only keys over exactly these columns.
    """

    def suits(keys: RoutingKeys) -> bool:
        return wanted is None or all(keys.names(side) == wanted[side] for side in (LEFT, RIGHT))

    equal = list(_equalities(predicate))
    if wanted is not None:
        sides = (LEFT, RIGHT)
        equal = [one for one in equal if all(one.names(side) <= wanted[side] for side in sides)]
    candidates = [_all_of(equal)] if equal else []
    return next(filter(suits, chain(candidates, _bands(predicate), _float_bands(predicate))), None)


def group_keys(query: JoinQuery) -> RoutingKeys | None:
    """The keys of a stream's groups, by which rows that wait for them are dealt; None without any.

    What says when groups are complete is left out where there are other keys, so that groups of one
    key stay together from time to time.
    """
    planned = plan(query)
    closing = planned.closing_key
    if closing is None or query.aggregation is None:
        return None
    (side,) = planned.decided_once
    named = [key for key in query.aggregation.keys if key.sides == {side}]
    keys = tuple(key for key in named if key is not query.aggregation.keys[closing.index])
    keys = keys or tuple(named)
    left, right = (keys, ()) if side == LEFT else ((), keys)
    return RoutingKeys(left, right, (), grouped=side)


def _all_of(parts: Sequence[RoutingKeys]) -> RoutingKeys:
    """Several equalities as one."""
    left, right = (tuple(one.side_keys(side)[0] for one in parts) for side in (LEFT, RIGHT))
    return RoutingKeys(left, right, tuple(one.conjuncts[0] for one in parts))


def _equalities(predicate: Expr) -> Iterator[RoutingKeys]:
    """The equalities of the outermost AND."""
    for conjunct, left, right in equalities(conjuncts_of(predicate), LEFT):
        if right.sides:
            yield RoutingKeys((left,), (right,), (conjunct,))


def _bands(predicate: Expr) -> Iterator[RoutingKeys]:
    """Keys whose difference lies between two integers, also where that only follows."""
    for key in search_of(predicate, RIGHT).keys:
        right, span = key.test.key, _span(key.test.lo, key.test.hi)
        if span is not None and right.type.is_integral and right.sides == {RIGHT}:
            left, low, high = span
            yield RoutingKeys((left,), (right,), (key.conjunct,), (low, high))


def _span(lows: tuple[Bound, ...], highs: tuple[Bound, ...]) -> tuple[Expr, int, int] | None:
    """A left key, and how far below and above it the bounds lie."""
    for low in lows:
        for high in highs:
            if not all(b.expr.type.is_integral and not b.after for b in (low, high)):
                continue
            a, b = linear(low.expr), linear(high.expr)
            if a.terms and dict(a.terms) == dict(b.terms):
                # The bounds themselves may not belong to it, which is no matter.
                return total(Linear(a.terms, 0)), a.constant, b.constant
    return None


#: Many times the largest relative error of one operation, by the narrowest type in a comparison.
_SHARES = {Kind.FLOAT32: 2.0**-18, Kind.FLOAT64: 2.0**-45}
#: Constants in a comparison, since each operation rounds; and the largest one, so that only numbers
#: far beyond it overflow.
_MOST_CONSTANTS, _LARGEST = 16, 2.0**100


def _float_bands(predicate: Expr) -> Iterator[RoutingKeys]:
    """Keys that are floats and stay close; of a match, one is NaN only where the other is."""
    halves_of_keys: dict[tuple[Expr, Expr], list[_Half]] = {}
    for conjunct in conjuncts_of(predicate):
        for half in _halves(conjunct):
            halves_of_keys.setdefault((half.left, half.right), []).append(half)
    for (left, right), halves in halves_of_keys.items():
        band = max(one.low for one in halves), min(one.high for one in halves)
        if all(map(isfinite, band)) and _without_nan(halves):
            conjuncts = tuple(dict.fromkeys(one.conjunct for one in halves))
            share = max(one.share for one in halves)
            yield RoutingKeys((left,), (right,), conjuncts, band, share)


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
