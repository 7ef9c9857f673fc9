"""Places of rows on a Z-order curve: rows that are close in some columns are mostly neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.kept_code import kept

from ...rows.columns import load

#: Parts into which a column's values are split, with equally many rows in each: of two columns,
#: more than a relation has pages.
PARTS_LOG2 = 10
#: Columns of a cluster.
MOST_COLUMNS = 6
#: Values of a column by which it is split.
SAMPLE = 1 << 16


class ClusterSample:
    """Sample of a cluster's columns, drawn evenly from all rows added; deterministic.

    Parameters
    ----------
    columns : sequence of str
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._random = np.random.default_rng(0)
        self._ranks = np.zeros(0)
        self._values = np.zeros((len(columns), 0))

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows to draw from."""
        values = np.array([floats(batch, name) for name in self._columns])
        ranks = np.concatenate([self._ranks, self._random.random(batch.num_rows)])
        held = np.concatenate([self._values, values.reshape(len(self._columns), -1)], axis=1)
        # Those with the least random numbers are a sample of all so far.
        chosen = np.argpartition(ranks, SAMPLE)[:SAMPLE] if len(ranks) > SAMPLE else slice(None)
        self._ranks, self._values = ranks[chosen], held[:, chosen]

    def splits(self) -> dict[str, list[float]]:
        """Bounds between the parts of each column."""
        splits = {}
        shares = np.arange(1, 1 << PARTS_LOG2) / (1 << PARTS_LOG2)
        for name, values in zip(self._columns, self._values, strict=True):
            known = values[np.isfinite(values)]
            splits[name] = np.unique(np.quantile(known, shares)).tolist() if len(known) else []
        return splits


def floats(batch: pa.RecordBatch, column: str) -> np.ndarray:
    """Values of a column in their order; -inf for NULL."""
    v = load(batch, [column], {}, "")[column]
    values = v.values.astype(np.float64)
    return values if v.valid is None else np.where(v.valid, values, -np.inf)


def places(batch: pa.RecordBatch, splits: Mapping[str, Sequence[float]]) -> np.ndarray:
    """Each row's place on the curve; uint64."""
    parts = np.array(
        [
            np.searchsorted(np.asarray(bounds, np.float64), floats(batch, name), "right")
            for name, bounds in splits.items()
        ],
        np.uint64,
    )
    curve = np.zeros(batch.num_rows, np.uint64)
    _interleave(parts, PARTS_LOG2, curve)
    return curve


@kept()
def _interleave(parts, bits, curve):
    for row in range(len(curve)):
        place = np.uint64(0)
        for bit in range(bits - 1, -1, -1):
            for column in range(len(parts)):
                place = place << np.uint64(1) | parts[column, row] >> np.uint64(bit) & np.uint64(1)
        curve[row] = place
