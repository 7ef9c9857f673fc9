"""A message that is cut over slots, as far as it has come, and the memory for it."""

from __future__ import annotations

from sys import getrefcount
from typing import Final

import numpy as np

from .message import MessageKind

#: Bytes to have room for before it is known that they come, at most.
MOST_ROOM_BYTES: Final = 1 << 24
#: Memory that is kept for further messages: that of one which is being read and that of the next.
_MOST_KEPT, _MOST_KEPT_BYTES = 2, 1 << 21


class Rooms:
    """Memory for messages that are cut, taken again when nobody holds what came in it.

    The system gives new memory page by page, which takes longer than to copy a message there.
    """

    __slots__ = ("_kept", "_nbytes")

    def __init__(self) -> None:
        self._kept: list[np.ndarray] = []
        self._nbytes = 0

    def take(self) -> np.ndarray:
        """Memory for the next message, which is as large as the last one, probably."""
        for memory in self._kept:
            if getrefcount(memory) == _UNHELD and len(memory) >= self._nbytes:
                return memory
        return np.empty(self._nbytes, np.uint8)

    def keep(self, memory: np.ndarray) -> None:
        """Take note of the memory of a message that has come; views of it may be held."""
        self._nbytes = min(len(memory), MOST_ROOM_BYTES)
        if len(memory) <= _MOST_KEPT_BYTES and not any(memory is one for one in self._kept):
            self._kept = [memory, *self._kept][:_MOST_KEPT]


def _references() -> int:
    """References to memory that is kept and not held, as :meth:`Rooms.take` counts them."""
    for memory in [np.empty(0, np.uint8)]:
        return getrefcount(memory)
    raise AssertionError


_UNHELD = _references()


class Cut:
    """A message that is cut over slots, as far as it has come.

    Parameters
    ----------
    kind : Kind
    memory : array of uint8
        For its bytes, if they fit in.
    """

    __slots__ = ("kind", "memory", "size")

    def __init__(self, kind: MessageKind, memory: np.ndarray) -> None:
        self.kind = kind
        self.size = 0
        self.memory = memory

    def reserve(self, more: int) -> np.ndarray:
        """Memory with room for so many more bytes behind what has come."""
        needed = self.size + more
        if needed > len(self.memory):
            larger = np.empty(max(needed, 2 * self.size), np.uint8)
            larger[: self.size] = self.memory[: self.size]
            self.memory = larger
        return self.memory

    def add(self, payload: memoryview) -> None:
        """Add the payload of a slot."""
        end = self.size + len(payload)
        self.reserve(len(payload)).data[self.size : end] = payload
        self.size = end

    def content(self) -> memoryview:
        """What has come."""
        return self.memory.data[: self.size]

    def copy(self) -> Cut:
        """The same, to be added to by itself."""
        twin = Cut(self.kind, np.empty(0, np.uint8))
        twin.add(self.content())
        return twin
