"""Keys to search by: every match passes them, and known predicates give the keys they should."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expr import ops
from penstock.expr.columns import evaluate_columns
from penstock.expr.node import Expr, Op, walk
from penstock.host.keys.prepare import layout, window_keys
from penstock.plan.forms import JoinForm
from penstock.plan.search import Search, search_of
from penstock.program import MAX_BAND_TESTS
from penstock.types import BOOL, FLOAT32, FLOAT64, STRING, Type, decimal, int_of, integer
from tests.kit.effort import effort, examples
from tests.penstock.kit.dags import DATE, MICROS, SPAN, TIME, Dags, vector
from tests.penstock.kit.reference import evaluate

Row = dict[tuple[str, Any], Any]

COLUMNS: dict[str, Type] = {
    "i": int_of(32),
    "big": int_of(64),
    "u": int_of(8, signed=False, nullable=False),
    "one": integer(0, 1),
    "d": decimal(9, 2),
    "e": decimal(30, 4, nullable=False),
    "f": FLOAT64,
    "g": FLOAT64.as_nullable(False),
    "h": FLOAT32,
    "s": FLOAT32.as_nullable(False),
    "t": TIME,
    "w": MICROS,
    "day": DATE,
    "span": SPAN,
    "name": STRING,
    "yes": BOOL,
}
FLOATS = ("f", "f", "g", "h", "s")
EXACT = ("i", "i", "big", "u", "one", "d", "e")

_LARGEST = math.ldexp(1 - 2.0**-53, 1024)
_LARGEST32 = math.ldexp(1 - 2.0**-24, 128)
_STRANGE = (0.0, -0.0, math.nan, math.inf, -math.inf, _LARGEST, -_LARGEST, _LARGEST32)
_STRANGE += (-_LARGEST32, 1e300, -1e300, 1e308, -1e308, 5e-324, -5e-324, 1e-160, 1e-170, 1e-23, -1)
_SIZES = (0.1, 0.3, 1.0, 2.5, 3.0, 1e-8, 1e-23, 1e-162, 1e16, 1e308, 0.0, 5e-324, 1e-320, -1.0)


class Hunts(Dags):
    """Draws predicates with bounded keys, and rows whose values lie near the bounds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        rng = self.rng
        self.size = rng.choice(_SIZES)
        self.base = rng.choice((0.0, 1.0, 0.7, 1e8 + 0.1, -3.3, 1e-161, 1e16, 1e308))
        size = abs(self.size)
        self.steps = (0.0, size, -size, math.sqrt(size), -math.sqrt(size), size / 3, 2 * size)

    def columns(self) -> dict[tuple[str, str], Type]:
        return {(side, name): dtype for side in "lr" for name, dtype in COLUMNS.items()}

    def value(self, dtype: Type) -> Any:
        rng = self.rng
        if not dtype.is_float:
            return super().value(dtype)
        if dtype.nullable and rng.random() < 0.1:
            return None
        value = float(rng.choice(_STRANGE))
        if rng.random() < 0.75:
            value = self.base + rng.choice(self.steps)
            for _ in range(rng.randint(0, 2)):
                value = math.nextafter(value, rng.choice((-math.inf, math.inf)))
        if dtype.kind is FLOAT32.kind:
            with np.errstate(all="ignore"):
                single = np.float32(value)
                near = np.nextafter(single, np.float32(rng.choice((-np.inf, 0, np.inf))))
            return float(rng.choice((single, near)))
        return value

    def rows(self, count: int, predicate: Expr) -> list[Row]:
        """Rows with the columns that a predicate names, and one of each side."""
        names = {e.attr for e in walk(predicate) if e.op is Op.COLUMN} | {("l", "u"), ("r", "u")}
        dtypes = [(c, dtype) for c, dtype in self.columns().items() if c in names]
        return [{c: self.value(dtype) for c, dtype in dtypes} for _ in range(count)]

    # -- predicates -------------------------------------------------------------------------------

    def predicate(self) -> Expr:
        rng = self.rng
        atoms = [self.hunted() for _ in range(rng.randint(1, 3))]
        a, b = self.hunted(), self.hunted()
        extra = rng.choice(
            (
                lambda: ops.TRUE,
                lambda: ops.TRUE,
                lambda: ops.TRUE,
                lambda: ops.or_(a, b),
                lambda: ops.or_(ops.and_(a, b), ops.and_(a, self.hunted())),
                lambda: ops.case([(a, b)], self.hunted()),
                lambda: ops.not_(ops.or_(a, b)),
                lambda: Dags(rng.getrandbits(30), kinds=()).condition(0),
            )
        )
        return ops.and_(*atoms, extra())

    def hunted(self) -> Expr:
        try:
            return self.atom_of(self.rng.choice(("float", "float", "exact", "time", "other")))
        except ops.ExprTypeError:
            return ops.TRUE

    def other(self) -> Expr:
        rng = self.rng
        a, b = (ops.column(s, "name", STRING) for s in rng.choice(("lr", "rl")))
        x, y = (ops.column(s, "u", COLUMNS["u"]) for s in "lr")
        flags = [ops.column(s, "yes", BOOL) for s in "lr"]
        one = ops.column(rng.choice("lr"), "i", COLUMNS["i"])
        return rng.choice(
            (
                lambda: ops.eq(a, b),
                lambda: ops.prefix(a, b),
                lambda: ops.eq(*flags),
                lambda: ops.lt(ops.bit_xor(x, y), ops.const(1 << rng.randint(0, 6))),
                lambda: ops.lt(one, ops.const(rng.randint(-2, 3))),
                lambda: flags[0],
            )
        )()

    def column_of(self, side: str, names: tuple[str, ...]) -> Expr:
        name = self.rng.choice(names)
        return ops.column(side, name, COLUMNS[name])

    def difference(self, names: tuple[str, ...]) -> Expr:
        rng = self.rng
        a, b = (self.column_of(side, names) for side in rng.choice(("lr", "lr", "rl")))
        if rng.random() < 0.15:
            a = rng.choice((ops.add, ops.sub))(a, self.column_of(rng.choice("lr"), names))
        if rng.random() < 0.15 and names is FLOATS:
            a = ops.mul(a, ops.const(rng.choice((0.5, -3.0, 0.1, 1e-30))))
        if rng.random() < 0.1 and names is FLOATS:
            return ops.cast(ops.sub(a, b), rng.choice((FLOAT32, FLOAT64)))
        if rng.random() < 0.1 and names is EXACT:
            return ops.cast(ops.sub(a, b), rng.choice((FLOAT32, FLOAT64)))
        return ops.add(a, b) if rng.random() < 0.15 else ops.sub(a, b)

    def bound(self, names: tuple[str, ...]) -> Expr:
        rng = self.rng
        if rng.random() < 0.6:
            if names is FLOATS:
                return ops.const(self.size)
            return ops.const(rng.choice((0, 1, 4, 7, 30, -1, 1 << 40, 1 << 70)))
        found = self.column_of(rng.choice("lllr"), names)
        return rng.choice((lambda: found, lambda: ops.mul(found, found), lambda: ops.neg(found)))()

    def atom_of(self, kind: str) -> Expr:
        rng = self.rng
        if kind == "other":
            return self.other()
        if kind == "time":
            a, b = (self.column_of(s, ("t", "w", "day")) for s in rng.choice(("lr", "rl")))
            span = rng.choice((ops.duration_const(3, "ms"), self.column_of("l", ("span",))))
            return ops.le(rng.choice((ops.absolute, ops.neg))(ops.sub(a, b)), span)
        names = FLOATS if kind == "float" else EXACT
        u, v = self.difference(names), self.difference(names)
        other = self.column_of(rng.choice("lr"), names)
        weight = rng.choice(
            (ops.const(2), ops.const(3), ops.const(0.1), ops.const(-1))
            if kind == "float"
            else (ops.const(2), ops.const(3), ops.decimal_const(15, 1), ops.const(-2))
        )
        square = ops.mul(u, u)
        shape = rng.choice(
            (
                lambda: u,
                lambda: ops.absolute(u),
                lambda: ops.absolute(u),
                lambda: ops.neg(ops.absolute(u)),
                lambda: square,
                lambda: ops.mul(weight, square),
                lambda: ops.mul(ops.mul(weight, u), u),
                lambda: ops.add(square, ops.mul(v, v)),
                lambda: ops.add(square, ops.mul(v, v)),
                lambda: ops.add(ops.absolute(u), ops.absolute(v)),
                lambda: ops.add(ops.mul(weight, ops.absolute(u)), ops.mul(ops.mul(weight, v), v)),
                lambda: ops.sub(square, ops.neg(ops.absolute(v))),
                lambda: ops.add(square, ops.mul(other, other)),
                lambda: ops.add(ops.absolute(u), other),
                lambda: ops.sub(other, square),
                lambda: ops.greatest(ops.absolute(u), v),
                lambda: ops.greatest(u, v, other),
                lambda: ops.least(u, v),
                lambda: ops.neg(ops.least(u, ops.neg(ops.absolute(v)))),
                lambda: ops.mul(square, square),
                lambda: ops.mul(u, v),
                lambda: ops.absolute(ops.sub(ops.absolute(u), other)),
                lambda: ops.mul(weight, u),
                lambda: self.column_of("l", names),
                lambda: ops.absolute(self.column_of("r", names)),
            )
        )()
        low, high = self.bound(names), self.bound(names)
        op = rng.choice((ops.lt, ops.le))
        return rng.choice(
            (
                lambda: op(shape, high),
                lambda: op(shape, high),
                lambda: op(low, shape),
                lambda: ops.eq(shape, high),
                lambda: ops.and_(op(ops.neg(high), shape), op(shape, high)),
                lambda: ops.and_(op(low, shape), op(shape, high)),
                lambda: ops.not_(op(high, shape)),
            )
        )()


