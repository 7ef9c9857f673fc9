"""Delivers the complete groups of a join: of pairs, or of rows with folds over their matches.

The folds of a row are known when its window has closed and it has been probed. They are merged into
the partial aggregates of its group, which leaves when none of its rows is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Generic, NoReturn, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DataError
from penstock.plan.folds import FoldKey, FoldPlan
from penstock.plan.plan import JoinPlan
from penstock.plan.query import LEFT, RIGHT, other
from penstock.program import Mode

from ..device.base import Folds
from ..device.merge import Merged
from ..execute.chunk import Chunk
from ..rows.sides import Arrival
from ..windows.probe import Watermarks, WindowStep
from ..windows.run import Snapshot
from .delivery import AfterBatch, Delivery, RowDelivery
from .groups.closing import Limit, group_closing
from .groups.fold_groups import BestPairs, FoldGroups, RowFolds, RowPlaces, side_values
from .groups.partial import PairGroups, PartialGroups
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


class _Probing:
    """Folds of each tuple of one batch, merged from the results that have come so far."""

    def __init__(self, plan: FoldPlan, rows: int) -> None:
        self._merged = {
            (key, mode): Merged(mode, rows) for key, modes in plan.modes.items() for mode in modes
        }
        #: Folds to merge at the end, each with its first window position: floats are added in the
        #: order of the window.
        self._in_order: list[tuple[int, FoldKey, Mode, np.ndarray, Folds]] = []

    def add(self, key: FoldKey, mode: Mode, rows: np.ndarray, folds: Folds) -> None:
        """Merge the folds of some tuples into those so far."""
        self._merged[key, mode].add(rows, folds)

    def keep(self, low: int, key: FoldKey, mode: Mode, rows: np.ndarray, folds: Folds) -> None:
        """Keep folds of a window part from ``low`` on; :meth:`folds` merges parts in order."""
        self._in_order.append((low, key, mode, rows, folds))

    def folds(self) -> dict[tuple[FoldKey, Mode], Folds]:
        for _, key, mode, rows, folds in sorted(self._in_order, key=lambda part: part[0]):
            self.add(key, mode, rows, folds)
        return {key: merged.folds() for key, merged in self._merged.items()}


class FoldDelivery(GroupDelivery[FoldGroups]):
    """Delivers groups of rows of one side.

    Parameters as for :class:`~penstock.host.emit.grouped.GroupDelivery`.
    """

    def __init__(self, plan: JoinPlan, groups: FoldGroups, *, bounded: bool = False) -> None:
        super().__init__(plan, groups, bounded=bounded)
        assert plan.probing is not None
        self.query = plan.query
        self.side = plan.probing
        self._plan = plan.folds
        self._evaluations = plan.folded()
        self._probing: dict[int, _Probing] = {}

    def begin(self, batch: int, step: WindowStep, watermarks: Watermarks) -> AfterBatch | None:
        (probing,) = step.probing or (None,)
        limit = self._limit_of(probing, watermarks)
        is_new = limit != self.limit
        if probing is None and not is_new:
            return None
        self.limit = limit
        rows = 0 if probing is None else len(probing.ids)
        self._probing[batch] = _Probing(self._plan, rows)
        window = step.probes[0].window if step.probes else None
        return partial(self._close, batch, probing, window, limit, is_new=is_new)

    def note(self, chunk: Chunk) -> None:
        order, batch = chunk.order, self._probing[chunk.order.batch]
        fold, mode = order.bound.probe.fold, order.bound.mode
        assert fold is not None
        one = self._evaluations[fold]
        assert one.fold is not None
        for rows, result in zip(chunk.rows, chunk.results, strict=True):
            assert result.folds is not None
            if one.in_order and not self.bounded:
                batch.keep(order.piece.low, one.fold, mode, rows, result.folds)
            else:  # results of whole tables come in order
                batch.add(one.fold, mode, rows, result.folds)

    def _limit_of(self, probing: Arrival | None, watermarks: Watermarks) -> Limit:
        if self.closing is None:
            return np.inf
        if not self.query.is_rows:
            return self.closing.limit(watermarks)
        columns, rows = ({}, 0) if probing is None else (probing.rows.columns, len(probing.rows))
        return max(self.limit, self.closing.limit_after(columns, rows, watermarks))

    def _close(
        self,
        batch: int,
        probing: Arrival | None,
        window: Snapshot | None,
        limit: Limit,
        *,
        is_new: bool,
    ) -> list[Making]:
        """Add the rows of a batch that have a match; return the groups that no later row joins."""
        folds = self._probing.pop(batch).folds()
        matched = np.flatnonzero(folds[self._plan.match_fold].found)
        if probing is not None and window is not None and len(matched):
            folds = {key: one.pick(matched) for key, one in folds.items()}
            self._add(self._folded(probing.pick(matched), window, folds))
        elif not is_new:
            return []
        return self.leave(limit)

    def _folded(
        self, matched: Arrival, window: Snapshot, folds: Mapping[tuple[FoldKey, Mode], Folds]
    ) -> RowFolds:
        """Return rows that have a match, with all values that their groups need."""
        count = len(matched.ids)
        # Each row also stands in for the other side, whose columns no key reads.
        rows = matched.picked(np.arange(count))
        select = self.groups.select
        return RowFolds(
            self.places(matched),
            select.keys.restore({LEFT: rows, RIGHT: rows}),
            side_values(select.aggregation, matched.rows.columns, count),
            folds,
            {k: self._best(k, matched, window, folds) for k in select.values},
        )

    def places(self, rows: Arrival) -> RowPlaces:
        """Return the places that order rows of the groups' side: by time, then arrival."""
        return RowPlaces(rows.rows.time, rows.ids)

    def met_places(self, window: Snapshot, positions: np.ndarray) -> RowPlaces:
        """Return the places that order rows of the other side: positions, which follow time."""
        return RowPlaces(positions, positions)

    def _best(
        self,
        k: int,
        matched: Arrival,
        window: Snapshot,
        folds: Mapping[tuple[FoldKey, Mode], Folds],
    ) -> BestPairs:
        """Return the pairs that ``min_by`` or ``max_by`` takes."""
        nearest = folds[self._plan.needs[k]["nearest"]]
        assert nearest.position is not None
        some = np.flatnonzero(nearest.found)
        met = window.rows.pick(nearest.position[some], -window.first)
        rows = {self.side: matched.picked(some), other(self.side): met}
        value = self.groups.select.values[k].restore(rows).column(0)
        if len(some) < len(matched.ids):
            index = np.zeros(len(matched.ids), np.int64)
            index[some] = np.arange(len(some))
            value = value.take(pa.array(index, mask=~nearest.found))
        return BestPairs(value, self.met_places(window, nearest.position))

    def _add(self, folded: RowFolds) -> None:
        """Merge rows into their groups."""
        are_unique = self.closing is None and not self.bounded
        groups = self.groups.partial(folded, self._plan, are_unique=are_unique)
        if are_unique and groups.num_rows < len(folded):
            self._refuse_repeated(folded.keys)
        self.groups.add(groups)

    def _refuse_repeated(self, keys: pa.RecordBatch) -> NoReturn:
        """Refuse two rows with equal keys, if they are seen together.

        Raises
        ------
        DataError
        """
        table = pa.Table.from_batches(
            [keys.rename_columns(list(map(str, range(keys.num_columns))))]
        )
        counts = table.group_by(table.column_names).aggregate([([], "count_all")])
        repeated = counts.filter(pc.field("count_all") > 1).select(table.column_names)
        shown = ", ".join(map(str, repeated.slice(0, 1).to_pylist()[0].values()))
        alias = self.query.side(self.side).alias
        raise DataError(
            f"two rows of {alias} have the key {shown}, which was declared unique; leave unique "
            f"out and add the time of {alias} to GROUP BY"
        )
