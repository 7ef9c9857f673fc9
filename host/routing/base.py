"""Base routing (the paper's F): the cell of a key by its hash, and the home lane of each cell."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.errors import UsageError

from .checked_arrays import checked_lanes

#: Cells of the keys of groups and joins on workers: a worker is the leader of neighbouring ones.
WORKER_CELLS = 1 << 12


def base_homes(cells: int, lanes: int) -> np.ndarray:
    """Return the home lane of each cell, ndarray of int64.

    Neighbouring cells are on one lane, as bands need.

    Raises
    ------
    UsageError
        There is no cell, or no lane.
    """
    if cells < 1:
        raise UsageError(f"there cannot be {cells} cells; take 1 or more")
    return np.arange(cells) * checked_lanes(lanes) // cells


def cell_of_hash(hashed: Any, cells: int) -> Any:
    """Return the cell of a hash, or of each in an array: equal stretches of its 64 bits."""
    return ((hashed >> np.uint64(32)) * np.uint64(cells)) >> np.uint64(32)


def cells_of_hashes(hashes: np.ndarray, cells: int) -> np.ndarray:
    """Return the cell of each key, as :func:`cell_of_hash`, in an ndarray of int64.

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
    return cell_of_hash(np.asarray(hashes, np.uint64), cells).astype(np.int64)
