"""Band form: the truth table over tests equals the predicate, and known predicates' shapes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.expr import ops
from penstock.expr.node import Expr
from penstock.expr.values import order_key
from penstock.plan.band import BandForm, BandTest, Bound, NotBandError, band_form
from penstock.plan.forms import join_form
from penstock.plan.general import GeneralForm
from penstock.plan.logic import when_true
from penstock.plan.simplify import simplify
from penstock.types import FLOAT32, FLOAT64, STRING, int_of
from tests.kit.effort import examples
from tests.penstock.kit.dags import PALETTE, Dags
from tests.penstock.kit.reference import evaluate


def col(name: str, bits: int = 32, *, signed: bool = True, nullable: bool = True) -> Expr:
    return ops.column(name[0], name[1:], int_of(bits, signed=signed, nullable=nullable))


LX, LY, LZ = col("lx"), col("ly"), col("lz")
RX, RY, RZ = col("rx"), col("ry"), col("rz")
LU, RU = col("lu", signed=False), col("ru", signed=False)
LN, RN = col("ln", nullable=False), col("rn", nullable=False)


def passes(test: BandTest, row: dict) -> bool:
    """One band test, from its definition."""
    key = evaluate(test.key, row)
    if key is None or any(evaluate(c, row) is not True for c in test.when):
        return False
    key = int(key) if isinstance(key, bool) else key
    return all(_inside(b, key, row, 1) for b in test.lo) and all(
        _inside(b, key, row, -1) for b in test.hi
    )


def _inside(bound: Bound, key: Any, row: dict, sign: int) -> bool:
    value = evaluate(bound.expr, row)
    if value is None:
        return False
    if bound.after:
        # Texts that start with the bound are below "after", like those that sort before it.
        below = key < value or key.startswith(value)
        return below if sign < 0 else not below
    a, b = (order_key(key), order_key(value)) if sign > 0 else (order_key(value), order_key(key))
    return b < a if bound.open else b <= a


def holds(form: BandForm, row: dict) -> bool:
    outcome = sum(passes(test, row) << d for d, test in enumerate(form.tests))
    return bool(form.table >> outcome & 1)


# -- random predicates ----------------------------------------------------------------------------


class Bands(Dags):
    """Draws conditions that mostly have a band form."""

    def side_value(self, side: str, kind: str, depth: int) -> Expr:
        both, self.sides = self.sides, side
        made = {"int": self.integer, "decimal": self.number, "time": self.time}.get(
            kind, self.floating if kind == "float" else self.text
        )(depth)
        self.sides = both
        return made

    def band_atom(self) -> Expr:
        rng = self.rng
        kind = rng.choice(("int", "int", "int", "decimal", "time", "float", "text", "bool"))
        if kind == "bool":
            return Dags(rng.getrandbits(30), sides=rng.choice("lr")).condition(2)
        a, b = self.side_value("l", kind, rng.randint(0, 1)), self.side_value("r", kind, 1)
        if rng.random() < 0.5:
            a, b = b, a
        if kind == "text":
            return rng.choice((ops.eq, ops.ne, ops.prefix))(a, b)
        if kind == "int" and rng.random() < 0.2:
            name = rng.choice(("u8", "few", "u64"))
            x, y = (ops.column(s, name, PALETTE["int"][name]) for s in "lr")
            size = ops.const(1 << rng.randint(0, 6))
            op = rng.choice((ops.lt, ops.le, ops.eq))
            pair = rng.choice(((ops.bit_xor(x, y), size), (size, ops.bit_xor(x, y))))
            return op(*pair)
        if kind in ("int", "decimal") and rng.random() < 0.5:
            a, b = self.convex(kind), ops.const(rng.randint(-2, 9))
        op = rng.choice((ops.lt, ops.le, ops.eq, ops.ne))
        return op(*rng.choice(((a, b), (b, a))))

    def convex(self, kind: str) -> Expr:
        rng = self.rng
        a, b = self.side_value("l", kind, 0), self.side_value("r", kind, 0)
        difference = rng.choice((ops.sub, ops.add))(a, b)
        other = ops.column(rng.choice("lr"), "u8", PALETTE["int"]["u8"])
        return rng.choice(
            (
                lambda: ops.absolute(difference),
                lambda: difference,
                lambda: ops.add(ops.absolute(difference), other),
                lambda: ops.least(difference, other),
                lambda: ops.greatest(ops.absolute(difference), other),
                lambda: ops.neg(ops.absolute(difference)),
            )
        )()

    def band_condition(self, depth: int) -> Expr:
        rng = self.rng
        if depth <= 0:
            return self.band_atom()
        a, b = self.band_condition(depth - 1), self.band_condition(depth - 1)
        return rng.choice(
            (
                lambda: ops.and_(a, b),
                lambda: ops.or_(a, b),
                lambda: ops.not_(a),
                lambda: ops.case([(a, b)], self.band_atom()),
            )
        )()


@settings(max_examples=examples(500), deadline=None)
@given(st.integers(0, 1 << 32), st.integers(0, 2), st.sampled_from("lr"), st.booleans())
def test_the_table_over_tests_is_the_predicate(
    seed: int, depth: int, window: str, folded: bool
) -> None:
    bands = Bands(seed)
    predicate = bands.band_condition(depth)
    predicate = simplify(predicate) if folded else predicate
    try:
        form = band_form(when_true(predicate), window)
    except NotBandError:
        assume(False)
    for test in form.tests:
        assert test.key.sides <= {window}
        assert all(b.expr.sides <= {"lr".replace(window, "")} for b in (*test.lo, *test.hi))
    for _ in range(8):
        row = bands.row()
        assert holds(form, row) == (evaluate(predicate, row) is True), (predicate, row)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from("lr"))
def test_the_function_is_monotone(seed: int, window: str) -> None:
    try:
        form = band_form(when_true(Bands(seed).band_condition(2)), window)
    except NotBandError:
        assume(False)
    for outcome in range(1 << len(form.tests)):
        for more in (outcome | 1 << d for d in range(len(form.tests))):
            assert not (form.table >> outcome & 1) or form.table >> more & 1


# -- known predicates -----------------------------------------------------------------------------


def distance(a: Expr, b: Expr) -> Expr:
    return ops.absolute(ops.sub(a, b))


def euclid() -> Expr:
    dx, dy = ops.sub(LX, RX), ops.sub(LY, RY)
    return ops.le(ops.add(ops.mul(dx, dx), ops.mul(dy, dy)), ops.const(100))


def xor_below(bound: int) -> Expr:
    return ops.lt(ops.bit_xor(LU, RU), ops.const(bound))


COUNTS = [
    ("equality", ops.eq(LX, RX), 1, 1),
    ("not equal", ops.ne(LX, RX), 2, 2),
    ("order", ops.lt(LX, RX), 1, 1),
    ("distance", ops.lt(distance(LX, RX), ops.const(5)), 1, 1),
    ("far", ops.lt(ops.const(5), distance(LX, RX)), 2, 2),
    (
        "manhattan",
        ops.lt(ops.add(distance(LX, RX), distance(LY, RY)), ops.const(500)),
        2,
        2,
    ),
    (
        "chebyshev",
        ops.lt(ops.greatest(distance(LN, RN), distance(LN, RN)), ops.const(5)),
        1,
        1,
    ),
    ("radius of a tuple", ops.le(distance(LX, RX), LY), 2, 1),
    ("radius of the other tuple", ops.le(distance(LX, RX), RY), 1, 2),
    ("between stream bounds", ops.and_(ops.le(LY, RX), ops.le(RX, LZ)), 2, 1),
    ("xor below a power", xor_below(256), 1, 1),
    ("xor equals", ops.eq(ops.bit_xor(LU, RU), ops.const(200)), 1, 1),
    ("one-sided", ops.and_(ops.lt(LX, LY), ops.lt(RX, RY)), 1, 1),
    ("text", ops.eq(*(ops.column(s, "t", STRING) for s in "lr")), 1, 1),
    ("never", ops.FALSE, 1, 1),
]


@pytest.mark.parametrize(("name", "predicate", "left", "right"), COUNTS, ids=[c[0] for c in COUNTS])
def test_number_of_tests(name: str, predicate: Expr, left: int, right: int) -> None:
    found = [len(band_form(when_true(predicate), window).tests) for window in "lr"]
    assert found == [left, right]


GENERAL = [
    (euclid(), "mixes both sides"),
    (xor_below(200), "mixes both sides"),
    (ops.lt(ops.bit_xor(LX, RX), ops.const(256)), "mixes both sides"),
    (ops.ne(ops.bit_and(LX, RX), ops.const(0)), "mixes both sides"),
    (ops.lt(ops.mod(ops.sub(LX, RX), ops.const(7)), ops.const(3)), "mixes both sides"),
    (ops.lt(ops.least(LX, RX), ops.const(3)), "skips NULL"),
    (
        ops.lt(
            ops.absolute(ops.sub(ops.column("l", "f", FLOAT64), ops.column("r", "f", FLOAT64))),
            ops.const(0.5),
        ),
        "may round: it is not rearranged",
    ),
]


@pytest.mark.parametrize(("predicate", "why"), GENERAL)
def test_what_has_no_band_form(predicate: Expr, why: str) -> None:
    for window in "lr":
        with pytest.raises(NotBandError, match=why):
            band_form(when_true(predicate), window)
        form = join_form(predicate, window)
        assert isinstance(form.form, GeneralForm)
        assert why in form.why_general()


def test_floats_that_are_only_compared_are_a_band() -> None:
    a, b = ops.column("l", "f", FLOAT32), ops.column("r", "f", FLOAT32)
    assert len(band_form(when_true(ops.lt(a, b)), "l").tests) == 1
    assert len(band_form(when_true(ops.eq(a, b)), "r").tests) == 1


def test_more_than_eight_tests_are_general() -> None:
    pairs = [(col(f"la{k}"), col(f"ra{k}")) for k in range(9)]
    predicate = ops.and_(*(ops.eq(a, b) for a, b in pairs))
    assert len(band_form(when_true(ops.and_(*predicate.args[:8])), "l").tests) == 8
    with pytest.raises(NotBandError, match="9 band tests are needed, more than 8"):
        band_form(when_true(predicate), "l")


def test_a_prefix_is_a_band_only_where_the_window_holds_the_text() -> None:
    text, start = ops.column("l", "t", STRING), ops.column("r", "t", STRING)
    predicate = ops.prefix(text, start)
    assert len(band_form(when_true(predicate), "l").tests) == 1
    with pytest.raises(NotBandError, match="is a band only where the window holds the text"):
        band_form(when_true(predicate), "r")


def test_sums_that_fan_out_too_far_are_general() -> None:
    total = ops.const(0)
    for k in range(5):
        total = ops.add(total, distance(col(f"lb{k}"), col(f"rb{k}")))
    with pytest.raises(NotBandError, match="fans out to more than 16 sums"):
        band_form(when_true(ops.lt(total, ops.const(9))), "l")
