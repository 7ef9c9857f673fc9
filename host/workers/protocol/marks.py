"""Marks of a cut: what lies before them is in the checkpoint, what lies behind is not."""

from __future__ import annotations

from ...device.fields import MalformedError


class Marks:
    """Whose marks of the next cut have come to a worker.

    Parameters
    ----------
    size : int
        Workers; a worker's own mark counts.
    number : int
        Of the next cut.
    """

    def __init__(self, size: int, number: int) -> None:
        self.size = size
        self.number = number
        self._there: set[int] = set()

    def __contains__(self, worker: int) -> bool:
        """Whether the mark of a worker has come, and others have not."""
        return worker in self._there

    def add(self, worker: int, number: int) -> bool:
        """Take the mark of a worker; returns whether all are there, and then waits for the next.

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
        if len(self._there) < self.size:
            return False
        self._there.clear()
        self.number += 1
        return True
