"""Band form: a boolean function of tests ``lo <= key <= hi`` (docs/predicates.md).

The key of a test comes from the window tuple, its bounds from the stream tuple, so that bounds can
travel with each stream tuple and one piece of hardware serves every predicate of this form. A
comparison becomes band tests where it is ``f(window) op g(stream)`` in exact arithmetic: sums are
split by side, |a|, GREATEST and LEAST become conjunctions or disjunctions of sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..expr import ops
from ..expr.node import Expr, Op, show
from ..program import MAX_BAND_TESTS
from .linear import Linear, linear, total

_ONE = ops.const(1)
_ZERO = ops.const(0)
#: Sums that one comparison may fan out to; more means general form, not a bigger table.
_MAX_FAN_OUT = 16


class NotBandError(Exception):
    """The predicate has no band form.

    Parameters
    ----------
    reason : str
        Why, with ``{}`` for each part.
    *parts : Expr
        What part of the predicate it is about.
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

    def __str__(self) -> str:
        ends = [f"{self.key!r} {_sign(b, '>')} {b.expr!r}" for b in self.lo]
        ends += [f"{self.key!r} {_sign(b, '<')} {b.expr!r}" for b in self.hi]
        return " and ".join(ends + [repr(c) for c in self.when])


def _sign(bound: Bound, sign: str) -> str:
    text = sign if bound.open else sign + "="
    return text + " every text starting with" if bound.after else text


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
        """The same form with another condition that window tuples need."""
        if self.table & 1:
            # True whatever the tests say: one test that only a NULL key fails.
            always = BandTest(_ZERO, lo=(Bound(_ZERO),), hi=(Bound(_ZERO),))
            return replace(self, tests=(always,), table=0b10, need=need)
        return replace(self, need=need)


# A formula over tests: a test's index, or ("and" | "or", parts), or a constant.
_Formula = int | bool | tuple[str, tuple]


def band_form(formula: Expr, window: str) -> BandForm:
    """Band form of a ``when_true`` formula with the side ``window`` flowing past the other.

    Raises
    ------
    NotBandError
        Some part is not ``f(window) op g(stream)``, or more than 8 tests would be needed.
    """
    tree = _Splitter(window).split(formula)
    numbers: dict[BandTest, int] = {}
    shape = _index(_merge(tree), numbers)
    tests = list(numbers)
    if len(tests) > MAX_BAND_TESTS:
        raise NotBandError(f"{len(tests)} band tests are needed, more than {MAX_BAND_TESTS}")
    if not tests:
        tests.append(BandTest(_ZERO, lo=(Bound(_ZERO),), hi=(Bound(_ZERO),)))
    table = 0
    for outcome in range(1 << len(tests)):
        if _holds(shape, outcome):
            table |= 1 << outcome
    return BandForm(window, tuple(tests), table)


# -- formula to tree of tests ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Junction:
    is_and: bool
    parts: tuple[_Tree, ...]


_Tree = _Junction | BandTest | bool


def _join(is_and: bool, parts: list[_Tree]) -> _Tree:
    flat: dict[_Tree, None] = {}
    for part in parts:
        inner = part.parts if isinstance(part, _Junction) and part.is_and == is_and else (part,)
        for item in inner:
            if item is (not is_and):
                return not is_and
            if item is not is_and:
                flat[item] = None
    if not flat:
        return is_and
    if len(flat) == 1:
        return next(iter(flat))
    return _Junction(is_and, tuple(flat))


