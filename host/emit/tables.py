"""Delivers the output of joins of whole tables, where no row has to wait for a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.plan.plan import JoinPlan, Output
from penstock.plan.query import JoinQuery, other

from ..execute.chunk import Chunk
from ..execute.pairs import Pairs, joined
from ..rows.sides import Arrival
from ..windows.probe import Probe, Step, Watermarks
from ..windows.run import Snapshot
from .delivery import NO_NUMBERS, Closing, Delivery, ExistenceDelivery, RowDelivery
from .folding import FoldDelivery
from .groups.pairs import PairGroups
from .making import Making
from .output import Rows
from .restore import BATCH_ROWS

#: Least rows of a batch: if matches are rare, a batch per task would cost more than finding its
#: rows.
LEAST_ROWS = 1 << 16


class TablePairs(RowDelivery):
    """Delivers pairs, and at the end the rows that an outer join preserves.

    Parameters
    ----------
    query, schemas
        As for :class:`RowDelivery`.
    output_rows : int
        Most rows of an output batch.
    numbered : bool
        Whether rows get the arrival numbers by which they are ordered.
    """

    def __init__(
        self,
        query: JoinQuery,
        schemas: Mapping[str, pa.Schema],
        *,
        output_rows: int = BATCH_ROWS,
        numbered: bool = False,
    ) -> None:
        super().__init__(query, schemas)
        self._numbered = numbered
        self.output_rows = output_rows
        self._preserved: dict[str, Arrival] = {}
        self._probe: Probe | None = None
        self._waiting: list[Pairs] = []
        #: By preserved side, which of its tuples are in a pair.
        self.matched: dict[str, np.ndarray] = {}

    def begin(self, batch: int, step: Step, watermarks: Watermarks) -> Closing:
        self._preserved = {a.side: a for a in step.entered}
        self.matched = {side: np.zeros(len(a.ids), bool) for side, a in self._preserved.items()}
        return partial(self._close, step.timeless)

    def rows(self, chunk: Chunk) -> Iterator[Making]:
        probe = chunk.order.bound.probe
        if self._probe is not probe:
            yield from self._waited()
        self._probe = probe
        for pairs in chunk.pairs:
            self._waiting.append(pairs)
            if sum(map(len, self._waiting)) >= LEAST_ROWS:
                yield from self._waited()

    def _waited(self) -> Iterator[Making]:
        """Tell how to make rows of the pairs that have waited for others."""
        waiting, self._waiting = self._waiting, []
        if self._probe is not None and waiting:
            yield from self.pairs(self._probe.stream, self._probe.window, joined(waiting))

    def note(self, chunk: Chunk) -> None:
        for pairs in chunk.pairs:
            self.noted(chunk.order.bound.probe.stream.side, pairs)

    def pairs(self, stream: Arrival, window: Snapshot, pairs: Pairs) -> Iterator[Making]:
        """Tell how to make rows of pairs, which are as for :meth:`matches`."""
        for at in range(0, len(pairs), self.output_rows):
            own = pairs.pick(slice(at, at + self.output_rows))
            make = partial(self.matches, stream, window, own, numbered=self._numbered)
            yield Making(len(own), make)

    def noted(self, side: str, pairs: Pairs) -> None:
        """Note that tuples of a side, and the others of their pairs, are in a pair."""
        if side in self.matched:
            self.matched[side][pairs.stream] = True
        if other(side) in self.matched:
            self.matched[other(side)][pairs.positions] = True

    def _close(self, timeless: Sequence[Arrival]) -> Iterator[Rows]:
        yield from (one.make() for one in self._waited())
        for arrival in timeless:
            if arrival.side in self._preserved:
                yield from self.alone(arrival)
        for side, arrival in self._preserved.items():
            yield from self.alone(arrival, np.flatnonzero(~self.matched[side]))


class TableGroups(Delivery):
    """Delivers groups of pairs by keys of both sides, all at the end.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Of the base tables.
    """

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        self._groups = PairGroups(query, schemas)
        self._pairs = TablePairs(self._groups.pairs, schemas)

    @property
    def schema(self) -> pa.Schema:
        return self._groups.select.schema

    def begin(self, batch: int, step: Step, watermarks: Watermarks) -> Closing | None:
        return partial(self._close, self._pairs.begin(batch, step, watermarks))

    def rows(self, chunk: Chunk) -> list[Making]:
        self._add(one.make() for one in self._pairs.rows(chunk))
        return []

    def _add(self, pairs: Iterable[Rows]) -> None:
        for rows in pairs:
            self._groups.add(self._groups.partial(rows.batch))

    def _close(self, last: Closing) -> list[Rows]:
        self._add(last())
        return [Rows(self._groups.finish(), NO_NUMBERS, NO_NUMBERS)]

    def note(self, chunk: Chunk) -> None:
        pass


def table_delivery(
    plan: JoinPlan, schemas: Mapping[str, pa.Schema], *, numbered: bool = False
) -> Delivery:
    """Open the delivery of a join of whole tables.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Of the base tables.
    numbered : bool
        As for :class:`TablePairs`.
    """
    if plan.output is Output.FOLDS:
        return FoldDelivery(plan, schemas, bounded=True)
    if plan.output is Output.PAIR_GROUPS:
        return TableGroups(plan.query, schemas)
    if plan.output is Output.EXISTENCE:
        return ExistenceDelivery(plan, schemas)
    return TablePairs(plan.query, schemas, numbered=numbered)
