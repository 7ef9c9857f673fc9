"""Rows of the stream until they are answered."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass
class _Stretch:
    first: int
    batch: pa.RecordBatch
    left: int


class StreamRows:
    """Batches of rows, numbered from 0 on; a batch goes when all of its rows were taken."""

    def __init__(self) -> None:
        self._stretches: deque[_Stretch] = deque()
        self._end = 0
        self.nbytes = 0

    def add(self, batch: pa.RecordBatch) -> np.ndarray:
        """Keep rows; returns their numbers."""
        ids = np.arange(self._end, self._end + batch.num_rows)
        if batch.num_rows:
            self._stretches.append(_Stretch(self._end, batch, batch.num_rows))
        self._end += batch.num_rows
        self.nbytes += batch.nbytes
        return ids

    def take(self, ids: np.ndarray) -> pa.Table:
        """The rows of these numbers, each of which can be taken once."""
        firsts = np.array([one.first for one in self._stretches])
        of = np.searchsorted(firsts, ids, side="right") - 1
        counts = np.bincount(of, minlength=len(firsts))
        parts = np.flatnonzero(counts)
        if len(parts) == 1:
            one = self._stretches[parts[0]]
            taken = pa.Table.from_batches([one.batch.take(pa.array(ids - one.first))])
        else:
            used = [self._stretches[k] for k in parts]
            starts = np.cumsum([0, *(one.batch.num_rows for one in used)])
            place = np.searchsorted(parts, of)
            rows = ids - firsts[of] + starts[place]
            taken = pa.Table.from_batches([one.batch for one in used]).take(pa.array(rows))
        for part in parts.tolist():
            self._stretches[part].left -= int(counts[part])
        while self._stretches and not self._stretches[0].left:
            self.nbytes -= self._stretches.popleft().batch.nbytes
        return taken
