"""Delivers groups of a join, when they are complete."""

from __future__ import annotations

from functools import partial
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from penstock.plan.plan import JoinPlan

from ..execute.chunk import Chunk
from ..windows.probe import Watermarks, WindowStep
from .delivery import AfterBatch, Delivery, RowDelivery
from .groups.closing import Limit, group_closing
from .groups.pairs import PairGroups
from .groups.partial import PartialGroups
from .output import Making, RowsByArrival

#: Type that holds the groups of a join.
Groups = TypeVar("Groups", bound=PartialGroups)


class GroupDelivery(Delivery, Generic[Groups]):
    """Delivers each group once, when no further row or pair can join it.

    Parameters
    ----------
    plan : JoinPlan
        A plan whose groups can close (:meth:`JoinPlan.require_closing`), or any if ``bounded``.
    groups : PartialGroups
    bounded : bool
        Whether all rows come in one batch.
    """

    def __init__(self, plan: JoinPlan, groups: Groups, *, bounded: bool) -> None:
        self.groups = groups
        self.bounded = bounded
        #: Decides when groups are complete; None if all are at the end of each batch.
        self.closing = None if bounded else group_closing(plan.query)
        #: Limit of the groups that leave after the latest batch.
        self.limit: Limit = -np.inf

    @property
    def schema(self) -> pa.Schema:
        return self.groups.select.schema

    @property
    def nbytes(self) -> int:
        return self.groups.nbytes

    def leave(self, limit: Limit) -> list[Making]:
        """Tell how to make rows of the complete groups, and forget these."""
        if self.closing is None:
            batch = self.groups.finish()
        else:
            batch = self.groups.leave(self.closing.index, limit)
        none = np.zeros(batch.num_rows, np.int64)
        rows = RowsByArrival(batch, none, none)
        return [Making(batch.num_rows, lambda: rows)] if batch.num_rows else []


class PairGroupDelivery(GroupDelivery[PairGroups]):
    """Delivers groups of pairs, by keys of both sides.

    Parameters
    ----------
    pairs : RowDelivery
        Delivers ``groups.pairs``.
    """

    def __init__(
        self, plan: JoinPlan, groups: PairGroups, pairs: RowDelivery, *, bounded: bool
    ) -> None:
        super().__init__(plan, groups, bounded=bounded)
        self._pairs = pairs
        self._partials: dict[Chunk, list[pa.Table]] = {}

    def begin(self, batch: int, step: WindowStep, watermarks: Watermarks) -> AfterBatch | None:
        limit = np.inf if self.closing is None else self.closing.limit(watermarks)
        if limit == self.limit:
            return None
        self.limit = limit
        return partial(self.leave, limit)

    def matches(self, chunk: Chunk) -> Chunk:
        return self._pairs.matches(chunk)

    def rows(self, chunk: Chunk) -> tuple[()]:
        self._partials[chunk] = [self._partial(one) for one in self._pairs.rows(chunk)]
        return ()

    def note(self, chunk: Chunk) -> None:
        for table in self._partials.pop(chunk):
            self.groups.add(table)

    def _partial(self, pairs: Making) -> pa.Table:
        return self.groups.partial(pairs.make().batch)
