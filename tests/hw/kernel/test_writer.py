import random

import pytest

from penstock.hw.kernel.sizes import PortSizes
from penstock.hw.kernel.writer import BURSTS_OUT, Writer
from tests.hw.kernel.kit import WORD_BYTES, bench, feed


class Sink:
    """A memory that takes bursts, with pauses, and checks them."""

    def __init__(self, rng, pauses=0.3, error_at=None):
        self.rng, self.pauses, self.error_at = rng, pauses, error_at
        self.bursts, self.content = [], {}

    def serve(self, port):
        async def process(ctx):
            open_bursts, answers = [], []
            asks, takes, answered, held = 0, 0, 0, {}
            async for _, _, asked, request, there, word in ctx.tick().sample(
                port.burst.valid, port.burst.payload, port.word.valid, port.word.payload
            ):
                for name, valid, ready, value in (
                    ("burst", asked, asks, request.as_bits()),
                    ("word", there, takes, word.as_bits()),
                ):
                    if name in held:
                        assert (valid, value) == (1, held[name])
                    held.pop(name, None)
                    if valid and not ready:
                        held[name] = value
                if there and takes:
                    assert open_bursts, "a word without a burst"
                    address, left = open_bursts[0]
                    self.content[address] = word.data
                    assert word.last == (left == 1)
                    open_bursts[0] = address + WORD_BYTES, left - 1
                    if left == 1:
                        open_bursts.pop(0)
                        answers.append(address == self.error_at)
                if asked and asks:
                    first, words = request.address, request.length + 1
                    assert first // 4096 == (first + words * WORD_BYTES - 1) // 4096
                    self.bursts.append((first, words))
                    open_bursts.append((first, words))
                if answered:
                    answers.pop(0)
                answered = int(bool(answers) and self.rng.random() >= self.pauses)
                ctx.set(port.done.valid, answered)
                if answered:
                    ctx.set(port.done.payload.error, answers[0])
                asks, takes = (int(self.rng.random() >= self.pauses) for _ in range(2))
                ctx.set(port.burst.ready, asks)
                ctx.set(port.word.ready, takes)

        return process


async def start(ctx, writer, address):
    ctx.set(writer.i_address, address)
    ctx.set(writer.i_start, 1)
    await ctx.tick()
    ctx.set(writer.i_start, 0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("burst_words", "write_words"), [(64, 64), (8, 16), (1, 4)])
def test_random_words(seed, burst_words, write_words):
    """Bursts are full except at both ends; each word lands where it belongs."""
    rng = random.Random(seed)
    writer = Writer(PortSizes(burst_words=burst_words, write_words=write_words))
    first = rng.randrange(200)
    words = [rng.getrandbits(512) for _ in range(150)]
    sink = Sink(rng)

    async def finish(ctx):
        await start(ctx, writer, first * WORD_BYTES)
        await feed(writer.i, words, rng, 0.1)(ctx)
        ctx.set(writer.i_flush, 1)
        for _ in range(3):
            await ctx.tick()
        while not ctx.get(writer.o_idle):
            await ctx.tick()
        assert not ctx.get(writer.o_error)

    bench(writer, finish, background=[sink.serve(writer.o_port)])
    assert sink.content == {(first + k) * WORD_BYTES: word for k, word in enumerate(words)}
    for address, count in sink.bursts[1:-1]:
        assert (address // WORD_BYTES % burst_words, count) == (0, burst_words)


def test_an_error_stays_until_the_next_start():
    rng = random.Random(9)
    writer = Writer(PortSizes())
    sink = Sink(rng, error_at=2 * WORD_BYTES)

    async def finish(ctx):
        ctx.set(writer.i_flush, 1)
        for address, error in ((2 * WORD_BYTES, 1), (3 * WORD_BYTES, 0)):
            await start(ctx, writer, address)
            await feed(writer.i, [5], rng)(ctx)
            for _ in range(2):
                await ctx.tick()
            while not ctx.get(writer.o_idle):
                await ctx.tick()
            assert ctx.get(writer.o_error) == error

    bench(writer, finish, background=[sink.serve(writer.o_port)])


def test_not_idle_from_the_first_word_on():
    """Also in the cycle behind the word's, and until its burst was answered."""
    writer = Writer(PortSizes())

    async def finish(ctx):
        await start(ctx, writer, 0)
        await ctx.tick().repeat(3)
        assert ctx.get(writer.o_idle)
        ctx.set(writer.i.valid, 1)
        await ctx.tick()
        ctx.set(writer.i.valid, 0)
        ctx.set(writer.i_flush, 1)
        ctx.set(writer.o_port.burst.ready, 1)
        ctx.set(writer.o_port.word.ready, 1)
        for _ in range(30):
            assert not ctx.get(writer.o_idle)
            await ctx.tick()
        ctx.set(writer.o_port.done.valid, 1)
        await ctx.tick()
        ctx.set(writer.o_port.done.valid, 0)
        await ctx.tick()
        assert ctx.get(writer.o_idle)

    bench(writer, finish)


def test_bursts_without_an_answer_are_few():
    writer = Writer(PortSizes(burst_words=1))
    asked = 0

    async def finish(ctx):
        nonlocal asked
        await start(ctx, writer, 0)
        for port in (writer.o_port.burst, writer.o_port.word):
            ctx.set(port.ready, 1)
        ctx.set(writer.i.valid, 1)
        for _ in range(8 * BURSTS_OUT):
            *_, valid = await ctx.tick().sample(writer.o_port.burst.valid)
            asked += valid

    bench(writer, finish)
    assert asked == BURSTS_OUT
