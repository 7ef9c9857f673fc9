import random

import pytest

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.lanes import Lanes
from tests.hw.kernel.kit import bench, collect, feed


@pytest.mark.parametrize(("units", "per_block"), [(4, 2), (16, 2), (40, 2), (6, 6)])
def test_random_records(units, per_block):
    """Every record is in its block's lane, in the order of its block, and none is lost."""
    rng = random.Random(units)
    config = KernelConfig.fit(JoinConfig(units=units, units_per_block=per_block, tests=1))
    lanes, words = Lanes(config), []
    blocks = range(config.join.blocks)
    sent = {
        block: [
            {"ordinal": ordinal, "mask": rng.randrange(1, 1 << per_block)}
            for ordinal in range(rng.randrange(1, 60))
        ]
        for block in blocks
    }

    async def finish(ctx):
        for _ in range(1500):
            await ctx.tick()
        ctx.set(lanes.i_flush, 1)
        for _ in range(200):
            await ctx.tick()
        assert ctx.get(lanes.o_empty)

    bench(
        lanes,
        finish,
        background=[
            *(feed(lanes.i[block], sent[block], rng) for block in blocks),
            collect(lanes.o, words, rng, 0.3, lanes.o_records),
        ],
    )
    found = {block: [] for block in blocks}
    for word, count in words:
        records = [word >> 64 * lane & (1 << 64) - 1 for lane in range(8)]
        assert count == sum(record != 0 for record in records)
        assert count > 0
        for lane, record in enumerate(records):
            if record:
                name, mask = record & 0xFFFFFFFF, record >> 32
                block = (name >> config.join.ordinal_bits) * 8 + lane
                ordinal = name & (1 << config.join.ordinal_bits) - 1
                found[block].append({"ordinal": ordinal, "mask": mask})
    assert found == sent


def test_not_empty_while_a_word_waits():
    """The word of the last record may stall; what comes after the records must wait for it."""
    config = KernelConfig.fit(JoinConfig(units=4, units_per_block=2, tests=1))
    lanes = Lanes(config)

    async def finish(ctx):
        assert ctx.get(lanes.o_empty)
        ctx.set(lanes.i_flush, 1)
        ctx.set(lanes.i[1].payload, {"ordinal": 5, "mask": 3})
        ctx.set(lanes.i[1].valid, 1)
        await ctx.tick()
        ctx.set(lanes.i[1].valid, 0)
        await ctx.tick().until(lanes.o.valid)
        for _ in range(20):
            await ctx.tick()
            assert ctx.get(lanes.o.valid)
            assert not ctx.get(lanes.o_empty), "a word waits"
        ctx.set(lanes.o.ready, 1)
        await ctx.tick()
        assert ctx.get(lanes.o_empty)

    bench(lanes, finish)
