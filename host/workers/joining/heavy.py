"""Heavy keys: with so many rows that one worker cannot join them alone.

A key lies in one of many cells, each of which has a leader. In a *heavy* cell the rows of one side
are copied to all workers, and the rows of the other side are spread over them: each pair is found
by the worker that has the spread row, since it has all rows of the key on the other side. This is
the split of a key of paper 3, with parts on all nodes.

Cells become heavy at cuts, where all workers know the same loads. It takes two cuts, so that no
pair is missed: from the first cut on, new rows of one side are copied to all, and the leader
copies the rows that it holds; from the second on, when all of these have come, rows of the other
side are spread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...device.fields import MalformedError
from ...routing.base import WORKER_CELLS
from ...routing.moves_plan import largest_load

#: A cell is heavy if its rows exceed the mean per worker by this share.
TOLERANCE = 0.25
#: Rows of all cells below which no cell is heavy: a few rows of one key in a row are no sign.
LEAST_ROWS = 4_096
#: Number of cells, per worker, whose loads a worker sends: any heavy cell is among them.
_NAMED = 4


def heavy_cells(loads: np.ndarray, total: int, size: int) -> list[int]:
    """Return the cells with more rows than one of ``size`` workers should have.

    Parameters
    ----------
    loads : int64 array (WORKER_CELLS,)
        Rows of each cell; of small cells perhaps fewer.
    total : int
        Rows of all cells.

    Returns
    -------
    list of int
        Ascending.
    """
    if size == 1 or total < LEAST_ROWS:
        return []
    return np.flatnonzero(loads > largest_load(total, size, TOLERANCE)).tolist()


class HeavyCells:
    """Heavy cells as one worker knows them, with the loads by which cells become heavy.

    Parameters
    ----------
    rank, size : int
    everywhere : str or None
        The side whose rows are copied to all workers; None if no cell may become heavy.
    heavy : sequence of int
        Cells that are heavy from the beginning.
    """

    def __init__(
        self, rank: int, size: int, everywhere: str | None, heavy: Sequence[int] = ()
    ) -> None:
        self._rank, self._size, self.side = rank, size, everywhere
        #: Cells whose rows of one side are copied, and cells whose rows of the other are spread.
        self._copied = np.zeros(WORKER_CELLS, bool)
        self._spread = np.zeros(WORKER_CELLS, bool)
        #: Rows of each cell that were folded here since the last decision.
        self._loads = np.zeros(WORKER_CELLS, np.int64)
        #: Loads that each worker has sent before its mark: the sum, then cells and their rows.
        self._reports: dict[int, np.ndarray] = {}
        self.begin(heavy)

    def begin(self, heavy: Sequence[int]) -> None:
        """Make cells heavy before any row has come."""
        self._copied[list(heavy)] = self._spread[list(heavy)] = True

    @property
    def cells(self) -> list[int]:
        """Cells that are heavy for rows to come."""
        return np.flatnonzero(self._copied).tolist()

    def spread(self, side: str, cells: np.ndarray) -> np.ndarray:
        """Return which rows are spread: they may go to any one worker."""
        return np.zeros(len(cells), bool) if side == self.side else self._spread[cells]

    def copied(self, side: str, cells: np.ndarray) -> np.ndarray:
        """Return which rows are copied to all workers."""
        return self._copied[cells] if side == self.side else np.zeros(len(cells), bool)

    # Loads, and the decision.

    def count(self, cells: np.ndarray) -> None:
        """Count rows that are folded here."""
        self._loads += np.bincount(cells, minlength=WORKER_CELLS)

    def report(self) -> bytes:
        """Return this worker's loads for the others: the sum, and the rows of the largest cells."""
        if self.side is None or self._size == 1 or not self._loads.any():
            return b""
        count = min(_NAMED * self._size, WORKER_CELLS)
        most = np.argpartition(self._loads, -count)[-count:]  # each epoch does this
        pairs = np.stack([most, self._loads[most]], 1)
        self._reports[self._rank] = report = np.concatenate([[self._loads.sum()], pairs.ravel()])
        return report.astype("<i8").tobytes()

    def take_report(self, rank: int, body: bytes) -> None:
        """Take another worker's loads, in place of its earlier ones.

        Raises
        ------
        MalformedError
        """
        if len(body) % 8 or (len(body) // 8) % 2 == 0:
            raise MalformedError("what a worker tells of its loads is cut")
        report = np.frombuffer(body, "<i8")
        if not ((report[1::2] >= 0) & (report[1::2] < WORKER_CELLS)).all() or report.min() < 0:
            raise MalformedError("a worker tells of the load of a cell that there is not")
        self._reports[rank] = report

    def cut(self) -> list[int]:
        """Decide at a cut, behind all marks; returns the cells that have become heavy.

        All workers decide the same, from the same loads.
        """
        loads, total = np.zeros(WORKER_CELLS, np.int64), 0
        for report in self._reports.values():
            total += int(report[0])
            loads[report[1::2]] += report[2::2]
        loads[self._copied] = 0
        self._spread[:] = self._copied
        cells = heavy_cells(loads, total, self._size)
        self._copied[cells] = True
        self._reports.clear()
        if total >= LEAST_ROWS:
            self._loads[:] = 0
        return cells
