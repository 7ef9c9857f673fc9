"""Known joins for the self-tests of both sorts of kernels: keys, and checks of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from penstock.errors import DeviceError
from penstock.program import AnyProgram, BandProgram

from ...device.base import Kernel, Result
from ..cpu import CpuDevice
from .device import BoardDevice
from .package import Package

#: Largest relative difference of cycles from the model.
_TOLERANCE = 0.05


def all_tests(package: Package) -> BandProgram:
    """The program that is true where all tests of a kernel pass."""
    geometry = package.table["geometry"]
    tests = geometry["tests"]
    bits = max(width for width in (16, 32, 64) if width <= geometry["key_bits"])
    return BandProgram(tests, 1 << (1 << tests) - 1, bits)


def dtype_of(program: BandProgram) -> np.dtype:
    """Dtype of a program's codes."""
    return np.dtype(f"u{program.key_bits // 8}")


def codes(rng: np.random.Generator, program: BandProgram, count: int) -> list[np.ndarray]:
    """Random window keys of ``count`` tuples."""
    dtype = dtype_of(program)
    return [rng.integers(0, _most(dtype), count, dtype) for _ in range(program.tests)]


def bounds(rng: np.random.Generator, program: BandProgram, count: int) -> list[np.ndarray]:
    """Random stream keys of ``count`` tuples; about every other pair matches."""
    dtype = dtype_of(program)
    most, share = _most(dtype), 0.5 ** (1 / program.tests)
    columns = []
    for _ in range(program.tests):
        low = rng.integers(0, int(most * (1 - share)) + 1, count, dtype)
        columns += [low, low + dtype.type(most * share)]
    return columns


def no_bounds(program: BandProgram, count: int) -> list[np.ndarray]:
    """Stream keys without a match, so that no result waits for the memory."""
    dtype = dtype_of(program)
    return [np.full(count, high, dtype) for _ in range(program.tests) for high in (1, 0)]


def _most(dtype: np.dtype) -> int:
    return np.iinfo(dtype).max // 4


def compare(
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


def words(package: Package, slot: str) -> float:
    """Words of a memory port that a tuple takes; ``slot`` names its size in the package."""
    geometry = package.table["geometry"]
    return geometry[slot] / (8 * geometry["word_bytes"])


def timed(cycles: int, expected: float, rate: str) -> str:
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
