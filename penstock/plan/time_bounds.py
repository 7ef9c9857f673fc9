"""Finds time bounds in a join condition.

A conjunct is a bound on ``T = right.time - left.time`` if it is additive in the two time columns in
any spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import QueryError
from ..expr.node import Expr, Op
from ..zones import zone_of
from .band import NotBandError
from .linear import Linear, linear, sums_at_most_zero
from .narrowing import Narrower, without_quotient
from .window import RIGHT


@dataclass(frozen=True)
class _Bound:
    """Bounds on T that follow from a condition; ``exact`` if they say all of it."""

    low: int | None = None
    high: int | None = None
    exact: bool = True


def _all_of(bounds: Sequence[_Bound]) -> _Bound:
    """The intersection of bounds on T."""
    return _Bound(
        max((b.low for b in bounds if b.low is not None), default=None),
        min((b.high for b in bounds if b.high is not None), default=None),
        all(b.exact for b in bounds),
    )


def find_time_window(
    conjuncts: Iterable[Expr], left_time: Expr, right_time: Expr
) -> tuple[int | None, int | None, list[Expr]]:
    """Bounds on T among the conjuncts of a join condition.

    Parameters
    ----------
    conjuncts : iterable of Expr
        The members of the condition's outermost AND.
    left_time, right_time : Expr
        Time of each side, in one unit.

    Returns
    -------
    low, high : int or None
        Greatest lower and least upper bound on T; None where there is none.
    residual : list of Expr
        Conjuncts that the two bounds do not already say.
    """
    finder = _Finder(linear(left_time), linear(right_time))
    bounds = [(conjunct, finder.bound(conjunct)) for conjunct in conjuncts]
    residual = [conjunct for conjunct, bound in bounds if bound is None or not bound.exact]
    window = _all_of([bound for _, bound in bounds if bound is not None])
    return window.low, window.high, residual


class _Finder:
    def __init__(self, left: Linear, right: Linear) -> None:
        if len(left.terms) != 1 or len(right.terms) != 1:
            raise QueryError("a time column must be a column, not a computed sum")
        ((self.left, left_factor),) = left.terms
        ((self.right, right_factor),) = right.terms
        self.factors = (left_factor, right_factor)
        self.offset = right.constant - left.constant

    def bound(self, conjunct: Expr) -> _Bound | None:
        """Bound on T that the conjunct implies, None if it is not about T."""
        if conjunct.op not in (Op.LT, Op.LE, Op.EQ) or not conjunct.args[0].type.is_integral:
            return None
        narrower = Narrower(RIGHT, conjunct)
        try:
            implied = [
                (self._at_most_zero(form), is_exact)
                for whole in sums_at_most_zero(conjunct)
                for form, is_exact in narrower.at_most_zero(whole)
            ]
        except NotBandError:
            return None
        bounds = [bound for bound, _ in implied if bound is not None]
        if not bounds:
            return None
        says_all = all(is_exact and bound is not None for bound, is_exact in implied)
        return _all_of([*bounds, _Bound(exact=says_all)])

    def _at_most_zero(self, form: Linear) -> _Bound | None:
        """Bound on T that follows from a sum of terms of one side each; None if there is none."""
        is_rounded = False
        while undone := [u for term, _ in form.terms if (u := without_quotient(form, term))]:
            form, is_rounded = undone[0], True
        form, least_of_zones = self._in_one_zone(form)
        terms = dict(form.terms)
        left, right = terms.pop(self.left, 0), terms.pop(self.right, 0)
        if not right or right * self.factors[0] != -left * self.factors[1]:
            return None
        slope, remainder = divmod(right, self.factors[1])
        if remainder or any(len(t.sides) != 1 for t in terms):
            return None
        # slope * (T - offset) + slack <= 0, where slack lies in [least, ...]
        least = form.constant - slope * self.offset + (least_of_zones or 0)
        for term, coefficient in terms.items():
            least += min(coefficient * term.type.lo, coefficient * term.type.hi)
        exact = not terms and least_of_zones is None and not is_rounded
        if slope > 0:
            return _Bound(high=-least // slope, exact=exact)
        return _Bound(low=-(-least // -slope), exact=exact)

    def _in_one_zone(self, form: Linear) -> tuple[Linear, int | None]:
        """The form without time zones, and the least that they may add; None if it has none.

        A wall clock differs from its instant by no more than the zone's offsets do.
        """
        least = None
        while True:
            zones = (t for t, _ in form.terms if t.op in (Op.LOCAL, Op.INSTANT))
            zoned = next((t for t in zones if t not in (self.left, self.right)), None)
            if zoned is None:
                break
            coefficient = dict(form.terms)[zoned]
            least = (least or 0) + _least_shift(zoned, coefficient)
            form = form.without(zoned).plus(linear(zoned.args[0]).scaled(coefficient))
        for time in (self.left, self.right):
            if time.op not in (Op.LOCAL, Op.INSTANT):
                continue
            inner = linear(time.args[0])  # and the other way round, where a time is converted
            if len(inner.terms) != 1:
                continue
            ((column, factor),) = inner.terms
            coefficient, remainder = divmod(dict(form.terms).get(column, 0), factor)
            if coefficient and not remainder:
                least = (least or 0) + _least_shift(time, -coefficient)
                form = form.plus(inner.scaled(-coefficient))
                form = form.without(column).plus(Linear(((time, coefficient),), 0))
        return form, least


def _least_shift(zoned: Expr, coefficient: int) -> int:
    """The least that LOCAL or INSTANT adds to its operand, times a coefficient."""
    sign = coefficient if zoned.op is Op.LOCAL else -coefficient
    return min(sign * offset for offset in zone_of(zoned.attr[0]).span(zoned.type.unit))
