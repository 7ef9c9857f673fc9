"""Keys to search a window by: band tests that every match passes, found in the predicate.

They narrow the search only. Whoever searches by them still tests the whole predicate, unless each
conjunct is a key and none is implied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from ..expr import ops
from ..expr.node import Expr, Op, remembered
from ..program import MAX_BAND_TESTS
from ..types import Kind
from .band import ZERO, BandForm, BandTest, Bound, NotBandError, band_form
from .forms import with_room
from .logic import conjuncts_of, when_true
from .narrowing import Half, halves_of_test, narrowed
from .widening import coordinate_bounds, passing_nan, widened

_ONE = ops.const(1)


@dataclass(frozen=True)
class SearchKey:
    """A band test that every match passes.

    Parameters
    ----------
    test : BandTest
    conjunct : Expr
        The part of the predicate that it follows from.
    is_implied : bool
        Whether the conjunct may be other than TRUE though all tests that follow from it pass.
    """

    test: BandTest
    conjunct: Expr
    is_implied: bool

    @property
    def is_equality(self) -> bool:
        """Whether at most one key passes."""
        return self.test.is_equality


@dataclass(frozen=True)
class Search:
    """The keys by which the window's rows that a stream tuple may match are found.

    Parameters
    ----------
    window : str
    keys : tuple of SearchKey
        At most ``MAX_BAND_TESTS``.
    halves : tuple of SearchKey
        Further ones with bounds from one side, where there are several keys in all: alone, each
        leaves too many rows. With the keys at most ``MAX_BAND_TESTS``.
    refusals : tuple of (Expr, NotBandError)
        The conjuncts that give no key, or that a key leaves out a part of, and why.
    """

    window: str
    keys: tuple[SearchKey, ...]
    halves: tuple[SearchKey, ...] = ()
    refusals: tuple[tuple[Expr, NotBandError], ...] = ()

    def refused(self, names: Mapping[str, str] | None = None) -> tuple[tuple[Expr, str], ...]:
        """The refusals in plain words, with the sides called by these names."""
        return tuple((conjunct, why.text(names)) for conjunct, why in self.refusals)

    @property
    def form(self) -> BandForm | None:
        """All tests with bounds from both sides as one band form; None if there is no key."""
        return self._form_of(self.keys)

    def form_of_best(self, most: int) -> BandForm | None:
        """So many tests at most, halves last, as one band form; None if there is none."""
        return self._form_of((*self.keys, *self.halves)[:most])

    def _form_of(self, keys: tuple[SearchKey, ...]) -> BandForm | None:
        table = 1 << ((1 << len(keys)) - 1)
        return BandForm(self.window, tuple(key.test for key in keys), table) if keys else None


@lru_cache(maxsize=128)
def search_of(predicate: Expr, window: str) -> Search:
    """The keys that follow from a predicate, with the side ``window`` flowing past the other.

    A predicate that is the AND of band tests has the tests of its band form as keys, in their
    order, even where one of them is bounded from one side only.

    Raises
    ------
    QueryError
        The predicate is nested too deeply.
    """
    return with_room(lambda: _search_of(predicate, window), predicate)


def _search_of(predicate: Expr, window: str) -> Search:
    try:
        form = band_form(when_true(predicate), window)
    except NotBandError:
        form = None
    if form is not None and form.table == 1 << ((1 << len(form.tests)) - 1):
        keys = (SearchKey(test, _origin(test, predicate, window), False) for test in form.tests)
        return Search(window, tuple(keys))
    return _Finder(window).search(predicate)


def _origin(test: BandTest, predicate: Expr, window: str) -> Expr:
    """The conjuncts that a test of the predicate's band form comes from."""
    parts = [part for part in conjuncts_of(predicate) if _gives(part, test, window)]
    return ops.and_(*parts) if parts else predicate


def _gives(conjunct: Expr, test: BandTest, window: str) -> bool:
    """Whether a test of a conjunct is part of this one."""
    try:
        tests = band_form(when_true(conjunct), window).tests
    except NotBandError:
        return False
    return any(
        part.key is test.key if part.lo or part.hi else set(part.when) <= set(test.when)
        for part in tests
    )


@dataclass(frozen=True)
class _Source:
    """A bound of a key, and the fact that it follows from."""

    fact: Expr
    half: Half


