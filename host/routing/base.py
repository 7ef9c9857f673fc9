"""Base routing (the paper's F): the home lane of a cell, where it is without a routing table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import UsageError

from .checked_arrays import below, checked_lanes


@dataclass(frozen=True)
class ByRanges:
    """Base routing that puts neighbouring cells on one lane, as bands need.

    Parameters
    ----------
    cells : int
        How many there are.

    Raises
    ------
    UsageError
        There is none.
    """

    cells: int

    def __post_init__(self) -> None:
        if self.cells < 1:
            raise UsageError(f"there cannot be {self.cells} cells; take 1 or more")

    def homes(self, cells: Any, lanes: int) -> np.ndarray:
        """Return the home lane of each cell, ndarray of int64."""
        number = below(cells, "cell", self.cells, "one of the {} cells, from 0 on")
        return number * checked_lanes(lanes) // self.cells


def cells_of_hashes(hashes: np.ndarray, cells: int) -> np.ndarray:
    """Return the cell of each key: cells are equal stretches of the 64 bits of its hash.

    Parameters
    ----------
    hashes : ndarray of uint64
    cells : int
        At most 2^32. If it is a power of two, the cell is a prefix of the hash.

    Raises
    ------
    UsageError
    """
    if not 1 <= cells <= 1 << 32:
        raise UsageError(f"there cannot be {cells} cells; take 1 to 4,294,967,296")
    high = np.asarray(hashes, np.uint64) >> np.uint64(32)
    return ((high * np.uint64(cells)) >> np.uint64(32)).astype(np.int64)
