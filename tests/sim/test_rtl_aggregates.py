"""Aggregates of the Verilated kernel, with one pipeline and with several."""

import itertools

import numpy as np
import pytest

from penstock.errors import MissingToolError
from penstock.host.device.base import Task
from penstock.program import BandProgram, Mode
from penstock.sim.rtl_device import RtlDevice
from penstock.types import int_of
from tests.kit.effort import effort
from tests.sim.test_aggregates import BAND_MODES, KINDS, VALUES, BandCase, check, general, loaded


def device(**options):
    try:
        return RtlDevice(**options)
    except MissingToolError as cause:
        pytest.skip(str(cause))


@pytest.mark.parametrize(
    ("pipelines", "modes"),
    [
        (1, BAND_MODES),
        pytest.param(3, {Mode.COUNT, Mode.EXISTS}, marks=pytest.mark.slow),
        pytest.param(3, BAND_MODES, marks=pytest.mark.slow),
    ],
)
def test_band_aggregates(pipelines, modes):
    """More tuples than units and fewer, the mode switched from task to task, slow memory."""
    rng = np.random.default_rng(pipelines)
    # Each number of tests is a kernel to compile; in the short run, one that the seed chooses.
    numbers = effort([1, 2], [1 + pipelines % 2])
    with device(units=effort(4, 2), pipelines=pipelines, stalls=0.3, seed=pipelines) as rtl:
        for tests, kind in itertools.product(numbers, KINDS):
            rows, window = int(rng.integers(1, 60)), int(rng.integers(40, 200))
            case = BandCase(rng, tests, 16, rows, window, kind)
            kernel = rtl.open(case.program, frozenset(modes))
            buffer = loaded(kernel, case.window)
            for mode in sorted(modes, key=lambda mode: mode.value):
                result = kernel.submit(buffer, case.task(mode)).result()
                if mode is Mode.PAIRS:
                    pairs = [(i, j) for i, hits in enumerate(case.hits) for j in hits]
                    assert sorted(zip(result.i.tolist(), result.j.tolist(), strict=True)) == pairs
                    continue
                check(result.folds, mode, case.hits, case.values)
                kept = int((case.start < case.end).sum())
                assert result.counters.get("records", 0) == kept


@pytest.mark.slow
def test_general_aggregates():
    """All modes of a program with a product, on two pipelines; the nearest and its position."""
    expression, plain = VALUES["product"]
    rng = np.random.default_rng(5)
    rows, width = 30, 90
    stream = [rng.integers(-10, 10, rows), rng.integers(0, 12, rows)]
    window = [rng.integers(-10, 10, width), rng.integers(-128, 128, width)]
    start = np.sort(rng.integers(0, width - 30, rows))
    end = start + 30
    s, w = np.array(stream).T.tolist(), np.array(window).T.tolist()
    hits = [
        [j for j in range(start[i], end[i]) if abs(s[i][0] - w[j][0]) < s[i][1]]
        for i in range(rows)
    ]
    values = [[plain(s[i], w[j]) for j in hits[i]] for i in range(rows)]
    with device(units=effort(4, 2), pipelines=2, latency_cycles=9) as rtl:
        kernel = rtl.open(general(expression), frozenset(Mode))
        buffer = loaded(kernel, window)
        for mode in Mode:
            result = kernel.submit(buffer, Task(stream, start, end, 1 << 20, mode)).result()
            if mode is Mode.PAIRS:
                assert len(result.i) == sum(map(len, hits))
            else:
                check(result.folds, mode, hits, values)


@pytest.mark.slow
def test_wide_values_and_values_that_no_mode_needs():
    """64-bit values have a build without sums; a kernel for pairs leaves values out."""
    program = BandProgram(1, 2, 32, payload=int_of(64, nullable=False))
    keys, values = np.array([1, 2, 3, 9]), np.array([-(1 << 63), 5, 1 << 62, 4])
    stream = [np.array([2, 4]), np.array([9, 5])]
    start, end = np.array([0, 0]), np.array([4, 4])
    with device(units=2) as rtl:
        assert "64 bits is too wide to be summed" in rtl.refuses(program, frozenset({Mode.SUM}))
        kernel = rtl.open(program, frozenset({Mode.MAX}))
        task = Task(stream, start, end, 99, Mode.MAX)
        folds = kernel.submit(loaded(kernel, [keys, values]), task).result().folds
        assert (folds.found.tolist(), folds.value.tolist()) == ([True, False], [1 << 62, 0])
    with device(units=8) as rtl:  # which other tests compile, too
        pairs = rtl.open(program)
        result = pairs.submit(loaded(pairs, [keys, values]), Task(stream, start, end, 99)).result()
        assert sorted(result.j.tolist()) == [1, 2, 3]
