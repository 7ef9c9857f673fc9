import itertools
import random

import numpy as np
import pytest
from amaranth.sim import Simulator

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.flit import Kind
from penstock.hw.join.head import Head, merge
from penstock.passes import Pass, plan
from tests.kit.effort import effort

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


class Task:
    """Random ranges in a width of 60 and their passes, for a head of `units`."""

    def __init__(self, rng, units, n=25, width=60):
        self.units = units
        self.start = np.sort(np.array([rng.randrange(width) for _ in range(n)]))
        self.end = np.maximum.accumulate(self.start + [1 + rng.randrange(12) for _ in range(n)])
        self.passes = plan(self.start, self.end, units)

    def merged(self):
        return merge(self.passes, self.start, self.end, self.units, 2)

    def ran(self, cycles=None, gaps=lambda: False, stalls=lambda: False):
        """The flits of a head that is halted after `cycles`, and the report of the task.

        Its inputs wait while `gaps` says so, its room is low while `stalls` does.
        """
        head = Head(JoinConfig(units=self.units, tests=1, key_bits=8))
        passes = [
            {
                "tuples": p.stop - p.first,
                "begin": p.begin,
                "end": p.end,
                "last": p is self.passes[-1],
            }
            for p in self.passes
        ]
        tuples = [
            {"keys": (1000 + i & 255) | i << 8, "start": int(start), "end": int(end)}
            for i, (start, end) in enumerate(zip(self.start, self.end, strict=True))
        ]
        positions = [j for p in self.passes for j in range(p.begin, p.end)]
        seen, reports = [], []

        def feed(port, items):
            async def bench(ctx):
                for item in items:
                    while gaps():
                        await ctx.tick()
                    ctx.set(port.payload, item)
                    ctx.set(port.valid, 1)
                    taken = False
                    while not taken:
                        _, _, taken = await ctx.tick().sample(port.ready)
                    ctx.set(port.valid, 0)

            return bench

        async def watch(ctx):
            ctx.set(head.i_back.quiet, 1)
            ctx.set(head.o_report.ready, 1)
            for cycle in itertools.count():
                ctx.set(head.i_halt, cycles is not None and cycle >= cycles)
                ctx.set(head.i_back.room, not stalls())
                if ctx.get(head.o_report.valid):
                    report = ctx.get(head.o_report.payload)
                    reports.append((report.complete, report.loaded, report.position))
                    return
                await ctx.tick()
                flit = ctx.get(head.o)
                if flit.kind != Kind.IDLE:
                    kind = Kind(flit.kind)
                    payload = flit.payload if kind in CARRIES else None
                    seen.append((kind, counted(kind, flit.lap), payload))

        simulator = Simulator(head)
        simulator.add_clock(1e-8)
        simulator.add_testbench(watch)
        inputs = ((head.i_pass, passes), (head.i_tuple, tuples), (head.i_window, positions))
        for port, items in inputs:
            simulator.add_testbench(feed(port, items), background=True)
        simulator.run()
        return seen, reports[0]


@pytest.mark.parametrize("seed", range(6))
def test_random_tasks(seed):
    """Gaps in all inputs and pauses of the room: the flits are those of the reference."""
    rng = random.Random(seed)
    task = Task(rng, rng.choice([2, 3, 8]))
    expected = []
    for kind, lap, index in task.merged():
        payload = 1000 + index & 255 if kind is Kind.LOAD else index
        expected.append((kind, counted(kind, lap), payload if kind in CARRIES else None))
    seen, report = task.ran(gaps=lambda: rng.random() < 0.3, stalls=lambda: rng.random() < 0.3)
    assert report == (len(task.start), len(task.start), task.end[-1])
    assert seen == expected


def test_a_halt_in_any_cycle():  # in the short run, in any third one
    """Whatever was due there, the CLEAR of a task that stops is its last, and says so."""
    task = Task(random.Random(0), 2, n=8, width=20)
    whole, (_, _, last) = task.ran()
    for cycle in itertools.count(2, effort(1, 3)):
        seen, (_, _, position) = task.ran(cycle)
        *_, (kind, ends, _) = seen
        assert (kind, ends) == (Kind.CLEAR, 1), cycle
        assert [flit for flit in seen[:-1] if flit[:2] == (Kind.CLEAR, 1)] == [], cycle
        assert seen[:-1] == whole[: len(seen) - 1], cycle
        if position == last:
            assert len(seen) > 20
            return
