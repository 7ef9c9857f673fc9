import random

import pytest
from amaranth.hdl import Const, Module, Signal, signed, unsigned
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.hw.hls.compare import at_most
from tests.kit.effort import examples

shapes = st.builds(
    lambda is_signed, bits: signed(bits) if is_signed else unsigned(bits),
    st.booleans(),
    st.integers(1, 40),
)


def check(a, b, carry, pairs):
    m = Module()
    m.d.comb += (out := Signal()).eq(at_most(m, a, b, carry))

    async def bench(ctx):
        for x, y, c in pairs:
            for port, value in ((a, x), (b, y), (carry, c)):
                if isinstance(port, Signal):
                    ctx.set(port, value)
            await ctx.delay(1e-9)
            assert ctx.get(out) == (x + c <= y), (x, y, c)

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


def bounds(shape):
    half = 1 << shape.width - 1
    return (-half, half - 1) if shape.signed else (0, 2 * half - 1)


def near(rng, shape, other):
    """A value of the shape, half of the time one that is next to another value."""
    low, high = bounds(shape)
    value = other + rng.randint(-2, 2) if rng.random() < 0.5 else rng.randint(low, high)
    return min(max(value, low), high)


@settings(max_examples=examples(200), deadline=None)
@given(a=shapes, b=shapes, carried=st.booleans(), seed=st.integers(0, 1 << 16))
def test_operands_of_any_shape(a, b, carried, seed):
    rng = random.Random(seed)
    pairs = []
    for _ in range(20):
        x = near(rng, a, 0)
        pairs.append((x, near(rng, b, x), carried and rng.getrandbits(1)))
    check(Signal(a, name="a"), Signal(b, name="b"), Signal() if carried else None, pairs)


@settings(max_examples=examples(200), deadline=None)
@given(a=shapes, b=shapes, left=st.booleans(), seed=st.integers(0, 1 << 16))
def test_a_constant_on_either_side(a, b, left, seed):
    rng = random.Random(seed)
    constant = near(rng, a, 0)
    others = [near(rng, b, constant) for _ in range(20)]
    if left:
        pairs = [(constant, y, c) for y in others for c in (0, 1)]
        check(Const(constant, a), Signal(b, name="b"), Signal(), pairs)
    else:
        pairs = [(x, constant, c) for x in others for c in (0, 1)]
        check(Signal(b, name="b"), Const(constant, a), Signal(), pairs)


@pytest.mark.parametrize("shape", [unsigned(3), signed(3), unsigned(1), signed(1)])
def test_small_operands_in_full(shape):
    low, high = bounds(shape)
    values = range(low, high + 1)
    pairs = [(x, y, c) for x in values for y in values for c in (0, 1)]
    check(Signal(shape, name="a"), Signal(shape, name="b"), Signal(), pairs)
