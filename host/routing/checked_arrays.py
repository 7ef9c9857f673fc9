"""Numbers that callers give, as int64 arrays, once they are known to be right."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.errors import DataError, UsageError

_MOST = (1 << 63) - 1


def checked_lanes(lanes: int) -> int:
    """A count of lanes that is right.

    Raises
    ------
    UsageError
    """
    if isinstance(lanes, bool) or not isinstance(lanes, int | np.integer) or lanes < 1:
        raise UsageError(f"there cannot be {lanes!r} lanes; take 1 or more")
    return int(lanes)


def below(values: Any, what: str, count: int, remedy: str) -> np.ndarray:
    """Numbers from 0 on, less than a count, as int64.

    Raises
    ------
    DataError
    """
    found = _whole_numbers(values, what)
    if len(found) and (int(found.min()) < 0 or int(found.max()) >= count):
        wrong = found[(found < 0) | (found >= count)][0]
        raise DataError(f"{what} {wrong} is unknown; give {remedy.format(count)}")
    return found


def amounts(values: Any, what: str) -> np.ndarray:
    """Loads or sizes as int64, which can be added up.

    Raises
    ------
    DataError
    """
    found = not_negative(values, what)
    # The halves' sums are exact for up to 2^31 parts.
    if (int((found >> 32).sum()) << 32) + int((found & 0xFFFFFFFF).sum()) > _MOST:
        raise DataError(
            f"the sum of all {what}s is beyond 64 bits; count in a coarser unit, such as thousands"
        )
    return found


def not_negative(values: Any, what: str) -> np.ndarray:
    """Counts as int64.

    Raises
    ------
    DataError
    """
    found = _whole_numbers(values, what)
    if len(found) and (least := int(found.min())) < 0:
        raise DataError(f"{what} {least} is negative; count tuples, from 0 on")
    return found


def _whole_numbers(values: Any, what: str) -> np.ndarray:
    found = np.asarray(values)
    if found.ndim != 1:
        raise DataError(f"{what}s have {found.ndim} dimensions; give one number per part")
    if found.dtype == np.int64:
        return found
    if not len(found):
        return np.zeros(0, np.int64)
    if found.dtype.kind in "iu" and found.dtype.itemsize < 8:
        return found.astype(np.int64)
    if found.dtype.kind not in "iufO":
        raise DataError(f"{what}s are {found.dtype}; give whole numbers")
    if found.dtype.kind == "f":  # NaN compares as false
        wrong = found[~((np.abs(found) < 2.0**63) & (np.floor(found) == found))][:1]
    else:
        wrong = [each for each in found.tolist() if not _fits(each)]
    for number in wrong[:1]:
        raise DataError(f"{what} {number} is no whole number of 64 bits; count in whole tuples")
    return found.astype(np.int64)


def _fits(number: object) -> bool:
    return isinstance(number, int) and -_MOST <= number <= _MOST
