"""Probed rows that have matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...rows.sides import take
from .folded import RowFolds, picked


@dataclass(frozen=True)
class ProbedRows:
    """Probed rows that have matches, folded, with the values at their best pairs.

    Parameters
    ----------
    values : mapping of int to pyarrow.Array
        By aggregate, the value at each row's best pair.
    times, ids : ndarray of int64
        Event times and arrival numbers; they decide which row comes first.
    """

    folded: RowFolds
    values: Mapping[int, pa.Array]
    times: np.ndarray
    ids: np.ndarray

    @property
    def rows(self) -> int:
        return self.folded.rows

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
        return ProbedRows(folded, values, self.times[rows], self.ids[rows])
