"""The operator in Amaranth's simulator, against brute force over what it admitted."""

import random
from collections import Counter

import pytest

from penstock.hw.join.band import band_match
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.layout import Side, State
from penstock.hw.window.operator import WindowJoin
from tests.hw.window.kit import run, stalls
from tests.hw.window.reference import join
from tests.kit.effort import effort

KEY_BITS, TIME_BITS = 4, 6


def test_reference():
    """ROWS 2 and 1: each tuple sees the latest of the other side that came before it."""
    order = [
        (Side.A, "a"),
        (Side.A, "b"),
        (Side.A, "c"),
        (Side.B, 1),
        (Side.B, 2),
        (Side.A, "d"),
    ]
    found = list(join(order, 2, 1, lambda a, b, later: (a, b) != ("c", 1)))
    assert found == [
        ("b", 1, Side.B),
        ("b", 2, Side.B),
        ("c", 2, Side.B),
        ("d", 2, Side.A),
    ]


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("depth", [2, 4])
def test_the_case_of_the_paper(depth, parallel):
    """ROWS 1, arrivals a, 1, b, 2: three results at every spacing."""
    for spacing in range(8):
        config = WindowConfig(depth=depth, key_bits=1, parallel=parallel)
        schedules = {
            Side.A: [(0, tuple_of(config, 0xA)), (2 * spacing, tuple_of(config, 0xB))],
            Side.B: [(spacing, tuple_of(config, 1)), (3 * spacing, tuple_of(config, 2))],
        }
        settings = {"rows_a": 1, "rows_b": 1}
        found = run(WindowJoin(config), schedules, settings=settings, limit=100).results
        assert sorted(result[:2] for result in found) == [(0xA, 1), (0xB, 1), (0xB, 2)]


@pytest.mark.parametrize("first", Side)
def test_two_tuples_of_one_instant(first):
    """Full queues of 2: the first still sees the oldest, the second sees the first."""
    config = WindowConfig(depth=2, key_bits=1)
    offset = {first: 0, first.other: 1}
    # The tuples before keep the operator busy until both wait.
    schedules = {
        side: [(20 * n + offset[side], tuple_of(config, n)) for n in range(2)]
        + [(40, tuple_of(config, 2)), (43 + offset[side], tuple_of(config, 3))]
        for side in Side
    }
    out = run(WindowJoin(config), schedules, settings={"rows_a": 2, "rows_b": 2}, limit=200)
    assert Counter(out.results) == expected(out, config, 2, 2)
    # Both were written in one round, in the order of their arrival.
    assert out.writes[first.other][3] - out.writes[first][3] == 2
    assert out.admitted[-2:] == [(side, schedules[side][3][1]) for side in (first, first.other)]
    pairs = {(a, b): later for a, b, later in out.results if 3 in (a, b)}
    oldest = (3, 1) if first is Side.A else (1, 3)
    assert pairs[oldest] is first
    assert pairs[3, 3] is first.other


CONFIGS = {
    "one bank": WindowConfig(depth=8, key_bits=KEY_BITS),
    "two results per cycle": WindowConfig(depth=4, key_bits=KEY_BITS, outputs=2),
    "two banks": WindowConfig(depth=4, banks=2, key_bits=KEY_BITS, payload_a_bits=9),
    "four banks, short output": WindowConfig(depth=16, banks=4, key_bits=KEY_BITS, records=7),
    "eight banks, two results": WindowConfig(depth=32, banks=8, key_bits=KEY_BITS, outputs=2),
    "sequential": WindowConfig(depth=8, banks=2, key_bits=KEY_BITS, parallel=False),
    "times": WindowConfig(depth=8, key_bits=KEY_BITS, time_bits=TIME_BITS),
    "one band test": WindowConfig(depth=8, banks=2, tests=1, key_bits=KEY_BITS),
    "band tests and times": WindowConfig(
        depth=8, banks=4, tests=3, key_bits=KEY_BITS, time_bits=TIME_BITS
    ),
    "table in LUTRAM": WindowConfig(depth=8, banks=2, tests=5, key_bits=KEY_BITS),
    "wide key": WindowConfig(depth=8, key_bits=300, payload_b_bits=100),
}


