"""What the self-tests of both sorts of kernels have: keys of known joins, and verdicts."""

from __future__ import annotations

import numpy as np

from penstock.errors import DeviceError
from penstock.program import BandProgram

from .package import Package

#: What the cycles may be away from the model.
_TOLERANCE = 0.05

#: Pairs of a join.
Pairs = set[tuple[int, int]]


def all_tests(package: Package) -> BandProgram:
    """The program that is true where all tests of a kernel are."""
    geometry = package.table["geometry"]
    tests = geometry["tests"]
    bits = max(width for width in (16, 32, 64) if width <= geometry["key_bits"])
    return BandProgram(tests, 1 << (1 << tests) - 1, bits)


def dtype_of(program: BandProgram) -> np.dtype:
    """Of its codes."""
    return np.dtype(f"u{program.key_bits // 8}")


def codes(rng: np.random.Generator, program: BandProgram, count: int) -> list[np.ndarray]:
    """Window keys of so many tuples."""
    dtype = dtype_of(program)
    return [rng.integers(0, _most(dtype), count, dtype) for _ in range(program.tests)]


def bounds(rng: np.random.Generator, program: BandProgram, count: int) -> list[np.ndarray]:
    """Stream keys of so many tuples, which about every other window tuple matches."""
    dtype = dtype_of(program)
    most, share = _most(dtype), 0.5 ** (1 / program.tests)
    found = []
    for _ in range(program.tests):
        low = rng.integers(0, int(most * (1 - share)) + 1, count, dtype)
        found += [low, low + dtype.type(most * share)]
    return found


def no_bounds(program: BandProgram, count: int) -> list[np.ndarray]:
    """Stream keys that nothing matches, so that no result waits for the memory."""
    dtype = dtype_of(program)
    return [np.full(count, high, dtype) for _ in range(program.tests) for high in (1, 0)]


def _most(dtype: np.dtype) -> int:
    return np.iinfo(dtype).max // 4


def compared(ours: Pairs, right: Pairs, evaluations: int) -> str:
    """What a known join gave.

    Raises
    ------
    DeviceError
        Not what it should.
    """
    if ours != right:
        raise DeviceError(
            f"the kernel computes another predicate: {len(ours - right)} pairs that do not match, "
            f"{len(right - ours)} of {len(right)} missing"
        )
    return f"{len(right):,} pairs of {evaluations:,} as on the CPU device"


def timed(cycles: int, expected: float, rate: str) -> str:
    """What a task took.

    Raises
    ------
    DeviceError
        Not what the model has.
    """
    text = f"{cycles:,} cycles, the model has {expected:,.0f}: {rate}"
    if abs(cycles / expected - 1) > _TOLERANCE:
        raise DeviceError(f"{text}; the memory is slower than the kernel needs")
    return text
