"""Homes of cells by hash: the baselines of routing tables, which the host itself does not use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.host.keys.splitmix import SEED, mixed
from penstock.host.routing.checked_arrays import below, checked_lanes

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


def _numbers(cells: Any) -> np.ndarray:
    most = (1 << 63) - 1
    return below(cells, "cell", most, "its number, from 0 on").astype(np.uint64)


def _mix(word: np.ndarray) -> np.ndarray:
    """Give the random numbers that splitmix64 yields from these states."""
    return mixed(word + SEED)


@lru_cache(maxsize=8)
def _ring(lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of all lanes' points, rising, and whose they are."""
    owners = np.repeat(np.arange(lanes), POINTS)
    # Mixed twice, so that no point lies where a cell does.
    places = _mix(_mix(np.arange(lanes * POINTS, dtype=np.uint64)))
    order = np.argsort(places, kind="stable")
    return places[order], owners[order]
