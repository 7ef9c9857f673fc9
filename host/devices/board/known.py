"""Known joins for the self-tests of both sorts of kernels, and their cycles against the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from penstock.errors import DeviceError
from penstock.program import AnyProgram, BandProgram, WindowProgram

from ...device.base import Kernel, Result, Task
from ...device.cut import Piece, run_to_end, whole
from ...device.window_join import Arrivals, WindowTask
from ...model.load import BatchHalf
from ...model.pipeline_cycles import task_cycles, window_task_cycles
from ..cpu import CpuDevice
from .device import BoardDevice
from .package import Package

#: Sizes of the known join of a join kernel: stream tuples and window.
_TUPLES, _WINDOW = 100, 4000
#: Tuples of the known window join, of both sides, and the most ROWS of its windows.
_BOTH, _ROWS = 600, 64
#: For its cycles: most ROWS of the windows, and tuples to match.
_FULL_ROWS, _MATCHED = 1024, 400
#: Largest relative difference of cycles from the model.
_TOLERANCE = 0.05


class JoinSelftest:
    """The self-test of a join kernel."""

    @staticmethod
    def has_model(package: Package) -> bool:
        """Whether the model knows the cycles of its kernels."""
        return package.table["geometry"]["pipelines"] == 1

    @staticmethod
    def known_join(device: BoardDevice, package: Package) -> str:
        """Compare a join with the CPU device's.

        Raises
        ------
        DeviceError
            The pairs differ, or the kernel does not run.
        """
        rng, program = np.random.default_rng(2), _all_tests(package)
        window = _codes(rng, program, _WINDOW)
        stream = _bounds(rng, program, _TUPLES)
        start = np.sort(rng.integers(0, _WINDOW // 2, _TUPLES))

        def run(kernel: Kernel) -> Iterator[Result]:
            buffer = kernel.allocate(_WINDOW)
            buffer.write(0, window)
            room = max(kernel.min_room, _TUPLES * _WINDOW)

            def run_piece(piece: Piece) -> Result:
                task = Task(piece.entries(stream), piece.start, piece.end, room)
                result = kernel.submit(buffer, task).result(device.timeout_s * 2)
                if result.pause is not None and not len(result.i):
                    raise DeviceError(
                        "a task paused before its first pair; the kernel does not run"
                    )
                return result

            for piece, result in run_to_end(whole(start, start + _WINDOW // 2), run_piece):
                yield replace(result, i=piece.rebased(result.i), pause=None)
            buffer.free()

        return _compare(device, package, program, run, _TUPLES * _WINDOW // 2)

    @staticmethod
    def cycles(device: BoardDevice, package: Package) -> str:
        """Compare the cycles of a task with the model.

        Raises
        ------
        DeviceError
            They differ, or the kernel does not run.
        """
        program, units = _all_tests(package), package.table["geometry"]["units"]
        start = np.zeros(units, np.int64)
        kernel = device.open_with(package, program)
        try:
            buffer = kernel.allocate(_WINDOW)
            buffer.write(0, _codes(np.random.default_rng(2), program, _WINDOW))
            task = Task(_no_bounds(program, units), start, start + _WINDOW, room=kernel.min_room)
            took = kernel.submit(buffer, task).result(device.timeout_s * 2).counters["cycles"]
            buffer.free()
        finally:
            kernel.close()
        rate = package.clock_mhz * 1e6 * units * _WINDOW / took
        expected = task_cycles(
            BatchHalf(units, _WINDOW, 0),
            units,
            tuple_words=_words(package, "tuple_slot_bits"),
            window_words=_words(package, "window_slot_bits"),
        )
        return _timed(took, expected, f"{rate:.3g} evaluations/s")


class WindowSelftest:
    """The self-test of a window-join operator."""

    @staticmethod
    def has_model(package: Package) -> bool:
        """Whether the model knows the cycles of its kernels."""
        return package.table["geometry"]["parallel"]

    @staticmethod
    def known_join(device: BoardDevice, package: Package) -> str:
        """Compare a join with the CPU device's.

        Raises
        ------
        DeviceError
            The pairs differ, or the kernel does not run.
        """
        part, rows = _all_tests(package), _rows(package, _ROWS)
        is_b = np.random.default_rng(3).random(_BOTH) < 0.5
        tuples, program = _arrivals(part, is_b, match=True), WindowProgram(part, part, rows)
        start, end = tuples.met(rows)

        def run(kernel: Kernel) -> Iterator[Result]:
            room, done = max(kernel.min_room, len(tuples) * _ROWS), 0
            while done < len(tuples):
                task = WindowTask(tuples, done, room)
                result = kernel.submit(None, task).result(device.timeout_s * 2)
                before, done = done, len(tuples) if result.pause is None else result.pause.i0
                if done <= before:
                    raise DeviceError(
                        "a task paused before its first tuple; the kernel does not run"
                    )
                yield replace(result, pause=None)

        return _compare(device, package, program, run, int((end - start).sum()))

    @staticmethod
    def cycles(device: BoardDevice, package: Package) -> str:
        """Compare the cycles of a task on full windows with the model.

        Raises
        ------
        DeviceError
            They differ, or the kernel does not run.
        """
        part, rows = _all_tests(package), _rows(package, _FULL_ROWS)
        history = sum(rows)
        is_b = np.arange(history + _MATCHED) % 2 == 1
        kernel = device.open_with(package, WindowProgram(part, part, rows))
        try:
            tuples = _arrivals(part, is_b, match=False)
            task = WindowTask(tuples, history, kernel.min_room)
            took = kernel.submit(None, task).result(device.timeout_s * 2).counters["cycles"]
        finally:
            kernel.close()
        rate = package.clock_mhz * 1e6 * (_MATCHED // 2) / (took - history)
        banks, slot = package.table["geometry"]["banks"], _words(package, "tuple_slot_bits")
        expected = window_task_cycles(_MATCHED, history, rows[0], banks, slot)
        return _timed(took, expected, f"{rate:.3g} tuples/s per side with ROWS {rows[0]}")


def _rows(package: Package, most: int) -> tuple[int, int]:
    rows = min(most, package.table["geometry"]["depth"])
    return rows, rows


def _arrivals(program: BandProgram, is_b: np.ndarray, *, match: bool) -> Arrivals:
    """Tuples with random codes; either about every other pair matches, or none does."""
    rng = np.random.default_rng(2)
    counts = int((~is_b).sum()), int(is_b.sum())
    a, b = (_codes(rng, program, count) for count in counts)
    s, t = (_bounds(rng, program, n) if match else _no_bounds(program, n) for n in counts)
    return Arrivals(is_b, (a, b), (s, t))


def _all_tests(package: Package) -> BandProgram:
    """The program that is true where all tests of a kernel pass."""
    geometry = package.table["geometry"]
    tests = geometry["tests"]
    bits = max(width for width in (16, 32, 64) if width <= geometry["key_bits"])
    return BandProgram(tests, 1 << (1 << tests) - 1, bits)


def _dtype_of(program: BandProgram) -> np.dtype:
    """Dtype of a program's codes."""
    return np.dtype(f"u{program.key_bits // 8}")


