"""Gathers what the orders of a batch give, and lets it out: at once, or batch by batch in order.

The order is that of paper 1, section 3.4: by the arrival number of the later tuple of a pair, then
of the earlier one. The later tuple of a pair is one of its batch, so batches follow each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.host.lanes.lane import Chunk
from penstock.host.output import Restorer
from penstock.query.plan import LEFT, RIGHT


@dataclass(frozen=True)
class Rows:
    """Output rows, with the arrival numbers that order them.

    ``later`` and ``earlier`` are int64 of shape (rows,).
    """

    batch: pa.RecordBatch
    later: np.ndarray
    earlier: np.ndarray


def restored(restorer: Restorer, chunk: Chunk) -> list[Rows]:
    """Output rows of a chunk's pairs."""
    probe = chunk.order.bound.probe
    found = []
    for i, j in chunk.pairs:
        if not len(i):
            continue
        window = probe.window
        tables = {probe.stream.side: probe.stream.base, probe.window_side: window.take(j)}
        rows = {probe.stream.side: i, probe.window_side: np.arange(len(j))}
        stream_ids, window_ids = probe.stream.ids[i], window.ids[j - window.first]
        found.append(
            Rows(
                restorer.restore(tables, rows[LEFT], rows[RIGHT]),
                np.maximum(stream_ids, window_ids),
                np.minimum(stream_ids, window_ids),
            )
        )
    return found


@dataclass
class _Batch:
    left: int
    rows: list[Rows] = field(default_factory=list)


class Gatherer:
    """Batches on their way out.

    Parameters
    ----------
    ordered : bool
        Whether rows leave in order, each batch after those before it, or as they come.
    """

    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered
        self._open: dict[int, _Batch] = {}

    @property
    def open(self) -> int:
        """Batches that are not complete."""
        return len(self._open)

    def begin(self, number: int, orders: int) -> list[Rows]:
        """A batch of some orders; numbers ascend. Gives the rows that can leave."""
        self._open[number] = _Batch(orders)
        return self._complete()

    def more(self, number: int, orders: int) -> None:
        """Further orders of a batch, which is not complete yet."""
        self._open[number].left += orders

    def add(self, number: int, rows: list[Rows]) -> list[Rows]:
        """What one order gave. Gives the rows that can leave."""
        batch = self._open[number]
        batch.left -= 1
        if not self.ordered:
            return rows + self._complete()
        batch.rows += rows
        return self._complete()

    def _complete(self) -> list[Rows]:
        found: list[Rows] = []
        for number in list(self._open):
            batch = self._open[number]
            if batch.left:
                if self.ordered:
                    break
                continue
            del self._open[number]
            if batch.rows:
                found.append(_sorted(batch.rows))
        return found


def _sorted(parts: list[Rows]) -> Rows:
    later = np.concatenate([p.later for p in parts])
    earlier = np.concatenate([p.earlier for p in parts])
    order = np.lexsort((earlier, later))
    batch = pa.concat_batches([p.batch for p in parts])
    return Rows(batch.take(pa.array(order)), later[order], earlier[order])
