"""Marks of a cut: what lies before them is in the checkpoint, what lies behind is not."""

from __future__ import annotations

from ...device.fields import MalformedError


class Marks:
    """Whose marks of a cut have come to a worker, until that has taken it.

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
        self._there: set[int] = set()

    def __contains__(self, worker: int) -> bool:
        """Whether the mark of a worker has come."""
        return worker in self._there

    @property
    def are_complete(self) -> bool:
        """Whether all marks have come."""
        return len(self._there) == self.size

    def add(self, worker: int, number: int) -> None:
        """Take the mark of a worker.

        Raises
        ------
        MalformedError
            It is of another cut, or came twice.
        """
        if number != self.number or worker in self._there:
            raise MalformedError(
                f"worker {worker} sent mark {number} out of turn, mark {self.number} is awaited "
                f"of {self.size - len(self._there)} workers; start all workers again from the "
                "last record"
            )
        self._there.add(worker)

    def next(self) -> None:
        """Wait for the marks of the next cut."""
        self._there.clear()
        self.number += 1
