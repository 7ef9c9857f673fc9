import random

import pytest

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.pass_check import PassCheck
from tests.hw.kernel.kit import bench, collect, feed

GOOD = {"tuples": 7, "begin": 0, "end": 100, "share": 2}


def is_given(pass_of, pipelines):
    """Whether a task's only pass goes to the head and to the window's reader."""
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
        await ctx.tick().repeat(30)
        assert ctx.get(check.o_error) == (not found)

    bench(
        check,
        finish,
        background=[collect(check.o_pass, found, rng), collect(check.o_span, spans, rng)],
    )
    assert len(found) == len(spans)
    return bool(found)


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
    assert is_given(pass_of, pipelines) == passes


@pytest.mark.parametrize("share", [0, 1, 2])
def test_a_share_that_is_one_off(share):
    """Seven pipelines: with a share of 0 as many tuples are left as there are pipelines."""
    assert is_given(GOOD | {"share": share}, 7) == (share == 1)


#: Ordinals of the build in which they are used up.
ORDINALS = 1 << 32


@pytest.mark.parametrize(
    ("spans", "tuples", "given"),
    [
        ([5, 5, 5], [2, 2, 3], 3),
        # The last ordinal is of use, and there is none after it.
        ([ORDINALS - 1, 1], [3, 4], 2),
        ([ORDINALS - 1, 2], [3, 4], 1),
        ([ORDINALS - 2, 1, 1], [2, 2, 3], 3),
        # All tuples are taken before the last pass.
        ([5, 5], [7, 7], 0),
        ([5, 5], [8, 1], 0),
        ([5, 5], [0, 7], 0),
        ([5, 5], [3, 3], 1),
        ([5, 5, 5], [3, 4, 1], 1),
    ],
)
def test_passes_add_up(spans, tuples, given):
    """Seven tuples; passes go on until there is one that cannot be run."""
    rng = random.Random(2)
    config = KernelConfig.fit(JoinConfig(units=4, tests=1))
    assert 1 << config.join.ordinal_bits == ORDINALS
    check, found, positions = PassCheck(config), [], []

    async def finish(ctx):
        for name, value in (("passes", len(spans)), ("tuples", 7), ("window", ORDINALS - 1)):
            ctx.set(getattr(check, f"i_{name}"), value)
        ctx.set(check.i_start, 1)
        await ctx.tick()
        ctx.set(check.i_start, 0)
        await ctx.tick().repeat(200)
        assert ctx.get(check.o_error) == (given < len(spans))

    items = [{"tuples": n, "begin": 0, "end": span} for n, span in zip(tuples, spans, strict=True)]

    async def offer(ctx):
        await ctx.tick().repeat(2)
        await feed(check.i, items, rng)(ctx)

    bench(
        check,
        finish,
        background=[
            offer,
            collect(check.o_pass, found, rng),
            collect(check.o_span, positions, rng),
        ],
    )
    assert len(found) == len(positions) == given
    last = [bool(item >> 96 & 1) for item in found]
    assert last == [number == len(spans) - 1 for number in range(given)]
