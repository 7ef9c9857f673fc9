import random

import numpy as np
import pytest
from amaranth.sim import Simulator

from penstock.expr import ops
from penstock.hw.hls.delay import DelayModel
from penstock.hw.join.band import band_match
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.flit import Kind
from penstock.hw.join.modes import CODES
from penstock.hw.join.pipeline import Pipeline
from penstock.program import GeneralProgram, Mode
from penstock.sim._pipeline import PipelineSimulator
from penstock.types import int_of
from tests.kit.effort import effort

KEY_BITS = 8


def pack(values):
    return sum(int(value) << KEY_BITS * place for place, value in enumerate(values))


class Case:
    """A random band task and its pairs by brute force."""

    def __init__(self, rng, *, tests, table, start, end, window, span=256):
        n = len(start)
        self.keys = [[rng.randrange(span) for _ in range(tests)] for _ in range(window)]
        bounds = [
            [sorted((rng.randrange(span), rng.randrange(span))) for _ in range(tests)]
            for _ in range(n)
        ]
        self.start, self.end = np.array(start), np.array(end)
        self.arguments = {
            "tuples": [pack([lo for lo, _ in b] + [hi for _, hi in b]) for b in bounds],
            "start": self.start,
            "end": self.end,
            "window": [pack(keys) for keys in self.keys],
            "table": table,
        }
        self.pairs = {
            (i, j)
            for i in range(n)
            for j in range(start[i], end[i])
            if band_match(table, self.keys[j], bounds[i])
        }


def ranges(rng, n, window, longest):
    start = np.sort([rng.randrange(window - 1) for _ in range(n)])
    end = np.maximum.accumulate([min(window, s + 1 + rng.randrange(longest)) for s in start])
    return start, end


def pairs_of(run):
    pairs = list(zip(run.i.tolist(), run.j.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    return set(pairs)


@pytest.mark.parametrize("seed", range(effort(4, 2)))
@pytest.mark.parametrize(("units", "per_block"), [(8, 4), (5, 2), (3, 32)])
def test_random_tasks_with_gaps_and_stalls(units, per_block, seed):
    rng = random.Random(seed)
    config = JoinConfig(
        units=units, units_per_block=per_block, tests=2, key_bits=KEY_BITS, spare_records=1
    )
    simulator = PipelineSimulator(config, gaps=0.3, stalls=0.6, seed=seed)
    for longest in (3, 60):
        start, end = ranges(rng, 20, 60, longest)
        case = Case(rng, tests=2, table=0b1110, start=start, end=end, window=60)
        run = simulator.run(**case.arguments)
        assert pairs_of(run) == case.pairs
        assert (run.complete, run.loaded) == (20, 20)


def test_more_tuples_than_units_in_one_pass():
    rng = random.Random(1)
    simulator = PipelineSimulator(
        JoinConfig(units=8, units_per_block=4, tests=1, key_bits=KEY_BITS)
    )
    start = np.arange(40)
    case = Case(rng, tests=1, table=0b10, start=start, end=start + 8, window=48)
    run = simulator.run(**case.arguments)
    assert run.passes == 1
    assert pairs_of(run) == case.pairs


def test_segments():
    """Thirty tuples that all meet the whole window need four passes of eight units."""
    rng = random.Random(2)
    simulator = PipelineSimulator(
        JoinConfig(units=8, units_per_block=4, tests=1, key_bits=KEY_BITS)
    )
    case = Case(rng, tests=1, table=0b10, start=[0] * 30, end=[50] * 30, window=50)
    run = simulator.run(**case.arguments)
    assert (run.passes, run.window_flits) == (4, 200)
    assert pairs_of(run) == case.pairs


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ([0, 0, 0, 0], [5, 5, 5, 5]),
        ([0, 5, 10, 15], [5, 10, 15, 20]),
        ([0, 0, 3, 3, 3], [3, 3, 6, 6, 20]),
        ([0], [20]),
        ([19], [20]),
        ([7, 8, 9], [8, 9, 10]),
    ],
    ids=["ties", "touching", "touching ties", "full", "last", "single"],
)
def test_shapes_of_ranges(start, end):
    """Twice in a row, since the second task must not see the first one's state."""
    rng = random.Random(3)
    simulator = PipelineSimulator(JoinConfig(units=4, tests=1, key_bits=KEY_BITS))
    for table in (0b10, 0b11):
        case = Case(rng, tests=1, table=table, start=start, end=end, window=20)
        assert pairs_of(simulator.run(**case.arguments)) == case.pairs


