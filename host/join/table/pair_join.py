"""What joins of two tables that give pairs share: output rows from row numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError
from penstock.plan.query import LEFT, RIGHT, JoinQuery, other

from ...emit.restore import BATCH_ROWS, Restorer
from .table_join import TableJoin

#: Results are gathered to as many rows before they are restored: where matches are rare, a batch
#: for each result would cost more than finding its rows.
LEAST_ROWS = 1 << 16


class PairJoin(TableJoin):
    """A join of two tables whose output is a row per pair; see :class:`TableJoin`.

    An outer join gives the rows that it preserves, too, once all pairs are known.
    """

    #: Rows of an output batch, at most.
    output_rows = BATCH_ROWS

    def _check(self, query: JoinQuery) -> None:
        query.require_pairs("a join that gives pairs")
        if query.kind.is_existence:
            raise QueryError(
                f"a {query.kind.value} join gives no pairs; only the range operator runs it"
            )

    def _prepare(self) -> None:
        schemas = {side: table.schema for side, table in self.tables.items()}
        self.restorer = Restorer(self.query, schemas)
        self.matched = {
            side: np.zeros(self.tables[side].num_rows, bool) for side in self.query.kind.unmatched
        }

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
        for name, matched in self.matched.items():
            matched[rows[name]] = True
        yield from self._given(rows)

    def alone(self) -> Iterator[pa.RecordBatch]:
        """Rows that an outer join preserves though they are in no pair."""
        for side, matched in self.matched.items():
            rows = np.concatenate([self.sides[side].row, self.timeless[side].row])
            rows = rows[~matched[rows]]
            yield from self._given({side: rows, other(side): np.full(len(rows), -1)})

    def _given(self, rows: Mapping[str, np.ndarray]) -> Iterator[pa.RecordBatch]:
        for at in range(0, len(rows[LEFT]), self.output_rows):
            part = slice(at, at + self.output_rows)
            batch = self.restorer.restore(self.tables, rows[LEFT][part], rows[RIGHT][part])
            self.stats.rows += batch.num_rows
            yield batch
