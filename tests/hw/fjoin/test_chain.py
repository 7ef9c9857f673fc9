import random

import numpy as np
import pytest

from penstock.hw.join.fjoin.config import FJoinConfig
from penstock.hw.join.fjoin.predicates import manhattan
from penstock.hw.join.flit import pass_layout, tuple_layout
from penstock.hw.join.pipeline import Pipeline
from penstock.sim._pipeline import PipelineSimulator
from tests.hw.kernel.kit import bench
from tests.kit.effort import effort

KEY_BITS = 8


def config(units, limit=60, units_per_block=4):
    program = manhattan(KEY_BITS, limit=limit)
    return FJoinConfig(program=program, units=units, units_per_block=units_per_block)


def pack(point):
    return sum((value & 0xFF) << KEY_BITS * place for place, value in enumerate(point))


class Case:
    """A random task and its pairs by brute force."""

    def __init__(self, rng, start, end, window, limit=60):
        def points(count):
            return [(rng.randint(-128, 127), rng.randint(-128, 127)) for _ in range(count)]

        stream, keys = points(len(start)), points(window)
        self.arguments = {
            "tuples": [pack(point) for point in stream],
            "start": np.array(start),
            "end": np.array(end),
            "window": [pack(point) for point in keys],
        }
        self.pairs = {
            (i, j)
            for i, (x, y) in enumerate(stream)
            for j in range(start[i], end[i])
            if abs(x - keys[j][0]) + abs(y - keys[j][1]) < limit
        }


def ranges(rng, n, window, longest):
    start = np.sort([rng.randrange(window - 1) for _ in range(n)])
    end = np.maximum.accumulate([min(window, s + 1 + rng.randrange(longest)) for s in start])
    return start, end


