import random

import pytest

from penstock.hw.kernel.skid import Skid
from tests.hw.kernel.kit import bench, collect, feed


@pytest.mark.parametrize("pauses", [0.0, 0.3, 0.8])
def test_random_items(pauses):
    """All items, each once and in order, with random pauses on both sides."""
    rng = random.Random(pauses)
    skid, found = Skid(8), []
    items = [rng.randrange(256) for _ in range(100)]

    async def finish(ctx):
        for _ in range(800):
            await ctx.tick()

    background = [feed(skid.i, items, rng, 0.3), collect(skid.o, found, rng, pauses)]
    bench(skid, finish, background=background)
    assert found == items
