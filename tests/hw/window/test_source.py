"""The on-chip source alone, and in front of the operator."""

from collections import Counter

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect
from amaranth.sim import Simulator

from penstock.hw.window.config import WindowConfig
from penstock.hw.window.layout import Side
from penstock.hw.window.operator import WindowJoin
from penstock.hw.window.source import TupleSource


class Bench(wiring.Component):
    """Two sources and an operator."""

    def __init__(self, config):
        self.join = WindowJoin(config)
        self.sources = [TupleSource(config, side) for side in Side]
        super().__init__({"run": In(1), "taken": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.join = join = self.join
        m.submodules.source_a, m.submodules.source_b = a, b = self.sources
        connect(m, a.o, join.i_a)
        connect(m, b.o, join.i_b)
        m.d.comb += [a.run.eq(self.run), b.run.eq(self.run)]
        m.d.comb += [join.o.ready.eq(1), self.taken.eq(join.o.valid)]
        return m


def simulate(component, process):
    simulator = Simulator(component)
    simulator.add_clock(1e-8)
    simulator.add_testbench(process)
    simulator.run()


@pytest.mark.parametrize("interval", [0, 1, 2, 7])
def test_interval(interval):
    source = TupleSource(WindowConfig(key_bits=4, payload_a_bits=3), Side.A)

    async def bench(ctx):
        for name, value in {"run": 1, "interval": interval, "hits": 1, "period": 3}.items():
            ctx.set(getattr(source, name), value)
        ctx.set(source.o.ready, 1)
        seen = []
        for cycle in range(40):
            await ctx.tick()
            if ctx.get(source.o.valid):
                payload = ctx.get(source.o.payload)
                seen.append((cycle, payload.key, payload.payload))
        step = max(interval, 1)
        assert seen == [
            (cycle, number % 3, number % 8) for number, cycle in enumerate(range(0, 40, step))
        ]
        await ctx.tick()
        assert ctx.get(source.o_sent) in (len(seen), len(seen) + 1)

    simulate(source, bench)


def test_a_tuple_waits_and_none_is_left_out():
    source = TupleSource(WindowConfig(key_bits=4), Side.A)

    async def bench(ctx):
        for name, value in {"run": 1, "interval": 2, "hits": 1, "period": 1}.items():
            ctx.set(getattr(source, name), value)
        seen = []
        for cycle in range(60):
            ready = cycle % 5 == 0
            ctx.set(source.o.ready, ready)
            await ctx.delay(0)
            if ctx.get(source.o.valid) and ready:
                seen.append(ctx.get(source.o.payload.payload))
            await ctx.tick()
        assert seen == list(range(len(seen)))
        assert len(seen) == 11

    simulate(source, bench)


@pytest.mark.parametrize(
    ("tests", "hits", "period"),
    [(0, 0, 4), (0, 1, 4), (0, 1, 1), (1, 0, 8), (1, 3, 8), (1, 8, 8), (2, 5, 8)],
)
def test_selectivity_is_exact(tests, hits, period):
    """Each tuple joins the same number of its window, once that is full."""
    rows = 8
    config = WindowConfig(depth=rows, tests=tests, key_bits=4, payload_a_bits=8, payload_b_bits=8)
    both = Bench(config)
    met = Counter()

    async def bench(ctx):
        if tests:
            ctx.set(both.join.i_entry.valid, 1)
            for side in Side:
                entry = {"index": (1 << tests) - 1, "value": 1, "side": side}
                ctx.set(both.join.i_entry.payload, entry)
                await ctx.tick()
            ctx.set(both.join.i_entry.valid, 0)
        ctx.set(both.join.rows_a, rows)
        ctx.set(both.join.rows_b, rows)
        for source in both.sources:
            for name, value in {"interval": 20, "hits": hits, "period": period}.items():
                ctx.set(getattr(source, name), value)
        ctx.set(both.run, 1)
        for _ in range(20 * 25):
            if ctx.get(both.taken):
                result = ctx.get(both.join.o.payload.results[0])
                later = Side(result.later)
                met[later, result.a if later is Side.A else result.b] += 1
            await ctx.tick()

    simulate(both, bench)
    counts = {met[side, number] for side in Side for number in range(10, 20)}
    assert counts == {rows * hits // period}
