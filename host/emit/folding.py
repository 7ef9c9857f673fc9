"""Delivers groups of rows that are folded over their matches, when they are complete.

The folds of a row are known when its window has closed and it has been probed. They wait here, as a
few numbers, until no row of the group is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

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
from .delivery import AfterBatch, Delivery
from .groups.closing import GroupClosing, Limit, below
from .groups.folded import RowFolds, grouped, picked, side_values
from .groups.groups import RowGroups
from .groups.probed import ProbedRows
from .groups.select import GroupSelect
from .making import Making
from .output import RowsByArrival


class _Probing:
    """The folds of one batch's tuples, over the results so far."""

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
        """Keep folds over the window from ``low`` on, to merge them when all parts are there."""
        self._in_order.append((low, key, mode, rows, folds))

    def folds(self) -> dict[tuple[FoldKey, Mode], Folds]:
        for _, key, mode, rows, folds in sorted(self._in_order, key=lambda part: part[0]):
            self.add(key, mode, rows, folds)
        return {key: merged.folds() for key, merged in self._merged.items()}


class FoldDelivery(Delivery):
    """Delivers each group of rows of one side once, when no further row or match can join it.

    Parameters
    ----------
    plan : JoinPlan
        A plan whose groups can close (:meth:`JoinPlan.require_closing`), or any if ``bounded``.
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables.
    bounded : bool
        Whether all rows come in one batch.
    """

    def __init__(
        self, plan: JoinPlan, schemas: Mapping[str, pa.Schema], *, bounded: bool = False
    ) -> None:
        query, aggregation = plan.query, plan.query.aggregation
        assert aggregation is not None
        assert aggregation.side is not None
        self.query = query
        self.side = aggregation.side
        self.select = GroupSelect(query, aggregation, schemas)
        self._plan = plan.folds
        self._evaluations = plan.folded()
        self._bounded = bounded
        key = None if bounded else plan.closing_key
        self._closing = None if key is None else GroupClosing(query, key)
        self._limit: Limit = -np.inf
        self._probing: dict[int, _Probing] = {}
        self._open: list[ProbedRows] = []
        self._left: Limit = -np.inf

    @property
    def schema(self) -> pa.Schema:
        return self.select.schema

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._open)

    def begin(self, batch: int, step: WindowStep, watermarks: Watermarks) -> AfterBatch | None:
        (probing,) = step.probing or (None,)
        limit = self._limit_of(probing, watermarks)
        if probing is None and limit == self._limit:
            return None
        self._limit = limit
        rows = 0 if probing is None else len(probing.ids)
        self._probing[batch] = _Probing(self._plan, rows)
        window = step.probes[0].window if step.probes else None
        return partial(self._close, batch, probing, window, limit)

    def rows(self, chunk: Chunk) -> list[Making]:
        return []

    def note(self, chunk: Chunk) -> None:
        order, batch = chunk.order, self._probing[chunk.order.batch]
        fold, mode = order.bound.probe.fold, order.bound.mode
        assert fold is not None
        one = self._evaluations[fold]
        assert one.fold is not None
        for rows, result in zip(chunk.rows, chunk.results, strict=True):
            assert result.folds is not None
            if one.in_order and not self._bounded:
                batch.keep(order.low, one.fold, mode, rows, result.folds)
            else:  # results of whole tables come in order
                batch.add(one.fold, mode, rows, result.folds)

    def _limit_of(self, probing: Arrival | None, watermarks: Watermarks) -> Limit:
        if self._closing is None:
            return np.inf
        if not self.query.is_rows:
            return self._closing.limit(watermarks)
        columns, rows = ({}, 0) if probing is None else (probing.rows.columns, len(probing.rows))
        return max(self._limit, self._closing.limit_after(columns, rows, watermarks))

    def _close(
        self, batch: int, probing: Arrival | None, window: Snapshot | None, limit: Limit
    ) -> list[RowsByArrival]:
        folds = self._probing.pop(batch).folds()
        new = []
        if probing is not None and window is not None:
            new = self._probed(probing, window, folds)
        if not new and self._bounded and probing is not None:
            new = [self._nothing(probing, folds)]  # no row, but makes the one group without keys
        if self._bounded:
            return self._output(new)
        if limit == self._left:  # waiting rows keep waiting
            return self._output(self._kept(new, limit))
        waiting, self._open, self._left = self._open, [], limit
        return self._output(self._kept([*waiting, *new], limit))

    def _probed(
        self, probing: Arrival, window: Snapshot, every: Mapping[tuple[FoldKey, Mode], Folds]
    ) -> list[ProbedRows]:
        """Return the probed rows that have a match."""
        matched = np.flatnonzero(every[self._plan.match_fold].found)
        if not len(matched):
            return []
        probed = probing.pick(matched)
        folds = {key: picked(one, matched) for key, one in every.items()}
        values = {k: self._best(k, probed, window, folds) for k in self.select.values}
        return [self._waiting(probed, folds, values)]

    def _nothing(self, probing: Arrival, every: Mapping[tuple[FoldKey, Mode], Folds]) -> ProbedRows:
        """Return probed rows of length 0."""
        none = np.zeros(0, np.int64)
        folds = {key: picked(one, none) for key, one in every.items()}
        types = {k: one.schema.field(0).type for k, one in self.select.values.items()}
        values = {k: pa.array([], dtype) for k, dtype in types.items()}
        return self._waiting(probing.pick(none), folds, values)

    def _waiting(
        self,
        arrival: Arrival,
        folds: Mapping[tuple[FoldKey, Mode], Folds],
        values: Mapping[int, pa.Array],
    ) -> ProbedRows:
        """Return probed rows with all values that their groups need."""
        count, columns = len(arrival.ids), arrival.rows.columns
        # Each row also stands in for the other side, whose columns no key reads.
        rows = arrival.picked(np.arange(count))
        folded = RowFolds(
            self.select.keys.restore({LEFT: rows, RIGHT: rows}),
            count,
            side_values(self.select.aggregation, columns, count),
            folds,
        )
        keys = arrival.rows.time if self._closing is None else self._closing.keys(columns, count)
        return ProbedRows(folded, values, arrival.rows.time, arrival.ids, keys)

    def _best(
        self,
        k: int,
        arrival: Arrival,
        window: Snapshot,
        folds: Mapping[tuple[FoldKey, Mode], Folds],
    ) -> pa.Array:
        """Return the value of ``min_by`` or ``max_by`` for each row; NULL without a best match."""
        need = self._plan.needs[k].fold
        assert need is not None
        nearest = folds[need]
        assert nearest.position is not None
        some = np.flatnonzero(nearest.found)
        met = window.rows.pick(nearest.position[some], -window.first)
        rows = {self.side: arrival.picked(some), other(self.side): met}
        batch = self.select.values[k].restore(rows)
        index = np.zeros(len(arrival.ids), np.int64)
        index[some] = np.arange(len(some))
        return batch.column(0).take(pa.array(index, mask=~nearest.found))

    def _kept(self, parts: Sequence[ProbedRows], limit: Limit) -> list[ProbedRows]:
        """Keep the rows whose groups are incomplete; return the rows of complete groups."""
        leaving = []
        for part in parts:
            chosen = below(part.keys, limit)
            if chosen.any():
                leaving.append(part if chosen.all() else part.pick(np.flatnonzero(chosen)))
            if not chosen.all():
                self._open.append(part.pick(np.flatnonzero(~chosen)) if chosen.any() else part)
            # Neighbours of similar size are joined, so that few parts remain.
            while len(self._open) > 1 and self._open[-2].rows < 2 * self._open[-1].rows:
                last = self._open.pop()
                self._open[-1] = ProbedRows.concat([self._open[-1], last])
        return leaving

    def _output(self, leaving: Sequence[ProbedRows]) -> list[RowsByArrival]:
        """Make rows of complete groups, by the time and arrival of their first row."""
        if not leaving:
            return []
        probed = ProbedRows.concat(leaving)
        if not self._bounded:
            probed = probed.pick(np.lexsort((probed.ids, probed.times)))
        groups = RowGroups(probed.folded.keys, probed.folded.rows)
        if self._closing is None and not self._bounded:
            self._check_unique(groups, probed.folded)

        def best(k: int, row: np.ndarray, position: np.ndarray) -> pa.Array:
            return probed.values[k].take(pa.array(row))

        batch = grouped(self.select, self._plan, probed.folded, groups, best)
        none = np.zeros(batch.num_rows, np.int64)
        return [RowsByArrival(batch, none, none)] if batch.num_rows else []

    def _check_unique(self, groups: RowGroups, folded: RowFolds) -> None:
        """Refuse two rows with equal keys, if they are seen together.

        Raises
        ------
        DataError
        """
        if groups.count == folded.rows:
            return
        again = np.flatnonzero(np.bincount(groups.ids) > 1)[0]
        row = folded.keys.slice(int(np.flatnonzero(groups.ids == again)[0]), 1)
        shown = ", ".join(str(column[0]) for column in row.columns)
        alias = self.query.side(self.side).alias
        raise DataError(
            f"two rows of {alias} have the key {shown}, which was declared unique; leave unique "
            f"out and add the time of {alias} to GROUP BY"
        )
