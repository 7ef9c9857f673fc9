import random

import pytest

from penstock.hw.kernel.slots import Packer, Slots, Unpacker
from tests.hw.kernel.kit import bench, collect, feed


@pytest.mark.parametrize("word_bits", [64, 512])
@pytest.mark.parametrize("item_bits", [8, 60, 128, 400, 512, 513, 1100])
def test_random_runs(item_bits, word_bits):
    """Items of each run, wherever it starts; what is left of its last word is dropped."""
    rng = random.Random(item_bits)
    slots = Slots(item_bits, word_bits)
    per_word = 1 << slots.per_word_log2
    unpacker = Unpacker(slots, item_bits)
    runs, words, expected = [], [], []
    for _ in range(12):
        first, count = rng.randrange(per_word), rng.randrange(1, 20)
        items = [rng.getrandbits(item_bits) for _ in range(count)]
        runs.append({"first": first, "count": count})
        expected += items
        stored = sum(item << slots.bits * (first + k) for k, item in enumerate(items))
        for k in range(-(-(first + count) // per_word) * slots.words):
            words.append(stored >> word_bits * k & (1 << word_bits) - 1)
    found = []

    async def finish(ctx):
        while len(found) < len(expected) or not ctx.get(unpacker.o_idle):
            await ctx.tick()

    bench(
        unpacker,
        finish,
        background=[
            feed(unpacker.i_run, runs, rng),
            feed(unpacker.i, words, rng),
            collect(unpacker.o, found, rng),
        ],
    )
    assert found == expected


def test_an_empty_run_takes_no_word():
    rng = random.Random(2)
    unpacker, found = Unpacker(Slots(64, 512), 64), []

    async def finish(ctx):
        await ctx.tick().repeat(60)
        assert ctx.get(unpacker.o_idle)

    runs = [{"first": 0, "count": count} for count in (0, 3, 0)]
    word = 5 | 6 << 64 | 7 << 128
    bench(
        unpacker,
        finish,
        background=[
            feed(unpacker.i_run, runs, rng),
            feed(unpacker.i, [word], rng),
            collect(unpacker.o, found, rng),
        ],
    )
    assert found == [5, 6, 7]


def test_one_item_per_cycle():
    rng = random.Random(1)
    unpacker, found = Unpacker(Slots(64, 512), 64), []

    async def finish(ctx):
        for _ in range(85):
            await ctx.tick()

    bench(
        unpacker,
        finish,
        background=[
            feed(unpacker.i_run, [{"first": 0, "count": 80}], rng, 0),
            feed(unpacker.i, [0] * 10, rng, 0),
            collect(unpacker.o, found, rng, 0),
        ],
    )
    assert len(found) == 80


@pytest.mark.parametrize("item_bits", [1, 32, 33, 97, 300])
@pytest.mark.parametrize("word_bits", [64, 512])
@pytest.mark.parametrize("seed", range(3))
def test_packed_items(item_bits, word_bits, seed):
    """Words are full but for the last one, which a flush fills with zeros; or parts of an item."""
    rng = random.Random(seed)
    slots = Slots(item_bits, word_bits)
    packer = Packer(slots, item_bits)
    per_word = 1 << slots.per_word_log2
    items = [rng.getrandbits(item_bits) for _ in range(3 * per_word + rng.randrange(per_word))]
    words = []
    for first in range(0, len(items), per_word):
        some = items[first : first + per_word]
        stored = sum(item << slots.bits * k for k, item in enumerate(some))
        mask = (1 << word_bits) - 1
        words += [stored >> word_bits * k & mask for k in range(slots.words)]
    found, taken = [], []

    async def finish(ctx):
        while len(taken) < len(items) or not ctx.get(packer.o_empty):
            done = packer.i.valid & packer.i.ready
            *_, step = await ctx.tick().sample(done)
            taken.extend([step] * step)
            ctx.set(packer.i_flush, len(taken) == len(items))

    bench(
        packer,
        finish,
        background=[feed(packer.i, items, rng), collect(packer.o, found, rng)],
    )
    assert found == words
