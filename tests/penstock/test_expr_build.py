"""Operands that do not fit are refused with one sentence; bounds are sound and mostly tight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from penstock.errors import QueryError
from penstock.expr import interval, ops
from penstock.expr.node import Expr, Op
from penstock.expr.ops import ExprTypeError
from penstock.plan.linear import linear
from penstock.types import (
    BINARY,
    BOOL,
    FLOAT32,
    FLOAT64,
    STRING,
    Kind,
    Type,
    bits_for,
    decimal,
    int_of,
    integer,
)

TIMESTAMP = Type(Kind.TIMESTAMP, 0, 1000, unit="ms")
COLUMNS = {
    "i": int_of(32),
    "u": int_of(8, signed=False, nullable=False),
    "d": decimal(9, 2),
    "f": FLOAT64,
    "g": FLOAT32,
    "s": STRING,
    "y": BINARY,
    "k": BOOL,
    "ts": TIMESTAMP,
    "us": replace(TIMESTAMP, unit="us"),
    "day": Type(Kind.DATE, 0, 1000, unit="D"),
    "dur": Type(Kind.DURATION, 0, 1000, unit="s"),
}


def col(name: str) -> Expr:
    return ops.column("l", name, COLUMNS[name])


N, U, D, F, G, S, Y, K, TS, US, DAY, DUR = (col(name) for name in COLUMNS)
NULL = ops.const(None)

ERRORS: list[tuple[Callable[[], Expr], str]] = [
    (lambda: ops.const(object()), "a constant cannot be a object"),
    (lambda: ops.add(N, S), "the sum needs numbers, not string"),
    (lambda: ops.sub(K, N), "the difference needs numbers, not boolean"),
    (lambda: ops.mod(TS, N), "the remainder needs numbers, not timestamp[ms]"),
    (lambda: ops.mod(DUR, N), "the remainder of duration[s] and integer has no meaning"),
    (lambda: ops.mul(TS, N), "a product needs numbers, not timestamp[ms]"),
    (lambda: ops.mul(DUR, F), "a product needs numbers, not duration[s]"),
    (lambda: ops.add(TS, N), "a timestamp[ms] moves by an INTERVAL, not by an integer"),
    (
        lambda: ops.add(DUR, N),
        "the sum of duration[s] and integer has no meaning; write INTERVAL",
    ),
    (lambda: ops.neg(S), "unary minus needs a number, not string"),
    (lambda: ops.absolute(TS), "abs needs a number, not timestamp[ms]"),
    (lambda: ops.least(N), "least needs at least two arguments"),
    (lambda: ops.greatest(S, S), "greatest needs numbers or times, not string"),
    (lambda: ops.bit_and(N, F), "& needs integers, not float64"),
    (lambda: ops.bit_not(D), "~ needs integers, not decimal(scale 2)"),
    (lambda: ops.shl(N, N), "limit it to 0..63, for example with `& 63`"),
    (lambda: ops.shr(N, ops.const(64)), "the shift amount may be 64 to 64"),
    (lambda: ops.le(K, K), "`<=` does not order conditions; they have equality"),
    (lambda: ops.call("sqrt", S), "sqrt needs numbers, not string"),
    (lambda: ops.div(S, S), "DIV needs integers or decimals, not string"),
    (lambda: ops.eq(S, N), "`=` of string and integer has no meaning; compare text with text"),
    (lambda: ops.eq(S, Y), "`=` of string and binary has no meaning"),
    (lambda: ops.lt(TS, DUR), "`<` of timestamp[ms] and duration[s] has no meaning"),
    (lambda: ops.eq(K, N), "`=` of boolean and integer has no meaning"),
    (lambda: ops.prefix(N, N), "startswith needs text, not integer"),
    (lambda: ops.and_(N, K), "AND needs conditions, not integer"),
    (lambda: ops.or_(K, F), "OR needs conditions, not float64"),
    (lambda: ops.not_(S), "NOT needs conditions, not string"),
    (lambda: ops.case([(N, N)], N), "CASE WHEN needs conditions, not integer"),
    (lambda: ops.case([(K, N)], S), "CASE of integer and string has no meaning"),
    (lambda: ops.cast(S, int_of(8)), "CAST from string to integer is not supported"),
    (lambda: ops.cast(N, COLUMNS["ts"]), "CAST from integer to timestamp[ms] is not supported"),
]


@pytest.mark.parametrize(("make", "message"), ERRORS, ids=[m for _, m in ERRORS])
def test_errors(make: Callable[[], Expr], message: str) -> None:
    with pytest.raises(ExprTypeError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, QueryError)


def test_integers_are_limited() -> None:
    value = N
    for _ in range(4):
        value = ops.mul(value, value)
    with pytest.raises(ExprTypeError, match="the value may need more than 512 bits"):
        ops.mul(value, ops.mul(N, N))


TYPES = [
    (ops.add(N, U), Kind.INT, ""),
    (ops.add(N, D), Kind.DECIMAL, ""),
    (ops.add(N, G), Kind.FLOAT64, ""),
    (ops.add(G, G), Kind.FLOAT32, ""),
    (ops.add(G, F), Kind.FLOAT64, ""),
    (ops.sub(TS, US), Kind.DURATION, "us"),
    (ops.sub(DAY, DAY), Kind.DURATION, "D"),
    (ops.add(DAY, N), Kind.DATE, "D"),
    (ops.add(DAY, DUR), Kind.TIMESTAMP, "s"),
    (ops.sub(TS, DUR), Kind.TIMESTAMP, "ms"),
    (ops.mul(N, DUR), Kind.DURATION, "s"),
    (ops.least(TS, DAY), Kind.TIMESTAMP, "ms"),
    (ops.add(NULL, N), Kind.INT, ""),
    (ops.case([(K, N)]), Kind.INT, ""),
    (ops.cast(DAY, TIMESTAMP), Kind.TIMESTAMP, "ms"),
]


@pytest.mark.parametrize(("expr", "kind", "unit"), TYPES)
def test_types_of_results(expr: Expr, kind: Kind, unit: str) -> None:
    assert (expr.type.kind, expr.type.unit) == (kind, unit)


def test_what_is_null_only_if_all_is() -> None:
    assert not ops.least(N, U).type.nullable
    assert ops.least(N, N).type.nullable
    assert not ops.is_null(N).type.nullable
    assert ops.mod(U, U).type.nullable
    assert not ops.mod(U, ops.const(7)).type.nullable
    assert ops.case([(K, U)]).type.nullable
    assert not ops.case([(K, U)], U).type.nullable


def test_equal_expressions_are_one_node() -> None:
    assert ops.add(N, U) is ops.add(N, U)
    assert ops.const(0.0) is not ops.const(-0.0)
    assert ops.const(True) is not ops.const(1)
    assert ops.const(float("nan")) is ops.const(float("nan"))


def test_junctions_are_flat_and_short() -> None:
    a, b, c = ops.lt(N, U), ops.eq(N, U), ops.is_null(N)
    assert ops.and_(a, ops.and_(b, c)).args == (a, b, c)
    assert ops.or_(a, a) is a
    assert ops.and_(a, ops.FALSE) is ops.FALSE
    assert ops.or_() is ops.FALSE
    assert ops.not_(ops.not_(a)) is a


def test_widening_casts_disappear() -> None:
    assert linear(ops.cast(U, int_of(16))) == linear(U)
    assert not ops.cast(U, int_of(16)).may_fail
    assert ops.cast(S, STRING) is S
    assert ops.cast(N, int_of(8)).op is Op.CAST


# -- intervals ------------------------------------------------------------------------------------

EDGES = (-5, -4, -1, 0, 1, 3, 6)
BOXES = [(a, b) for a, b in product(EDGES, EDGES) if a <= b]
TIGHT = {
    "add": (interval.add, lambda a, b: a + b),
    "sub": (interval.sub, lambda a, b: a - b),
    "mul": (interval.mul, lambda a, b: a * b),
    "least": (interval.BOUNDS[Op.LEAST], min),
    "greatest": (interval.BOUNDS[Op.GREATEST], max),
    "hull": (interval.hull, None),
}
LOOSE = {
    "mod": (interval.mod, lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1) if b else 0),
    "and": (interval.bit_and, lambda a, b: a & b),
    "or": (interval.bit_or, lambda a, b: a | b),
    "xor": (interval.bit_xor, lambda a, b: a ^ b),
}


def values(box: tuple[int, int]) -> range:
    return range(box[0], box[1] + 1)


@pytest.mark.parametrize("name", [*TIGHT, *LOOSE])
def test_bounds_of_two_operands(name: str) -> None:
    rule, compute = (TIGHT | LOOSE)[name]
    for a, b in product(BOXES, BOXES):
        lo, hi = rule(a, b)
        if compute is None:
            assert (lo, hi) == (min(a[0], b[0]), max(a[1], b[1]))
            continue
        found = [compute(x, y) for x in values(a) for y in values(b)]
        assert lo <= min(found)
        assert max(found) <= hi
        if name in TIGHT:
            assert (lo, hi) == (min(found), max(found))


@pytest.mark.parametrize(
    ("rule", "compute"),
    [
        (interval.BOUNDS[Op.NEG], lambda a: -a),
        (interval.absolute, abs),
        (interval.square, lambda a: a * a),
        (interval.BOUNDS[Op.BIT_NOT], lambda a: ~a),
    ],
)
def test_bounds_of_one_operand(rule: Callable, compute: Callable) -> None:
    for a in BOXES:
        found = [compute(x) for x in values(a)]
        assert rule(a) == (min(found), max(found))


@pytest.mark.parametrize(
    ("rule", "compute"),
    [(interval.BOUNDS[Op.SHL], lambda a, n: a << n), (interval.shr, lambda a, n: a >> n)],
)
def test_bounds_of_shifts(rule: Callable, compute: Callable) -> None:
    for a, n in product(BOXES, [(0, 0), (0, 3), (1, 2), (2, 5)]):
        found = [compute(x, y) for x in values(a) for y in values(n)]
        assert rule(a, n) == (min(found), max(found))


@pytest.mark.parametrize("box", BOXES)
def test_registers_hold_their_bounds(box: tuple[int, int]) -> None:
    bits = bits_for(*box)
    least, most = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if box[0] < 0 else (0, (1 << bits) - 1)
    )
    assert least <= box[0]
    assert box[1] <= most
    assert integer(*box).bits == bits
