"""Benches for the kernel's parts in Amaranth's simulator: sources, sinks and a memory."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from amaranth.sim import Simulator

WORD_BYTES = 64


#: Cycles after which a bench counts as hung.
PATIENCE_CYCLES = 30_000


def bench(component, process, *, background=()):
    """Run a test bench to its end, with a limit that none comes near."""
    ended = []

    async def whole(ctx):
        await process(ctx)
        ended.append(True)

    simulator = Simulator(component)
    simulator.add_clock(1e-8)
    simulator.add_testbench(whole)
    for other in background:
        simulator.add_testbench(other, background=True)
    for _ in range(2 * PATIENCE_CYCLES):
        if not simulator.advance():
            break
    assert ended, "the bench hangs"


def feed(port, items, rng, pauses=0.3):
    """Offer items, with random pauses."""

    async def process(ctx):
        for item in items:
            while rng.random() < pauses:
                await ctx.tick()
            ctx.set(port.payload, item)
            ctx.set(port.valid, 1)
            taken = False
            while not taken:
                *_, taken = await ctx.tick().sample(port.ready)
            ctx.set(port.valid, 0)

    return process


def collect(port, found, rng, pauses=0.3, *others):
    """Take items for ever, with random pauses; what stalls must not change."""

    async def process(ctx):
        waiting = None
        ready = 0
        async for _, _, valid, payload, *more in ctx.tick().sample(
            port.valid, port.payload, *others
        ):
            payload = payload if isinstance(payload, int) else payload.as_bits()
            if waiting is not None:
                assert (valid, payload) == (1, waiting)
            waiting = payload if valid and not ready else None
            if valid and ready:
                found.append((payload, *more) if others else payload)
            ready = int(rng.random() >= pauses)
            ctx.set(port.ready, ready)

    return process


@dataclass
class Memory:
    """Answers read bursts in order, after a latency, and checks them."""

    content: dict[int, int]
    rng: random.Random
    latency: int = 5
    pauses: float = 0.3
    bursts: list[tuple[int, int]] = field(default_factory=list)
    most: int = 0

    def serve(self, port):
        async def process(ctx):
            queue, waiting, cycle, ready, valid = [], None, 0, 0, 0
            async for _, _, asked, request, taken in ctx.tick().sample(
                port.burst.valid, port.burst.payload, port.word.ready
            ):
                cycle += 1
                if waiting is not None:
                    assert asked
                    assert request.as_bits() == waiting
                waiting = request.as_bits() if asked and not ready else None
                if asked and ready:
                    first, words = request.address, request.length + 1
                    assert first % WORD_BYTES == 0
                    assert first // 4096 == (first + words * WORD_BYTES - 1) // 4096
                    self.bursts.append((first, words))
                    queue += [(cycle + self.latency, first + k * WORD_BYTES) for k in range(words)]
                    self.most = max(self.most, len(queue))
                if valid:
                    assert taken, "a word was kept waiting that was asked for"
                valid = int(bool(queue) and queue[0][0] <= cycle)
                valid = int(valid and self.rng.random() >= self.pauses)
                ctx.set(port.word.valid, valid)
                if valid:
                    _, address = queue.pop(0)
                    error = address not in self.content
                    word = self.content.get(address, 0)
                    ctx.set(port.word.payload, {"data": word, "id": 0, "error": error})
                ready = int(self.rng.random() >= self.pauses)
                ctx.set(port.burst.ready, ready)

        return process
