"""The plan of a join of nearest rows: what its search can use of the condition and the value.

Keys and tests leave candidates; a *distance* says by which coordinates the nearest of them are
found, a *rank* that all left rows have the right rows in one order. Where the value is neither,
it is computed for each candidate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ..expr import ops
from ..expr.node import Expr, Op, show
from ..types import INT64, Kind, Type
from .logic import conjuncts_of, equalities
from .query import LEFT, RIGHT, JoinQuery, Nearest
from .shown import Fact
from .simplify import simplify
from .widening import coordinates, unscaled

#: Coordinates that are searched, at most.
_MOST_TERMS = 6
#: Share of a value by which it may differ from the distance, by whether it is a single float.
_SHARES = {False: 2.0**-40, True: 2.0**-17}


@dataclass(frozen=True)
class Term:
    """A part of a distance: ``weight * |left - right|``, or the square of the difference.

    Parameters
    ----------
    left, right : Expr
        Numbers of one side each.
    weight : float
        Positive.
    is_square : bool
    is_same : bool
        Whether the value computes it by the same operations.
    """

    left: Expr
    right: Expr
    weight: float
    is_square: bool
    is_same: bool


@dataclass(frozen=True)
class Distance:
    """A sum of terms, or its root, that orders right rows as the value does.

    Parameters
    ----------
    terms : tuple of Term
        All squares, or none.
    is_root : bool
    share : float
        Greatest relative difference of the distance and the query's value, by rounding; 0 where
        the same operations compute both, on doubles or on integers of at most 53 bits.
    metres : float
        The query's value of one metre, for places on the sphere, whose distance here is the
        straight chord; 0 where the distance is the value itself.
    """

    terms: tuple[Term, ...]
    is_root: bool
    share: float
    metres: float = 0.0

    @property
    def is_square(self) -> bool:
        """Whether the terms are squares."""
        return self.terms[0].is_square


@dataclass(frozen=True)
class OrderTest:
    """A conjunct of the condition: a value of the right side has a bound of the left side.

    Parameters
    ----------
    bound : Expr
        Over columns of the left side.
    value : Expr
        Over columns of the right side.
    is_low : bool
        Whether the bound is the lower one.
    is_strict : bool
        Whether it is ``<`` or ``>``, not ``<=`` or ``>=``.
    """

    bound: Expr
    value: Expr
    is_low: bool
    is_strict: bool


@dataclass(frozen=True)
class Rank:
    """The order of right rows by nearness, where it is the same for every left row.

    Parameters
    ----------
    value : Expr
        Over columns of the right side.
    beside : Expr
        The left side's part of the value; left rows for which it is NULL have no nearest rows.
    is_greatest : bool
        Whether the greatest value is nearest.
    """

    value: Expr
    beside: Expr
    is_greatest: bool


@dataclass(frozen=True)
class NearestPlan:
    """How the nearest rows of each left row are found.

    Parameters
    ----------
    query : JoinQuery
        With :attr:`~.query.JoinQuery.nearest`.
    """

    query: JoinQuery

    @property
    def nearest(self) -> Nearest:
        """The order of the rows, and how many join."""
        assert self.query.nearest is not None
        return self.query.nearest

    @cached_property
    def keys(self) -> tuple[tuple[Expr, Expr], ...]:
        """Values of the left and of the right side that are equal in every pair."""
        return tuple((b, a) for _, a, b in self._equalities)

    @cached_property
    def remainder(self) -> Expr:
        """The condition without the keys and tests."""
        known = {conjunct for conjunct, _, _ in self._equalities} | self.tests.keys()
        members = conjuncts_of(self.query.predicate)
        return simplify(ops.and_(*(one for one in members if one not in known)))

    @cached_property
    def distance(self) -> Distance | None:
        """Coordinates of the value; None if it is no distance."""
        value = self.nearest.value
        if self.nearest.is_greatest:
            if value.op is not Op.NEG:
                return None
            value = value.args[0]
        return _distance(value)

    @cached_property
    def rank(self) -> Rank | None:
        """Order of the right rows, if all left rows have the same one."""
        value, is_greatest = self.nearest.value, self.nearest.is_greatest
        beside: Expr = ops.TRUE
        if value.op in (Op.SUB, Op.ADD) and value.type.is_integral:
            for one, other in (value.args, value.args[::-1]):
                if one.sides == {RIGHT} and RIGHT not in other.sides:
                    is_subtracted = value.op is Op.SUB and one is value.args[1]
                    value, beside, is_greatest = one, other, is_greatest ^ is_subtracted
                    break
        if LEFT in value.sides or value.may_fail or not _is_ordered(value.type):
            return None
        return Rank(value, beside, is_greatest)

    @cached_property
    def _equalities(self) -> list[tuple[Expr, Expr, Expr]]:
        conjuncts = conjuncts_of(self.query.predicate)
        return [
            (conjunct, a, b)
            for conjunct, a, b in equalities(conjuncts, RIGHT)
            if b.sides == {LEFT} and a.type.kind is b.type.kind and not conjunct.may_fail
        ]

    @cached_property
    def tests(self) -> dict[Expr, OrderTest]:
        """Bounds of values of the right side, by their conjuncts."""
        tests = {}
        for conjunct in conjuncts_of(self.query.predicate):
            if conjunct.op not in (Op.LT, Op.LE) or conjunct.may_fail:
                continue
            a, b = conjunct.args
            is_low = b.sides == {RIGHT}
            bound, value = (a, b) if is_low else (b, a)
            is_alike = a.type.is_integral if b.type.is_integral else a.type.kind is b.type.kind
            is_alike = is_alike and _is_ordered(a.type) and _is_ordered(b.type)
            if bound.sides == {LEFT} and value.sides == {RIGHT} and is_alike:
                tests[conjunct] = OrderTest(bound, value, is_low, conjunct.op is Op.LT)
        return tests


def nearest_facts(plan: NearestPlan) -> list[Fact]:
    """Say in text which rows join, and by what they are searched for."""
    nearest, names = plan.nearest, plan.query.names
    order = "greatest" if nearest.is_greatest else "least"
    keys = [f"{show(a, names)} = {show(b, names)}" for a, b in plan.keys]
    searched = "each candidate is evaluated"
    if plan.rank is not None:
        searched = f"in the order of {show(plan.rank.value, names)}"
    elif plan.distance is not None:
        pairs = (f"{show(t.left, names)} ~ {show(t.right, names)}" for t in plan.distance.terms)
        searched = f"by growing boxes: {', '.join(pairs)}"
    return [
        ("nearest", f"{nearest.count} with the {order} {show(nearest.value, names)}"),
        ("  keys", ", ".join(keys) or "none"),
        ("  searched", searched),
    ]


def _is_ordered(dtype: Type) -> bool:
    """Whether values are ordered as 64-bit integers can be."""
    if dtype.is_integral:
        return INT64[0] <= dtype.lo and dtype.hi <= INT64[1]
    return dtype.is_float


def _distance(value: Expr) -> Distance | None:
    """Take a value apart; None if it is no distance, or may fail."""
    if value.may_fail:
        return None
    sphere, metres = unscaled(value)
    if sphere.op is Op.FUNCTION and sphere.attr == "haversine":
        return _on_sphere(sphere, metres)
    inner, is_root = value, False
    if value.op is Op.FUNCTION and value.attr == "sqrt":
        inner, is_root = value.args[0], True
    terms = list(_terms(inner, 1.0, True))
    if value.op is Op.FUNCTION and value.attr == "hypot":
        is_root = True
        pairs = map(_difference, value.args)
        terms = [None if p is None else Term(*p, 1.0, True, False) for p in pairs]
    known = [term for term in terms if term is not None]
    if len(known) < len(terms) or not 0 < len(known) <= _MOST_TERMS:
        return None
    if len({term.is_square for term in known}) > 1 or (is_root and not known[0].is_square):
        return None
    read = [one for term in known for one in (term.left, term.right)]
    if not all(_is_ordered(one.type) for one in read):
        return None
    is_single = any(one.type.kind is Kind.FLOAT32 for one in (value, *read))
    # A sum of more than three terms may be in another order.
    is_same = all(term.is_same for term in known) and len(known) <= 3 and not is_single
    return Distance(tuple(known), is_root, 0.0 if is_same else _SHARES[is_single])


def _terms(expr: Expr, weight: float, is_same: bool) -> Iterator[Term | None]:
    """Yield the terms of a sum, in the order in which they are added; None for what is none."""
    op, args = expr.op, expr.args
    if op is Op.ADD:
        is_deeper = args[1].op is Op.ADD and args[0].op is not Op.ADD
        for one in args[::-1] if is_deeper else args:
            yield from _terms(one, weight, is_same and weight == 1)
    elif op is Op.CAST and expr.type.is_float and args[0].type.kind in (Kind.INT, Kind.DECIMAL):
        scale = args[0].type.scale
        yield from _terms(args[0], weight * 10.0**-scale, is_same and not scale)
    elif op is Op.MUL and (args[0].is_const or args[1].is_const):
        factor, other = args if args[0].is_const else args[::-1]
        if factor.attr is None or not 0 < float(factor.attr) < 2.0**53:
            yield None
        else:
            yield from _terms(other, weight * float(factor.attr), is_same and weight == 1)
    else:
        is_square = op is Op.MUL and args[0] is args[1]
        is_power = op is Op.FUNCTION and expr.attr == "power" and _is_two(args[1])
        operands = _difference(args[0]) if op is Op.ABS or is_square or is_power else None
        is_square = is_square or is_power
        yield (
            None
            if operands is None
            else Term(*operands, weight, is_square, is_same and not is_power)
        )


def _is_two(expr: Expr) -> bool:
    return expr.is_const and expr.attr == 2


def _difference(expr: Expr) -> tuple[Expr, Expr] | None:
    """Values of the left and of the right side whose difference, of any sign, an expression is."""
    while expr.op is Op.NEG or (expr.op is Op.CAST and expr.args[0].type.kind is Kind.INT):
        if expr.op is Op.CAST and not (expr.type.is_float or expr.type.kind is Kind.INT):
            return None
        expr = expr.args[0]
    if expr.op is not Op.SUB:
        return None
    a, b = expr.args
    if (a.sides, b.sides) == ({LEFT}, {RIGHT}):
        return a, b
    return (b, a) if (a.sides, b.sides) == ({RIGHT}, {LEFT}) else None


def _on_sphere(call: Expr, metres: float) -> Distance | None:
    """Coordinates in space of two places, one of each side."""
    places = call.args[:2], call.args[2:]
    sides = [frozenset().union(*(arg.sides for arg in place)) for place in places]
    if sides == [{RIGHT}, {LEFT}]:
        places = places[::-1]
    elif sides != [{LEFT}, {RIGHT}]:
        return None
    pairs = zip(*(coordinates(*place) for place in places), strict=True)
    terms = tuple(Term(a, b, 1.0, True, False) for a, b in pairs)
    return Distance(terms, True, _SHARES[False], metres)
