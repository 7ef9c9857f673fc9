"""Probed rows that wait until their group is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...device.base import Folds
from ...rows.sides import concat, take
from .folded import RowFolds, picked


@dataclass(frozen=True)
class ProbedRows:
    """Probed rows that have matches.

    Parameters
    ----------
    values : mapping of int to pyarrow.Array
        By aggregate, the value at each row's best pair.
    times, ids : ndarray of int64
        Event times and arrival numbers; they decide which row comes first.
    keys : ndarray
        Time key of each row's group; the event times if each row is a group.
    """

    folded: RowFolds
    values: Mapping[int, pa.Array]
    times: np.ndarray
    ids: np.ndarray
    keys: np.ndarray

    @property
    def rows(self) -> int:
        return self.folded.rows

    @property
    def nbytes(self) -> int:
        folds = (f.value.nbytes + f.found.nbytes for f in self.folded.folds.values())
        side_values = (v.values.nbytes for v in self.folded.side_values.values())
        values = (array.nbytes for array in self.values.values())
        arrays = self.folded.keys.nbytes + self.times.nbytes + self.ids.nbytes + self.keys.nbytes
        return arrays + sum(folds) + sum(side_values) + sum(values)

    def pick(self, rows: np.ndarray) -> ProbedRows:
        """Return some of the rows, by index."""
        index = pa.array(rows)
        folded = RowFolds(
            self.folded.keys.take(index),
            len(rows),
            {k: take(v, rows) for k, v in self.folded.side_values.items()},
            {key: picked(folds, rows) for key, folds in self.folded.folds.items()},
        )
        values = {k: array.take(index) for k, array in self.values.items()}
        return ProbedRows(folded, values, self.times[rows], self.ids[rows], self.keys[rows])

    @staticmethod
    def concat(parts: Sequence[ProbedRows]) -> ProbedRows:
        """Join the rows of several parts."""
        first = parts[0]
        if len(parts) == 1:
            return first
        folded = RowFolds(
            pa.concat_batches([p.folded.keys for p in parts]),
            sum(p.folded.rows for p in parts),
            {k: concat([p.folded.side_values[k] for p in parts]) for k in first.folded.side_values},
            {key: _joined([p.folded.folds[key] for p in parts]) for key in first.folded.folds},
        )
        values = {k: pa.concat_arrays([p.values[k] for p in parts]) for k in first.values}
        times, ids, keys = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("times", "ids", "keys")
        )
        return ProbedRows(folded, values, times, ids, keys)


def _joined(parts: Sequence[Folds]) -> Folds:
    """Join the folds of several parts, in order."""
    positions = [p.position for p in parts if p.position is not None]
    return Folds(
        np.concatenate([p.found for p in parts]),
        np.concatenate([p.value for p in parts]),
        np.concatenate(positions) if positions else None,
    )
