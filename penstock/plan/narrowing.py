"""Bounds of keys and times that follow from a comparison of exact sums.

A part of a sum that is never negative only makes the sum larger: without it, the rest is still
below the bound. So ``dx * dx + dy * dy <= c`` gives ``|dx| <= root of c``, and likewise ``|dy|``,
though these do not decide it. A conjunct of a join condition is a bound on ``T = right.time -
left.time`` if it is additive in the two time columns in any spelling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt, prod

from ..errors import QueryError
from ..expr import ops
from ..expr.node import Expr, Op
from ..types import TIMESTAMPS, UNIT_NS, Kind
from ..zones import zone_of
from .band import BandTest, Bound, NotBandError, test_of_sum
from .linear import Linear, choices, factors, linear, sums_at_most_zero, total
from .window import RIGHT

#: Sums that one comparison is taken apart into; more means that no key is taken from it.
_MAX_SUMS = 100


@dataclass(frozen=True)
class Half:
    """One bound of a key, which the key of every pair keeps for which a condition is TRUE.

    Parameters
    ----------
    key : Expr
        Window-side.
    bound : Bound
    is_high : bool
        Whether it is the upper bound.
    passes_nan : bool
        The condition may be TRUE for a key that is NaN, which an upper bound would exclude.
    nan_where : Expr or None
        Stream-side number: where it is NaN, the condition may be TRUE for a key that is NaN. None
        if it is so nowhere, but for what ``passes_nan`` says.
    """

    key: Expr
    bound: Bound
    is_high: bool
    passes_nan: bool = False
    nan_where: Expr | None = None


def halves_of_test(test: BandTest) -> list[Half]:
    """The bounds of a band test."""
    is_float = test.key.type.is_float
    lows = [Half(test.key, bound, False, passes_nan=is_float) for bound in test.lo]
    return lows + [
        Half(test.key, bound, True, nan_where=bound.expr if is_float and not bound.open else None)
        for bound in test.hi
    ]


def narrowed(atom: Expr, window: str) -> list[Half]:
    """Bounds that follow from a comparison of integers of any kind.

    Raises
    ------
    NotBandError
        There are none.
    """
    return halves_of_sums(sums_at_most_zero(atom), window, atom)


def halves_of_sums(sums: list[Linear], window: str, atom: Expr) -> list[Half]:
    """Bounds that follow from ``sum <= 0`` for each of these sums.

    Raises
    ------
    NotBandError
        There are none.
    """
    narrower = Narrower(window, atom)
    halves = [
        half
        for form in sums
        for implied, _ in narrower.at_most_zero(form)
        if any(term.sides == {window} for term, _ in implied.terms)
        for half in halves_of_test(test_of_sum(implied, window))
    ]
    if not halves:
        raise narrower.refusal or NotBandError("{} bounds no key", atom)
    return list(dict.fromkeys(halves))


#: A sum of terms of one side each that is at most 0, and whether it, together with the other sums
#: of the same comparison, says all of it.
Implied = tuple[Linear, bool]


class Narrower:
    """Finds sums that one comparison, ``atom``, implies; ``refusal`` says why a part gives none."""

    def __init__(self, window: str, atom: Expr) -> None:
        self.window = window
        self.atom = atom
        self.refusal: NotBandError | None = None
        self.count = 0

    def at_most_zero(self, form: Linear, is_exact: bool = True) -> Iterator[Implied]:
        """Sums that ``form <= 0`` implies.

        Raises
        ------
        NotBandError
            There are too many.
        """
        self.count += 1
        if self.count > _MAX_SUMS:
            raise NotBandError(f"{{}} fans out to more than {_MAX_SUMS} sums", self.atom)
        parts = [_Part.of_term(t, c) for t, c in form.terms if len(t.sides) > 1 and c]
        one_sided = tuple((t, c) for t, c in form.terms if len(t.sides) == 1 and c)
        remainder = Linear(one_sided, form.constant)
        if not parts:
            yield remainder, is_exact
        for part in parts:
            unsigned = [p for p in parts if p is not part and not p.is_never_negative]
            if unsigned:
                self.refuse("{} may be negative", unsigned[0].term)
            else:
                yield from self.part_at_most(part, remainder, is_exact and len(parts) == 1)

    def refuse(self, reason: str, *parts: Expr) -> None:
        self.refusal = self.refusal or NotBandError(reason, *parts)

    def part_at_most(self, part: _Part, remainder: Linear, is_exact: bool) -> Iterator[Implied]:
        """Sums that ``part + remainder <= 0`` implies."""
        term, factor = part.term, part.factor
        settled = ops.before_settling(term)
        unrounded = without_quotient(remainder.plus(Linear(((term, factor),), 0)), term)
        is_all, values = choices(term, factor)
        if settled is not None:
            value, step, _ = settled
            slack = Linear((), -(abs(factor) * step // 2))
            form = linear(value).scaled(factor).plus(remainder.scaled(step)).plus(slack)
            yield from self.at_most_zero(form, False)
        elif unrounded is not None:
            yield from self.at_most_zero(unrounded, False)
        elif part.root is not None and factor > 0:
            yield from self.square_at_most(part.root, factor, remainder)
        elif values and is_all:
            for value in values:
                # Where another one is NULL, it is still one of the values.
                if value.type.nullable and term.op is not Op.ABS:
                    self.refuse("{} skips NULL", term)
                elif not value.is_const:
                    form = remainder.plus(linear(value).scaled(factor))
                    yield from self.at_most_zero(form, is_exact and term.op is Op.ABS)
        elif part.root is not None or values:
            self.refuse("{} is bounded from the other side only", term)
        else:
            self.refuse("{} mixes both sides", term)

    def square_at_most(self, root: Expr, factor: int, remainder: Linear) -> Iterator[Implied]:
        """Sums that ``factor * root**2 + remainder <= 0`` implies."""
        for term, coefficient in remainder.terms:
            is_ours = term.sides == {self.window}
            if is_ours and not _Part.of_term(term, coefficient).is_never_negative:
                self.refuse("{} depends on the window's rows", term)
                return
        bound_terms = tuple((t, c) for t, c in remainder.terms if self.window not in t.sides)
        limit = linear(_root(Linear(bound_terms, remainder.constant).scaled(-1), factor))
        for sign in (1, -1):
            yield from self.at_most_zero(linear(root).scaled(sign).plus(limit.scaled(-1)), False)


#: The unit that a CAST of a timestamp to this kind counts.
_COUNTED_UNITS = {Kind.INT: "s", Kind.DATE: "D"}


def without_quotient(form: Linear, term: Expr) -> Linear | None:
    """A sum that is at most 0 where a form is, with ``n * x`` in place of a term ``x DIV n``.

    None if the term is no such quotient; a CAST of a timestamp to days or seconds is one.
    """
    dividend, unit = term.args[0] if term.args else term, _COUNTED_UNITS.get(term.type.kind)
    if term.op is Op.DIV and term.args[1].is_const and (term.args[1].attr or 0) > 0:
        step = term.args[1].attr
        rounding = 1 - step, step - 1
    elif term.op is Op.CAST and unit is not None and dividend.type.kind in TIMESTAMPS:
        step = UNIT_NS[unit] // UNIT_NS[dividend.type.unit]
        rounding = 1 - step, 0
    else:
        return None
    factor = dict(form.terms)[term]
    slack = Linear((), min(factor * end for end in rounding))
    return form.without(term).scaled(step).plus(linear(dividend).scaled(factor)).plus(slack)


@dataclass(frozen=True, eq=False)
class _Part:
    """``factor * term`` of a sum, where the term is the square of ``root`` if that is not None."""

    term: Expr
    factor: int
    root: Expr | None

    @staticmethod
    def of_term(term: Expr, factor: int) -> _Part:
        """A term of a linear form; the constants of a product belong to the factor."""
        if term.op is not Op.MUL:
            return _Part(term, factor, None)
        if term.args[0] is term.args[1]:
            return _Part(term, factor, term.args[0])
        constants, values = factors(term) or ([], [term])
        counts = Counter(values)
        if any(n % 2 for n in counts.values()):
            return _Part(term, factor, None)
        root: Expr | None = None
        for value, n in counts.items():
            for _ in range(n // 2):
                root = value if root is None else ops.mul(root, value)
        return _Part(term, prod(map(int, constants), start=factor), root)

    @property
    def is_never_negative(self) -> bool:
        if self.root is not None:
            return self.factor >= 0
        return self.term.type.lo >= 0 if self.factor >= 0 else self.term.type.hi <= 0


def _root(square: Linear, factor: int) -> Expr:
    """Stream-side integer that no ``n`` with ``factor * n**2 <= square`` exceeds; -1 for none."""
    constant = square.constant
    if not square.terms:
        return ops.const(isqrt(constant // factor) if constant >= 0 else -1)
    if len(square.terms) == 1:
        part = _Part.of_term(*square.terms[0])
        if part.root is not None and part.factor > 0:
            # The root of a sum is at most the sum of the roots.
            times = isqrt(-(-part.factor // factor) - 1) + 1
            size = linear(ops.absolute(part.root)).scaled(times)
            extra = isqrt(constant // factor) + 1 if constant > 0 else 0
            return total(Linear(size.terms, size.constant + extra))
    # Steps of powers of two: at most twice the root.
    value = total(square)
    most = isqrt(max(value.type.hi, 0) // factor)
    steps = [(0, -1)] + [(factor << 2 * k, (1 << k) - 1) for k in range(most.bit_length())]
    return ops.case(
        [(ops.lt(value, ops.const(limit)), ops.const(root)) for limit, root in steps],
        ops.const(most),
    )


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
