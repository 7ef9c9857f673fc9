"""The window join's Verilog, against brute force over what it admitted."""

import random
from collections import Counter

import numpy as np
import pytest

from penstock.errors import DeviceError, MissingToolError
from penstock.hw.join.band import band_match
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.layout import Side
from penstock.hw.window.model import join
from penstock.sim.verilated.build import Tools
from penstock.sim.window.verilated import NEVER, Stream, VerilatedJoin


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
    "four banks": (WindowConfig(depth=32, banks=4, key_bits=KEY_BITS, outputs=2, records=3), 50),
    "band tests and times": (
        WindowConfig(depth=16, banks=2, tests=2, key_bits=KEY_BITS, time_bits=TIME_BITS),
        60,
    ),
    "64 banks": (WindowConfig(depth=128, banks=64, key_bits=KEY_BITS), 30),
}


@pytest.fixture(scope="module")
def builds():
    return {name: VerilatedJoin(config) for name, (config, _) in BUILDS.items()}


def test_two_hundred_schedules():
    assert sum(count for _, count in BUILDS.values()) == 200


@pytest.mark.parametrize("shed", [False, True])
@pytest.mark.parametrize("name", BUILDS)
def test_random_schedules(builds, name, shed):
    shed_somewhere = 0
    for seed in range(BUILDS[name][1]):
        shed_somewhere += check(builds[name], shed, random.Random(f"{name} {seed}"))
    assert (shed_somewhere > 0) == shed


def check(built, shed, rng):
    """One schedule; returns how many tuples were shed."""
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
    if not shed:
        assert dropped == 0
        taken = [(int(out.arrived[side][n]), side.value, n) for side, n in order]
        assert taken == sorted(taken), "tuples are admitted in the order of their arrival"
    return dropped


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
def test_output_stalled_for_ever(builds, shed):
    columns = {"payload": np.arange(200), "key": np.zeros(200)}
    streams = {side: Stream(np.zeros(200), columns) for side in Side}
    out = builds["one bank"].run(streams, rows=(16, 16), limit=2000, room=0, shed=shed, stalls=1.0)
    assert not out.finished
    assert len(out.a) == 0
    assert out.waits > 1900
    taken = [int((out.arrived[side] != NEVER).sum()) for side in Side]
    assert taken == [200, 200] if shed else max(taken) < 20


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
    config = WindowConfig(depth=rows, banks=64, key_bits=10)
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


def test_rate_with_64_banks(builds):
    """A 64th of the cycles, although windows begin in any of the banks."""
    out = saturated(builds["64 banks"], 128, 400)
    for side in Side:
        steps = set(np.diff(out.admitted[side][200:]).tolist())
        assert steps == {builds["64 banks"].config.round_cycles(128, 128)} == {4}


@pytest.mark.parametrize("matches", [False, True])
@pytest.mark.parametrize("share", [0.25, 0.5, 0.9, 1.0, 1.5])
def test_admission_follows_the_rate_formula(share, matches):
    """Tuples that come faster than a round are admitted at the rate of rounds, the others all.

    A round is as long as its results need: both sides' matches through one port, or ROWS + 2.
    """
    rows, arrivals = 256, 300
    join_ = VerilatedJoin(WindowConfig(depth=1024, key_bits=KEY_BITS))
    cycles = max(2 * rows * matches, rows + 2)
    interval = round(share * cycles)
    due = np.concatenate([4 * np.arange(rows), 5 * rows + interval * np.arange(arrivals)])
    tuples = len(due)
    streams = {
        side: Stream(due, {"payload": np.arange(tuples), "key": np.full(tuples, side.value)})
        for side in Side
    }
    if matches:
        streams = {side: Stream(due, {**streams[side].columns, "key": due * 0}) for side in Side}
    room = 2 * rows * tuples
    out = join_.run(
        streams,
        rows=(rows, rows),
        fill=5 * rows - 50,
        limit=arrivals * cycles * 2,
        room=room,
        shed=True,
    )
    assert out.finished
    for side in Side:
        assert (out.admitted[side][:rows] != NEVER).all()
        admitted = int((out.admitted[side][rows:] != NEVER).sum())
        assert admitted >= 0.99 * min(interval / cycles, 1) * arrivals
        # One that waits when the last one comes, and the first results in the FIFOs.
        assert admitted <= min(interval / cycles * 1.01 * arrivals + 2, arrivals)
    if matches:
        last = sum(int((out.admitted[side][rows:] != NEVER).sum()) for side in Side)
        assert len(out.a) == last * rows
