import pytest

from penstock.expr import ops
from penstock.expr.node import walk
from penstock.hw.hls.delay import DelayModel
from penstock.hw.hls.lower import lower
from penstock.hw.hls.schedule import schedule
from penstock.program import GeneralProgram
from penstock.types import int_of

INT = int_of(32, nullable=False)
S = [ops.key("s", i, INT) for i in range(3)]
W = [ops.key("w", i, INT) for i in range(2)]
SLOW = DelayModel(period_ps=1000)


def manhattan(limit):
    distances = [ops.absolute(ops.sub(s, w)) for s, w in zip(S, W, strict=False)]
    return ops.lt(ops.add(*distances), limit)


def lowered(predicate):
    return lower(GeneralProgram((INT,) * 3, (INT,) * 2, predicate))


def test_a_gate_fits_one_stage():
    plan = schedule(lowered(ops.eq(S[0], W[0])))
    assert (plan.latency, plan.stages, plan.register_bits, plan.hold) == (0, 1, 0, 0)


def test_manhattan_distance():
    plan = schedule(lowered(manhattan(ops.const(500))))
    assert plan.stages == 2
    assert plan.lines() == [
        "stage 0",
        "  t0 = s0 - w0: 33 bits, 0 to 846 ps",
        "  t1 = t0 < 0: 1 bit, 846 to 846 ps",
        "  t2 = s1 - w1: 33 bits, 0 to 846 ps",
        "  t3 = t2 < 0: 1 bit, 846 to 846 ps",
        "  t4 = t1 = t3: 1 bit, 846 to 1296 ps",
        "  t5 = not t4: 1 bit, 1296 to 1296 ps",
        "  t6 = ~t2: 33 bits, 846 to 846 ps",
        "  t7 = case when t5 then t6 else t2 end: 33 bits, 1296 to 1296 ps",
        "  t8 = cast(t5 as integer): 1 bit, 1296 to 1296 ps",
        "  t9 = t0 + t7 + t8: 34 bits, 1296 to 2154 ps",
        "  t10 = ~t9: 34 bits, 2154 to 2154 ps",
        "  t11 = case when t1 then t10 else t9 end: 34 bits, 2154 to 2154 ps",
        "  t12 = cast(t1 as integer): 1 bit, 846 to 846 ps",
        "stage 1",
        "  t13 = (t11 + t12) <= 499: 1 bit, 0 to 960 ps",
    ]


def test_inversions_are_no_registers():
    """Sum and sign move on to the comparison, not the inverted sum as well."""
    assert schedule(lowered(manhattan(ops.const(500)))).register_bits == 34 + 1


@pytest.mark.parametrize("period", [1200, 2000, 3333, 10_000])
def test_no_stage_is_longer_than_the_clock(period):
    model = DelayModel(period_ps=period)
    predicate = ops.and_(manhattan(S[2]), ops.eq(ops.mod(W[0], ops.const(7)), S[1]))
    plan = schedule(lowered(predicate), model, tail_ps=model.lut_ps)
    assert list(plan.slots) == list(walk(plan.expr))
    for current, slot in plan.slots.items():
        assert slot.end_ps <= model.budget_ps
        for arg in current.args:
            given = plan.slots[arg]
            assert given.ready <= slot.stage
            assert given.ready < slot.stage or given.end_ps <= slot.start_ps or arg.is_const


def test_a_long_operation_takes_several_stages():
    product = ops.mul(W[0], W[1])
    plan = schedule(lowered(ops.lt(product, ops.const(9))), SLOW)
    slot = plan.slots[product]
    assert slot.ready - slot.stage == -(-SLOW.delay_ps(product) // SLOW.budget_ps) > 1
    assert any("stages more" in line for line in plan.lines())


def test_stream_keys_are_held_rather_than_delayed():
    """The limit s2 is read in a later stage; only the window side moves on."""
    plan = schedule(lowered(manhattan(S[2])), SLOW)
    reader = next(n for n in plan.slots if S[2] in n.args)
    assert plan.hold == plan.slots[reader].stage > 0
    window = schedule(lowered(manhattan(W[0])), SLOW)
    assert window.register_bits == plan.register_bits + 32 * plan.hold


def test_the_tail_can_need_a_stage():
    model = DelayModel(period_ps=1400)
    expr = lowered(ops.lt(S[0], W[0]))
    assert schedule(expr, model).stages == 1
    assert schedule(expr, model, tail_ps=model.lut_ps).stages == 3
