"""Keys that have so many rows that one worker cannot join them alone.

A key lies in one of many cells, each of which a worker leads. Of a cell that is *heavy* the rows of
one side go to all workers, and those of the other are spread over them: each pair is found by the
worker that has the spread row, which has all rows of its key on the other side. That is the split
of a key of host/routing, with parts on all lanes.

Which cells are heavy is decided at cuts, where all workers know the same loads. It takes two cuts,
so that no row is missed: from the first on, new rows of one side go everywhere, and the leader
sends those that it holds; from the second on, before which all of these have come, the others are
spread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...device.fields import MalformedError
from ...routing.moves_plan import largest_load
from ...state import PARTITIONS

#: Share above the mean of all workers from which on the rows of a cell are too many for one.
TOLERANCE = 0.25
#: Rows below which it is too early to tell: a few of one key in a row are not many.
LEAST_ROWS = 4_096
#: Cells that a worker names for each worker: one that is heavy is among them.
_NAMED = 4


def heavy_cells(loads: np.ndarray, total: int, size: int) -> list[int]:
    """Cells with more rows than one of ``size`` workers should have.

    Parameters
    ----------
    loads : int64 array (PARTITIONS,)
        Rows of each; of small ones perhaps fewer.
    total : int
        Rows of all.

    Returns
    -------
    list of int
        Ascending.
    """
    if size == 1 or total < LEAST_ROWS:
        return []
    return np.flatnonzero(loads > largest_load(total, size, TOLERANCE)).tolist()


class HeavyCells:
    """Which cells are heavy, as one worker knows it.

    Parameters
    ----------
    rank, size : int
    everywhere : str or None
        The side whose rows go to all workers; None if each key stays with its leader.
    heavy : sequence of int
        Cells that are heavy from the beginning.
    """

    def __init__(
        self, rank: int, size: int, everywhere: str | None, heavy: Sequence[int] = ()
    ) -> None:
        self._rank, self._size, self.side = rank, size, everywhere
        #: Cells of which one side goes everywhere, and of which the other is spread.
        self._copied = np.zeros(PARTITIONS, bool)
        self._spread = np.zeros(PARTITIONS, bool)
        #: Rows of each cell that were folded here since it was last decided.
        self._loads = np.zeros(PARTITIONS, np.int64)
        #: What each worker has told of them before its mark.
        self._told: dict[int, np.ndarray] = {}
        self.begin(heavy)

    def begin(self, heavy: Sequence[int]) -> None:
        """Take cells for heavy before any row is here."""
        self._copied[list(heavy)] = self._spread[list(heavy)] = True

    @property
    def cells(self) -> list[int]:
        """Cells that are heavy for rows to come."""
        return np.flatnonzero(self._copied).tolist()

    def spread(self, side: str, cells: np.ndarray) -> np.ndarray:
        """Return which rows go to any one worker."""
        return np.zeros(len(cells), bool) if side == self.side else self._spread[cells]

    def copied(self, side: str, cells: np.ndarray) -> np.ndarray:
        """Return which rows go to all workers."""
        return self._copied[cells] if side == self.side else np.zeros(len(cells), bool)

    # Loads, and what follows from them.

    def count(self, cells: np.ndarray) -> None:
        """Count rows that are folded here."""
        self._loads += np.bincount(cells, minlength=PARTITIONS)

    def tell(self) -> bytes:
        """What the others are to know of this worker's loads: rows, and those of the largest."""
        if self.side is None or self._size == 1 or not self._loads.any():
            return b""
        count = min(_NAMED * self._size, PARTITIONS)
        most = np.argpartition(self._loads, -count)[-count:]  # each epoch does this
        told = np.concatenate([[self._loads.sum()], np.stack([most, self._loads[most]], 1).ravel()])
        self._told[self._rank] = told
        return told.astype("<i8").tobytes()

    def hear(self, rank: int, told: bytes) -> None:
        """Take what another worker has told; it replaces what that told before.

        Raises
        ------
        MalformedError
        """
        if len(told) % 8 or (len(told) // 8) % 2 == 0:
            raise MalformedError("what a worker tells of its loads is cut")
        found = np.frombuffer(told, "<i8")
        if not ((found[1::2] >= 0) & (found[1::2] < PARTITIONS)).all() or found.min() < 0:
            raise MalformedError("a worker tells of the load of a cell that there is not")
        self._told[rank] = found

    def cut(self) -> list[int]:
        """Decide at a cut, behind all marks; returns the cells that are heavy from here on.

        All workers come to the same, from the same loads.
        """
        loads, total = np.zeros(PARTITIONS, np.int64), 0
        for told in self._told.values():
            total += int(told[0])
            loads[told[1::2]] += told[2::2]
        loads[self._copied] = 0
        self._spread[:] = self._copied
        found = heavy_cells(loads, total, self._size)
        self._copied[found] = True
        self._told.clear()
        if total >= LEAST_ROWS:
            self._loads[:] = 0
        return found
