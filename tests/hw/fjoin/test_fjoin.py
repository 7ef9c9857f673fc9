import random

import pytest
from amaranth.sim import Simulator

from penstock.hw.join.fjoin.config import FJoinConfig
from penstock.hw.join.fjoin.pipeline import FJoinPipeline
from penstock.hw.join.fjoin.predicates import manhattan

UNITS = 6
CONFIG = FJoinConfig(program=manhattan(8, limit=60), units=UNITS, position_bits=12)


def run(tuples, window, *, stalls=0.0, seed=0):
    """Results of a task, its cycles in the join phase, and its cycles from load to clear."""
    rng = random.Random(seed)
    pipeline = FJoinPipeline(CONFIG)
    found, joining, whole = [], 0, 0

    async def send(ctx, port, items):
        for item in items:
            ctx.set(port.payload, item)
            ctx.set(port.valid, 1)
            await ctx.tick().until(port.ready)
            ctx.set(port.valid, 0)

    async def feed_task(ctx):
        await send(ctx, pipeline.i_task, [{"tuples": len(tuples), "windows": len(window)}])

    async def feed_tuples(ctx):
        keys = [
            {"keys": {"k0": x, "k1": y}, "start": start, "end": end} for x, y, start, end in tuples
        ]
        await send(ctx, pipeline.i_tuple, keys)

    async def feed_window(ctx):
        await send(
            ctx,
            pipeline.i_window,
            [{"id": i, "keys": {"k0": x, "k1": y}} for i, (x, y) in enumerate(window)],
        )

    async def watch(ctx):
        nonlocal joining, whole
        first, begun, cycle = None, None, 0
        while True:
            ready = rng.random() >= stalls
            ctx.set(pipeline.o_result.ready, ready)
            _, _, valid, result, load, taken, done = await ctx.tick().sample(
                pipeline.o_result.valid,
                pipeline.o_result.payload,
                pipeline.i_tuple.ready & pipeline.i_tuple.valid,
                pipeline.i_window.ready & pipeline.i_window.valid,
                pipeline.o_done,
            )
            cycle += 1
            if load:
                begun = begun or cycle
            if taken:
                first = first or cycle
                joining = cycle - first + 1
            if valid and ready:
                found.append((result.seq, result.id))
            if done:
                whole = cycle - begun + 1
                return

    simulator = Simulator(pipeline)
    simulator.add_clock(1e-8)
    simulator.add_testbench(watch)
    for feeder in (feed_task, feed_tuples, feed_window):
        simulator.add_testbench(feeder, background=True)
    simulator.run_until(1e-8 * 20_000)
    return found, joining, whole


def expected(tuples, window):
    return sorted(
        (seq, i)
        for seq, (x, y, start, end) in enumerate(tuples)
        for i, (u, v) in enumerate(window)
        if start <= i < end and abs(x - u) + abs(y - v) < 60
    )


def task(rng, tuples, windows):
    def point():
        return rng.randint(-128, 127), rng.randint(-128, 127)

    window = [point() for _ in range(windows)]
    spans = [sorted(rng.sample(range(windows + 1), 2)) for _ in range(tuples)]
    return [(*point(), *span) for span in spans], window


@pytest.mark.parametrize("stalls", [0.0, 0.7])
@pytest.mark.parametrize("count", [1, UNITS - 1, UNITS])
def test_random_tasks(count, stalls):
    tuples, window = task(random.Random(count), count, 60)
    found, *_ = run(tuples, window, stalls=stalls, seed=count)
    assert sorted(found) == expected(tuples, window) != []


def test_every_pair_matches():
    """Results collide in every unit, and none is lost or doubled."""
    tuples, window = [(1, 2, 0, 50)] * UNITS, [(1, 2)] * 50
    found, *_ = run(tuples, window, stalls=0.3)
    assert sorted(found) == expected(tuples, window)


def test_half_a_window_tuple_per_cycle():
    found, cycles, _ = run([(100, 100, 0, 200)] * UNITS, [(-100, -100)] * 200)
    assert found == []
    assert 200 / cycles == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize("windows", [1, 50])
def test_a_task_takes_load_join_and_clear(windows):
    """Two cycles per tuple of either stream, a cycle per unit to drain and another to clear."""
    found, _, cycles = run([(100, 100, 0, windows)] * UNITS, [(-100, -100)] * windows)
    assert found == []
    assert cycles - (2 * UNITS + 2 * windows + UNITS + UNITS) in range(6)
