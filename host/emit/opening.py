"""Opens the delivery for a plan."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.plan.plan import JoinPlan, Output

from ..execute.lane import Chunk
from ..windows.probe import Watermarks, WindowStep
from .delivery import AfterBatch, Delivery, ExistenceDelivery, PairDelivery
from .folding import FoldDelivery
from .groups.closing import GroupClosing, Limit
from .groups.pairs import PairGroups
from .making import Making
from .output import RowsByArrival
from .testing import with_tester


class GroupDelivery(Delivery):
    """Delivers each group of pairs once, when no further pair can join it.

    Parameters
    ----------
    plan : JoinPlan
        A plan whose groups can close, see :meth:`JoinPlan.require_closing`.
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables.
    """

    def __init__(self, plan: JoinPlan, schemas: Mapping[str, pa.Schema]) -> None:
        query, key = plan.query, plan.time_key
        assert key is not None
        self._key = key.index
        self._closing = GroupClosing(query, key)
        self._limit: Limit = -np.inf
        self._groups = PairGroups(query, schemas)
        self._pairs = PairDelivery(self._groups.pairs, schemas)
        self._partials: dict[Chunk, list[pa.Table]] = {}

    @property
    def schema(self) -> pa.Schema:
        return self._groups.select.schema

    @property
    def nbytes(self) -> int:
        return self._groups.nbytes

    def begin(self, batch: int, step: WindowStep, watermarks: Watermarks) -> AfterBatch | None:
        limit = self._closing.limit(watermarks)
        if limit == self._limit:
            return None
        self._limit = limit
        return partial(self._close, limit)

    def rows(self, chunk: Chunk) -> list[Making]:
        pairs = self._pairs.rows(chunk)
        self._partials[chunk] = [self._groups.partial(one.make().batch) for one in pairs]
        return []

    def note(self, chunk: Chunk) -> None:
        for table in self._partials.pop(chunk):
            self._groups.add(table)

    def _close(self, limit: Limit) -> list[RowsByArrival]:
        batch = self._groups.leave(self._key, limit)
        none = np.zeros(batch.num_rows, np.int64)
        return [RowsByArrival(batch, none, none)] if batch.num_rows else []


def open_delivery(plan: JoinPlan, schemas: Mapping[str, pa.Schema]) -> Delivery:
    """Open the delivery for a plan; ``schemas`` has the schemas of the base tables, by side."""
    return with_tester(_opened(plan, schemas), plan.query, schemas)


def _opened(plan: JoinPlan, schemas: Mapping[str, pa.Schema]) -> Delivery:
    if plan.output is Output.FOLDS:
        return FoldDelivery(plan, schemas)
    if plan.output is Output.PAIR_GROUPS:
        return GroupDelivery(plan, schemas)
    if plan.output is Output.EXISTENCE:
        return ExistenceDelivery(plan, schemas)
    return PairDelivery(plan.query, schemas)
