"""Rows of the stream until they are answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass
class _Stretch:
    first: int
    batch: pa.RecordBatch
    left: int


class StreamRows:
    """Batches of rows, numbered from 0 on; a batch goes when all of its rows were dropped."""

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

    def rows(self, ids: np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of these numbers, none of which was dropped; some columns, or all."""
        firsts, of = self._places(ids)
        parts = np.flatnonzero(np.bincount(of, minlength=len(firsts)))
        if len(parts) == 1:
            one = self._stretches[parts[0]]
            return pa.Table.from_batches([_of(one, columns).take(pa.array(ids - one.first))])
        used = [self._stretches[k] for k in parts]
        starts = np.cumsum([0, *(one.batch.num_rows for one in used)])
        rows = ids - firsts[of] + starts[np.searchsorted(parts, of)]
        return pa.Table.from_batches([_of(one, columns) for one in used]).take(pa.array(rows))

    def drop(self, ids: np.ndarray) -> None:
        """Forget rows, each once."""
        firsts, of = self._places(ids)
        for part, count in enumerate(np.bincount(of, minlength=len(firsts)).tolist()):
            self._stretches[part].left -= count
        while self._stretches and not self._stretches[0].left:
            self.nbytes -= self._stretches.popleft().batch.nbytes

    def _places(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First number of each stretch, and the stretch of each row."""
        firsts = np.array([one.first for one in self._stretches])
        return firsts, np.searchsorted(firsts, ids, side="right") - 1


def _of(stretch: _Stretch, columns: Sequence[str] | None) -> pa.RecordBatch:
    return stretch.batch if columns is None else stretch.batch.select(columns)
