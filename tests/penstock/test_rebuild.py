"""Rebuilding a node is the identity, for every operation and after every rewrite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DataError, QueryError
from penstock.expr import ops
from penstock.expr.node import Expr, Op, node, transform, walk
from penstock.plan.band import BandForm, NotBandError, band_form
from penstock.plan.general import GeneralForm, general_form
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
from penstock.query.statement import null_supplied
from penstock.types import BOOL, Kind, Type, decimal, int_of, integer
from penstock.zones import zone_of
from tests.kit.effort import examples
from tests.penstock.kit.dags import PALETTE, Dags, same
from tests.penstock.kit.reference import evaluate

SEEDS = st.integers(0, 1 << 32)
DEPTHS = st.integers(1, 4)

P = ops.column("l", "p", decimal(10, 2))
Q = ops.column("r", "q", int_of(64))
I = ops.column("l", "i", int_of(32))  # noqa: E741
F = ops.column("l", "f", Type(Kind.FLOAT32))
FLAG = ops.column("r", "flag", BOOL)
NAME = ops.column("l", "name", Type(Kind.STRING))
DAY = ops.column("r", "day", Type(Kind.DATE, -9999, 9999, unit="D"))
SPAN = ops.column("l", "span", Type(Kind.DURATION, -9999, 9999, unit="us"))
MOMENT = ops.column("l", "moment", Type(Kind.TIMESTAMP, -9999, 9999, unit="s"))
FINE = ops.column("r", "fine", Type(Kind.TIMESTAMP, -9999, 9999, unit="ns"))
HOUR = ops.duration_const(1, "s")
ZONE = zone_of("Pacific/Apia")

#: By operation: what SQL makes of operands of several kinds, scales and units.
OF_EVERY_OP = {
    Op.ADD: [ops.add(P, Q), ops.add(MOMENT, HOUR), ops.add(DAY, I), ops.add(F, P)],
    Op.SUB: [ops.sub(P, Q), ops.sub(MOMENT, FINE), ops.sub(SPAN, HOUR)],
    Op.MUL: [ops.mul(P, Q), ops.mul(P, P), ops.mul(SPAN, I), ops.mul(P, F)],
    Op.NEG: [ops.neg(P), ops.neg(SPAN)],
    Op.ABS: [ops.absolute(ops.sub(P, Q)), ops.absolute(F)],
    Op.LEAST: [ops.least(P, Q, I), ops.least(MOMENT, FINE, DAY)],
    Op.GREATEST: [ops.greatest(Q, P), ops.greatest(SPAN, HOUR)],
    Op.MOD: [ops.mod(P, Q), ops.mod(Q, P), ops.mod(SPAN, HOUR), ops.mod(F, P)],
    Op.DIV: [ops.div(I, Q), ops.div(I, ops.const(3))],
    Op.FUNCTION: [ops.call("sqrt", P), ops.divide(F, P), ops.call("floor", F)],
    Op.BIT_AND: [ops.bit_and(I, Q)],
    Op.BIT_OR: [ops.bit_or(I, Q)],
    Op.BIT_XOR: [ops.bit_xor(I, Q)],
    Op.BIT_NOT: [ops.bit_not(I)],
    Op.SHL: [ops.shl(I, ops.bit_and(Q, ops.const(7)))],
    Op.SHR: [ops.shr(Q, ops.const(3))],
    Op.LT: [ops.lt(P, Q), ops.lt(MOMENT, FINE), ops.lt(F, Q)],
    Op.LE: [ops.le(I, P), ops.le(DAY, MOMENT)],
    Op.EQ: [ops.eq(P, Q), ops.eq(FLAG, FLAG), ops.eq(SPAN, HOUR)],
    Op.IN: [
        ops.is_in(P, [ops.const(k) for k in (3, 5, 9)]),
        ops.is_in(ops.add(P, Q), [ops.const(2 * k) for k in range(99)]),
        ops.is_in(NAME, [ops.const(text) for text in "ab"]),
    ],
    Op.PREFIX: [ops.prefix(NAME, ops.const("a"))],
    Op.AND: [ops.and_(FLAG, ops.lt(P, Q))],
    Op.OR: [ops.or_(FLAG, ops.lt(P, Q))],
    Op.NOT: [ops.not_(FLAG)],
    Op.IS_NULL: [ops.is_null(P)],
    Op.CHECKED: [ops.typed(Op.CHECKED, (P, FLAG), P.type, ("it fails",))],
    Op.CASE: [ops.case([(FLAG, P), (ops.lt(P, Q), Q)], None), ops.case([(FLAG, DAY)], FINE)],
    Op.CAST: [
        ops.cast(Q, int_of(32)),
        ops.cast(P, decimal(5, 1)),
        ops.cast(Q, decimal(10, 2)),
        ops.cast(FLAG, int_of(8)),
        ops.cast(FINE, Type(Kind.DATE, -9, 9, unit="D")),
        ops.to_float(P),
        ops.rescale(I, 0),
    ],
    Op.LOCAL: [ops.to_local(MOMENT, ZONE), ops.to_local(ops.add(FINE, HOUR), ZONE)],
    Op.INSTANT: [
        ops.to_instant(DAY, ZONE, start=True),
        ops.to_instant(ops.to_local(FINE, ZONE), ZONE, FINE),
    ],
    Op.RAW: [node(Op.RAW, (P,), integer(P.type.lo, P.type.hi))],
}


def is_rebuilt(*roots: Expr) -> bool:
    """Whether rebuilding every node of the expressions gives the node itself."""
    for one in walk(*roots):
        again = ops.remake(one, one.args)
        assert again is one, f"{one!r}: {one.type!r} became {again!r}: {again.type!r}"
    return all(transform(root, ops.remake) is root for root in roots)


def test_every_operation_is_there() -> None:
    assert OF_EVERY_OP.keys() == set(Op) - {Op.CONST, Op.COLUMN, Op.KEY}


@pytest.mark.parametrize("op", OF_EVERY_OP)
def test_of_every_operation(op: Op) -> None:
    assert any(one.op is op for made in OF_EVERY_OP[op] for one in walk(made))
    assert is_rebuilt(*OF_EVERY_OP[op])


@settings(max_examples=examples(300), deadline=None)
@given(SEEDS, DEPTHS, st.booleans())
def test_of_what_sql_makes(seed: int, depth: int, casts: bool) -> None:
    assert is_rebuilt(Dags(seed, narrow_casts=casts).expression(depth))


@settings(max_examples=examples(200), deadline=None)
@given(SEEDS, DEPTHS, st.booleans())
def test_of_what_rewrites_make(seed: int, depth: int, casts: bool) -> None:
    dags = Dags(seed, narrow_casts=casts)
    condition, value = dags.condition(depth), dags.expression(depth)
    assert is_rebuilt(simplify(condition), simplify(value))
    assert is_rebuilt(*(f(condition) for f in (when_true, when_false, when_null, when_not_null)))
    assert is_rebuilt(when_null(value), when_not_null(value), null_supplied(value))
    if value.type.is_integral:
        assert is_rebuilt(total(linear(value)))


@settings(max_examples=examples(200), deadline=None)
@given(SEEDS, DEPTHS)
def test_of_what_has_no_null(seed: int, depth: int) -> None:
    dags = Dags(seed, kinds=("int", "decimal", "float", "time", "span", "bool"))
    assert is_rebuilt(without_null(dags.expression(depth)))
    assert is_rebuilt(guarded(when_true(dags.condition(depth))))


@settings(max_examples=examples(200), deadline=None)
@given(SEEDS, DEPTHS, st.sampled_from("lr"))
def test_of_forms(seed: int, depth: int, window: str) -> None:
    dags = Dags(seed)
    formula = when_true(simplify(dags.condition(depth)))
    value = dags.integer(depth)
    with suppress(NotBandError):
        assert is_rebuilt(*_of_band(band_form(formula, window)))
    try:
        form = general_form(ops.and_(formula, when_not_null(value)), window, value)
    except QueryError:
        return
    assert is_rebuilt(*_of_general(form))
    types = [[s.expr.type for s in keys] for keys in (form.stream_keys, form.window_keys)]
    narrow = [
        [t.within(0, min(3, t.hi)) if t.is_integral and t.lo <= 0 <= t.hi else t for t in own]
        for own in types
    ]
    flags = {
        ("s", k): bool(seed >> k & 1)
        for k, key in enumerate(form.stream_keys)
        if key.kind == "flag" and seed >> k & 2
    }
    for stream, of_window in (types, narrow):
        if all(t.is_integral or t.is_float or t.kind is Kind.BOOL for t in stream + of_window):
            program = form.program(stream, of_window, flags)
            assert program.value is not None
            assert is_rebuilt(program.predicate, program.value)


def _of_band(form: BandForm) -> Iterator[Expr]:
    for test in form.tests:
        yield from (test.key, *test.when, *(b.expr for b in test.lo + test.hi))


def _of_general(form: GeneralForm) -> Iterator[Expr]:
    assert form.value is not None
    yield from (form.predicate, form.value)
    for key in form.stream_keys + form.window_keys:
        yield key.expr


@settings(max_examples=examples(300), deadline=None)
@given(SEEDS, DEPTHS)
def test_columns_without_null_keep_the_value(seed: int, depth: int) -> None:
    """What a table without NULL lets its expressions become."""
    dags = Dags(seed)
    expr = dags.expression(depth)

    def known(one: Expr, args: tuple[Expr, ...]) -> Expr:
        if one.op is Op.COLUMN:
            return node(Op.COLUMN, (), one.type.as_nullable(False), one.attr)
        return ops.remake(one, args)

    without = transform(expr, known)
    assert is_rebuilt(without)
    kinds = [(e.type.kind, e.type.scale, e.type.unit) for e in (expr, without)]
    assert kinds[0] == kinds[1]
    for _ in range(4):
        row = {key: dags.value(dtype.as_nullable(False)) for key, dtype in dags.columns().items()}
        assert same(evaluate(without, row), evaluate(expr, row)), (expr, row)


def test_the_columns_are_of_every_kind() -> None:
    kinds = {dtype.kind for own in PALETTE.values() for dtype in own.values()}
    assert kinds == set(Kind) - {Kind.BINARY, Kind.NULL, Kind.OTHER}


# -- facts ----------------------------------------------------------------------------------------


def test_a_scale_is_not_applied_twice() -> None:
    expr = ops.sub(P, Q)
    assert evaluate(ops.remake(expr, expr.args), {("l", "p"): 725, ("r", "q"): 7}) == 25


def test_bounds_follow_the_operands() -> None:
    narrow = node(Op.COLUMN, (), P.type.within(0, 10), P.attr)
    expr = ops.add(P, Q)
    again = ops.remake(expr, (narrow, expr.args[1]))
    assert (again.type.lo, again.type.hi) == (Q.type.lo * 100, 10 + Q.type.hi * 100)
    assert (again.type.kind, again.type.scale) == (Kind.DECIMAL, 2)


def test_a_cast_keeps_what_it_checks() -> None:
    expr = ops.cast(Q, int_of(8))
    known = node(Op.COLUMN, (), Q.type.as_nullable(False), Q.attr)
    again = ops.remake(expr, (known,))
    assert again.type == int_of(8, nullable=False)
    with pytest.raises(DataError, match="overflows"):
        evaluate(again, {Q.attr: 300})
    # One that nothing overflows follows its operand, which zero may stand in for.
    exact = ops.rescale(ops.column("l", "n", integer(5, 9)), 0)
    zero = ops.column("l", "n", integer(0, 9))
    assert ops.remake(exact, (zero,)).type.lo == 0


def test_a_remainder_declared_without_null_stays_so() -> None:
    divisor = ops.column("r", "d", integer(0, 3, nullable=False))
    plain = ops.column("l", "x", integer(0, 9, nullable=False))
    expr = ops.mod(plain, divisor)
    assert expr.type.nullable
    twin = ops.two_valued(expr, expr.args)
    assert not twin.type.nullable
    assert ops.remake(twin, twin.args) is twin
    assert ops.remake(expr, expr.args) is expr
    assert ops.remake(ops.mod(plain, ops.const(2)), (plain, divisor)).type.nullable
