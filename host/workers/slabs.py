"""Reused memory for message bodies that are kept for a while."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

#: Bytes of a slab. Larger bodies have memory of their own.
SLAB_BYTES = 8 << 20


class _Slab:
    """A block of memory from which pieces are handed out, one behind another."""

    def __init__(self) -> None:
        self.memory = np.empty(SLAB_BYTES, np.uint8)
        self.used = self.pieces = 0


class Slabs:
    """Allocator that copies bodies into slabs and reuses a slab once none of its pieces is held.

    Between two checkpoints a stream keeps gigabytes of rows, and frees all of them at once. A
    general allocator returns such memory to the system, which clears each page of it the next
    time: that takes several times as long as the copy.
    """

    def __init__(self) -> None:
        self._slab = _Slab()
        self._free: list[_Slab] = []

    @property
    def free_bytes(self) -> int:
        """Bytes of slabs without a held piece."""
        return SLAB_BYTES * len(self._free)

    def put(self, body: Any) -> memoryview:
        """Copy a body.

        Parameters
        ----------
        body : buffer

        Returns
        -------
        memoryview
            Its bytes stay as they are while this object itself, not only a slice of it, is held.
        """
        content = memoryview(body).cast("B")
        if len(content) > SLAB_BYTES:
            return memoryview(bytes(content))
        if self._slab.used + len(content) > SLAB_BYTES:
            full, self._slab = self._slab, self._free.pop() if self._free else _Slab()
            if not full.pieces:
                self._give_back(full)
        slab = self._slab
        end = slab.used + len(content)
        piece = slab.memory[slab.used : end].data
        piece[:] = content
        slab.used = end
        slab.pieces += 1
        weakref.finalize(piece, self._dropped, slab).atexit = False
        return piece

    def _dropped(self, slab: _Slab) -> None:
        slab.pieces -= 1
        if not slab.pieces and slab is not self._slab:
            self._give_back(slab)

    def _give_back(self, slab: _Slab) -> None:
        slab.used = 0
        self._free.append(slab)
