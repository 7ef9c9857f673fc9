"""The window join's Verilog, against brute force over what it admitted."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from penstock.errors import DeviceError, MissingToolError
from penstock.hw.join.band import band_match
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.layout import Side
from penstock.sim.verilated.compile_kernel import Tools
from penstock.sim.window.verilated import NEVER, Stream, VerilatedJoin
from tests.hw.window.reference import join
from tests.kit.effort import examples


def missing():
    try:
        Tools.find()
    except MissingToolError as error:
        return str(error)
    return None


pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "all tools are there")

KEY_BITS, TIME_BITS = 5, 7

#: Builds, and how many random schedules each runs under each policy: 200 together.
BUILDS = {
    "one bank": (WindowConfig(depth=16, key_bits=KEY_BITS), 60),
    "four banks": (WindowConfig(depth=32, banks=4, key_bits=KEY_BITS, outputs=2), 50),
    "band tests and times": (
        WindowConfig(depth=16, banks=2, tests=2, key_bits=KEY_BITS, time_bits=TIME_BITS),
        60,
    ),
    "64 banks": (WindowConfig(depth=128, banks=64, key_bits=16), 30),
}
NAMES = [
    pytest.param(name, marks=pytest.mark.slow if name == "64 banks" else ()) for name in BUILDS
]


@pytest.fixture(scope="module")
def builds():
    return {name: VerilatedJoin(config) for name, (config, _) in BUILDS.items()}


def test_two_hundred_schedules():
    assert sum(count for _, count in BUILDS.values()) == 200


@pytest.mark.parametrize("shed", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_random_schedules(builds, name, shed):
    """Under admission control, as many tuples are admitted as the rate formula allows."""
    admitted = dropped = allowed = 0
    for seed in range(examples(BUILDS[name][1])):
        one, other, ideal = check(builds[name], shed, random.Random(f"{name} {seed}"))
        admitted, dropped, allowed = admitted + one, dropped + other, allowed + ideal
    assert (dropped > 0) == shed
    if shed:
        assert admitted >= 0.99 * allowed


def check(built, shed, rng):
    """One schedule; how many tuples were admitted, were shed, and could be admitted."""
    config = built.config
    rows = {side: rng.choice([0, 1, config.depth, rng.randint(1, config.depth)]) for side in Side}
    tables = [rng.getrandbits(1 << config.tests) for _ in Side]
    before, after = rng.randrange(1 << TIME_BITS), rng.randrange(40)
    stalls = rng.choice([0, 0.2, 0.6])
    streams = {side: stream(config, rng) for side in Side}
    tuples = sum(len(each.due) for each in streams.values())
    last = max(int(each.due[-1]) for each in streams.values())
    # All rounds one after the other, and all results through the stalls; twice that, since what is
    # random may be unlucky.
    pairs = tuples * max(rows.values())
    limit = 2 * (last + tuples * config.round_cycles(*rows.values()) + pairs / (1 - stalls)) + 200
    out = built.run(
        streams,
        rows=(rows[Side.A], rows[Side.B]),
        limit=int(limit),
        room=pairs + 1,
        shed=shed,
        before=before,
        after=after,
        tables=tables,
        stalls=stalls,
        seed=rng.getrandbits(32),
    )
    assert out.finished, "it hangs"
    order = out.order()

    def joins(a, b, later):
        left, right = streams[Side.A].columns, streams[Side.B].columns
        if config.time_bits:
            apart = int(right["time"][b]) - int(left["time"][a])
            if not -before <= apart <= after:
                return False
        if not config.is_band:
            return left["key"][a] == right["key"][b]
        probe, window = (left["probe"][a], right["window"][b])
        if later is Side.B:
            probe, window = right["probe"][b], left["window"][a]
        low, high = probe[: config.tests], probe[config.tests :]
        return band_match(tables[later.value], list(window), list(zip(low, high, strict=True)))

    found = Counter(zip(out.a.tolist(), out.b.tolist(), map(Side, out.later.tolist()), strict=True))
    assert found == Counter(join(order, rows[Side.A], rows[Side.B], joins))
    assert all((out.arrived[side] != NEVER).all() for side in Side)
    dropped = tuples - len(order)
    for side, name in ((Side.A, "a"), (Side.B, "b")):
        arrived = len(streams[side].due)
        admitted, shed_ = (out.counters[f"{what}_{name}"] for what in ("admitted", "shed"))
        assert admitted == int((out.admitted[side] != NEVER).sum())
        assert admitted + shed_ == arrived
    if not shed:
        assert dropped == 0
        taken = [(int(out.arrived[side][n]), side.value, n) for side, n in order]
        assert taken == sorted(taken), "tuples are admitted in the order of their arrival"
    return len(order), dropped, ideal(config, streams, rows, joins, 1 - stalls)


def ideal(config, streams, rows, joins, share):
    """Tuples that an operator admits whose rounds take what formula (5) says, as corrected.

    A round takes the tuple that waits of each side, and as long as it must read, or as its results
    need to leave if the port takes one in this share of cycles. Meanwhile one tuple per side
    may come to wait, and others are dropped.
    """
    due = {side: streams[side].due.tolist() for side in Side}
    at, now, admitted = dict.fromkeys(Side, 0), 0, 0
    windows = {side: [] for side in Side}
    waiting = dict.fromkeys(Side)

    def arrive(until):
        for side in Side:
            while at[side] < len(due[side]) and due[side][at[side]] < until:
                if waiting[side] is None:
                    waiting[side] = at[side]
                at[side] += 1

    while True:
        arrive(now)
        if not any(n is not None for n in waiting.values()):
            left = [due[side][at[side]] for side in Side if at[side] < len(due[side])]
            if not left:
                return admitted
            now = max(now, min(left)) + 1
            continue
        came = [side for side in Side if waiting[side] is not None]
        came.sort(key=lambda side: due[side][waiting[side]])
        read, results = 0, []
        for side in came:
            other = windows[side.other][-rows[side.other] :] if rows[side.other] else []
            read = max(read, len(other))
            new = waiting[side]
            pairs = [(new, old) if side is Side.A else (old, new) for old in other]
            results.append(sum(bool(joins(*pair, side)) for pair in pairs))
            windows[side].append(waiting[side])
            admitted += 1
        waiting = dict.fromkeys(Side)
        # Both sides share one port, or have one each.
        needed = sum(results) if config.outputs == 1 else max(results)
        now += max(math.ceil(needed / share), config.round_cycles(read, 0))


def stream(config, rng):
    """Random tuples; their payloads are their indices."""
    count = rng.randint(1, 60)
    numbers = np.random.default_rng(rng.getrandbits(32))
    pace = rng.choice([1, 3, 10])
    columns = {"payload": np.arange(count)}
    if config.is_band:
        columns["window"] = numbers.integers(0, 1 << KEY_BITS, (count, config.tests))
        columns["probe"] = numbers.integers(0, 1 << KEY_BITS, (count, 2 * config.tests))
    else:
        columns["key"] = numbers.choice([3, 3, 19], count)
    if config.time_bits:
        columns["time"] = numbers.integers(0, 1 << TIME_BITS, count)
    return Stream(np.sort(numbers.integers(0, pace * count, count)), columns)


@pytest.mark.parametrize("shed", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_output_stalled_for_ever(builds, name, shed):
    """It waits and says so. Under admission control inputs take all tuples, and all but the few
    that were admitted before and the two that wait are shed; else they take none after these."""
    config, tuples = BUILDS[name][0], 400
    columns = {"payload": np.arange(tuples), "time": np.zeros(tuples)}
    if config.is_band:
        columns["window"] = np.zeros((tuples, config.tests))
        columns["probe"] = np.zeros((tuples, 2 * config.tests))
    else:
        columns["key"] = np.zeros(tuples)
    streams = {side: Stream(np.zeros(tuples), columns) for side in Side}
    settings = {"rows": (config.depth,) * 2, "tables": (-1, -1), "shed": shed}
    out = builds[name].run(streams, **settings, limit=3000, room=0, stalls=1.0)
    assert not out.finished
    assert len(out.a) == 0
    # All cycles, but for the rounds in which the FIFOs fill.
    assert out.waits > 2900
    counters = out.counters
    for side, which in ((Side.A, "a"), (Side.B, "b")):
        taken = int((out.arrived[side] != NEVER).sum())
        admitted = counters[f"admitted_{which}"]
        # As many as fill the FIFOs with groups, and not one more.
        assert admitted < 20
        assert admitted + counters[f"shed_{which}"] + 1 == taken
        assert taken == (tuples if shed else admitted + 1)


def test_no_room_for_results(builds):
    columns = {"payload": np.arange(9), "key": np.zeros(9)}
    streams = {side: Stream(np.zeros(9), columns) for side in Side}
    with pytest.raises(DeviceError, match="gave more than 5 words"):
        builds["one bank"].run(streams, rows=(16, 16), limit=2000, room=5)


def test_wide_payloads():
    with pytest.raises(ValueError, match=r"must have 64 bits at most, not \(65, 32\)"):
        VerilatedJoin(WindowConfig(payload_a_bits=65))


def saturated(built, rows, tuples, key=lambda side, index: side.value):
    """Queue writes of streams that never wait, with windows that are full for half of the run."""
    columns = {
        side: {
            "payload": np.arange(tuples),
            "key": np.array([key(side, index) for index in range(tuples)]),
        }
        for side in Side
    }
    streams = {side: Stream(np.zeros(tuples), columns[side]) for side in Side}
    limit = tuples * (built.config.round_cycles(rows, rows) + 2 * rows) + 100
    return built.run(streams, rows=(rows, rows), limit=limit, room=2 * tuples * rows)


def test_rate_of_the_paper():
    """One bank: f / (ROWS + 2) tuples per second and side, exactly, once the windows are full."""
    out = saturated(VerilatedJoin(WindowConfig(depth=1024, key_bits=KEY_BITS)), 1000, 1100)
    for side in Side:
        assert set(np.diff(out.admitted[side][1000:])) == {1002}


@pytest.mark.slow
def test_sixty_times_the_rate_of_the_paper():
    """ROWS 65,536 and 64 banks, 0.1 % of the pairs joined, one result per cycle; none is lost."""
    rows, period, more = 1 << 16, 1024, 20
    config = WindowConfig(depth=rows, banks=64, key_bits=16)
    columns = {"payload": np.arange(rows + more), "key": np.arange(rows + more) % period}
    streams = {side: Stream(np.zeros(rows + more), columns) for side in Side}
    for side in Side:
        streams[side].due[rows:] = 2 * rows + 100
    out = VerilatedJoin(config).run(
        streams, rows=(rows, rows), fill=2 * rows + 50, limit=10 * rows, room=10 * rows
    )
    assert out.finished
    # A joins the 64 older tuples of B, and B those of A.
    assert Counter(out.later.tolist()) == {side.value: more * rows // period for side in Side}
    for side in Side:
        step = np.diff(out.admitted[side][rows:])
        assert (rows + 2) / step.mean() >= 60
        assert step.max() <= config.round_cycles(rows, rows) == 1026


@pytest.mark.slow
def test_rate_with_64_banks(builds):
    """A 64th of the cycles, although windows begin in any of the banks."""
    out = saturated(builds["64 banks"], 128, 400)
    for side in Side:
        steps = set(np.diff(out.admitted[side][200:]).tolist())
        assert steps == {builds["64 banks"].config.round_cycles(128, 128)} == {4}
