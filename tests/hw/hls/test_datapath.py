import random

import pytest
from amaranth.hdl import Fragment, Module, Signal
from amaranth.sim import Simulator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.expr import ops
from penstock.expr.node import Op, node
from penstock.hw.hls.compare import SIMULATION
from penstock.hw.hls.datapath import Datapath
from penstock.hw.hls.delay import DelayModel
from penstock.hw.hls.lower import lower
from penstock.hw.hls.schedule import schedule
from penstock.program import GeneralProgram
from penstock.types import BOOL, integer
from tests.kit.effort import examples
from tests.penstock.kit.reference import evaluate

BOOLEAN = BOOL.as_nullable(False)
#: One stage for everything, a comfortable clock, and one that leaves a stage per operation.
MODELS = [DelayModel(period_ps=10**9), DelayModel(), DelayModel(period_ps=1000)]
TYPES = [
    integer(-100, 27, nullable=False),
    integer(0, 255, nullable=False),
    integer(3, 3, nullable=False),
    integer(-(1 << 39), 1 << 39, nullable=False),
    integer(-1, 0, nullable=False),
]
SHIFT = integer(0, 9, nullable=False)
STREAM = (*TYPES, BOOLEAN, SHIFT)
WINDOW = (*reversed(TYPES), BOOLEAN, SHIFT)

numbers = st.one_of(
    st.sampled_from(
        [
            *(ops.key("s", i, t) for i, t in enumerate(STREAM) if t.is_integral),
            *(ops.key("w", i, t) for i, t in enumerate(WINDOW) if t.is_integral),
        ]
    ),
    st.sampled_from([-129, -7, -1, 0, 1, 5, 64, 1000]).map(ops.const),
)
conditions = st.sampled_from([ops.key("s", 5, BOOLEAN), ops.key("w", 5, BOOLEAN)])
amounts = st.sampled_from(
    [ops.key("s", 6, SHIFT), ops.key("w", 6, SHIFT), ops.const(0), ops.const(3)]
)


def narrow(expr):
    """Deep products would only grow; a remainder keeps them testable."""
    return expr if expr.type.bits <= 90 else ops.bit_and(expr, ops.const((1 << 60) - 1))


def number_of(children):
    flags, values = children
    two = st.tuples(values, values)
    binary = [
        *(ops.add, ops.sub, ops.mul, ops.least, ops.greatest),
        *(ops.bit_and, ops.bit_or, ops.bit_xor),
    ]
    return st.one_of(
        st.tuples(st.sampled_from(binary), two).map(lambda x: x[0](*x[1])),
        st.tuples(st.sampled_from([ops.neg, ops.absolute, ops.bit_not]), values).map(
            lambda x: x[0](x[1])
        ),
        st.tuples(values, values, values).map(lambda x: ops.least(*x)),
        st.tuples(values, st.sampled_from([1, 2, 3, 7, 64, 100, -5])).map(
            lambda x: ops.mod(x[0], ops.const(x[1]))
        ),
        st.tuples(st.sampled_from([ops.shl, ops.shr]), values, amounts).map(lambda x: x[0](*x[1:])),
        st.tuples(flags, values, flags, values, values).map(
            lambda x: ops.case([(x[0], x[1]), (x[2], x[3])], x[4])
        ),
        flags.map(lambda x: node(Op.CAST, (x,), integer(0, 1, nullable=False))),
    ).map(narrow)


def flag_of(children):
    flags, values = children
    return st.one_of(
        st.tuples(st.sampled_from([ops.lt, ops.le, ops.eq]), values, values).map(
            lambda x: x[0](x[1], x[2])
        ),
        st.tuples(st.sampled_from([ops.and_, ops.or_]), flags, flags, flags).map(
            lambda x: x[0](*x[1:])
        ),
        flags.map(ops.not_),
    )


def grow(depth):
    if depth == 0:
        return conditions, numbers
    below = grow(depth - 1)
    return st.one_of(below[0], flag_of(below)), st.one_of(below[1], number_of(below))


def sample(rng, dtype):
    if not dtype.is_integral:
        return rng.random() < 0.5
    edges = [dtype.lo, dtype.hi, min(max(0, dtype.lo), dtype.hi)]
    return rng.choice([*edges, rng.randint(dtype.lo, dtype.hi), rng.randint(dtype.lo, dtype.hi)])


