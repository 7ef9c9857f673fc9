import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expr import ops
from penstock.expr.node import Op, node, transform, walk
from penstock.hw.hls.carry import absorb_carries
from penstock.types import BOOL, integer
from tests.kit.effort import examples
from tests.penstock.kit.reference import evaluate

BOOLEAN = BOOL.as_nullable(False)
TYPES = [
    integer(-100, 27, nullable=False),
    integer(0, 255, nullable=False),
    integer(-9, -2, nullable=False),
    integer(-1, 0, nullable=False),
]
KEYS = [ops.key("s", i, t) for i, t in enumerate(TYPES)]
FLAG = ops.key("w", 0, BOOLEAN)
BIT = node(Op.CAST, (FLAG,), integer(0, 1, nullable=False))

numbers = st.recursive(
    st.sampled_from([*KEYS, BIT, *map(ops.const, (-8, 0, 3, 40))]),
    lambda below: st.one_of(
        below.map(ops.absolute),
        below.map(ops.neg),
        st.tuples(st.sampled_from([ops.add, ops.sub]), below, below).map(
            lambda x: x[0](x[1], x[2])
        ),
        st.just(BIT),
    ),
    max_leaves=12,
)
comparisons = st.tuples(
    st.sampled_from([ops.lt, ops.le, ops.eq]), numbers.map(ops.absolute), numbers
).flatmap(lambda x: st.sampled_from([x[0](x[1], x[2]), x[0](x[2], x[1])]))


def expanded(expr):
    """The carries as additions again, for plain evaluation."""

    def rule(old, args):
        if len(args) == 3 and old.op in (Op.ADD, Op.LE):
            first = ops.add(args[0], args[2])
            return (ops.add if old.op is Op.ADD else ops.le)(first, args[1])
        return node(old.op, args, old.type, old.attr)

    return transform(expr, rule)


def check(expr, seed):
    rng = random.Random(seed)
    found = absorb_carries(expr)
    assert not any(x.op is Op.ABS for x in walk(found))
    plain = expanded(found)
    for _ in range(30):
        row = {
            ("s", i): rng.choice([t.lo, t.hi, rng.randint(t.lo, t.hi)]) for i, t in enumerate(TYPES)
        }
        row["w", 0] = rng.random() < 0.5
        assert evaluate(plain, row) == evaluate(expr, row)
        for part in walk(found):
            value = evaluate(expanded(part), row)
            assert not part.type.is_integral or part.type.lo <= value <= part.type.hi
    return found


@settings(max_examples=examples(300), deadline=None)
@given(expr=st.one_of(numbers, comparisons), seed=st.integers(0, 1 << 16))
def test_same_value_within_its_bounds(expr, seed):
    check(expr, seed)


A, B, C = KEYS[0], ops.sub(KEYS[1], ops.const(100)), ops.add(KEYS[3], KEYS[0])
DISTANCE = ops.add(ops.absolute(A), ops.absolute(B))


@pytest.mark.parametrize(
    ("expr", "chains"),
    [
        (ops.lt(ops.absolute(A), ops.const(20)), 1),
        (ops.le(ops.const(20), ops.absolute(A)), 1),
        (ops.lt(DISTANCE, ops.const(70)), 3),
        (ops.lt(DISTANCE, KEYS[1]), 4),
        (ops.le(DISTANCE, KEYS[1]), 3),
        (ops.lt(KEYS[1], DISTANCE), 3),
        (ops.lt(ops.add(DISTANCE, ops.absolute(C)), ops.const(70)), 5),
        (ops.lt(ops.sub(KEYS[1], ops.absolute(A)), ops.const(9)), 2),
        (ops.lt(ops.neg(ops.absolute(A)), ops.const(-9)), 1),
    ],
)
def test_chains(expr, chains):
    """Additions and comparisons that are left, without tests of a sign."""
    found = check(expr, 1)
    carry = {Op.ADD, Op.SUB, Op.NEG, Op.LT, Op.LE}
    is_sign = [x for x in walk(found) if x.op is Op.LT and x.args[1].attr == 0]
    assert sum(x.op in carry for x in walk(found)) - len(is_sign) == chains


@pytest.mark.parametrize(
    "expr",
    [
        ops.lt(ops.absolute(A), ops.const(20)),
        ops.le(ops.absolute(A), ops.const(20)),
        ops.lt(ops.const(20), ops.absolute(A)),
        ops.le(ops.const(20), ops.absolute(A)),
        ops.sub(KEYS[3], ops.absolute(A)),
        ops.neg(ops.absolute(A)),
        ops.lt(ops.const(-20), ops.sub(KEYS[3], ops.absolute(A))),
    ],
)
def test_each_value(expr):
    """A bound of a comparison is met by two values in a hundred: here by all of them."""
    plain = expanded(absorb_carries(expr))
    for a in range(TYPES[0].lo, TYPES[0].hi + 1):
        for small in (-1, 0):
            row = {("s", 0): a, ("s", 3): small}
            assert evaluate(plain, row) == evaluate(expr, row)
