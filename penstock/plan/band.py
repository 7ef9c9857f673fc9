"""Band form: a boolean function of tests ``lo <= key <= hi`` (docs/inside/predicates.md).

The key of a test comes from the window tuple, its bounds from the stream tuple, so that bounds can
travel with each stream tuple and one piece of hardware serves every predicate of this form.

A comparison becomes band tests where it is ``f(window) op g(stream)`` in exact arithmetic: sums are
split by side, |a|, GREATEST and LEAST become conjunctions or disjunctions of sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..expr import ops
from ..expr.node import Expr, Op, remembered, show, walk
from ..program import MAX_BAND_TESTS
from ..types import BOOL
from .linear import Linear, choices, linear, sums_at_most_zero, total

ZERO = ops.const(0)


class NotBandError(Exception):
    """The predicate has no band form.

    Parameters
    ----------
    reason : str
        The reason, with ``{}`` for each part.
    *parts : Expr
        Parts of the predicate that the reason names.
    """

    def __init__(self, reason: str, *parts: Expr) -> None:
        self.reason = reason
        self.parts = parts
        super().__init__(self.text())

    def text(self, names: Mapping[str, str] | None = None) -> str:
        """The reason, with the sides called by these names."""
        return self.reason.format(*(f"`{show(part, names)}`" for part in self.parts))


@dataclass(frozen=True)
class Bound:
    """One end of a band.

    Parameters
    ----------
    expr : Expr
        Stream-side value; NULL makes the test fail.
    open : bool
        The bound itself is outside the band.
    after : bool
        The bound is the first text after every text that starts with ``expr``.
    """

    expr: Expr
    open: bool = False
    after: bool = False


@dataclass(frozen=True)
class BandTest:
    """``max(lo) <= key <= min(hi)``, and every stream-side condition in ``when`` is TRUE.

    ``key`` is window-side (a condition counts as 1 where TRUE, else 0); NULL makes the test fail.
    """

    key: Expr
    lo: tuple[Bound, ...] = ()
    hi: tuple[Bound, ...] = ()
    when: tuple[Expr, ...] = ()

    @property
    def is_equality(self) -> bool:
        """Whether each stream tuple asks for one value."""
        if len(self.lo) != 1 or self.lo != self.hi:
            return False
        return not self.lo[0].open and not self.lo[0].after


#: A test that every key passes but NULL.
ALWAYS = BandTest(ZERO, lo=(Bound(ZERO),), hi=(Bound(ZERO),))


@dataclass(frozen=True)
class BandForm:
    """A predicate as band tests and the truth table over their outcomes.

    Parameters
    ----------
    window : str
        Side that flows past the other.
    tests : tuple of BandTest
    table : int
        As for :class:`~penstock.program.BandProgram`.
    payload : Expr or None
        Window-side integer that is folded over the matches.
    need : Expr or None
        Window-side condition: a window tuple for which it is not TRUE matches nothing. Its keys
        count as NULL, so all tests fail.
    """

    window: str
    tests: tuple[BandTest, ...]
    table: int
    payload: Expr | None = None
    need: Expr | None = None

    def with_need(self, need: Expr) -> BandForm:
        """The form with a further condition on window tuples."""
        if self.table & 1:
            # True for every outcome: one test that only a NULL key fails.
            return replace(self, tests=(ALWAYS,), table=0b10, need=need)
        return replace(self, need=need)


_ONE = ops.const(1)
#: Sums that one comparison may fan out to; more means general form, not a bigger table.
_MAX_FAN_OUT = 16


def band_form(formula: Expr, window: str) -> BandForm:
    """Band form of a ``when_true`` formula with the side ``window`` flowing past the other.

    Raises
    ------
    NotBandError
        Some part is not ``f(window) op g(stream)``, or more than 8 tests would be needed.
    """
    splitter = _Splitter(window)
    tree = splitter.merged(splitter.split(formula))
    leaves = [leaf for leaf in walk(tree) if leaf.op is Op.KEY]
    if len(leaves) > MAX_BAND_TESTS:
        raise NotBandError(f"{len(leaves)} band tests are needed, more than {MAX_BAND_TESTS}")
    tests = tuple(splitter.tests[leaf] for leaf in leaves) or (ALWAYS,)
    table = 0
    for outcome in range(1 << len(tests)):
        passed = {leaf: bool(outcome >> d & 1) for d, leaf in enumerate(leaves)}
        table |= _holds(tree, passed) << outcome
    return BandForm(window, tests, table)


def _holds(tree: Expr, passed: Mapping[Expr, bool]) -> bool:
    """Whether a predicate is true, from which of its tests are passed."""
    if tree.is_const:
        return tree is ops.TRUE
    if tree.op is Op.KEY:
        return passed[tree]
    return (all if tree.op is Op.AND else any)(_holds(part, passed) for part in tree.args)


class _Splitter:
    """Turns a formula into ANDs and ORs of tests, each a leaf with the test's number."""

    def __init__(self, window: str) -> None:
        self.window = window
        self.leaves: dict[BandTest, Expr] = {}
        self.tests: dict[Expr, BandTest] = {}
        # An atom may stand in many places.
        self.split = remembered(self._split)

    def leaf(self, test: BandTest) -> Expr:
        if test not in self.leaves:
            self.leaves[test] = ops.key("t", len(self.leaves), BOOL)
            self.tests[self.leaves[test]] = test
        return self.leaves[test]

    def merged(self, tree: Expr) -> Expr:
        """Within an AND, join tests of one key; attach stream-side conditions to a test."""
        if tree.op is Op.OR:
            return ops.or_(*map(self.merged, tree.args))
        if tree.op is not Op.AND:
            return tree
        by_key: dict[Expr, BandTest] = {}
        unmerged: list[Expr] = []
        conditions: list[Expr] = []
        for part in map(self.merged, tree.args):
            test = self.tests.get(part)
            if test is None:
                unmerged.append(part)
            elif not test.lo and not test.hi:
                conditions += test.when
            else:
                seen = by_key.get(test.key, BandTest(test.key))
                by_key[test.key] = BandTest(
                    test.key, seen.lo + test.lo, seen.hi + test.hi, seen.when + test.when
                )
        tests = list(by_key.values())
        if conditions and tests:
            tests[0] = replace(tests[0], when=tests[0].when + tuple(conditions))
        elif conditions:
            unmerged.append(self.leaf(BandTest(ZERO, when=tuple(conditions))))
        return ops.and_(*map(self.leaf, tests), *unmerged)

    def _split(self, formula: Expr) -> Expr:
        if formula.is_const:
            return ops.TRUE if formula.attr is True else ops.FALSE
        if len(formula.sides) == 1:
            return self.leaf(self.one_sided(formula))
        if formula.op in (Op.AND, Op.OR):
            return self.junction(formula)
        negated = formula.op is Op.NOT
        atom = formula.args[0] if negated else formula
        if atom.op is Op.PREFIX:
            return self.prefix(atom, negated)
        if atom.op in (Op.LT, Op.LE, Op.EQ) and not negated:
            if atom.args[0].type.is_integral:
                return self.integers(atom)
            return self.leaf(self.direct(atom))
        raise NotBandError("{} is not a comparison", atom)

    def one_sided(self, condition: Expr) -> BandTest:
        if self.window in condition.sides:
            return BandTest(condition, lo=(Bound(_ONE),))
        return BandTest(ZERO, when=(condition,))

    def junction(self, formula: Expr) -> Expr:
        """Split the parts, the one-sided ones of a side together: they need one test."""
        join = ops.and_ if formula.op is Op.AND else ops.or_
        by_side: dict[frozenset[str], list[Expr]] = {}
        parts: list[Expr] = []
        for part in formula.args:
            if len(part.sides) == 1:
                by_side.setdefault(part.sides, []).append(part)
            else:
                parts.append(self.split(part))
        parts += [self.leaf(self.one_sided(join(*group))) for group in by_side.values()]
        return join(*parts)

    def integers(self, atom: Expr) -> Expr:
        prefix = _xor_prefix(atom)
        if prefix is not None:
            return self.split(prefix)
        return ops.and_(*(self.at_most_zero(form, atom) for form in sums_at_most_zero(atom)))

    def at_most_zero(self, form: Linear, atom: Expr, fan_out: int = 1) -> Expr:
        """Tree for ``form <= 0``."""
        if fan_out > _MAX_FAN_OUT:
            raise NotBandError(f"{{}} fans out to more than {_MAX_FAN_OUT} sums", atom)
        mixed = [(t, c) for t, c in form.terms if len(t.sides) > 1]
        if mixed:
            term, coefficient = mixed[0]
            remainder = form.without(term)
            exact = exact_sums(term, coefficient, remainder)
            if exact:
                return ops.and_(*(self.at_most_zero(s, atom, 2 * fan_out) for s in exact))
            is_and, values = choices(term, coefficient)
            if not values:
                raise NotBandError("{} mixes both sides", term)
            if any(value.type.nullable for value in values) and term.op is not Op.ABS:
                raise NotBandError("{} skips NULL", term)
            fan_out *= len(values)
            sums = [remainder.plus(linear(value).scaled(coefficient)) for value in values]
            join = ops.and_ if is_and else ops.or_
            return join(*(self.at_most_zero(s, atom, fan_out) for s in sums))
        return self.leaf(test_of_sum(form, self.window))

    def direct(self, atom: Expr) -> BandTest:
        """Comparison of floats or text, which is not rearranged."""
        a, b = atom.args
        if len(a.sides) > 1 or len(b.sides) > 1:
            raise NotBandError(
                f"{{}} computes with both sides in {a.type}, which may round: it is not rearranged",
                atom,
            )
        is_open = atom.op is Op.LT
        if a.sides == {self.window}:
            test = BandTest(a, hi=(Bound(b, open=is_open),))
            return replace(test, lo=(Bound(b),)) if atom.op is Op.EQ else test
        test = BandTest(b, lo=(Bound(a, open=is_open),))
        return replace(test, hi=(Bound(a),)) if atom.op is Op.EQ else test

    def prefix(self, atom: Expr, negated: bool) -> Expr:
        text, start = atom.args
        if text.sides != {self.window} or self.window in start.sides:
            raise NotBandError("{} is a band only where the window holds the text", atom)
        if negated:
            below = BandTest(text, hi=(Bound(start, open=True),))
            above = BandTest(text, lo=(Bound(start, after=True),))
            return ops.or_(self.leaf(below), self.leaf(above))
        within = BandTest(text, lo=(Bound(start),), hi=(Bound(start, open=True, after=True),))
        return self.leaf(within)


