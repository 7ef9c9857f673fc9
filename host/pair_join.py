"""What joins of two tables that give pairs share: output rows from row numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.host.completeness.source import Span
from penstock.host.device.base import Device
from penstock.host.output import Restorer
from penstock.host.table_join import TableJoin
from penstock.query.plan import LEFT, RIGHT, JoinQuery, other

#: Rows of one output batch.
BATCH_ROWS = 1 << 20
#: Results are gathered to as many rows before they are restored: where matches are rare, a batch
#: for each result would cost more than finding its rows.
LEAST_ROWS = 1 << 16


class PairJoin(TableJoin):
    """A join of two tables whose output is a row per pair; see :class:`TableJoin`."""

    def __init__(
        self,
        query: JoinQuery,
        tables: Mapping[str, pa.Table],
        device: Device,
        *,
        band: bool = True,
        disorder: Span | Mapping[str, Span] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        query.require_pairs("a join that gives pairs")
        super().__init__(
            query, tables, device, band=band, disorder=disorder, on_progress=on_progress
        )
        self.restorer = Restorer(query, {side: t.schema for side, t in self.tables.items()})

    @property
    def schema(self) -> pa.Schema:
        return self.restorer.schema

    def restored(
        self, side: str, found: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> Iterator[pa.RecordBatch]:
        """Output rows, in batches, of pairs as they come.

        Parameters
        ----------
        side : str
            Whose tuples the first of each two arrays are.
        found : iterable of (ndarray, ndarray)
            Indices of tuples of that side and of the other.
        """
        waiting: list[tuple[np.ndarray, np.ndarray]] = []
        for pairs in found:
            self.progressed()
            waiting.append(pairs)
            if sum(len(own) for own, _ in waiting) >= LEAST_ROWS:
                yield from self._batches(side, waiting)
                waiting = []
        yield from self._batches(side, waiting)

    def _batches(
        self, side: str, found: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> Iterator[pa.RecordBatch]:
        if not sum(len(own) for own, _ in found):
            return
        rows = {
            name: self.sides[name].row[np.concatenate([pairs[k] for pairs in found])]
            for k, name in enumerate((side, other(side)))
        }
        for at in range(0, len(rows[LEFT]), BATCH_ROWS):
            part = slice(at, at + BATCH_ROWS)
            batch = self.restorer.restore(self.tables, rows[LEFT][part], rows[RIGHT][part])
            self.stats.rows += batch.num_rows
            yield batch
