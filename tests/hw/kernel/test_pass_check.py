import random

import pytest

from penstock.hw.join.config import JoinConfig
from penstock.hw.kernel.config import KernelConfig
from penstock.hw.kernel.pass_check import PassCheck
from tests.hw.kernel.kit import bench, collect

GOOD = {"tuples": 7, "begin": 0, "end": 100, "share": 2}


@pytest.mark.parametrize(
    ("change", "passes"),
    [
        ({}, True),
        ({"begin": 99}, True),
        ({"tuples": 6}, False),
        ({"tuples": 8}, False),
        ({"tuples": 0, "share": 0}, False),
        ({"begin": 100}, False),
        ({"end": 101}, False),
        ({"share": 1}, False),
        ({"share": 3}, False),
        ({"share": 0}, False),
        ({"share": (1 << 32) - 1}, False),
        # Three times this is 1 modulo 2**32: a product that is too narrow would let it through.
        ({"share": 0xAAAAAAAB}, False),
    ],
)
@pytest.mark.parametrize("pipelines", [1, 3])
def test_one_pass(change, passes, pipelines):
    """Seven tuples in a window of a hundred; with one pipeline no share is there to be wrong."""
    pass_of = GOOD | change
    if pipelines == 1:
        if set(change) == {"share"}:
            passes = True
        del pass_of["share"]
    rng = random.Random(1)
    config = KernelConfig.fit(JoinConfig(units=4, tests=1), pipelines)
    check, found, spans = PassCheck(config), [], []

    async def finish(ctx):
        for name, value in (("passes", 1), ("tuples", 7), ("window", 100)):
            ctx.set(getattr(check, f"i_{name}"), value)
        ctx.set(check.i_start, 1)
        await ctx.tick()
        ctx.set(check.i_start, 0)
        ctx.set(check.i.payload, pass_of)
        ctx.set(check.i.valid, 1)
        ended = False
        while not ended:
            *_, taken, error = await ctx.tick().sample(check.i.ready, check.o_error)
            ended = taken or error
        ctx.set(check.i.valid, 0)
        await ctx.tick().repeat(3)
        assert ctx.get(check.o_error) != passes

    bench(
        check,
        finish,
        background=[collect(check.o_pass, found, rng), collect(check.o_span, spans, rng)],
    )
    assert len(found) == len(spans) == int(passes)
