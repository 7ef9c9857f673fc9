"""Delivers groups of rows that are folded over their matches, when they are complete.

The folds of a row are known when its window has closed and it has been probed. They are merged into
the partial aggregates of its group, which leaves when none of its rows is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NoReturn

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
from .delivery import AfterBatch, Delivery
from .groups.closing import GroupClosing, Limit
from .groups.folded import RowFolds, picked, side_values
from .groups.folds import FoldGroups, NearestPairs, RowPlaces
from .groups.probed import ProbedRows
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
        self._plan = plan.folds
        self._evaluations = plan.folded()
        self._bounded = bounded
        key = None if bounded else plan.closing_key
        self._key = 0 if key is None else key.index
        self._closing = None if key is None else GroupClosing(query, key)
        self._limit: Limit = -np.inf
        self._probing: dict[int, _Probing] = {}
        self._groups = FoldGroups(query, schemas, by_first_row=not bounded)
        self._left: Limit = -np.inf

    @property
    def schema(self) -> pa.Schema:
        return self._groups.select.schema

    @property
    def nbytes(self) -> int:
        return self._groups.nbytes

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
        matched = np.flatnonzero(folds[self._plan.match_fold].found)
        probed = None
        if probing is not None and window is not None and len(matched):
            folds = {key: picked(one, matched) for key, one in folds.items()}
            probed = self._probed(probing.pick(matched), window, folds)
            self._add(probed)
        return self._complete(probed, limit)

    def _probed(
        self, probed: Arrival, window: Snapshot, folds: Mapping[tuple[FoldKey, Mode], Folds]
    ) -> ProbedRows:
        """Return rows that have a match, with all values that their groups need."""
        count, columns = len(probed.ids), probed.rows.columns
        # Each row also stands in for the other side, whose columns no key reads.
        rows = probed.picked(np.arange(count))
        select = self._groups.select
        folded = RowFolds(
            select.keys.restore({LEFT: rows, RIGHT: rows}),
            count,
            side_values(select.aggregation, columns, count),
            folds,
        )
        values = {k: self._best(k, probed, window, folds) for k in select.values}
        return ProbedRows(folded, values, probed.rows.time, probed.ids)

    def _add(self, probed: ProbedRows) -> None:
        """Merge rows into their groups."""

        def best(k: int, row: np.ndarray, position: np.ndarray) -> NearestPairs:
            # Positions in a window are in the order of time.
            return NearestPairs(probed.values[k].take(pa.array(row)), RowPlaces(position, position))

        places = RowPlaces(probed.times, probed.ids)
        groups = self._groups.partial(probed.folded, self._plan, places, best)
        if self._closing is None and not self._bounded and groups.num_rows < probed.rows:
            self._refuse_repeated(probed.folded.keys)
        self._groups.add(groups)

    def _complete(self, probed: ProbedRows | None, limit: Limit) -> list[RowsByArrival]:
        """Return the groups that no later row joins; ``probed`` are the rows that came last."""
        if self._closing is None:
            batch = self._groups.finish()
        elif limit != self._left or probed is not None:
            batch, self._left = self._groups.leave(self._key, limit), limit
        else:
            return []
        none = np.zeros(batch.num_rows, np.int64)
        return [RowsByArrival(batch, none, none)] if batch.num_rows else []

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
        batch = self._groups.select.values[k].restore(rows)
        index = np.zeros(len(arrival.ids), np.int64)
        index[some] = np.arange(len(some))
        return batch.column(0).take(pa.array(index, mask=~nearest.found))

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
        (row,) = (
            counts.filter(pc.field("count_all") > 1)
            .slice(0, 1)
            .select(table.column_names)
            .to_pylist()
        )
        shown = ", ".join(map(str, row.values()))
        alias = self.query.side(self.side).alias
        raise DataError(
            f"two rows of {alias} have the key {shown}, which was declared unique; leave unique "
            f"out and add the time of {alias} to GROUP BY"
        )
