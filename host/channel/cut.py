"""A message that is cut over slots, as far as it has come."""

from __future__ import annotations

from typing import Final

import numpy as np

from .message import Kind

#: Bytes to have room for before it is known that they come, at most.
MOST_ROOM_BYTES: Final = 1 << 24


class Cut:
    """A message that is cut over slots, as far as it has come.

    Parameters
    ----------
    kind : Kind
    room : int
        Bytes to have room for at once.
    """

    __slots__ = ("_memory", "kind", "size")

    def __init__(self, kind: Kind, room: int) -> None:
        self.kind = kind
        self.size = 0
        self._memory = np.empty(room, np.uint8)

    def reserve(self, more: int) -> np.ndarray:
        """Memory with room for so many more bytes behind what has come."""
        needed = self.size + more
        if needed > len(self._memory):
            larger = np.empty(max(needed, 2 * self.size), np.uint8)
            larger[: self.size] = self._memory[: self.size]
            self._memory = larger
        return self._memory

    def add(self, payload: memoryview) -> None:
        """Add the payload of a slot."""
        end = self.size + len(payload)
        self.reserve(len(payload)).data[self.size : end] = payload
        self.size = end

    def content(self) -> memoryview:
        """What has come."""
        return self._memory.data[: self.size]

    def copy(self) -> Cut:
        """The same, to be added to by itself."""
        twin = Cut(self.kind, 0)
        twin.add(self.content())
        return twin
