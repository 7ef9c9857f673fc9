import random

import pytest

from penstock.hw.kernel.reader import Reader, bursts
from penstock.hw.kernel.sizes import PortSizes
from tests.hw.kernel.kit import WORD_BYTES, Memory, bench, collect, feed


def test_reference_bursts():
    """Up to the boundary, then whole bursts, then the rest."""
    whole, pairs = PortSizes(), PortSizes(burst_words=2)
    assert list(bursts(0x0FC0, 70, whole)) == [(0x0FC0, 1), (0x1000, 64), (0x2000, 5)]
    assert list(bursts(0x1000, 4, pairs)) == [(0x1000, 2), (0x1080, 2)]
    assert list(bursts(0x1000, 0, whole)) == []
    assert list(bursts(0x7F8, 3, PortSizes(word_bits=64))) == [(0x7F8, 1), (0x800, 2)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("burst_words", "read_words"), [(64, 64), (4, 16), (1, 4)])
def test_random_ranges(seed, burst_words, read_words):
    """Words in order, the bursts of the reference, and never more than there is room for."""
    rng = random.Random(seed)
    sizes = PortSizes(burst_words=burst_words, read_words=read_words)
    reader = Reader(sizes)
    ranges = [(rng.randrange(200) * WORD_BYTES, rng.randrange(1, 90)) for _ in range(6)]
    memory = Memory({a * WORD_BYTES: rng.getrandbits(512) for a in range(300)}, rng)
    found = []
    expected = [
        memory.content[start + k * WORD_BYTES] for start, count in ranges for k in range(count)
    ]

    async def finish(ctx):
        while len(found) < len(expected):
            await ctx.tick()
        assert not ctx.get(reader.o_error)
        for _ in range(8):
            await ctx.tick()
        assert ctx.get(reader.o_idle)

    bench(
        reader,
        finish,
        background=[
            feed(reader.i_fetch, [{"address": a, "words": n} for a, n in ranges], rng),
            collect(reader.o, found, rng),
            memory.serve(reader.o_port),
        ],
    )
    assert found == expected
    assert memory.bursts == [b for a, n in ranges for b in bursts(a, n, sizes)]
    assert memory.most <= read_words


def test_errors_and_cancelling():
    """An error is reported; after a cancel no more is asked for and what comes is still taken."""
    rng = random.Random(5)
    reader = Reader(PortSizes(burst_words=4, read_words=8))
    memory = Memory({}, rng, latency=20, pauses=0)

    async def finish(ctx):
        while not memory.bursts:
            await ctx.tick()
        ctx.set(reader.i_cancel, 1)
        for _ in range(3):
            await ctx.tick()
        asked = len(memory.bursts)
        assert not ctx.get(reader.o_idle)
        for _ in range(60):
            await ctx.tick()
        assert len(memory.bursts) == asked
        assert ctx.get(reader.o_idle)
        assert ctx.get(reader.o_error)

    bench(
        reader,
        finish,
        background=[
            feed(reader.i_fetch, [{"address": 0, "words": 1000}] * 2, rng),
            memory.serve(reader.o_port),
        ],
    )


def test_one_word_per_cycle_across_the_latency():
    """With room for the latency the port never rests."""
    rng = random.Random(6)
    reader = Reader(PortSizes(burst_words=16, read_words=128))
    memory = Memory(dict.fromkeys(range(0, 400 * WORD_BYTES, WORD_BYTES), 7), rng, 64, 0)
    found, cycles = [], 0

    async def finish(ctx):
        nonlocal cycles
        while len(found) < 400:
            await ctx.tick()
            cycles += 1

    bench(
        reader,
        finish,
        background=[
            feed(reader.i_fetch, [{"address": 0, "words": 400}], rng, pauses=0),
            collect(reader.o, found, rng, 0),
            memory.serve(reader.o_port),
        ],
    )
    assert cycles < 400 + 64 + 20


def test_words_of_another_reader_are_not_taken():
    """Two readers share a port; neither a word nor an error of the other one counts."""
    reader = Reader(PortSizes(), ident=1)
    word = reader.o_port.word

    async def finish(ctx):
        ctx.set(word.payload, {"data": 7, "id": 0, "error": 1})
        ctx.set(word.valid, 1)
        for _ in range(10):
            await ctx.tick()
            assert not ctx.get(reader.o.valid)
            assert not ctx.get(reader.o_error)
            assert ctx.get(reader.o_idle)

    bench(reader, finish)


def test_cancelling_while_there_is_no_room():
    """Nobody takes words: the reader leaves the range all the same, with what came."""
    reader = Reader(PortSizes(burst_words=4, read_words=8))
    memory = Memory({}, random.Random(7), latency=2, pauses=0)

    async def finish(ctx):
        ctx.set(reader.i_fetch.payload, {"address": 0, "words": 1000})
        ctx.set(reader.i_fetch.valid, 1)
        await ctx.tick().repeat(60)
        assert len(memory.bursts) == 2
        assert not ctx.get(reader.o_idle)
        ctx.set(reader.i_cancel, 1)
        await ctx.tick().repeat(3)
        assert ctx.get(reader.o_idle)

    bench(reader, finish, background=[memory.serve(reader.o_port)])