class _Finder:
    """Collects the bounds that each conjunct implies, and turns them into tests."""

    def __init__(self, window: str) -> None:
        self.window = window
        # A node may be used in many places.
        self.facts = remembered(self._facts)
        self.sources: dict[Expr, list[_Source]] = {}
        #: Of each fact that is the AND of some bounds: their keys.
        self.exact: dict[Expr, set[Expr]] = {}
        self.refusals: dict[Expr, NotBandError] = {}
        self.conditions: list[Expr] = []

    def search(self, predicate: Expr) -> Search:
        for conjunct in conjuncts_of(predicate):
            self.take(conjunct)
        keys, halves = self.chosen()
        if self.conditions and keys:
            test = replace(keys[0].test, when=tuple(self.conditions))
            conjunct = ops.and_(keys[0].conjunct, *self.conditions)
            keys[0] = replace(keys[0], test=test, conjunct=conjunct)
        else:
            for condition in self.conditions:
                self.refuse(condition, "it does not look at the window's rows")
        return Search(self.window, tuple(keys), tuple(halves), tuple(self.refusals.items()))

    def refuse(self, fact: Expr, reason: str, *parts: Expr) -> None:
        self.refusals.setdefault(fact, NotBandError(reason, *parts))

    # -- bounds of single facts -------------------------------------------------------------------

    def take(self, conjunct: Expr) -> None:
        """Add what follows from a conjunct."""
        if self.is_equality_of_conditions(conjunct):
            keys = [ops.case([(a, _ONE), (ops.not_(a), ZERO)]) for a in conjunct.args]
            key, bound = keys if conjunct.args[0].sides == {self.window} else keys[::-1]
            self.add_test(conjunct, BandTest(key, (Bound(bound),), (Bound(bound),)))
            return
        formula = when_true(conjunct)
        for fact in self.facts(formula):
            if fact.op is not Op.OR:
                self.take_fact(fact)
            elif len(self.facts(fact)) > 1:
                self.refuse(fact, "it is an OR: only what its parts share is a key")
            elif not self.take_shared(fact):
                whole = conjunct if fact is formula else fact
                name = "a CASE" if whole.op is Op.CASE else "an OR"
                self.refuse(whole, f"it is {name}, which may hold in more than one way")

    def _facts(self, formula: Expr) -> dict[Expr, None]:
        """Atoms and ORs that a formula implies, also the facts that all parts of an OR share."""
        if formula.op is Op.AND:
            return {fact: None for part in formula.args for fact in self.facts(part)}
        if formula.op is not Op.OR:
            return {formula: None}
        first, *later = map(self.facts, formula.args)
        shared = (fact for fact in first if all(fact in facts for facts in later))
        return dict.fromkeys((formula, *shared))

    def is_equality_of_conditions(self, conjunct: Expr) -> bool:
        if conjunct.op is not Op.EQ or conjunct.args[0].type.kind is not Kind.BOOL:
            return False
        sides = [arg.sides for arg in conjunct.args]
        return all(len(s) == 1 for s in sides) and sides.count(frozenset({self.window})) == 1

    def take_shared(self, fact: Expr) -> bool:
        """Add the tests that all ways in which an OR may hold share, if it has a band form."""
        try:
            form = band_form(fact, self.window)
        except NotBandError:
            return False
        shared = _shared(form)
        for test in shared:
            for half in halves_of_test(test):
                self.sources.setdefault(half.key, []).append(_Source(fact, half))
        return bool(shared)

    def take_fact(self, fact: Expr) -> None:
        if fact.is_const:
            if fact is not ops.TRUE:
                self.refuse(fact, "it is never TRUE")
            return
        if bounds := list(coordinate_bounds(fact)):
            for bound in bounds:
                for half in widened(bound, self.window):
                    self.sources.setdefault(half.key, []).append(_Source(fact, half))
            return
        if len(fact.sides) == 1:
            if self.window in fact.sides:
                self.add_test(fact, BandTest(fact, (Bound(_ONE),), (Bound(_ONE),)))
            else:
                self.conditions.append(fact)
            return
        try:
            form = band_form(fact, self.window)
        except NotBandError as error:
            self.take_narrowed(fact, error)
            return
        tests = _shared(form)
        for test in tests:
            self.add_test(fact, test)
        if fact.op in (Op.LT, Op.LE, Op.EQ) and fact.args[0].type.is_float:
            # In case that the key itself is bounded from one side only.
            self.take_narrowed(fact, None)
        elif len(tests) < len(form.tests):
            self.exact.pop(fact, None)
            self.refuse(fact, "it may hold in more than one way")

    def take_narrowed(self, fact: Expr, error: NotBandError | None) -> None:
        """Add bounds that follow from a comparison that no test decides."""
        halves: list[Half] = []
        exact = self.exact.get(fact, set())
        try:
            if fact.op not in (Op.LT, Op.LE, Op.EQ) or fact.args[0].type.is_text:
                raise error or NotBandError("{} is not a comparison", fact)
            is_float = fact.args[0].type.is_float
            halves = (widened if is_float else narrowed)(fact, self.window)
        except NotBandError as reason:
            if error is not None:
                self.refusals.setdefault(fact, reason)
        for half in halves:
            if half.key not in exact:
                self.sources.setdefault(half.key, []).append(_Source(fact, half))

    def add_test(self, fact: Expr, test: BandTest) -> None:
        """Add a test that, with others of the same fact, decides it."""
        self.exact.setdefault(fact, set()).add(test.key)
        for half in halves_of_test(test):
            self.sources.setdefault(half.key, []).append(_Source(fact, half))

    # -- the tests --------------------------------------------------------------------------------

    def chosen(self) -> tuple[list[SearchKey], list[SearchKey]]:
        """The keys with bounds from both sides, the best first, and those from one side."""
        tests: dict[Expr, BandTest] = {}
        halves: dict[Expr, BandTest] = {}
        for key, sources in self.sources.items():
            test = _test(key, [source.half for source in sources])
            (tests if test.lo and test.hi else halves)[key] = test
        decided = {fact for fact, keys in self.exact.items() if keys <= tests.keys()}
        keys = [
            self.key(test, decided)
            for key, test in tests.items()
            if not self.is_superfluous(key, tests.keys())
        ]
        # A window-side condition has two values only; a sort keeps the order of the predicate.
        keys.sort(key=_rank)
        kept = [key.test for key in keys[:MAX_BAND_TESTS]]
        further = [
            test for key, test in halves.items() if not self.is_superfluous(key, tests.keys())
        ]
        further = further[: MAX_BAND_TESTS - len(kept)] if len(kept) + len(further) > 1 else []
        names = {test.key for test in (*kept, *further)}
        decided = {fact for fact, keys in self.exact.items() if keys <= names}
        self.refuse_others(names, tests.keys())
        with_both, with_one = (
            [self.key(test, decided) for test in group] for group in (kept, further)
        )
        return with_both, with_one

    def is_superfluous(self, key: Expr, bounded: Iterable[Expr]) -> bool:
        """Whether other keys decide all that this one follows from."""
        return all(
            key not in (exact := self.exact.get(source.fact, {key})) and exact <= set(bounded)
            for source in self.sources[key]
        )

    def key(self, test: BandTest, decided: set[Expr]) -> SearchKey:
        facts = list(dict.fromkeys(source.fact for source in self.sources[test.key]))
        is_decided = all(f in decided and test.key in self.exact[f] for f in facts)
        return SearchKey(test, ops.and_(*facts), not is_decided)

    def refuse_others(self, kept: set[Expr], bounded: Iterable[Expr]) -> None:
        """Say of each fact without a key why it has none."""
        keys_of: dict[Expr, list[Expr]] = {}
        for key, sources in self.sources.items():
            for source in sources:
                keys_of.setdefault(source.fact, []).append(key)
        for fact, keys in keys_of.items():
            if kept.isdisjoint(keys):
                if len(kept) < MAX_BAND_TESTS and set(bounded).isdisjoint(keys):
                    self.refuse(fact, "it bounds {} from one side only", keys[0])
                else:
                    self.refuse(fact, f"there are {MAX_BAND_TESTS} better keys")