@pytest.mark.parametrize("seed", range(effort(3, 1)))
@pytest.mark.parametrize("shed", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_random_schedules(name, shed, seed):
    rng = random.Random(f"{name} {shed} {seed}")
    config = CONFIGS[name]
    rows_a, rows_b = (rng.randint(0 if seed else config.depth, config.depth) for _ in Side)
    settings = {"rows_a": rows_a, "rows_b": rows_b, "shed": shed}
    if config.time_bits:
        settings |= {"before": rng.randrange(20), "after": rng.choice([0, 5, 63])}
    tables = {side: rng.getrandbits(1 << config.tests) for side in Side}
    entries = [
        {"index": index, "value": tables[side] >> index & 1, "side": side}
        for side in Side
        for index in range(1 << config.tests)
    ]
    pace = rng.choice([1, 4, 12])
    schedules = {
        side: sorted(
            (
                (rng.randrange(40 * pace), random_tuple(config, number, rng))
                for number in range(rng.randint(10, 40))
            ),
            key=lambda entry: entry[0],
        )
        for side in Side
    }
    tuples = sum(map(len, schedules.values()))
    # Each round, and each result at the share of cycles in which the output takes one.
    limit = 40 * pace + tuples * (config.depth + 4) * 10 + 100
    out = run(
        WindowJoin(config),
        schedules,
        settings=settings,
        entries=entries if config.is_band else (),
        ready=stalls(rng, rng.choice([0, 0.3, 0.7])),
        limit=limit,
    )
    assert Counter(out.results) == expected(out, config, rows_a, rows_b, settings, tables)
    assert len(out.arrived) == tuples == len(out.admitted) + out.dropped
    counters = out.counters
    assert counters["admitted_a"] + counters["admitted_b"] == len(out.admitted)
    assert counters["shed_a"] + counters["shed_b"] == out.dropped
    if not shed:
        assert out.admitted == out.arrived


@pytest.mark.parametrize("shed", [False, True])
def test_output_stalled_for_ever(shed):
    """It waits and says so; with shed it still takes all tuples, without it none after the first
    few; nothing comes or goes twice."""
    config = WindowConfig(depth=4, key_bits=1, records=7)
    schedules = {side: [(0, tuple_of(config, n)) for n in range(40)] for side in Side}
    join_ = WindowJoin(config)
    settings = {"rows_a": 4, "rows_b": 4, "shed": shed}
    out = run(
        join_, schedules, settings=settings, ready=lambda cycle: False, limit=300, until_idle=False
    )
    assert State.WAIT in out.states
    assert out.results == []
    assert len(out.arrived) == len(out.admitted) + out.dropped + out.counters["waiting"]
    assert out.counters["waiting"] == 2
    if shed:
        assert len(out.arrived) == 80
    else:
        assert out.dropped == 0
        assert len(out.arrived) < 20


def test_policy_that_changes():
    """Nothing is dropped before the change to shed and after the change back, some between."""
    config = WindowConfig(depth=8, key_bits=1)
    schedules = {side: [(0, tuple_of(config, n)) for n in range(120)] for side in Side}
    out = run(
        WindowJoin(config),
        schedules,
        settings={"rows_a": 8, "rows_b": 8, "shed": 0},
        changes={150: {"shed": 1}, 200: {"shed": 0}},
        limit=4000,
    )
    assert Counter(out.results) == expected(out, config, 8, 8)
    # Between, an input takes a tuple in each of 50 cycles, and a round needs at least 10.
    assert 2 * (50 - 6) <= out.dropped <= 2 * 50
    assert len(out.arrived) == 240 == len(out.admitted) + out.dropped


def test_windows_that_change():
    """Rows count when a tuple is admitted: a wider window has the older tuples back."""
    config = WindowConfig(depth=8, key_bits=1)
    schedules = {
        Side.A: [(20 * n, tuple_of(config, n)) for n in range(6)],
        Side.B: [(200 + 40 * n, tuple_of(config, n)) for n in range(4)],
    }
    rows = [1, 5, 0, 8]
    out = run(
        WindowJoin(config),
        schedules,
        settings={"rows_b": 0},
        changes={180 + 40 * n: {"rows_a": rows[n]} for n in range(4)},
        limit=500,
    )
    found = [a for a, _, _ in out.results]
    assert found == [5, *range(1, 6), *range(6)]


def test_a_full_queue_that_is_searched_further():
    """A window that becomes as wide as the queue has all of its tuples."""
    config = WindowConfig(depth=8, key_bits=1)
    schedules = {
        Side.A: [(20 * n, tuple_of(config, n)) for n in range(11)],
        Side.B: [(300 + 40 * n, tuple_of(config, n)) for n in range(2)],
    }
    changes = {280: {"rows_a": 3}, 320: {"rows_a": 15}}
    out = run(WindowJoin(config), schedules, settings={"rows_a": 8}, changes=changes, limit=600)
    assert [a for a, _, _ in out.results] == [*range(8, 11), *range(3, 11)]


@pytest.mark.parametrize(
    ("banks", "rows", "cycles"),
    [(1, 1, 3), (1, 6, 8), (1, 16, 18), (2, 16, 10), (4, 13, 6), (4, 16, 6), (8, 9, 4), (8, 16, 4)],
)
def test_cycles_per_tuple(banks, rows, cycles):
    """Saturated inputs and full windows: ROWS + 2 cycles per tuple and side with one bank, as the
    paper has it, and ROWS / P + 2 with P banks, wherever in a row of banks the window begins."""
    config = WindowConfig(depth=16, banks=banks, key_bits=1)
    # Keys differ: the output is no limit.
    schedules = {
        side: [(0, tuple_of(config, n, key=side.value)) for n in range(40)] for side in Side
    }
    settings = {"rows_a": rows, "rows_b": rows}
    out = run(WindowJoin(config), schedules, settings=settings, limit=2000)
    for side in Side:
        steps = [
            after - before
            for before, after in zip(out.writes[side][20:], out.writes[side][21:], strict=False)
        ]
        assert set(steps) == {cycles} == {config.round_cycles(rows, rows)}


def test_parallel_matching_is_twice_as_fast():
    """Paper 4, figures 3 and 4."""
    cycles = {}
    for parallel in (True, False):
        config = WindowConfig(depth=16, key_bits=1, parallel=parallel)
        schedules = {
            side: [(0, tuple_of(config, n, key=side.value)) for n in range(60)] for side in Side
        }
        settings = {"rows_a": 16, "rows_b": 16}
        out = run(WindowJoin(config), schedules, settings=settings, limit=4000)
        cycles[parallel] = out.writes[Side.A][-1] - out.writes[Side.A][20]
    assert cycles[False] == 2 * cycles[True]


def test_two_results_per_cycle():
    """All pairs match: one port needs two cycles per queue tuple, two need one."""
    cycles = {}
    for outputs in (1, 2):
        config = WindowConfig(depth=16, key_bits=1, outputs=outputs)
        schedules = {side: [(0, tuple_of(config, n)) for n in range(60)] for side in Side}
        settings = {"rows_a": 16, "rows_b": 16}
        out = run(WindowJoin(config), schedules, settings=settings, limit=4000)
        cycles[outputs] = (out.writes[Side.A][-1] - out.writes[Side.A][20]) / 39
    assert cycles[2] == 18
    assert cycles[1] == pytest.approx(32, rel=0.01)


def tuple_of(config, payload, key=0):
    """A tuple of an equality build without times."""
    return {"key": key, "payload": payload}


def random_tuple(config, number, rng):
    """A tuple whose keys meet others often; its payload is its number."""
    fields = {"payload": number}
    if config.is_band:
        codes = [[rng.randrange(1 << KEY_BITS) for _ in range(config.tests)] for _ in range(3)]
        fields |= {"window": codes[0], "probe": codes[1:]}
    else:
        # Keys that differ in the highest bit only are different keys.
        fields["key"] = rng.choice([1, 1, 1 | 1 << config.key_bits - 1])
    if config.time_bits:
        fields["time"] = rng.randrange(1 << TIME_BITS)
    return fields


def expected(out, config, rows_a, rows_b, settings=None, tables=None):
    """Brute force over what was admitted; how often each result must leave."""

    def joins(a, b, later):
        if config.time_bits:
            apart = b["time"] - a["time"]
            if not -settings["before"] <= apart <= settings["after"]:
                return False
        if not config.is_band:
            return a["key"] == b["key"]
        probe, window = (a["probe"], b["window"]) if later is Side.A else (b["probe"], a["window"])
        return band_match(tables[later], window, list(zip(*probe, strict=True)))

    return Counter(
        (a["payload"], b["payload"], later)
        for a, b, later in join(out.admitted, rows_a, rows_b, joins)
    )
