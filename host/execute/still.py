"""A window run that is what it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Vector

from ..rows.store import StoredRows
from ..windows.run import Snapshot, next_number


class HasSnapshot(Protocol):
    """A run, whether it grows or not."""

    def snapshot(self) -> Snapshot: ...


class StillRun:
    """A run that never changes, so nothing of it is copied.

    Parameters
    ----------
    times : ndarray of int64, shape (n,)
    keys : sequence of Vector
        From :func:`penstock.host.keys.prepare.window_keys`.
    """

    def __init__(self, times: np.ndarray, keys: Sequence[Vector]) -> None:
        self.number = next_number()
        # Joins of whole tables number no rows.
        ids = np.broadcast_to(np.int64(0), len(times))
        none = StoredRows(pa.schema([]), {}, ())
        self._snapshot = Snapshot(self.number, 0, times, ids, tuple(keys), none)

    def snapshot(self) -> Snapshot:
        return self._snapshot

    @property
    def nbytes(self) -> int:
        """Bytes of the keys."""
        valid = (v.valid.nbytes for v in self._snapshot.keys if v.valid is not None)
        return sum(v.values.nbytes for v in self._snapshot.keys) + sum(valid)
