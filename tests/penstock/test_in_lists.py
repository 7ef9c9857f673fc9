"""IN lists: their values, alone and in rewrites, against one comparison for each value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from penstock.expr import ops
from penstock.expr.columns import evaluate_columns
from penstock.expr.node import Expr, Op, node
from penstock.expr.values import Members
from penstock.plan.forms import join_form
from penstock.plan.logic import when_false, when_not_null, when_null, when_true
from penstock.plan.simplify import simplify
from penstock.types import BOOL, FLOAT32, FLOAT64, STRING, Kind, Type, decimal, integer
from tests.penstock.kit.dags import TIME, vector
from tests.penstock.kit.reference import evaluate

CASES: dict[str, tuple[Type, list[Expr], list[Any]]] = {
    "integers": (
        integer(-100, 100),
        [ops.const(k) for k in (5, -3, 5, 7, 1000)],
        [5, -3, 7, 0, 100, None],
    ),
    "wide integers": (
        integer(-(1 << 70), 1 << 70),
        [ops.const(1 << 69), ops.const(-1), ops.const(1 << 80)],
        [1 << 69, -1, 0, None],
    ),
    "decimals of several scales": (
        decimal(9, 2),
        [ops.decimal_const(150, 2), ops.const(2), ops.const(3), ops.decimal_const(1, 3)],
        [150, 200, 300, 15, 0, None],
    ),
    "integers and floats": (
        integer(0, 9),
        [ops.const(1.0), ops.const(2.5), ops.const(3), ops.const(4)],
        [1, 2, 3, 4, 5, None],
    ),
    "floats": (
        FLOAT64,
        [ops.const(v) for v in (0.0, 1.5, math.inf, math.nan)],
        [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, None],
    ),
    "single floats": (
        FLOAT32,
        [ops.const(v) for v in (0.1, 0.5, 2.0)],
        [float(np.float32(0.1)), 0.5, 2.0, None],
    ),
    "text": (STRING, [ops.const(v) for v in ("a", "", "é")], ["a", "", "é", "b", None]),
    "times": (TIME, [ops.const(k, TIME) for k in (5, 9, 12)], [5, 9, 10, None]),
    "conditions": (BOOL, [ops.TRUE, ops.FALSE], [True, False, None]),
    "NULL among them": (integer(0, 9), [ops.const(1), ops.const(None)], [1, 2, None]),
}


def one_by_one(value: Expr, options: list[Expr]) -> Expr:
    return ops.or_(*(ops.eq(value, option) for option in options))


@pytest.mark.parametrize("name", CASES)
def test_a_list_is_a_comparison_with_each(name: str) -> None:
    dtype, options, values = CASES[name]
    column = ops.column("l", "c", dtype)
    test, plain = ops.is_in(column, options), one_by_one(column, options)
    assert test.type.kind is Kind.BOOL
    columns = {("l", "c"): vector(values, dtype)}
    expected = [evaluate(plain, {("l", "c"): v}) for v in values]
    for expr in (test, simplify(test)):
        assert [evaluate(expr, {("l", "c"): v}) for v in values] == expected
        v = evaluate_columns(expr, columns, len(values))
        known = np.ones(len(values), bool) if v.valid is None else v.valid
        found = [bool(x) if k else None for x, k in zip(v.values, known, strict=True)]
        assert found == expected
    for rewrite in (when_true, when_false, when_null, when_not_null):
        for v in values:
            row = {("l", "c"): v}
            assert (evaluate(rewrite(test), row) is True) == (evaluate(rewrite(plain), row) is True)


def test_lists_are_told_apart_by_their_values() -> None:
    column = ops.column("l", "c", integer(0, 9))
    made = [Members(range(0, 300, k)) for k in (1, 2)]
    first, second = (node(Op.IN, (column,), BOOL, m) for m in made)
    assert first is not second
    assert node(Op.IN, (column,), BOOL, Members(range(0, 300, 2))) is second
    assert repr(Members([1])) != repr(Members(["1"])) != repr(Members([b"1"]))


def test_few_ranges_of_both_sides_are_comparisons() -> None:
    """So every device can run them; more are looked up, which the CPU can."""
    difference = ops.sub(ops.column("l", "x", integer(0, 99)), ops.column("r", "x", integer(0, 99)))
    few = ops.is_in(difference, [ops.const(k) for k in (1, 2, 3, 7)])
    assert few is ops.or_(
        ops.and_(ops.le(ops.const(1), difference), ops.le(difference, ops.const(3))),
        ops.eq(difference, ops.const(7)),
    )
    assert join_form(few, "r").not_band is None
    many = ops.is_in(difference, [ops.const(2 * k) for k in range(65)])
    assert many.op is Op.IN
    assert "is not a comparison" in join_form(many, "r").why_general()