@pytest.mark.parametrize("tests", range(1, 9))
def test_truth_tables(tests):
    rng = random.Random(tests)
    config = JoinConfig(units=4, units_per_block=2, tests=tests, key_bits=KEY_BITS)
    simulator = PipelineSimulator(config)
    for _ in range(2):
        table = rng.getrandbits(config.table_bits)
        start, end = ranges(rng, 6, 30, 20)
        case = Case(rng, tests=tests, table=table, start=start, end=end, window=30)
        assert pairs_of(simulator.run(**case.arguments)) == case.pairs


@pytest.mark.parametrize("stalls", [0.0, pytest.param(0.95, marks=pytest.mark.slow)])
def test_everything_matches_and_nothing_is_lost(stalls):
    """Each window tuple makes a record in each block, far more than the output takes."""
    config = JoinConfig(units=12, units_per_block=3, tests=1, key_bits=KEY_BITS, spare_records=1)
    simulator = PipelineSimulator(config, stalls=stalls, seed=5)
    rng = random.Random(4)
    case = Case(rng, tests=1, table=0b11, start=[0] * 12, end=[150] * 12, window=150)
    run = simulator.run(**case.arguments)
    assert pairs_of(run) == case.pairs
    assert len(case.pairs) == 12 * 150
    assert run.admission_stalls > 0


def test_the_reserve_is_exact():
    """With results stalled for good, each FIFO fills to its last place and never beyond."""
    config = JoinConfig(units=12, units_per_block=4, tests=1, key_bits=KEY_BITS, spare_records=5)
    pipeline = Pipeline(config)
    deepest = [0] * config.blocks

    async def bench(ctx):
        ctx.set(pipeline.i_room, 1)
        entry = pipeline.i_entry
        for index in range(2):
            ctx.set(entry.payload, {"index": index, "value": 1})
            ctx.set(entry.valid, 1)
            await ctx.tick()
        ctx.set(entry.valid, 0)
        ctx.set(pipeline.i_pass.payload, {"tuples": 12, "begin": 0, "end": 500, "last": 1})
        ctx.set(pipeline.i_pass.valid, 1)
        ctx.set(pipeline.i_tuple.payload, {"keys": 0xFF00, "start": 0, "end": 500})
        ctx.set(pipeline.i_tuple.valid, 1)
        ctx.set(pipeline.i_window.valid, 1)
        for _ in range(200):
            await ctx.tick()
            for block in pipeline.chain.blocks:
                assert ctx.get(block.fifo.w_rdy) or not ctx.get(block.fifo.w_en)
                deepest[block.index] = max(deepest[block.index], ctx.get(block.fifo.level))

    simulator = Simulator(pipeline)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert all(deepest[b] <= config.fifo_depth(b) for b in range(config.blocks))
    # All blocks get the same records here, so the smallest FIFO, the first one, stops the head.
    assert deepest[0] == config.fifo_depth(0)


@pytest.mark.parametrize("units", [8, pytest.param(32, marks=pytest.mark.slow)])
def test_window_tuples_per_cycle(units):
    """Over a whole task of a long window without matches, load and drain included."""
    simulator = PipelineSimulator(JoinConfig(units=units, tests=2, key_bits=KEY_BITS))
    rng = random.Random(6)
    length = 100 * units if units > 8 else 2000
    case = Case(rng, tests=2, table=0, start=[0] * units, end=[length] * units, window=length)
    run = simulator.run(**case.arguments)
    assert run.window_flits == length
    assert run.window_flits / run.cycles >= 0.95


