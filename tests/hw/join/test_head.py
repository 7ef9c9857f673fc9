import random

import numpy as np
import pytest
from amaranth.sim import Simulator

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.flit import Kind
from penstock.hw.join.head import Head, merge
from penstock.passes import Pass, plan

#: Kinds whose payload counts.
CARRIES = {Kind.LOAD, Kind.LOAD_LAST, Kind.WINDOW}


def counted(kind, lap):
    """The lap of a flit that has one."""
    return None if kind is Kind.WINDOW else lap


def test_reference_order_at_a_position():
    """Retirements, then loads, then the window tuple; the end of a pass is one CLEAR."""
    flits = list(merge([Pass(0, 2, 0, 3)], [0, 1], [1, 3], 8, 2))
    assert [kind.name for kind, _, _ in flits] == [
        *("LOAD", "LOAD_LAST", "WINDOW"),
        *("RETIRE", "LOAD", "LOAD_LAST", "WINDOW", "WINDOW"),
        "CLEAR",
    ]


@pytest.mark.parametrize("seed", range(6))
def test_random_tasks(seed):
    """Gaps in all inputs and pauses of the room: the flits are those of the reference."""
    rng = random.Random(seed)
    units = rng.choice([2, 3, 8])
    config = JoinConfig(units=units, tests=1, key_bits=8)
    n, width = 25, 60
    start = np.sort(np.array([rng.randrange(width) for _ in range(n)]))
    end = np.maximum.accumulate(start + [1 + rng.randrange(12) for _ in range(n)])
    passes = plan(start, end, units)
    expected = []
    for kind, lap, index in merge(passes, start, end, units, 2):
        payload = 1000 + index & 255 if kind is Kind.LOAD else index
        expected.append((kind, counted(kind, lap), payload if kind in CARRIES else None))

    head = Head(config)
    queues = [
        (
            head.i_pass,
            [
                {
                    "tuples": p.stop - p.first,
                    "begin": p.begin,
                    "end": p.end,
                    "last": p is passes[-1],
                }
                for p in passes
            ],
        ),
        (
            head.i_tuple,
            [
                {"keys": (1000 + i & 255) | i << 8, "start": int(start[i]), "end": int(end[i])}
                for i in range(n)
            ],
        ),
        (head.i_window, [j for p in passes for j in range(p.begin, p.end)]),
    ]
    seen = []

    def feed(port, items):
        async def bench(ctx):
            for item in items:
                while rng.random() < 0.3:
                    await ctx.tick()
                ctx.set(port.payload, item)
                ctx.set(port.valid, 1)
                await ctx.tick().until(port.ready)
                ctx.set(port.valid, 0)

        return bench

    async def watch(ctx):
        ctx.set(head.i_back.quiet, 1)
        ctx.set(head.o_report.ready, 1)
        while not ctx.get(head.o_report.valid):
            ctx.set(head.i_back.room, rng.random() < 0.7)
            await ctx.tick()
            flit = ctx.get(head.o)
            if flit.kind != Kind.IDLE:
                kind = Kind(flit.kind)
                payload = flit.payload if kind in CARRIES else None
                seen.append((kind, counted(kind, flit.lap), payload))
        report = ctx.get(head.o_report.payload)
        assert (report.complete, report.loaded, report.position) == (n, n, end[-1])

    simulator = Simulator(head)
    simulator.add_clock(1e-8)
    simulator.add_testbench(watch)
    for port, items in queues:
        simulator.add_testbench(feed(port, items), background=True)
    simulator.run()
    assert seen == expected
