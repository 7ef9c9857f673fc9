"""The received part of a message cut over several slots, and memory for it."""

from __future__ import annotations

from sys import getrefcount
from typing import Final

import numpy as np

from .message import MessageKind

#: Most bytes to have room for before they have arrived.
MOST_ROOM_BYTES: Final = 1 << 24
#: Memories kept for further messages, one being read and the next one, and most bytes of each.
_MOST_KEPT, _MOST_KEPT_BYTES = 2, 1 << 21


class Rooms:
    """Memory for messages cut over slots, reused once nobody holds a view of the last message.

    The system gives new memory page by page, which takes longer than to copy a message there.
    """

    __slots__ = ("_kept", "_nbytes")

    def __init__(self) -> None:
        self._kept: list[np.ndarray] = []
        self._nbytes = 0

    def take(self) -> np.ndarray:
        """Memory for the next message, which probably is as large as the last one."""
        for memory in self._kept:
            if getrefcount(memory) == _UNHELD and len(memory) >= self._nbytes:
                return memory
        return np.empty(self._nbytes, np.uint8)

    def keep(self, memory: np.ndarray) -> None:
        """Keep the memory of a complete message for reuse; views of it may still be held."""
        self._nbytes = min(len(memory), MOST_ROOM_BYTES)
        if len(memory) <= _MOST_KEPT_BYTES and not any(memory is one for one in self._kept):
            self._kept = [memory, *self._kept][:_MOST_KEPT]


def _references() -> int:
    """Return what ``getrefcount`` gives where :meth:`Rooms.take` calls it for unused memory."""
    for memory in [np.empty(0, np.uint8)]:
        return getrefcount(memory)
    raise AssertionError


_UNHELD = _references()


class Cut:
    """The received part of a message cut over several slots.

    Parameters
    ----------
    kind : Kind
    memory : array of uint8
        Holds the bytes, if they fit in.
    """

    __slots__ = ("kind", "memory", "size")

    def __init__(self, kind: MessageKind, memory: np.ndarray) -> None:
        self.kind = kind
        self.size = 0
        self.memory = memory

    def reserve(self, more: int) -> np.ndarray:
        """Grow the memory so that this many more bytes fit behind those received."""
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
        """Bytes received so far."""
        return self.memory.data[: self.size]

    def copy(self) -> Cut:
        """An independent copy, to continue from."""
        twin = Cut(self.kind, np.empty(0, np.uint8))
        twin.add(self.content())
        return twin
