"""Memory for bodies that are kept for a while, in the order in which they come."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

#: Bytes of a slab. Larger bodies have memory of their own.
SLAB_BYTES = 8 << 20


class _Slab:
    """Memory that is cut into pieces, one behind another."""

    def __init__(self) -> None:
        self.memory = np.empty(SLAB_BYTES, np.uint8)
        self.used = self.pieces = 0


class Slabs:
    """Copies bodies into memory that is used again once nobody holds any piece of it.

    Between two checkpoints a stream keeps gigabytes of rows, and lets all of them go at once. An
    allocator gives such memory back to the system, which clears each page of it the next time:
    that takes several times as long as the copy.
    """

    def __init__(self) -> None:
        self._slab = _Slab()
        self._free: list[_Slab] = []

    @property
    def free_bytes(self) -> int:
        """Bytes of slabs that nobody uses."""
        return SLAB_BYTES * len(self._free)

    def put(self, body: Any) -> memoryview:
        """Copy a body.

        Parameters
        ----------
        body : buffer

        Returns
        -------
        memoryview
            Its bytes stay as they are while this object, not only a part of it, is held.
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