class _Splitter:
    def __init__(self, window: str) -> None:
        self.window = window
        # Formulas that are done: an atom may stand in many places.
        self.trees: dict[Expr, _Tree] = {}

    def split(self, formula: Expr) -> _Tree:
        if formula not in self.trees:
            self.trees[formula] = self._split(formula)
        return self.trees[formula]

    def _split(self, formula: Expr) -> _Tree:
        if formula.is_const:
            return formula.attr is True
        if len(formula.sides) == 1:
            return self.one_sided(formula)
        if formula.op in (Op.AND, Op.OR):
            return self.junction(formula)
        negated = formula.op is Op.NOT
        atom = formula.args[0] if negated else formula
        if atom.op is Op.PREFIX:
            return self.prefix(atom, negated)
        if atom.op in (Op.LT, Op.LE, Op.EQ) and not negated:
            if atom.args[0].type.is_integral:
                return self.integers(atom)
            return self.direct(atom)
        raise NotBandError("{} is not a comparison", atom)

    def one_sided(self, condition: Expr) -> BandTest:
        if self.window in condition.sides:
            return BandTest(condition, lo=(Bound(_ONE),))
        return BandTest(_ZERO, when=(condition,))

    def junction(self, formula: Expr) -> _Tree:
        """Split the parts, the one-sided ones of a side together: they need one test."""
        join = ops.and_ if formula.op is Op.AND else ops.or_
        by_side: dict[frozenset[str], list[Expr]] = {}
        parts: list[_Tree] = []
        for part in formula.args:
            if len(part.sides) == 1:
                by_side.setdefault(part.sides, []).append(part)
            else:
                parts.append(self.split(part))
        parts += [self.one_sided(join(*group)) for group in by_side.values()]
        return _join(formula.op is Op.AND, parts)

    def integers(self, atom: Expr) -> _Tree:
        prefix = _xor_prefix(atom)
        if prefix is not None:
            return self.split(prefix)
        a, b = atom.args
        difference = linear(a).plus(linear(b).scaled(-1))
        below = self.at_most_zero(difference, atom)
        if atom.op is Op.LE:
            return below
        if atom.op is Op.LT:
            stricter = Linear(difference.terms, difference.constant + 1)
            return self.at_most_zero(stricter, atom)
        return _join(True, [below, self.at_most_zero(difference.scaled(-1), atom)])

    def at_most_zero(self, form: Linear, atom: Expr, fan_out: int = 1) -> _Tree:
        """Tree for ``form <= 0``."""
        if fan_out > _MAX_FAN_OUT:
            raise NotBandError(f"{{}} fans out to more than {_MAX_FAN_OUT} sums", atom)
        mixed = [(t, c) for t, c in form.terms if len(t.sides) > 1]
        if mixed:
            term, coefficient = mixed[0]
            rest = form.without(term)
            choices = [linear(x) for x in _choices(term, atom)]
            is_and = (coefficient > 0) == (term.op is not Op.LEAST)
            fan_out *= len(choices)
            return _join(
                is_and,
                [
                    self.at_most_zero(rest.plus(x.scaled(coefficient)), atom, fan_out)
                    for x in choices
                ],
            )
        ours = tuple((t, c) for t, c in form.terms if t.sides == {self.window})
        theirs = tuple((t, c) for t, c in form.terms if t.sides != {self.window})
        # Keys that differ only in sign share a test, so the first coefficient is made positive.
        ours = tuple(sorted(ours, key=lambda item: repr(item[0])))
        if ours and ours[0][1] < 0:
            key = total(Linear(ours, 0).scaled(-1))
            return BandTest(key, lo=(Bound(total(Linear(theirs, form.constant))),))
        key = total(Linear(ours, 0))
        return BandTest(key, hi=(Bound(total(Linear(theirs, form.constant).scaled(-1))),))

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

    def prefix(self, atom: Expr, negated: bool) -> _Tree:
        text, start = atom.args
        if text.sides != {self.window} or self.window in start.sides:
            raise NotBandError("{} is a band only where the window holds the text", atom)
        if negated:
            below = BandTest(text, hi=(Bound(start, open=True),))
            above = BandTest(text, lo=(Bound(start, after=True),))
            return _join(False, [below, above])
        return BandTest(text, lo=(Bound(start),), hi=(Bound(start, open=True, after=True),))


def _choices(term: Expr, atom: Expr) -> tuple[Expr, ...]:
    """The sums a convex term is the greatest or least of."""
    if term.op is Op.ABS:
        (a,) = term.args
        return a, ops.neg(a)
    if term.op in (Op.LEAST, Op.GREATEST) and not any(a.type.nullable for a in term.args):
        return term.args
    why = "skips NULL" if term.op in (Op.LEAST, Op.GREATEST) else "mixes both sides"
    raise NotBandError("{} " + why, term)


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


# -- tests that share a key -----------------------------------------------------------------------


def _merge(tree: _Tree) -> _Tree:
    """Within an AND, join tests of one key; attach stream-side conditions to a test."""
    if not isinstance(tree, _Junction):
        return tree
    parts = [_merge(p) for p in tree.parts]
    if not tree.is_and:
        return _join(False, parts)
    by_key: dict[Expr, BandTest] = {}
    others: list[_Tree] = []
    conditions: list[Expr] = []
    for part in parts:
        if not isinstance(part, BandTest):
            others.append(part)
        elif not part.lo and not part.hi:
            conditions += part.when
        elif part.key in by_key:
            seen = by_key[part.key]
            by_key[part.key] = BandTest(
                part.key, seen.lo + part.lo, seen.hi + part.hi, seen.when + part.when
            )
        else:
            by_key[part.key] = part
    tests = list(by_key.values())
    if conditions and tests:
        tests[0] = replace(tests[0], when=tests[0].when + tuple(conditions))
    elif conditions:
        others.append(BandTest(_ZERO, when=tuple(conditions)))
    return _join(True, [*tests, *others])


def _index(tree: _Tree, numbers: dict[BandTest, int]) -> _Formula:
    if isinstance(tree, bool):
        return tree
    if isinstance(tree, BandTest):
        return numbers.setdefault(tree, len(numbers))
    return ("and" if tree.is_and else "or", tuple(_index(p, numbers) for p in tree.parts))


def _holds(shape: _Formula, outcome: int) -> bool:
    if isinstance(shape, bool):
        return shape
    if isinstance(shape, int):
        return bool(outcome >> shape & 1)
    results = (_holds(part, outcome) for part in shape[1])
    return all(results) if shape[0] == "and" else any(results)
