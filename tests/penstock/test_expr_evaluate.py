"""Plain and columnar evaluation agree, and no value leaves the bounds of its type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DataError
from penstock.expr import columns, ops
from penstock.expr.columns import Vector, evaluate_columns
from penstock.expr.node import Expr, Op, walk
from penstock.types import FLOAT32, Type, decimal, int_of
from tests.kit.effort import examples
from tests.penstock.kit.dags import DATE, PALETTE, Dags, same, vector
from tests.penstock.kit.reference import evaluate

SEEDS = st.integers(0, 1 << 32)


def checked_columns(expr: Expr, rows: list, types: dict) -> Vector:
    vectors = {key: vector([row[key] for row in rows], dtype) for key, dtype in types.items()}
    return evaluate_columns(expr, vectors, len(rows))


def item(v: Vector, row: int, dtype: Type) -> Any:
    if v.valid is not None and not v.valid[row]:
        return None
    value = v.values[row]
    return value.item() if isinstance(value, np.generic) else value


@settings(max_examples=examples(300), deadline=None)
@given(SEEDS, st.integers(0, 5))
def test_every_node_stays_in_its_type(seed: int, depth: int) -> None:
    dags = Dags(seed)
    expr = dags.expression(depth)
    for _ in range(4):
        row = dags.row()
        for node in walk(expr):
            value = evaluate(node, row)
            if value is None:
                assert node.type.nullable, node
            elif node.type.is_integral:
                assert node.type.lo <= value <= node.type.hi, node


@settings(max_examples=examples(400), deadline=None)
@given(SEEDS, st.integers(0, 5), st.booleans())
def test_columns_agree_with_plain_evaluation(seed: int, depth: int, casts: bool) -> None:
    dags = Dags(seed, narrow_casts=casts)
    expr = dags.expression(depth)
    rows = [dags.row() for _ in range(7)]
    try:
        wanted = [evaluate(expr, row) for row in rows]
    except DataError:
        with pytest.raises(DataError):
            checked_columns(expr, rows, dags.columns())
        return
    found = checked_columns(expr, rows, dags.columns())
    assert len(found.values) == len(rows)
    for k, value in enumerate(wanted):
        got = item(found, k, expr.type)
        if expr.type.is_integral and value is not None:
            assert found.lo <= value <= found.hi
        assert same(got, value), (expr, rows[k], got, value)


@settings(max_examples=200, deadline=None)
@given(SEEDS, st.integers(0, 5), st.booleans())
def test_single_values_agree_with_plain_evaluation(seed: int, depth: int, casts: bool) -> None:
    dags = Dags(seed, narrow_casts=casts)
    expr = dags.expression(depth)
    row = dags.row()
    values = {leaf: row[leaf.attr] for leaf in walk(expr) if leaf.op is Op.COLUMN}
    try:
        wanted = evaluate(expr, row)
    except DataError:
        with pytest.raises(DataError):
            columns.evaluate(expr, values)
        return
    got = columns.evaluate(expr, values)
    assert same(got, wanted), (expr, row, got, wanted)
    assert type(got) is type(wanted)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_constant_has_the_length_of_the_rows(rows: int) -> None:
    for expr in (ops.const(5), ops.const(None), ops.const("x"), ops.const(0.5)):
        found = evaluate_columns(expr, {}, rows)
        assert len(found.values) == rows
        assert found.valid is None or len(found.valid) == rows


def test_null_where_the_divisor_is_zero() -> None:
    for a, b in ((ops.const(5), ops.const(0)), (ops.const(5.0), ops.const(-0.0))):
        assert evaluate(ops.mod(a, b), {}) is None
        assert not evaluate_columns(ops.mod(a, b), {}, 1).valid[0]


@pytest.mark.parametrize(("a", "b", "wanted"), [(-7, 3, -1), (7, -3, 1), (-7, -3, -1), (6, 3, 0)])
def test_the_remainder_has_the_sign_of_the_dividend(a: int, b: int, wanted: int) -> None:
    expr = ops.mod(ops.const(a), ops.const(b))
    assert evaluate(expr, {}) == wanted
    assert evaluate_columns(expr, {}, 1).values[0] == wanted
    wide = ops.mod(ops.const(a + (a // abs(a)) * 3 * 10**30), ops.const(b))
    assert evaluate(wide, {}) == wanted


def test_smallest_int64_by_minus_one() -> None:
    column = ops.column("l", "i64", PALETTE["int"]["i64"])
    expr = ops.mod(column, ops.const(-1))
    found = checked_columns(expr, [{("l", "i64"): -(1 << 63)}], {("l", "i64"): column.type})
    assert found.values[0] == 0


def test_integers_beyond_64_bits_are_exact() -> None:
    column = ops.column("l", "u64", PALETTE["int"]["u64"])
    top = (1 << 64) - 1
    cube = ops.mul(ops.mul(column, column), column)
    found = checked_columns(cube, [{("l", "u64"): top}], {("l", "u64"): column.type})
    assert found.values[0] == top**3
    assert evaluate(cube, {("l", "u64"): top}) == top**3


def test_a_large_integer_is_rounded_to_float32_once() -> None:
    # Through float64 it would round twice, to the wrong neighbour.
    value = (1 << 60) + (1 << 36) + 1
    column = ops.column("l", "i64", int_of(64))
    expr = ops.cast(column, FLOAT32)
    wanted = float((1 << 60) + (1 << 37))
    assert evaluate(expr, {("l", "i64"): value}) == wanted
    found = checked_columns(expr, [{("l", "i64"): value}], {("l", "i64"): column.type})
    assert float(found.values[0]) == wanted


CASTS = [
    (ops.const(2.5), decimal(5, 0), 3),
    (ops.const(-2.5), decimal(5, 0), -3),
    (ops.const(-2.9), int_of(32), -2),
    (ops.decimal_const(-29, 1), int_of(8), -2),
    (ops.decimal_const(25, 1), decimal(4, 0), 3),
    (ops.decimal_const(-25, 1), decimal(4, 0), -3),
    (ops.const(True), int_of(8), 1),
    (ops.const(-1, PALETTE["time"]["ms"]), DATE, -1),
    (ops.const(-1, PALETTE["time"]["ms"]), int_of(64), -1),
    (ops.const(1999, PALETTE["time"]["ms"]), int_of(64), 1),
]


@pytest.mark.parametrize(("value", "dtype", "wanted"), CASTS)
def test_casts_round_as_spark_does(value: Expr, dtype: Type, wanted: int) -> None:
    expr = ops.cast(value, dtype)
    assert evaluate(expr, {}) == wanted
    assert evaluate_columns(expr, {}, 1).values[0] == wanted


OVERFLOWS = [
    (ops.const(128), int_of(8), "CAST of 128 to integer overflows -128..127"),
    (ops.const(1e30), int_of(64), "overflows"),
    (ops.const(float("nan")), int_of(64), "it is not a finite number"),
    (ops.decimal_const(99995, 1), decimal(4, 0), "overflows -9999..9999"),
    (ops.const(10**13, PALETTE["time"]["ms"]), int_of(32), "overflows"),
]


@pytest.mark.parametrize(("value", "dtype", "message"), OVERFLOWS)
def test_a_cast_that_does_not_fit_is_an_error(value: Expr, dtype: Type, message: str) -> None:
    expr = ops.cast(value, dtype)
    with pytest.raises(DataError, match=message.replace(".", r"\.")):
        evaluate(expr, {})
    with pytest.raises(DataError, match=message.replace(".", r"\.")):
        evaluate_columns(expr, {}, 1)