def exact_sums(term: Expr, coefficient: int, remainder: Linear) -> list[Linear]:
    """Sums that are at most 0 exactly where ``coefficient * term + rest`` is.

    The term is a decimal that is rounded, or NULL beyond its digits, and the rest a constant; none
    for others.
    """
    settled = ops.before_settling(term)
    if settled is None or remainder.terms:
        return []
    value, step, most = settled
    sign, limit = 1 if coefficient > 0 else -1, -remainder.constant // abs(coefficient)
    form = linear(value)
    ends = {sign: limit} if most is None else {sign: min(limit, most), -sign: most}
    return [
        # Halves are rounded away from 0.
        form.scaled(way).plus(Linear((), -((step * (2 * end + 1) - (end >= 0)) // 2)))
        for way, end in ends.items()
    ]


def test_of_sum(form: Linear, window: str) -> BandTest:
    """The test for ``form <= 0``, a sum of terms of one side each."""
    ours = [(t, c) for t, c in form.terms if t.sides == {window}]
    key = Linear(tuple(sorted(ours, key=lambda item: repr(item[0]))), 0)
    bound = Linear(tuple(item for item in form.terms if item not in ours), form.constant)
    # Keys that differ only in sign share a test, so the first coefficient is made positive.
    if ours and key.terms[0][1] < 0:
        return BandTest(total(key.scaled(-1)), lo=(Bound(total(bound)),))
    return BandTest(total(key), hi=(Bound(total(bound.scaled(-1))),))


def _xor_prefix(atom: Expr) -> Expr | None:
    """``(a ^ b) < 2**k`` as ``a >> k = b >> k`` (and its negation), if neither is negative."""
    for mask, limit, flip in ((0, 1, False), (1, 0, True)):
        xor, bound = atom.args[mask], atom.args[limit]
        if xor.op is not Op.BIT_XOR or not bound.is_const or bound.attr is None:
            continue
        if any(len(a.sides) != 1 or a.type.lo < 0 for a in xor.args):
            continue
        if atom.op is Op.EQ:
            return ops.eq(xor.args[0], ops.bit_xor(xor.args[1], bound))
        # xor < size, or its negation: bound < xor, bound <= xor
        size = bound.attr + (1 if (atom.op is Op.LE) != flip else 0)
        if size <= 0 or size & (size - 1):
            return None
        shift = ops.const(size.bit_length() - 1)
        a, b = (ops.shr(x, shift) for x in xor.args)
        if not flip:
            return ops.eq(a, b)
        return ops.or_(ops.order(Op.LT, a, b), ops.order(Op.LT, b, a))
    return None
