"""The paper's pipeline as a device; the conformance suite has the rest."""

import numpy as np
import pytest

from penstock.errors import DeviceError, MissingToolError
from penstock.host.device.base import Task
from penstock.host.device.registry import open_device
from penstock.hw.join.fjoin.predicates import manhattan
from penstock.program import BandProgram, Mode
from penstock.sim.fjoin_device import FJoinAmaranthDevice, FJoinDevice
from penstock.sim.verilated.compile_kernel import Tools
from penstock.types import int_of
from tests.host.kit.tasks import Join, load, run_to_end, sorted_pairs

LIMIT = 90


def tools_are_there():
    try:
        Tools.find()
    except MissingToolError:
        return False
    return True


needs_tools = pytest.mark.skipif(not tools_are_there(), reason="Verilator or g++ is not installed")


def random_join(seed, rows, window):
    """A join by Manhattan distance, and its pairs by brute force."""
    rng = np.random.default_rng(seed)
    stream, keys = ([rng.integers(-128, 128, count) for _ in range(2)] for count in (rows, window))
    start = np.sort(rng.integers(0, window, rows))
    end = np.maximum.accumulate(np.minimum(start + rng.integers(0, window, rows), window))
    distance = sum(abs(s[:, None] - w) for s, w in zip(stream, keys, strict=True))
    at = np.arange(window)
    hit = (distance < LIMIT) & (at >= start[:, None]) & (at < end[:, None])
    return Join(manhattan(8, limit=LIMIT), keys, stream, start, end), np.argwhere(hit)


def test_bad_options():
    with pytest.raises(ValueError, match="units must be 2 to 65536, not 1"):
        FJoinAmaranthDevice(units=1)
    with pytest.raises(DeviceError, match="has its predicate built in, in full width"):
        FJoinAmaranthDevice(key_bits=16)


def test_aggregates_are_refused():
    program = BandProgram(tests=1, table=0b10, key_bits=8)
    count = frozenset({Mode.COUNT})
    with FJoinAmaranthDevice() as device:
        assert device.refuses(program) is None
        assert "the paper's unit emits pairs only" in device.refuses(program, count)
        with pytest.raises(DeviceError, match="fjoin-amaranth device cannot run this program"):
            device.open(program, count)
        assert "not 2 to 32" in device.refuses(BandProgram(1, 0b10, key_bits=33))


@pytest.mark.parametrize("payload", [None, int_of(16, nullable=False)])
def test_band_programs_of_a_width_that_is_no_storage_width(payload):
    with FJoinAmaranthDevice(units=2) as device:
        kernel = device.open(BandProgram(tests=1, table=0b10, key_bits=11, payload=payload))
        buffer = kernel.allocate(9)
        columns = [np.arange(9, dtype=np.uint16) + 2039, np.arange(9, dtype=np.int16) - 4]
        buffer.write(0, columns if payload else columns[:1])
        bounds = [np.array([2040, 2045], np.uint16), np.array([2042, 2046], np.uint16)]
        task = Task(bounds, np.array([0, 0]), np.array([9, 9]), 99)
        result = kernel.submit(buffer, task).result()
        pairs = list(zip(result.i.tolist(), result.j.tolist(), strict=True))
    assert sorted(pairs) == [(0, 1), (0, 2), (0, 3), (1, 6), (1, 7)]


@needs_tools
@pytest.mark.slow
@pytest.mark.parametrize("options", [{"units": 6}, {"units": 3, "pipelines": 2}])
def test_against_brute_force_on_a_slow_memory(options):
    """Random stalls, latency and half the bandwidth; room for a few pairs and for all."""
    join, pairs = random_join(1, 40, 300)
    memory = {"latency_cycles": 30, "bandwidth": 0.5, "stalls": 0.3}
    with FJoinDevice(**options, **memory) as device:
        kernel = device.open(join.program)
        buffer = load(kernel, join)
        for room in (kernel.min_room, 700, 10_000):
            results = run_to_end(kernel, buffer, join, room)
            np.testing.assert_array_equal(sorted_pairs(results), pairs)
            evaluations = sum(result.counters["evaluations"] for _, result in results)
            assert evaluations == join.evaluations
            assert (len(results) > 1) == (room < len(pairs))


@needs_tools
@pytest.mark.slow
def test_cycles_are_those_of_load_join_and_clear():
    units, window = 6, 400
    with open_device("fjoin", units=units) as device:
        kernel = device.open(manhattan(8, limit=LIMIT))
        buffer = kernel.allocate(window)
        buffer.write(0, [np.full(window, 100)] * 2)
        far = [np.full(3 * units, -100)] * 2
        task = Task(far, np.zeros(3 * units, int), np.full(3 * units, window), 99)
        counters = kernel.submit(buffer, task).result().counters
    assert (counters["passes"], counters["records"]) == (3, 0)
    assert counters["window_flits"] == 3 * window
    # Per pass: load and join take two cycles a tuple, drain and clear one a unit.
    steps = 3 * (2 * units + 2 * window + units + units)
    assert steps < counters["cycles"] < steps + 100