def test_values_wait_for_room():
    """With values stalled for good, the outlet fills up and never overflows."""
    modes = frozenset({Mode.PAIRS, Mode.COUNT})
    config = JoinConfig(
        units=7, units_per_block=3, tests=1, key_bits=KEY_BITS, modes=modes, spare_records=5
    )
    pipeline = Pipeline(config)
    fifo = pipeline.chain.outlet.fifo
    deepest = 0

    async def bench(ctx):
        nonlocal deepest
        ctx.set(pipeline.i_room, 1)
        entry = pipeline.i_entry
        ctx.set(entry.payload, {"index": 0, "value": 0, "mode": CODES[Mode.COUNT]})
        ctx.set(entry.valid, 1)
        await ctx.tick()
        ctx.set(entry.valid, 0)
        # Each tuple's range is over when its load has passed: a value every fourth cycle, until
        # the end of the pass; then one per cycle.
        ctx.set(pipeline.i_pass.payload, {"tuples": 7, "begin": 0, "end": 1, "last": 0})
        ctx.set(pipeline.i_pass.valid, 1)
        ctx.set(pipeline.i_tuple.payload, {"keys": 0xFF00, "start": 0, "end": 1})
        ctx.set(pipeline.i_tuple.valid, 1)
        ctx.set(pipeline.i_window.valid, 1)
        for _ in range(300):
            await ctx.tick()
            deepest = max(deepest, ctx.get(fifo.level))

    simulator = Simulator(pipeline)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert config.spare_records < deepest <= config.outlet_depth


@pytest.mark.parametrize("units", [effort(32, 8), pytest.param(48, marks=pytest.mark.slow)])
def test_window_tuples_per_cycle_with_counts(units):
    """Everything matches; besides loads there is a COLLECT per tuple and nothing else."""
    modes = frozenset({Mode.PAIRS, Mode.COUNT})
    config = JoinConfig(units=units, tests=2, key_bits=KEY_BITS, modes=modes)
    simulator = PipelineSimulator(config)
    length = 2000
    case = Case(
        random.Random(6), tests=2, table=15, start=[0] * units, end=[length] * units, window=length
    )
    run = simulator.run(**case.arguments, mode=Mode.COUNT)
    assert run.values == [length] * units
    assert run.window_flits == length
    overhead = run.cycles - length - 3 * units
    assert overhead <= 2 * config.drain_cycles + config.table_bits


def test_trace():
    simulator = PipelineSimulator(JoinConfig(units=4, tests=1, key_bits=KEY_BITS), trace=True)
    case = Case(random.Random(7), tests=1, table=2, start=[0, 2], end=[4, 9], window=9)
    run = simulator.run(**case.arguments)
    assert len(run.trace) == run.cycles
    assert sum(cycle.kind == Kind.WINDOW for cycle in run.trace) == 9
    assert max(cycle.active for cycle in run.trace) == 2
    assert run.trace[-1].active == 0


@pytest.mark.parametrize("room", [4, 40, 400])
def test_out_of_room(room):
    """Pieces between pauses add up to the whole, and none exceeds its room."""
    simulator = PipelineSimulator(JoinConfig(units=4, units_per_block=2, tests=1, key_bits=8))
    rng = random.Random(room)
    start, end = ranges(rng, 12, 60, 30)
    case = Case(rng, tests=1, table=0b11, start=start, end=end, window=60)
    todo = [(np.arange(12), case.start, case.end)]
    found = []
    while todo:
        rows, first, stop = todo.pop()
        if len(rows) == 0:
            continue
        tuples = [case.arguments["tuples"][i] for i in rows]
        run = simulator.run(
            tuples=tuples,
            start=first,
            end=stop,
            window=case.arguments["window"],
            table=0b11,
            room=room,
        )
        assert len(run.i) <= room
        found += zip(rows[run.i].tolist(), run.j.tolist(), strict=True)
        part = slice(run.complete, run.loaded)
        rest = np.maximum(first[part], run.position)
        kept = rest < stop[part]
        todo.append((rows[part][kept], rest[kept], stop[part][kept]))
        todo.append((rows[run.loaded :], first[run.loaded :], stop[run.loaded :]))
        assert len(found) > 0
    assert len(found) == len(set(found))
    assert set(found) == case.pairs


