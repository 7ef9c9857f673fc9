"""The model's cycles of the window kernel beside those that its Verilog counts."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import MissingToolError
from penstock.host.device.registry import open_device
from penstock.host.device.window_join import Arrivals, WindowTask
from penstock.host.model.pipeline_cycles import round_cycles, window_task_cycles
from penstock.program import BandProgram, WindowProgram

#: Tuples, ROWS, banks; and cycles of the Verilated kernel with two tests and a history of two
#: windows, counted once.
COUNTED = [
    (2, 16, 1, 89),
    (400, 16, 1, 3671),
    (100, 250, 4, 3836),
    (400, 256, 4, 13_799),
    (2, 1024, 8, 2329),
    (400, 1024, 8, 28_199),
]


@pytest.mark.parametrize(("tuples", "rows", "banks", "cycles"), COUNTED)
def test_counted_cycles(tuples: int, rows: int, banks: int, cycles: int) -> None:
    assert window_task_cycles(tuples, 2 * rows, rows, banks) == pytest.approx(cycles, rel=0.02)


#: Width of the memory port, tuples, ROWS; and cycles with 8 banks and tuples of 256 bits.
NARROW = [
    (128, 400, 1024, 30_128),
    (128, 400, 64, 2288),
    (64, 400, 1024, 34_226),
    (64, 1200, 1024, 86_226),
    (64, 400, 64, 2546),
]


@pytest.mark.parametrize(("bits", "tuples", "rows", "cycles"), NARROW)
def test_counted_cycles_of_narrow_ports(bits: int, tuples: int, rows: int, cycles: int) -> None:
    """The windows fill as fast as the port gives tuples."""
    predicted = window_task_cycles(tuples, 2 * rows, rows, 8, 256 / bits)
    assert predicted == pytest.approx(cycles, rel=0.01)


@pytest.mark.parametrize(("rows", "banks"), [(0, 1), (1, 1), (1000, 1), (1000, 64), (65_536, 64)])
def test_rounds_are_those_of_the_hardware(rows: int, banks: int) -> None:
    config = pytest.importorskip("penstock.hw.window.config", exc_type=ModuleNotFoundError)
    build = config.WindowConfig(depth=1 << 16, banks=banks)
    assert round_cycles(rows, banks) == build.round_cycles(rows, rows)


@pytest.mark.slow
def test_verilog() -> None:
    """The build of tests/host/test_window_join.py, with windows smaller than its queues."""
    rows, tuples = 12, 60
    part = BandProgram(tests=2, table=0b1000, key_bits=32)
    count = rows + tuples // 2
    keys = [np.zeros(count, np.uint32)] * 2
    # Empty ranges: results cost cycles that the model leaves to selectivity.
    bounds = [np.full(count, high, np.uint32) for high in (1, 0, 1, 0)]
    arrivals = Arrivals(np.arange(2 * count) % 2 == 1, (keys, keys), (bounds, bounds))
    try:
        device = open_device("rtl", rows_depth=16, banks=1)
    except MissingToolError as cause:
        pytest.skip(str(cause))
    with device:
        kernel = device.open(WindowProgram(part, part, (rows, rows)))
        task = WindowTask(arrivals, 2 * rows, kernel.min_room)
        cycles = kernel.submit(None, task).result(60).counters["cycles"]
        kernel.close()
    assert window_task_cycles(tuples, 2 * rows, rows, 1) == pytest.approx(cycles, rel=0.02)
