"""Several pipelines in one Verilated kernel: to the host, one pipeline with all their units."""

import numpy as np
import pytest

from penstock.errors import MissingToolError
from penstock.host.device.base import Task
from penstock.program import BandProgram
from penstock.sim.rtl_device import RtlDevice
from tests.host.kit.tasks import RANGES, band_join, expected, load, run_to_end, sorted_pairs

#: Units of all pipelines.
UNITS = 12

#: As many builds as numbers of pipelines; the default test run compiles one of them.
PIPELINES = [
    pytest.param(pipelines, marks=() if pipelines == 2 else pytest.mark.slow)
    for pipelines in (1, 2, 3, 4)
]


def opened(pipelines, **memory):
    try:
        return RtlDevice(units=UNITS // pipelines, pipelines=pipelines, **memory)
    except MissingToolError as cause:
        pytest.skip(str(cause))


@pytest.mark.parametrize(
    ("pipelines", "error", "message"),
    [
        (0, ValueError, "pipelines must be 1 to 16, not 0"),
        (17, ValueError, "pipelines must be 1 to 16, not 17"),
        ("two", TypeError, "pipelines must be an integer, not 'two'"),
    ],
)
def test_bad_numbers(pipelines, error, message):
    with pytest.raises(error, match=message):
        RtlDevice(pipelines=pipelines)


@pytest.mark.parametrize("pipelines", PIPELINES)
@pytest.mark.parametrize(
    "memory",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"latency_cycles": 30, "stalls": 0.4, "bandwidth": 0.5},
    ],
)
def test_joins_with_pauses(pipelines, memory):
    """Every kind of range, with room for one window tuple's matches, for some, and for all."""
    rng = np.random.default_rng(pipelines)
    with opened(pipelines, **memory) as device:
        for kind in RANGES:
            join = band_join(rng, 1, 32, 40, 200, kind)
            kernel = device.open(join.program)
            buffer = load(kernel, join)
            for room in (UNITS, 50, 100_000):
                results = run_to_end(kernel, buffer, join, room)
                np.testing.assert_array_equal(sorted_pairs(results), expected(join))
                assert sum(r.counters["evaluations"] for _, r in results) == join.evaluations
        assert device.counters()["units"] == UNITS


@pytest.mark.slow
@pytest.mark.parametrize("pipelines", [1, 2, 3, 4])
def test_fewer_tuples_than_pipelines(pipelines):
    """A pipeline without a tuple passes the window on, and says that it is done."""
    with opened(pipelines) as device:
        kernel = device.open(BandProgram(1, 0b10, 32))
        buffer = kernel.allocate(100)
        buffer.write(0, [np.arange(100)])
        for rows in (1, 2, 5):
            task = Task([np.zeros(rows), np.full(rows, 9)], np.zeros(rows), np.full(rows, 50), 999)
            result = kernel.submit(buffer, task).result()
            assert len(result.i) == 10 * rows
            assert result.pause is None
            assert result.counters["window_flits"] == 50
            assert result.counters["passes"] == 1


@pytest.mark.parametrize("pipelines", PIPELINES)
def test_window_tuples_per_cycle(pipelines):
    """The window is read once for all pipelines, and each pass follows the last one at once."""
    with opened(pipelines) as device:
        kernel = device.open(BandProgram(1, 0, 32))
        buffer = kernel.allocate(4000)
        buffer.write(0, [np.zeros(4000, int)])
        for laps in (1, 5):
            rows = UNITS * laps
            task = Task([np.ones(rows)] * 2, np.zeros(rows), np.full(rows, 4000), 1000)
            counters = kernel.submit(buffer, task).result().counters
            assert counters["passes"] == laps
            assert counters["window_flits"] == 4000 * laps
            assert counters["window_flits"] / counters["cycles"] >= 0.98
            assert counters["units"] == UNITS
            assert counters["admission_stalls"] == 0
