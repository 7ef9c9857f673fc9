"""The order of deltas: each counts once, since merging twice is adding twice (paper 2, 7.1.2).

The paper calls its folds conflict-free, which a delta that restarts from zero is not: a repeated
one would be added again. Only numbers keep it out.
"""

from __future__ import annotations

from ...device.fields import MalformedError


class EpochOrder:
    """Which epoch of each worker comes next at a leader, and which block of it.

    Parameters
    ----------
    size : int
        Workers.
    """

    def __init__(self, size: int) -> None:
        self._ended = [0] * size
        self._blocks = [0] * size

    def ended(self, worker: int) -> int:
        """Return the last epoch of a worker that is merged as a whole; 0 before the first."""
        return self._ended[worker]

    def is_between(self, worker: int) -> bool:
        """Whether no epoch of a worker is merged in part."""
        return self._blocks[worker] == 0

    def block(self, worker: int, epoch: int, block: int) -> None:
        """Let in the next block of a worker.

        Raises
        ------
        MalformedError
            It is not the next one: it was merged already, or one before it is missing.
        """
        self._require_next(worker, epoch, block, f"block {block} of epoch {epoch}")
        self._blocks[worker] += 1

    def end(self, worker: int, epoch: int, blocks: int) -> None:
        """End the epoch of a worker.

        Raises
        ------
        MalformedError
            It is not the epoch that is open, or not all of its blocks have come.
        """
        self._require_next(worker, epoch, blocks, f"the end of epoch {epoch} after {blocks} blocks")
        self._ended[worker], self._blocks[worker] = epoch, 0

    def _require_next(self, worker: int, epoch: int, block: int, what: str) -> None:
        expected = self._ended[worker] + 1, self._blocks[worker]
        if (epoch, block) != expected:
            raise MalformedError(
                f"worker {worker} sent {what}, but block {expected[1]} of epoch {expected[0]} or "
                "its end is next; merging out of turn would count rows twice or lose them, so "
                "start all workers again from the last record"
            )