def pairs_of(run):
    pairs = list(zip(run.i.tolist(), run.j.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    return set(pairs)


@pytest.mark.parametrize("seed", range(effort(3, 1)))
@pytest.mark.parametrize(("units", "per_block"), [(6, 2), (5, 32), (2, 1)])
@pytest.mark.parametrize(("gaps", "stalls"), [(0.0, 0.0), (0.3, 0.7)])
def test_random_tasks(units, per_block, seed, gaps, stalls):
    """Several passes of either kind: full ones, and ones cut at a gap."""
    rng = random.Random(seed)
    build = config(units, limit=150, units_per_block=per_block)
    simulator = PipelineSimulator(build, gaps=gaps, stalls=stalls, seed=seed)
    for longest in (3, 60):
        start, end = ranges(rng, 20, 60, longest)
        case = Case(rng, start, end, 60, limit=150)
        run = simulator.run(**case.arguments)
        assert pairs_of(run) == case.pairs != set()
        assert (run.complete, run.loaded) == (20, 20)
        assert run.window_flits == sum(p.end - p.begin for p in build.plan(start, end))


@pytest.mark.parametrize("stalls", [0.0, 0.9])
def test_everything_matches_and_nothing_is_lost(stalls):
    """Results collide in every unit and back up behind an outlet that is rarely emptied."""
    simulator = PipelineSimulator(config(7, limit=1000), stalls=stalls, seed=1)
    case = Case(random.Random(2), [0] * 9, [40] * 9, 40, limit=1000)
    run = simulator.run(**case.arguments)
    assert len(case.pairs) == 9 * 40
    assert pairs_of(run) == case.pairs
    assert (run.admission_stalls > 100) == (stalls > 0)


@pytest.mark.parametrize("seed", range(effort(4, 2)))
@pytest.mark.parametrize("room", [6, 20, 100])
def test_pauses_are_exact(room, seed):
    """All before the pause is there and nothing after it; the rest are tasks of their own."""
    rng = random.Random(seed)
    simulator = PipelineSimulator(config(6, limit=200), stalls=0.3, seed=seed)
    start, end = ranges(rng, 15, 40, 30)
    case = Case(rng, start, end, 40, limit=200)
    found, waiting, pauses = set(), [(np.arange(15), start, end)], 0
    while waiting:
        rows, begin, until = waiting.pop()
        kept = begin < until
        rows, begin, until = rows[kept], begin[kept], until[kept]
        if len(rows) == 0:
            continue
        given = {**case.arguments, "start": begin, "end": until, "room": room}
        given["tuples"] = [case.arguments["tuples"][row] for row in rows]
        run = simulator.run(**given)
        assert len(run.i) <= room
        pairs = {(int(rows[i]), j) for i, j in pairs_of(run)}
        assert not pairs & found
        found |= pairs
        if run.complete == len(rows):
            continue
        pauses += 1
        i0, i1, p = run.complete, run.loaded, run.position
        stopped = np.where(np.arange(len(rows)) < i0, until, np.minimum(until, p))
        stopped[i1:] = 0
        assert pairs == {
            (i, j)
            for i, low, high in zip(rows.tolist(), begin, stopped, strict=True)
            for j in range(low, high)
            if (i, j) in case.pairs
        }
        waiting.append((rows[i1:], begin[i1:], until[i1:]))
        waiting.append((rows[i0:i1], np.maximum(begin[i0:i1], p), until[i0:i1]))
    assert found == case.pairs
    assert pauses > 0


def drive(passes, tuples, *, halt_after=None):
    """Reports and faults of two equal tasks, the second of which must not see the first."""
    build = config(4)
    pipeline = Pipeline(build)
    fields = pass_layout(build)
    keys = tuple_layout(build)["keys"].width
    reports = []

    async def process(ctx):
        ctx.set(pipeline.i_room, 1)
        ctx.set(pipeline.o_result.ready, 1)
        ctx.set(pipeline.i_window.valid, 1)
        for _ in range(2):
            waiting = [list(passes), list(tuples)]
            ports = (pipeline.i_pass, pipeline.i_tuple)
            cycle = 0
            while True:
                for port, items in zip(ports, waiting, strict=True):
                    ctx.set(port.valid, bool(items))
                    if items:
                        ctx.set(port.payload.as_value(), items[0])
                ctx.set(pipeline.i_halt, halt_after is not None and cycle >= halt_after)
                *_, taken_pass, taken_tuple, ended = await ctx.tick().sample(
                    *(port.ready for port in ports), pipeline.o_report.valid
                )
                cycle += 1
                for items, taken in zip(waiting, (taken_pass, taken_tuple), strict=True):
                    if items and taken:
                        items.pop(0)
                if ended:
                    break
            report = ctx.get(pipeline.o_report.payload)
            reports.append((report.complete, report.loaded, report.position))
            reports[-1] += (bool(ctx.get(pipeline.o_fault)),)
            for port in ports:
                ctx.set(port.valid, 0)
            ctx.set(pipeline.i_halt, 0)
            ctx.set(pipeline.o_report.ready, 1)
            await ctx.tick()
            ctx.set(pipeline.o_report.ready, 0)

    passes = [
        n
        | begin << fields["begin"].offset
        | end << fields["end"].offset
        | last << fields["last"].offset
        for n, begin, end, last in passes
    ]
    tuples = [start << keys | end << keys + build.position_bits for start, end in tuples]
    bench(pipeline, process)
    assert reports[0] == reports[1]
    return reports[0]


@pytest.mark.parametrize(
    ("passes", "tuples", "report"),
    [
        ([(2, 3, 9, 1)], [(3, 5), (4, 9)], (2, 2, 9, False)),
        ([(1, 3, 9, 0), (1, 9, 12, 1)], [(3, 9), (9, 12)], (2, 2, 12, False)),
        ([(2, 3, 9, 1)], [(3, 5), (2, 9)], (0, 1, 3, True)),
        ([(2, 3, 9, 1)], [(3, 5), (5, 10)], (0, 1, 3, True)),
        ([(1, 3, 9, 0), (1, 9, 12, 1)], [(3, 9), (10, 10)], (1, 1, 9, True)),
        ([(5, 0, 9, 1)], [(0, 9)] * 5, (0, 0, 0, True)),
        ([(1, 0, 9, 0), (0, 3, 9, 1)], [(0, 9)], (1, 1, 9, False)),
    ],
    ids=["one", "two", "early", "late", "empty", "too many", "none"],
)
def test_reports_and_faults(passes, tuples, report):
    assert drive(passes, tuples) == report


@pytest.mark.parametrize("halt_after", range(0, 90, 3))
def test_a_halt_is_heard_in_every_state(halt_after):
    passes, tuples = [(3, 2, 9, 0), (2, 5, 20, 1)], [(2, 9), (2, 9), (3, 9), (5, 20), (6, 20)]
    complete, loaded, position, fault = drive(passes, tuples, halt_after=max(halt_after, 2))
    assert not fault
    assert complete in (0, 3, 5)
    assert complete <= loaded <= {0: 3, 3: 5, 5: 5}[complete]
    assert position in {0: range(2, 10), 3: range(5, 21), 5: [20]}[complete]


def test_window_tuples_do_not_overtake_the_last_stream_tuple():
    """A single tuple walks through all units, with the window at its heels."""
    build = config(16, limit=1000)
    case = Case(random.Random(5), [0], [30], 30, limit=1000)
    assert pairs_of(PipelineSimulator(build).run(**case.arguments)) == case.pairs
    assert len(case.pairs) == 30