def passed(found: Search, window: list[Row], stream: list[Row]) -> np.ndarray:
    """Which tests each stream row passes with each window row, as the host's codes say."""
    form = found.form_of_best(MAX_BAND_TESTS)
    assert form is not None
    join = JoinForm(found.window, form, ops.TRUE)
    made = window_keys(join, vectors(window), len(window))
    codes = layout(join, made, [], (8, 16, 32, 64))
    keys, bounds = codes.window(made), codes.stream(vectors(stream), len(stream)).arrays
    outcomes = [
        (bounds[2 * d][:, None] <= keys[d]) & (keys[d] <= bounds[2 * d + 1][:, None])
        for d in range(len(form.tests))
    ]
    return np.array(outcomes)


def vectors(rows: list[Row]) -> dict[Any, Any]:
    return {
        (side, name): vector([row[side, name] for row in rows], dtype)
        for side in "lr"
        for name, dtype in COLUMNS.items()
        if (side, name) in rows[0]
    }


def lost(predicate: Expr, window: str, stream_rows: list[Row], window_rows: list[Row]) -> list[str]:
    """The matches that a search would miss; none, if it is right."""
    found = search_of(predicate, window)
    every = (*found.keys, *found.halves)
    if not every:
        return []
    missed = matches(predicate, window, stream_rows, window_rows)
    outcomes = passed(found, window_rows, stream_rows)
    missed &= ~outcomes.all(axis=0)
    texts = []
    for i, j in np.argwhere(missed):
        pair = together(window, stream_rows[i], window_rows[j])
        test = every[int(np.argmin(outcomes[:, i, j]))].test
        texts.append(f"{pair} fails {test}")
    return texts