def check(predicate, model, seed, rows=12, platform=None):
    """A stream tuple against a new window tuple in each cycle, as a unit does it."""
    rng = random.Random(seed)
    plan = schedule(lower(GeneralProgram(STREAM, WINDOW, predicate)), model)
    path = Datapath(plan, STREAM, WINDOW)
    stream = [sample(rng, t) for t in STREAM]
    windows = [[sample(rng, t) for t in WINDOW] for _ in range(rows)]
    valid = [rng.random() < 0.8 for _ in windows]
    expected = []
    for keys, counts in zip(windows, valid, strict=True):
        row = {("s", i): v for i, v in enumerate(stream)}
        row |= {("w", i): v for i, v in enumerate(keys)}
        expected.append(counts and evaluate(predicate, row))

    async def bench(ctx):
        ctx.set(path.s, {f"k{i}": v for i, v in enumerate(stream)})
        for _ in range(plan.latency):  # the load was that long ago at the least
            await ctx.tick()
        got = []
        for keys, counts in [
            *zip(windows, valid, strict=True),
            *[(windows[0], False)] * plan.latency,
        ]:
            ctx.set(path.w, {f"k{i}": v for i, v in enumerate(keys)})
            ctx.set(path.valid, counts)
            await ctx.delay(1e-10)
            got.append(bool(ctx.get(path.o)))
            await ctx.tick()
        assert got[plan.latency :] == expected

    top = Module()
    top.submodules.path = Fragment.get(path, platform)
    top.d.sync += Signal(name="clocked").eq(1)  # a datapath of one stage has no clock
    simulator = Simulator(top)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    return expected


@pytest.mark.parametrize("model", MODELS, ids=["one stage", "300 MHz", "many stages"])
@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(predicate=flag_of((conditions, number_of(grow(2)))), seed=st.integers(0, 1 << 16))
def test_any_predicate(model, predicate, seed):
    check(predicate, model, seed)


A, B = ops.key("s", 3, TYPES[3]), ops.key("w", 1, WINDOW[1])
BYTE, SMALL = ops.key("s", 1, TYPES[1]), ops.key("w", 4, WINDOW[4])
FLAG = ops.key("w", 5, BOOLEAN)
OPERATIONS = {
    "add": ops.add(A, B),
    "sub": ops.sub(A, B),
    "mul": ops.mul(A, B),
    "mul const": ops.mul(SMALL, ops.const(-77)),
    "square": ops.mul(SMALL, SMALL),
    "neg": ops.neg(SMALL),
    "abs": ops.absolute(SMALL),
    "least": ops.least(A, B, SMALL),
    "greatest": ops.greatest(A, B, SMALL),
    "mod 8": ops.mod(SMALL, ops.const(8)),
    "mod 7": ops.mod(SMALL, ops.const(7)),
    "mod -7": ops.mod(SMALL, ops.const(-7)),
    "mod unsigned": ops.mod(BYTE, ops.const(10)),
    "mod huge": ops.mod(SMALL, ops.const(1000)),
    "and": ops.bit_and(SMALL, BYTE),
    "or": ops.bit_or(SMALL, BYTE),
    "xor": ops.bit_xor(SMALL, A),
    "not": ops.bit_not(BYTE),
    "shl": ops.shl(SMALL, ops.key("s", 6, SHIFT)),
    "shr": ops.shr(SMALL, ops.key("w", 6, SHIFT)),
    "shl const": ops.shl(SMALL, ops.const(5)),
    "shr const": ops.shr(SMALL, ops.const(40)),
    "case": ops.case([(FLAG, SMALL), (ops.lt(A, B), A)], BYTE),
    "cast": ops.add(node(Op.CAST, (FLAG,), integer(0, 1, nullable=False)), BYTE),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("bound", ["below", "equal"])
@pytest.mark.parametrize("platform", [None, SIMULATION])
def test_each_operation(name, bound, platform):
    """Compared with keys, so that all its bits count."""
    value = OPERATIONS[name]
    probe = ops.bit_xor(value, ops.shr(A, ops.const(2)))
    compared = ops.lt(probe, B) if bound == "below" else ops.eq(value, SMALL)
    check(compared, MODELS[1], seed=len(name), rows=40, platform=platform)
