"""The self-test of a join kernel: a known join, and its cycles against the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from penstock.errors import DeviceError

from ...device.base import Kernel, Result, Task
from ...device.cut import Piece, run_to_end, whole
from ...model.load import BatchHalf
from ...model.pipeline_cycles import task_cycles
from .device import BoardDevice
from .known import all_tests, bounds, codes, compare, no_bounds, timed, words
from .package import Package

#: Sizes of the known join: stream tuples and window.
_TUPLES, _WINDOW = 100, 4000


def has_model(package: Package) -> bool:
    """Whether the model knows the cycles of its kernels."""
    return package.table["geometry"]["pipelines"] == 1


def known_join(device: BoardDevice, package: Package) -> str:
    """Compare a join with the CPU device's.

    Raises
    ------
    DeviceError
        The pairs differ, or the kernel does not run.
    """
    rng, program = np.random.default_rng(2), all_tests(package)
    window = codes(rng, program, _WINDOW)
    stream = bounds(rng, program, _TUPLES)
    start = np.sort(rng.integers(0, _WINDOW // 2, _TUPLES))

    def run(kernel: Kernel) -> Iterator[Result]:
        buffer = kernel.allocate(_WINDOW)
        buffer.write(0, window)
        room = max(kernel.min_room, _TUPLES * _WINDOW)

        def run_piece(piece: Piece) -> Result:
            task = Task(piece.entries(stream), piece.start, piece.end, room)
            result = kernel.submit(buffer, task).result(device.timeout_s * 2)
            if result.pause is not None and not len(result.i):
                raise DeviceError("a task paused before its first pair; the kernel does not run")
            return result

        for piece, result in run_to_end(whole(start, start + _WINDOW // 2), run_piece):
            yield replace(result, i=piece.rebased(result.i), pause=None)
        buffer.free()

    return compare(device, package, program, run, _TUPLES * _WINDOW // 2)


def cycles(device: BoardDevice, package: Package) -> str:
    """Compare the cycles of a task with the model.

    Raises
    ------
    DeviceError
        They differ, or the kernel does not run.
    """
    program, units = all_tests(package), package.table["geometry"]["units"]
    start = np.zeros(units, np.int64)
    kernel = device.open_with(package, program)
    try:
        buffer = kernel.allocate(_WINDOW)
        buffer.write(0, codes(np.random.default_rng(2), program, _WINDOW))
        task = Task(no_bounds(program, units), start, start + _WINDOW, room=kernel.min_room)
        took = kernel.submit(buffer, task).result(device.timeout_s * 2).counters["cycles"]
        buffer.free()
    finally:
        kernel.close()
    rate = package.clock_mhz * 1e6 * units * _WINDOW / took
    expected = task_cycles(
        BatchHalf(units, _WINDOW, 0),
        units,
        tuple_words=words(package, "tuple_slot_bits"),
        window_words=words(package, "window_slot_bits"),
    )
    return timed(took, expected, f"{rate:.3g} evaluations/s")