def together(window: str, probing: Row, other: Row) -> Row:
    return {c: (other if c[0] == window else probing)[c] for c in probing}


def matches(predicate: Expr, window: str, stream: list[Row], other: list[Row]) -> np.ndarray:
    """Where the predicate is TRUE."""
    pairs = [together(window, a, b) for a in stream for b in other]
    outcome = evaluate_columns(predicate, vectors(pairs), len(pairs)).true
    return np.asarray(outcome).reshape(len(stream), len(other))


@settings(max_examples=effort(1500, 150), deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from("lr"))
def test_every_match_passes_every_test(seed: int, window: str) -> None:
    hunts = Hunts(seed)
    predicate = hunts.predicate()
    rows = hunts.rows(12, predicate)
    found = search_of(predicate, window)
    every = (*found.keys, *found.halves)
    assert len(every) <= MAX_BAND_TESTS
    for key in every:
        assert key.test.key.sides <= {window}
        assert all(window not in b.expr.sides for b in (*key.test.lo, *key.test.hi))
        assert all(window not in condition.sides for condition in key.test.when)
    missed = lost(predicate, window, rows[:6], rows[6:])
    assert not missed, (predicate, missed[0])


@settings(max_examples=examples(1000), deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from("lr"))
def test_every_match_of_a_comparison_of_floats_passes(seed: int, window: str) -> None:
    hunts = Hunts(seed)
    predicate = hunts.atom_of("float")
    rows = hunts.rows(60, predicate)
    missed = lost(predicate, window, rows[:30], rows[30:])
    assert not missed, (predicate, missed[0])


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 1 << 32))
def test_columns_and_the_reference_agree_on_what_matches(seed: int) -> None:
    hunts = Hunts(seed)
    predicate = hunts.predicate()
    rows = hunts.rows(6, predicate)
    found = matches(predicate, "r", rows[:3], rows[3:])
    for i, a in enumerate(rows[:3]):
        for j, b in enumerate(rows[3:]):
            assert found[i, j] == (evaluate(predicate, together("r", a, b)) is True)


@settings(max_examples=examples(400), deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from("lr"), st.integers(1, 4))
def test_any_predicate_may_be_searched(seed: int, window: str, depth: int) -> None:
    dags = Dags(seed)
    predicate = dags.condition(depth)
    search_of(predicate, window)


@settings(max_examples=examples(400), deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from("lr"))
def test_keys_that_decide_all_conjuncts_are_the_predicate(seed: int, window: str) -> None:
    hunts = Hunts(seed)
    predicate = hunts.predicate()
    found = search_of(predicate, window)
    every = (*found.keys, *found.halves)
    if not every or found.refused() or any(key.is_implied for key in every):
        return
    rows = hunts.rows(10, predicate)
    outcomes = np.asarray(passed(found, rows[5:], rows[:5]).all(axis=0))
    for i, probing in enumerate(rows[:5]):
        for j, other in enumerate(rows[5:]):
            pair = together(window, probing, other)
            assert outcomes[i, j] == (evaluate(predicate, pair) is True), (predicate, pair)


def test_the_random_predicates_have_keys_and_matches() -> None:
    keys = implied = matches = 0
    for seed in range(300):
        hunts = Hunts(seed)
        predicate = hunts.predicate()
        found = search_of(predicate, "r")
        keys += bool(found.keys)
        implied += any(key.is_implied for key in found.keys)
        rows = hunts.rows(6, predicate)
        matches += bool(found.keys) and any(evaluate(predicate, row) is True for row in rows)
    assert keys > 100
    assert implied > 50
    assert matches > 20