@pytest.mark.parametrize("period_ps", [1000, 3333])
def test_stream_keys_stay_until_they_are_used(period_ps):
    """A general program reads stream keys late; a unit must not be loaded again too early.

    The last one is read in the last cycle in which it must be there, and not kept in a register.
    """
    number = int_of(8, signed=False, nullable=False)
    s = [ops.key("s", i, number) for i in range(2)]
    w = ops.key("w", 0, number)
    distance = ops.sub(s[0], w)
    predicate = ops.lt(ops.mul(distance, distance), s[1])
    program = GeneralProgram((number, number), (number,), predicate)
    config = JoinConfig(
        units=3, units_per_block=2, program=program, delays=DelayModel(period_ps=period_ps)
    )
    assert (config.settle_cycles > 0) == (period_ps == 1000)
    rng = random.Random(8)
    n, width = 40, 43
    stream = [(rng.randrange(32), rng.randrange(256)) for _ in range(n)]
    window = [rng.randrange(32) for _ in range(width)]
    start = np.arange(n)
    end = start + 3
    run = PipelineSimulator(config).run(
        tuples=[pack(keys) for keys in stream], start=start, end=end, window=window
    )
    assert run.passes == 1
    assert pairs_of(run) == {
        (i, j)
        for i, (middle, most) in enumerate(stream)
        for j in range(start[i], end[i])
        if (middle - window[j]) ** 2 < most
    }


@pytest.mark.parametrize("collects", [False, True], ids=["chain", "pipeline"])
def test_a_report_waits_for_the_last_block(collects):
    """The first block has no record, the last one has some that stall."""
    config = JoinConfig(units=4, units_per_block=2, tests=1, key_bits=KEY_BITS)
    dut = Pipeline(config) if collects else config.chain()
    record = dut.o_result if collects else dut.o_record[1]
    records = 6

    async def offer(ctx, port, items):
        for item in items:
            ctx.set(port.payload, item)
            ctx.set(port.valid, 1)
            await ctx.tick().until(port.ready)
        ctx.set(port.valid, 0)

    async def bench(ctx):
        ctx.set(dut.i_room, 1)
        if not collects:
            ctx.set(dut.i_quiet, 1)
        await offer(ctx, dut.i_entry, [{"index": 1, "value": 1}])
        await offer(ctx, dut.i_pass, [{"tuples": 4, "begin": 0, "end": records, "last": 1}])
        # Bands that no key meets, and those of the last block that all meet.
        bounds = [0x00FF, 0x00FF, 0xFF00, 0xFF00]
        await offer(ctx, dut.i_tuple, [{"keys": b, "start": 0, "end": records} for b in bounds])
        await offer(ctx, dut.i_window, [7] * records)
        for taken in range(records):
            await ctx.tick().repeat(2 * config.drain_cycles)
            assert ctx.get(record.valid)
            assert not ctx.get(dut.o_report.valid), f"{taken} of {records} records were taken"
            assert not ctx.get(dut.o_quiet)
            ctx.set(record.ready, 1)
            await ctx.tick()
            ctx.set(record.ready, 0)
        await ctx.tick().repeat(2 * config.drain_cycles)
        assert not ctx.get(record.valid)
        assert ctx.get(dut.o_report.valid)
        assert ctx.get(dut.o_quiet)

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
