"""A bench for the operator: schedules in, what was admitted and delivered out."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from amaranth.sim import Simulator

from penstock.hw.window.layout import Side


@dataclass
class Run:
    """What happened in a run."""

    #: Tuples in the order in which the inputs took them, A first in a cycle.
    arrived: list = field(default_factory=list)
    #: Tuples in the order of their queue writes, A first in a cycle.
    admitted: list = field(default_factory=list)
    dropped: int = 0
    #: Results in the order in which they left: payload of A, payload of B, side of the later one.
    results: list = field(default_factory=list)
    cycles: int = 0
    states: set = field(default_factory=set)
    counters: dict = field(default_factory=dict)
    #: Cycles of the queue writes, per side.
    writes: dict = field(default_factory=lambda: {Side.A: [], Side.B: []})


def run(
    join,
    schedules,
    *,
    settings,
    changes=None,
    entries=(),
    ready=lambda cycle: True,
    limit,
    until_idle=True,
):
    """Run schedules through an operator in Amaranth's simulator.

    Parameters
    ----------
    join : WindowJoin
    schedules : dict of Side to list of (int, dict)
        Earliest cycle of each tuple, and the tuple.
    settings : dict
        Values of the inputs that are not streams.
    changes : dict, optional
        Such values that change, by cycle.
    entries : iterable of dict
        Entries of the truth tables.
    ready : callable
        Whether the output takes a word in a cycle.
    limit : int
        Cycles after which the run counts as hung, or ends if ``until_idle`` is false.
    """
    out = Run()
    ports = {Side.A: join.i_a, Side.B: join.i_b}

    async def bench(ctx):
        for name, value in settings.items():
            ctx.set(getattr(join, name), value)
        for entry in entries:
            ctx.set(join.i_entry.valid, 1)
            ctx.set(join.i_entry.payload, entry)
            await ctx.tick()
        if join.config.is_band:
            ctx.set(join.i_entry.valid, 0)
        at = {Side.A: 0, Side.B: 0}
        waiting = {Side.A: [], Side.B: []}
        stalled, ended = None, False
        for cycle in range(limit):
            for name, value in (changes or {}).get(cycle, {}).items():
                ctx.set(getattr(join, name), value)
            for side, port in ports.items():
                todo = schedules[side]
                offers = at[side] < len(todo) and todo[at[side]][0] <= cycle
                ctx.set(port.valid, offers)
                if offers:
                    ctx.set(port.payload, todo[at[side]][1])
            takes = ready(cycle)
            ctx.set(join.o.ready, takes)
            dropped, admitted = ctx.get(join.o_dropped), ctx.get(join.o_admitted)
            for side in Side:
                if admitted >> side.value & 1:
                    out.admitted.append((side, waiting[side].pop()))
                    out.writes[side].append(cycle)
            for side, port in ports.items():
                if ctx.get(port.valid) and ctx.get(port.ready):
                    item = schedules[side][at[side]][1]
                    out.arrived.append((side, item))
                    at[side] += 1
                    if dropped >> side.value & 1:
                        out.dropped += 1
                    else:
                        waiting[side].append(item)
                        assert len(waiting[side]) == 1
                else:
                    assert not dropped >> side.value & 1
            valid, word = ctx.get(join.o.valid), ctx.get(join.o.payload)
            if stalled is not None:
                assert valid, "a word was taken back"
                assert word.as_bits() == stalled, "a word changed while it stalled"
            stalled = word.as_bits() if valid and not takes else None
            if valid and takes:
                assert word.present != 0
                for place in range(join.config.outputs):
                    if word.present >> place & 1:
                        result = word.results[place]
                        out.results.append((result.a, result.b, Side(result.later)))
            out.states |= {ctx.get(join.o_state_a), ctx.get(join.o_state_b)}
            # A tuple that was taken in this cycle is not in the operator yet.
            if until_idle and ended and ctx.get(join.o_idle):
                break
            ended = all(at[side] == len(schedules[side]) for side in Side)
            await ctx.tick()
        else:
            assert not until_idle, f"the operator hangs after {limit} cycles"
        out.cycles = cycle
        await ctx.tick()
        counters = ctx.get(join.o_counters)
        out.counters = {
            name: counters[name] for name in ("admitted_a", "shed_a", "admitted_b", "shed_b")
        }
        out.counters["waiting"] = sum(map(len, waiting.values()))

    simulator = Simulator(join)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    return out


def stalls(rng: random.Random, share: float):
    """A port that is not ready in so many cycles."""
    return lambda cycle: rng.random() >= share
