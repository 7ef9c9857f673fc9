"""What leaves a join of whole tables: everything is there, and nothing has to wait for a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.plan.plan import JoinPlan, Output
from penstock.plan.query import LEFT, RIGHT, JoinQuery, other

from ..execute.chunk import Chunk
from ..rows.sides import Arrival
from ..windows.engine import Promises, Step
from ..windows.run import Snapshot
from .delivery import Closing, Delivery, ExistenceDelivery, RowDelivery
from .folding import FoldDelivery
from .groups.pairs import PairGroups
from .output import Rows
from .restore import BATCH_ROWS

_NONE = np.zeros(0, np.int64)


class TablePairs(RowDelivery):
    """Pairs, and at the end the rows that an outer join preserves.

    Parameters
    ----------
    query, schemas
        As for :class:`RowDelivery`.
    output_rows : int
        Rows of an output batch, at most.
    """

    def __init__(
        self,
        query: JoinQuery,
        schemas: Mapping[str, pa.Schema],
        *,
        output_rows: int = BATCH_ROWS,
    ) -> None:
        super().__init__(query, schemas)
        self.output_rows = output_rows
        self._preserved: dict[str, Arrival] = {}
        #: By side that is preserved, which of its tuples are in a pair.
        self.matched: dict[str, np.ndarray] = {}

    def begin(self, batch: int, step: Step, promises: Promises) -> Closing | None:
        self._preserved = {a.side: a for a in step.entered}
        self.matched = {side: np.zeros(len(a.ids), bool) for side, a in self._preserved.items()}
        return partial(self._close, step.timeless)

    def rows(self, chunk: Chunk) -> list[Rows]:
        probe = chunk.order.bound.probe
        return [
            rows for i, j in chunk.pairs for rows in self.pairs(probe.stream, probe.window, i, j)
        ]

    def note(self, chunk: Chunk) -> None:
        probe = chunk.order.bound.probe
        for i, j in chunk.pairs:
            self.noted({probe.stream.side: i, probe.window_side: j})

    def pairs(
        self, stream: Arrival, window: Snapshot, i: np.ndarray, j: np.ndarray
    ) -> Iterator[Rows]:
        """Output rows of pairs: tuples of an arrival, and positions of a run of the other side."""
        for at in range(0, len(i), self.output_rows):
            own, others = i[at : at + self.output_rows], j[at : at + self.output_rows]
            base, row = window.at(others)
            tables = {stream.side: stream.base, other(stream.side): base}
            rows = {stream.side: stream.at(own), other(stream.side): row}
            batch = self.restorer.restore(tables, rows[LEFT], rows[RIGHT])
            yield Rows(batch, _NONE, _NONE)

    def noted(self, found: Mapping[str, np.ndarray]) -> None:
        """These tuples of each side are in a pair."""
        for side, tuples in found.items():
            if side in self.matched:
                self.matched[side][tuples] = True

    def _close(self, timeless: tuple[Arrival, ...]) -> list[Rows]:
        alone = [a.pick(np.flatnonzero(~self.matched[s])) for s, a in self._preserved.items()]
        alone += [a for a in timeless if a.side in self._preserved]
        return [rows for arrival in alone for rows in self.alone(arrival)]


class TableGroups(Delivery):
    """Groups of pairs by keys of both sides, all at the end.

    Parameters
    ----------
    query : JoinQuery
    schemas : mapping of side to pyarrow.Schema
        Of the base tables.
    """

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        self._groups = PairGroups(query, schemas)
        self._pairs = TablePairs(self._groups.pairs, schemas)

    @property
    def schema(self) -> pa.Schema:
        return self._groups.select.schema

    def begin(self, batch: int, step: Step, promises: Promises) -> Closing | None:
        return lambda: [Rows(self._groups.finish(), _NONE, _NONE)]

    def rows(self, chunk: Chunk) -> list[Rows]:
        for rows in self._pairs.rows(chunk):
            self._groups.add(self._groups.partial(rows.batch))
        return []

    def note(self, chunk: Chunk) -> None:
        pass


def table_delivery(plan: JoinPlan, schemas: Mapping[str, pa.Schema]) -> Delivery:
    """What leaves a join of whole tables; ``schemas`` are those of the base tables, by side."""
    if plan.output is Output.FOLDS:
        return FoldDelivery(plan, schemas, bounded=True)
    if plan.output is Output.PAIR_GROUPS:
        return TableGroups(plan.query, schemas)
    if plan.output is Output.EXISTENCE:
        return ExistenceDelivery(plan, schemas)
    return TablePairs(plan.query, schemas)
