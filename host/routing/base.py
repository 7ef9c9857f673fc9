"""Base routing: the lane at which a cell is at home, before any table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.errors import UsageError

from .checks import below, checked_lanes

#: Points of a lane on the ring. A lane more or less moves about its share of the cells.
POINTS = 256


@dataclass(frozen=True)
class ByHash:
    """Cells dealt by their mixed number: balanced, but nearly all move if there are more lanes."""

    def homes(self, cells: Any, lanes: int) -> np.ndarray:
        """The home lane of each cell, ndarray of int64."""
        count = np.uint64(checked_lanes(lanes))
        return (_mix(_numbers(cells)) % count).astype(np.int64)


@dataclass(frozen=True)
class ByRing:
    """Cells on a consistent ring: with one lane more, cells move to that lane only."""

    def homes(self, cells: Any, lanes: int) -> np.ndarray:
        """The home lane of each cell, ndarray of int64."""
        places, owners = _ring(checked_lanes(lanes))
        found = np.searchsorted(places, _mix(_numbers(cells)))
        return owners[np.where(found == len(places), 0, found)]


@dataclass(frozen=True)
class ByRanges:
    """Neighbouring cells on one lane, as bands need.

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
        """The home lane of each cell, ndarray of int64."""
        number = below(cells, "cell", self.cells, "one of the {} cells, from 0 on")
        return number * checked_lanes(lanes) // self.cells


def cells_of_hashes(hashes: np.ndarray, cells: int) -> np.ndarray:
    """The cell of each key: as many equal stretches of the 64 bits as there are cells.

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


def _numbers(cells: Any) -> np.ndarray:
    most = (1 << 63) - 1
    return below(cells, "cell", most, "its number, from 0 on").astype(np.uint64)


def _mix(word: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64 (Steele, Lea, Flood, 2014)."""
    word = word + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@lru_cache(maxsize=8)
def _ring(lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of all lanes' points, rising, and whose they are."""
    owners = np.repeat(np.arange(lanes), POINTS)
    # Mixed twice, so that no point lies where a cell does.
    places = _mix(_mix(np.arange(lanes * POINTS, dtype=np.uint64)))
    order = np.argsort(places, kind="stable")
    return places[order], owners[order]
