"""Order of deltas, by which each is merged exactly once (paper 2, 7.1.2).

The paper calls its folds conflict-free (CRDT), but a delta that restarts from zero is not
idempotent: a repeated one would be added again. Only epoch numbers keep it out.
"""

from __future__ import annotations

from ...device.fields import MalformedError


class EpochOrder:
    """Check at a leader that epochs of each helper, and blocks of each epoch, come in order.

    Parameters
    ----------
    size : int
        Workers.
    """

    def __init__(self, size: int) -> None:
        self._ended = [0] * size
        self._blocks = [0] * size

    def ended(self, worker: int) -> int:
        """Return the last epoch of a worker that is merged completely; 0 before the first."""
        return self._ended[worker]

    def is_between(self, worker: int) -> bool:
        """Whether no epoch of a worker is merged partly."""
        return self._blocks[worker] == 0

    def block(self, worker: int, epoch: int, block: int) -> None:
        """Check the next block of a worker.

        Raises
        ------
        MalformedError
            The block was merged already, or one before it is missing.
        """
        self._require_next(worker, epoch, block, f"block {block} of epoch {epoch}")
        self._blocks[worker] += 1

    def end(self, worker: int, epoch: int, blocks: int) -> None:
        """Check the end of a worker's epoch.

        Raises
        ------
        MalformedError
            Another epoch is open, or not all blocks have come.
        """
        self._require_next(worker, epoch, blocks, f"the end of epoch {epoch} after {blocks} blocks")
        self._ended[worker], self._blocks[worker] = epoch, 0

    def _require_next(self, worker: int, epoch: int, block: int, content: str) -> None:
        expected = self._ended[worker] + 1, self._blocks[worker]
        if (epoch, block) != expected:
            raise MalformedError(
                f"worker {worker} sent {content}, but block {expected[1]} of epoch {expected[0]} "
                "or its end is next; merging out of turn would count rows twice or lose them, so "
                "start all workers again from the last record"
            )
