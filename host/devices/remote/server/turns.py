"""The order of waiting tasks: clients take turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Generic, TypeVar

from penstock.errors import OverloadError

Item = TypeVar("Item")


class Turns(Generic[Item]):
    """Tasks that wait for a device; a pure state machine.

    Parameters
    ----------
    depth : int
        Tasks of one client that may wait.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        # Clients with tasks that wait, the next one first.
        self._waiting: dict[str, deque[Item]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, client: str, item: Item) -> None:
        """Add a task of a client.

        Raises
        ------
        OverloadError
            Too many of its tasks wait.
        """
        queue = self._waiting.get(client, deque())
        if len(queue) >= self.depth:
            raise OverloadError(
                f"{len(queue)} tasks of this client wait for the device, which is the most; wait "
                "for results before submitting more"
            )
        queue.append(item)
        self._waiting[client] = queue

    def again(self, client: str, item: Item) -> None:
        """Put a task that has begun back, to go on in the client's next turn."""
        queue = self._waiting.get(client, deque())
        queue.appendleft(item)
        self._waiting[client] = queue

    def next(self, but: Collection[str] = ()) -> Item | None:
        """Take the next task; its client then comes last.

        Parameters
        ----------
        but : collection of str
            Clients who have to wait.
        """
        for client in self._waiting:
            if client in but:
                continue
            queue = self._waiting.pop(client)
            item = queue.popleft()
            if queue:
                self._waiting[client] = queue
            return item
        return None

    def waits(self, but: Collection[str] = ()) -> bool:
        """Whether a task could be next."""
        return any(client not in but for client in self._waiting)

    def drop(self, client: str) -> list[Item]:
        """Take all tasks of a client out."""
        return list(self._waiting.pop(client, ()))
