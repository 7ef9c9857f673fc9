"""The self-test of a window-join operator: a known join, and its throughput against the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from penstock.errors import DeviceError
from penstock.program import BandProgram, WindowProgram

from ...device.base import Kernel, Result
from ...device.window_join import Arrivals, WindowTask
from ...model.pipeline_cycles import window_task_cycles
from .device import BoardDevice
from .known import all_tests, bounds, codes, compare, no_bounds, timed, words
from .package import Package

#: Tuples of the known join, of both sides, and the most ROWS of its windows.
_TUPLES, _ROWS = 600, 64
#: For the throughput test: most ROWS of the windows, and tuples to match.
_FULL_ROWS, _MATCHED = 1024, 400


def has_model(package: Package) -> bool:
    """Whether the model knows the cycles of its kernels."""
    return package.table["geometry"]["parallel"]


def _rows(package: Package, most: int) -> tuple[int, int]:
    rows = min(most, package.table["geometry"]["depth"])
    return rows, rows


def _arrivals(program: BandProgram, is_b: np.ndarray, *, match: bool) -> Arrivals:
    """Tuples with random codes; either about every other pair matches, or none does."""
    rng = np.random.default_rng(2)
    counts = int((~is_b).sum()), int(is_b.sum())
    a, b = (codes(rng, program, count) for count in counts)
    s, t = (bounds(rng, program, n) if match else no_bounds(program, n) for n in counts)
    return Arrivals(is_b, (a, b), (s, t))


def known_join(device: BoardDevice, package: Package) -> str:
    """Compare a join with the CPU device's.

    Raises
    ------
    DeviceError
        The pairs differ, or the kernel does not run.
    """
    part, rows = all_tests(package), _rows(package, _ROWS)
    is_b = np.random.default_rng(3).random(_TUPLES) < 0.5
    tuples, program = _arrivals(part, is_b, match=True), WindowProgram(part, part, rows)
    start, end = tuples.met(rows)

    def run(kernel: Kernel) -> Iterator[Result]:
        room, done = max(kernel.min_room, len(tuples) * _ROWS), 0
        while done < len(tuples):
            task = WindowTask(tuples, done, room)
            result = kernel.submit(None, task).result(device.timeout_s * 2)
            before, done = done, len(tuples) if result.pause is None else result.pause.i0
            if done <= before:
                raise DeviceError("a task paused before its first tuple; the kernel does not run")
            yield replace(result, pause=None)

    return compare(device, package, program, run, int((end - start).sum()))


def cycles(device: BoardDevice, package: Package) -> str:
    """Compare the cycles of a task on full windows with the model.

    Raises
    ------
    DeviceError
        They differ, or the kernel does not run.
    """
    part, rows = all_tests(package), _rows(package, _FULL_ROWS)
    history = sum(rows)
    is_b = np.arange(history + _MATCHED) % 2 == 1
    kernel = device.open_with(package, WindowProgram(part, part, rows))
    try:
        tuples = _arrivals(part, is_b, match=False)
        task = WindowTask(tuples, history, kernel.min_room)
        took = kernel.submit(None, task).result(device.timeout_s * 2).counters["cycles"]
    finally:
        kernel.close()
    banks = package.table["geometry"]["banks"]
    rate = package.clock_mhz * 1e6 * (_MATCHED // 2) / (took - history)
    return timed(
        took,
        window_task_cycles(_MATCHED, history, rows[0], banks, words(package, "tuple_slot_bits")),
        f"{rate:.3g} tuples/s per side with ROWS {rows[0]}",
    )
