"""Three-valued logic, folding and linear forms keep the value, for every row."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expr import ops
from penstock.expr.node import Expr, Op
from penstock.plan.linear import linear, total
from penstock.plan.logic import (
    guarded,
    when_false,
    when_not_null,
    when_null,
    when_true,
    without_null,
)
from penstock.plan.simplify import simplify
from penstock.types import BOOL, decimal, int_of, integer
from tests.kit.effort import examples
from tests.penstock.kit.dags import Dags, same
from tests.penstock.kit.reference import evaluate

SEEDS = st.integers(0, 1 << 32)
DEPTHS = st.integers(1, 5)
#: Kinds on which ``without_null`` works: text has codes instead.
PLAIN = ("int", "decimal", "float", "time", "span", "bool")

X = ops.column("l", "x", int_of(16))
Y = ops.column("r", "y", int_of(16))
SURE = ops.column("l", "sure", int_of(16, nullable=False))


@settings(max_examples=examples(300), deadline=None)
@given(SEEDS, DEPTHS)
def test_fold_keeps_the_value(seed: int, depth: int) -> None:
    dags = Dags(seed)
    expr = dags.expression(depth)
    folded = simplify(expr)
    kinds = (expr.type.kind, expr.type.scale, expr.type.unit)
    assert (folded.type.kind, folded.type.scale, folded.type.unit) == kinds
    for _ in range(4):
        row = dags.row()
        assert same(evaluate(folded, row), evaluate(expr, row)), (expr, folded, row)


@settings(max_examples=examples(300), deadline=None)
@given(SEEDS, DEPTHS)
def test_when_formulas_are_true_exactly_there(seed: int, depth: int) -> None:
    dags = Dags(seed)
    condition = dags.condition(depth)
    value = dags.expression(depth)
    formulas = when_true(condition), when_false(condition), when_null(condition)
    for _ in range(4):
        row = dags.row()
        outcome = evaluate(condition, row)
        found = [evaluate(f, row) is True for f in formulas]
        assert found == [outcome is True, outcome is False, outcome is None], (condition, row)
        known = evaluate(value, row) is not None
        assert (evaluate(when_not_null(value), row) is True) == known
        assert (evaluate(when_null(value), row) is True) == (not known)


@settings(max_examples=examples(100), deadline=None)
@given(SEEDS, DEPTHS)
def test_when_true_negates_no_junction(seed: int, depth: int) -> None:
    parts = [when_true(Dags(seed).condition(depth))]
    while parts:
        part = parts.pop()
        if part.op in (Op.AND, Op.OR):
            parts += part.args
        elif part.op is Op.NOT and len(part.sides) == 2:
            assert part.args[0].op is Op.PREFIX


@settings(max_examples=examples(300), deadline=None)
@given(SEEDS, DEPTHS)
def test_guarded_is_two_valued(seed: int, depth: int) -> None:
    dags = Dags(seed, kinds=PLAIN)
    condition = dags.condition(depth)
    twin = guarded(when_true(condition))
    for _ in range(4):
        row = dags.row()
        wanted = evaluate(condition, row) is True
        assert (evaluate(twin, row) is True) == wanted, (condition, twin, row)


@settings(max_examples=examples(200), deadline=None)
@given(SEEDS, DEPTHS, st.sampled_from(["integer", "number", "floating", "time", "duration"]))
def test_without_null_equals_every_known_value(seed: int, depth: int, kind: str) -> None:
    dags = Dags(seed, kinds=PLAIN)
    value = getattr(dags, kind)(depth)
    plain = without_null(value)
    assert not plain.type.nullable
    for _ in range(4):
        row = dags.row()
        wanted = evaluate(value, row)
        if wanted is not None:
            assert same(evaluate(plain, row), wanted), (value, plain, row)


@settings(max_examples=examples(300), deadline=None)
@given(SEEDS, st.integers(0, 4))
def test_linear_form_sums_to_the_stored_integer(seed: int, depth: int) -> None:
    dags = Dags(seed, kinds=("int", "decimal", "time", "bool"))
    expr = dags.expression(depth)
    if not expr.type.is_integral:
        return
    summed = total(linear(expr))
    for _ in range(4):
        row = dags.row()
        assert same(evaluate(summed, row), evaluate(expr, row)), (expr, summed, row)


# -- facts ----------------------------------------------------------------------------------------


def test_linear_joins_terms_and_keeps_null() -> None:
    form = linear(ops.sub(ops.add(ops.mul(X, ops.const(3)), Y), ops.sub(Y, SURE)))
    assert dict(form.terms) == {X: 3, Y: 0, SURE: 1}
    assert evaluate(total(form), {("l", "x"): 1, ("r", "y"): None, ("l", "sure"): 2}) is None


def test_a_cast_that_may_overflow_stays() -> None:
    narrow = ops.cast(X, int_of(8))
    assert linear(narrow).terms == ((narrow, 1),)
    assert linear(ops.cast(X, int_of(32))).terms == ((X, 1),)


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        (ops.add(X, ops.const(0)), X),
        (ops.mul(ops.const(1), X), X),
        (ops.mul(SURE, ops.const(0)), ops.const(0, integer(0, 0))),
        (ops.lt(SURE, ops.const(1 << 15)), ops.TRUE),
        (ops.lt(ops.const(1 << 15), SURE), ops.FALSE),
        (ops.eq(SURE, SURE), ops.TRUE),
        (ops.lt(X, ops.const(None)), ops.const(None, BOOL)),
        (ops.case([(ops.TRUE, X)], Y), X),
        (ops.case([(ops.const(None), X)], Y), Y),
    ],
)
def test_fold_finds(expr: Expr, wanted: Expr) -> None:
    assert simplify(expr) is wanted


def test_fold_keeps_what_null_may_change() -> None:
    for expr in (ops.mul(X, ops.const(0)), ops.lt(X, ops.const(1 << 15)), ops.eq(X, X)):
        assert simplify(expr) is expr


def test_fold_leaves_an_overflowing_cast_to_the_row_that_meets_it() -> None:
    expr = ops.cast(ops.const(1000), int_of(8))
    assert simplify(expr) is expr


def test_fold_rounds_decimals_as_evaluation_does() -> None:
    expr = ops.cast(ops.decimal_const(-25, 1), decimal(3, 0))
    assert simplify(expr).attr == -3
