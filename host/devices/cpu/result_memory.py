"""Reuse of result memory.

The system clears each page of fresh memory: from a percent of matching pairs on, that costs more
than the kernel's own work. So a task reuses the memory of an earlier task once nobody holds its
result.
"""

from __future__ import annotations

import weakref
from collections import deque

import numpy as np

#: Bytes of the largest block that is kept for later tasks.
LARGEST_KEPT_BYTES = 64 << 20


class ResultMemory:
    """Blocks of uint32, each lent until its last view is gone.

    Parameters
    ----------
    kept : int
        Most free blocks to keep.
    """

    def __init__(self, kept: int) -> None:
        # Blocks come back from finalizers, which may run inside any call of any thread: a deque
        # needs no lock for that, and drops the oldest block by itself.
        self._free: deque[np.ndarray] = deque(maxlen=kept)

    def lend(self, entries: int) -> np.ndarray:
        """Uninitialised uint32 array of at least ``entries``."""
        block = self._find(entries)
        if block is None:
            block = np.empty(entries, np.uint32)
        if block.nbytes > LARGEST_KEPT_BYTES:
            return block
        # NumPy makes views of a view refer to the owner, unless a foreign object lies between.
        lent = np.frombuffer(block.data, np.uint32)
        weakref.finalize(lent, self._free.append, block).atexit = False
        return lent

    def _find(self, entries: int) -> np.ndarray | None:
        for _ in range(len(self._free)):
            try:
                block = self._free.popleft()
            except IndexError:  # another thread was faster
                return None
            if entries <= len(block) <= 4 * entries:
                return block
            self._free.append(block)
        return None