def _codes(rng: np.random.Generator, program: BandProgram, count: int) -> list[np.ndarray]:
    """Random window keys of ``count`` tuples."""
    dtype = _dtype_of(program)
    return [rng.integers(0, _most(dtype), count, dtype) for _ in range(program.tests)]


def _bounds(rng: np.random.Generator, program: BandProgram, count: int) -> list[np.ndarray]:
    """Random stream keys of ``count`` tuples; about every other pair matches."""
    dtype = _dtype_of(program)
    most, share = _most(dtype), 0.5 ** (1 / program.tests)
    columns = []
    for _ in range(program.tests):
        low = rng.integers(0, int(most * (1 - share)) + 1, count, dtype)
        columns += [low, low + dtype.type(most * share)]
    return columns


def _no_bounds(program: BandProgram, count: int) -> list[np.ndarray]:
    """Stream keys without a match, so that no result waits for the memory."""
    dtype = _dtype_of(program)
    return [np.full(count, high, dtype) for _ in range(program.tests) for high in (1, 0)]


def _most(dtype: np.dtype) -> int:
    return np.iinfo(dtype).max // 4


def _compare(
    device: BoardDevice,
    package: Package,
    program: AnyProgram,
    run: Callable[[Kernel], Iterable[Result]],
    evaluations: int,
) -> str:
    """Run a known join on a board and on the CPU device; returns a line for the user.

    Raises
    ------
    DeviceError
        The pairs differ, or the kernel does not run.
    """
    with CpuDevice() as cpu:
        kernels = device.open_with(package, program), cpu.open(program)
        ours, right = (_pairs(kernel, run) for kernel in kernels)
    if ours != right:
        raise DeviceError(
            f"the kernel computes another predicate: {len(ours - right)} pairs that do not match, "
            f"{len(right - ours)} of {len(right)} missing"
        )
    return f"{len(right):,} pairs of {evaluations:,} as on the CPU device"


def _pairs(kernel: Kernel, run: Callable[[Kernel], Iterable[Result]]) -> set[tuple[int, int]]:
    pairs: set[tuple[int, int]] = set()
    try:
        for result in run(kernel):
            pairs |= set(zip(result.i.tolist(), result.j.tolist(), strict=True))
    finally:
        kernel.close()
    return pairs


def _words(package: Package, slot: str) -> float:
    """Words of a memory port that a tuple takes; ``slot`` names its size in the package."""
    geometry = package.table["geometry"]
    return geometry[slot] / (8 * geometry["word_bytes"])


def _timed(cycles: int, expected: float, rate: str) -> str:
    """Compare the cycles of a task with the model's; returns a line for the user.

    Raises
    ------
    DeviceError
        The cycles differ from the model's.
    """
    text = f"{cycles:,} cycles, the model has {expected:,.0f}: {rate}"
    if abs(cycles / expected - 1) > _TOLERANCE:
        raise DeviceError(f"{text}; the memory is slower than the kernel needs")
    return text