def _rank(key: SearchKey) -> tuple[bool, ...]:
    return key.test.key.type.kind is Kind.BOOL, not key.is_equality, key.is_implied


def _shared(form: BandForm) -> list[BandTest]:
    """Tests of a form that pass wherever the predicate is TRUE; the function is monotone."""
    outcomes = (1 << len(form.tests)) - 1
    tests = []
    for number, test in enumerate(form.tests):
        all_but_one = outcomes & ~(1 << number)
        if not form.table >> all_but_one & 1:
            tests.append(test)
    return tests


def _test(key: Expr, halves: list[Half]) -> BandTest:
    """The test of all bounds of a key that hold together."""
    lows = dict.fromkeys(half.bound for half in halves if not half.is_high)
    highs: dict[Bound, None] = {}
    # The key is no NaN but where one of these is, if it can be there at all.
    guards = [half.nan_where for half in halves if not half.passes_nan]
    for half in halves:
        if half.is_high and not half.passes_nan:
            highs[half.bound] = None
        elif half.is_high and guards:
            highs[_guarded(half.bound, guards)] = None
    return BandTest(key, tuple(lows), tuple(highs))


def _guarded(bound: Bound, guards: list[Expr | None]) -> Bound:
    """An upper bound that excludes no NaN, where any of these is None or says where NaN may be."""
    guard = guards[0]
    if guard is None or any(another is None for another in guards):
        return bound
    return replace(bound, expr=passing_nan(bound.expr, guard))
