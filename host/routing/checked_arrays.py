"""Checks of numbers that callers pass, which become int64 arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.errors import DataError, UsageError

_MOST = (1 << 63) - 1


def checked_lanes(lanes: int) -> int:
    """Check a count of lanes.

    Raises
    ------
    UsageError
    """
    if isinstance(lanes, bool) or not isinstance(lanes, int | np.integer) or lanes < 1:
        raise UsageError(f"there cannot be {lanes!r} lanes; take 1 or more")
    return int(lanes)


def below(values: Any, name: str, count: int, remedy: str) -> np.ndarray:
    """Check numbers that are at least 0 and less than a count; returns them as int64.

    Raises
    ------
    DataError
    """
    numbers = _whole_numbers(values, name)
    if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= count):
        wrong = numbers[(numbers < 0) | (numbers >= count)][0]
        raise DataError(f"{name} {wrong} is unknown; give {remedy.format(count)}")
    return numbers


def amounts(values: Any, name: str) -> np.ndarray:
    """Check loads or sizes, whose sum must fit 64 bits; returns them as int64.

    Raises
    ------
    DataError
    """
    numbers = not_negative(values, name)
    # The halves' sums are exact for up to 2^31 parts.
    if (int((numbers >> 32).sum()) << 32) + int((numbers & 0xFFFFFFFF).sum()) > _MOST:
        raise DataError(
            f"the sum of all {name}s is beyond 64 bits; count in a coarser unit, such as thousands"
        )
    return numbers


def not_negative(values: Any, name: str) -> np.ndarray:
    """Check counts, which are at least 0; returns them as int64.

    Raises
    ------
    DataError
    """
    numbers = _whole_numbers(values, name)
    if len(numbers) and (least := int(numbers.min())) < 0:
        raise DataError(f"{name} {least} is negative; count tuples, from 0 on")
    return numbers


def _whole_numbers(values: Any, name: str) -> np.ndarray:
    numbers = np.asarray(values)
    if numbers.ndim != 1:
        raise DataError(f"{name}s have {numbers.ndim} dimensions; give one number per part")
    if numbers.dtype == np.int64:
        return numbers
    if not len(numbers):
        return np.zeros(0, np.int64)
    if numbers.dtype.kind in "iu" and numbers.dtype.itemsize < 8:
        return numbers.astype(np.int64)
    if numbers.dtype.kind not in "iufO":
        raise DataError(f"{name}s are {numbers.dtype}; give whole numbers")
    if numbers.dtype.kind == "f":  # NaN compares as false
        wrong = numbers[~((np.abs(numbers) < 2.0**63) & (np.floor(numbers) == numbers))][:1]
    else:
        wrong = [each for each in numbers.tolist() if not _fits(each)]
    for number in wrong[:1]:
        raise DataError(f"{name} {number} is no whole number of 64 bits; count in whole tuples")
    return numbers.astype(np.int64)


def _fits(number: object) -> bool:
    return isinstance(number, int) and -_MOST <= number <= _MOST
