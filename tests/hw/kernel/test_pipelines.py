import random

import pytest

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.pipelines import Pipelines, deal
from tests.hw.kernel.kit import bench, feed
from tests.kit.effort import effort


@pytest.mark.parametrize("pipelines", [2, 3, 5])
def test_reference_of_the_parts(pipelines):
    """As many as round-robin gives: tuple i goes to pipeline i modulo their number."""
    for tuples in range(1, 4 * pipelines):
        turns = [i % pipelines for i in range(tuples)]
        assert deal(tuples, pipelines) == [turns.count(index) for index in range(pipelines)]


@pytest.mark.parametrize("seed", range(effort(4, 2)))
@pytest.mark.parametrize("pipelines", [2, 3])
def test_heads_get_their_parts(pipelines, seed):
    """With gaps in all inputs: passes, tuples and window tuples of each head, and the report."""
    rng = random.Random(seed)
    config = KernelConfig.fit(JoinConfig(units=4, tests=1, key_bits=8), pipelines)
    dut = Pipelines(config)
    sizes = [rng.randrange(1, 4 * pipelines) for _ in range(6)]
    passes = [{"tuples": t, "share": t // pipelines, "begin": 0, "end": 20} for t in sizes]
    passes = [item | {"last": item is passes[-1]} for item in passes]
    keys = [rng.randrange(1 << 16) for _ in range(sum(sizes))]
    tuples = [{"keys": key, "start": 0, "end": 20} for key in keys]
    window = [rng.randrange(1 << 8) for _ in range(20 * len(sizes))]
    seen = [{"passes": [], "tuples": [], "window": []} for _ in dut.chains]

    async def watch(ctx):
        ports = [
            (kind, number, port)
            for number, chain in enumerate(dut.chains)
            for kind, port in (
                ("passes", chain.i_pass),
                ("tuples", chain.i_tuple),
                ("window", chain.i_window),
            )
        ]
        signals = [s for _, _, p in ports for s in (p.valid & p.ready, p.payload)]
        async for _, _, *values in ctx.tick().sample(*signals):
            for (kind, number, _), taken, item in zip(
                ports, values[::2], values[1::2], strict=True
            ):
                if taken and kind == "passes":
                    seen[number][kind].append(item.tuples)
                elif taken:
                    seen[number][kind].append(item["keys"] if kind == "tuples" else item)

    async def finish(ctx):
        ctx.set(dut.i_room, 1)
        ctx.set(dut.i_quiet, 1)
        for record in dut.o_record:
            ctx.set(record.ready, 1)
        report = dut.o_report
        while not ctx.get(report.valid):
            await ctx.tick()
        assert ctx.get(report.payload.complete) == ctx.get(report.payload.loaded) == len(keys)
        assert ctx.get(report.payload.position) == len(window)
        ctx.set(report.ready, 1)
        await ctx.tick()

    bench(
        dut,
        finish,
        background=[
            watch,
            feed(dut.i_pass, passes, rng),
            feed(dut.i_tuple, tuples, rng),
            feed(dut.i_window, window, rng, 0.1),
        ],
    )
    for number, part in enumerate(seen):
        assert part["passes"] == [deal(size, pipelines)[number] for size in sizes]
        assert part["window"] == window
    dealt = iter(keys)
    for size in sizes:
        for i in range(size):
            assert seen[i % pipelines]["tuples"].pop(0) == next(dealt)
    assert not any(part["tuples"] for part in seen)


@pytest.mark.parametrize("slow", [0, 1])
def test_a_report_waits_for_all_chains(slow):
    """One chain's records stall. With a tuple each, both chains have matches."""
    rng = random.Random(slow)
    config = KernelConfig.fit(JoinConfig(units=4, tests=1, key_bits=8), 2)
    dut = Pipelines(config)
    items = {
        dut.i_entry: [{"index": 1, "value": 1}],
        dut.i_pass: [{"tuples": 2, "share": 1, "begin": 0, "end": 5, "last": 1}],
        dut.i_tuple: [{"keys": 0xFF00, "start": 0, "end": 5}] * 2,
        dut.i_window: [0] * 5,
    }

    async def finish(ctx):
        for name in ("i_room", "i_quiet"):
            ctx.set(getattr(dut, name), 1)
        ctx.set(dut.o_report.ready, 1)
        ctx.set(dut.o_record[1 - slow].ready, 1)
        for _ in range(300):
            await ctx.tick()
            assert not ctx.get(dut.o_report.valid)
        ctx.set(dut.o_record[slow].ready, 1)
        reports = 0
        for _ in range(100):
            *_, valid = await ctx.tick().sample(dut.o_report.valid)
            reports += valid
        assert reports == 1

    async def offer(ctx):
        for port, offered in items.items():
            await feed(port, offered, rng)(ctx)

    bench(dut, finish, background=[offer])
