"""Marks of a cut: messages before them are in the checkpoint, messages behind are not."""

from __future__ import annotations

from ...device.fields import MalformedError


class Marks:
    """Set of the workers whose marks of a cut have come to a worker.

    Parameters
    ----------
    size : int
        Workers; a worker's own mark counts.
    number : int
        Of the cut.
    """

    def __init__(self, size: int, number: int) -> None:
        self.size = size
        self.number = number
        self._arrived: set[int] = set()

    def __contains__(self, worker: int) -> bool:
        """Whether the mark of a worker has come."""
        return worker in self._arrived

    @property
    def are_complete(self) -> bool:
        """Whether all marks have come."""
        return len(self._arrived) == self.size

    def add(self, worker: int, number: int) -> None:
        """Add the mark of a worker.

        Raises
        ------
        MalformedError
            The mark is of another cut, or came twice.
        """
        if number != self.number or worker in self._arrived:
            raise MalformedError(
                f"worker {worker} sent mark {number} out of turn, mark {self.number} is awaited "
                f"of {self.size - len(self._arrived)} workers; start all workers again from the "
                "last record"
            )
        self._arrived.add(worker)

    def next(self) -> None:
        """Wait for the marks of the next cut."""
        self._arrived.clear()
        self.number += 1
