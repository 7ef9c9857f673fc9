"""What leaves a join whose rows are folded over their matches: groups, when they are complete.

A row's fold is known when its window has closed and it has been probed. It waits here, as a few
numbers, until no row of its group is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.errors import DataError
from penstock.host.completeness.engine import Probe, Promises, Step
from penstock.host.completeness.run import Snapshot
from penstock.host.device.base import Folds
from penstock.host.device.merge import Merged
from penstock.host.grouping.closing import Closing, Limit, below
from penstock.host.grouping.folded import Folded, grouped, own_values, picked
from penstock.host.grouping.groups import Groups
from penstock.host.grouping.select import GroupSelect
from penstock.host.lanes.chunk import Chunk
from penstock.host.postprocess.delivery import Closing as AfterBatch
from penstock.host.postprocess.delivery import Delivery
from penstock.host.postprocess.output import Rows
from penstock.host.sides import Arrival, concat, take
from penstock.program import Mode
from penstock.query.closing import is_per_row, time_key
from penstock.query.plan import LEFT, JoinQuery, other
from penstock.rewrite.folds import FoldKey, fold_plan


@dataclass(frozen=True)
class _Partial:
    """Folds of some tuples over part of the window, which begins at ``low``."""

    low: int
    fold: int
    mode: Mode
    rows: np.ndarray
    folds: Folds


@dataclass(frozen=True)
class _Part:
    """Probed rows that have matches.

    Parameters
    ----------
    folded : Folded
    values : mapping of int to pyarrow.Array
        By aggregate, the value at each row's best pair.
    times, ids : ndarray of int64
        Event times and arrival numbers, which say which row comes first.
    keys : ndarray
        Time key of each row's group; the event times where each row is a group.
    """

    folded: Folded
    values: Mapping[int, pa.Array]
    times: np.ndarray
    ids: np.ndarray
    keys: np.ndarray

    @property
    def nbytes(self) -> int:
        folds = (f.value.nbytes + f.found.nbytes for f in self.folded.folds.values())
        own = (v.values.nbytes for v in self.folded.own.values())
        values = (array.nbytes for array in self.values.values())
        rest = self.folded.keys.nbytes + self.times.nbytes + self.ids.nbytes + self.keys.nbytes
        return rest + sum(folds) + sum(own) + sum(values)

    def pick(self, rows: np.ndarray) -> _Part:
        """Some of the rows, by index."""
        index = pa.array(rows)
        folded = Folded(
            self.folded.keys.take(index),
            len(rows),
            {k: take(v, rows) for k, v in self.folded.own.items()},
            {key: picked(folds, rows) for key, folds in self.folded.folds.items()},
        )
        values = {k: array.take(index) for k, array in self.values.items()}
        return _Part(folded, values, self.times[rows], self.ids[rows], self.keys[rows])

    @staticmethod
    def concat(parts: Sequence[_Part]) -> _Part:
        """The rows of several parts."""
        first = parts[0]
        if len(parts) == 1:
            return first
        folded = Folded(
            pa.concat_batches([p.folded.keys for p in parts]),
            sum(p.folded.rows for p in parts),
            {k: concat([p.folded.own[k] for p in parts]) for k in first.folded.own},
            {key: _joined([p.folded.folds[key] for p in parts]) for key in first.folded.folds},
        )
        values = {k: pa.concat_arrays([p.values[k] for p in parts]) for k in first.values}
        times, ids, keys = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("times", "ids", "keys")
        )
        return _Part(folded, values, times, ids, keys)


class FoldDelivery(Delivery):
    """Groups of rows of one side, each once, when no row or match of them can follow.

    Parameters
    ----------
    query : JoinQuery
        Its groups can close, see :func:`penstock.query.closing.require_closing`.
    schemas : mapping of side to pyarrow.Schema
        Of the base tables.
    """

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        aggregation = query.aggregation
        assert aggregation is not None
        assert aggregation.side is not None
        self.query = query
        self.side = aggregation.side
        self.select = GroupSelect(query, aggregation, schemas)
        self._plan = fold_plan(aggregation)
        self._folds = list(self._plan.modes)
        key = None if is_per_row(query) else time_key(query)
        self._closing = None if key is None else Closing(query, key)
        self._limit: Limit = -np.inf
        self._partials: dict[int, list[_Partial]] = {}
        self._open: list[_Part] = []

    @property
    def schema(self) -> pa.Schema:
        return self.select.schema

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._open)

    def modes_of(self, probe: Probe) -> tuple[Mode, ...]:
        assert probe.fold is not None
        modes = self._plan.modes[self._folds[probe.fold]]
        return tuple(sorted(modes, key=lambda mode: mode.value))

    def begin(self, batch: int, step: Step, promises: Promises) -> AfterBatch | None:
        (probing,) = step.probing or (None,)
        limit = self._limit_of(probing, promises)
        if probing is None and limit == self._limit:
            return None
        self._limit = limit
        self._partials[batch] = []
        window = step.probes[0].window if step.probes else None
        return partial(self._close, batch, probing, window, limit)

    def rows(self, chunk: Chunk) -> list[Rows]:
        return []

    def note(self, chunk: Chunk) -> None:
        order = chunk.order
        fold = order.bound.probe.fold
        assert fold is not None
        for rows, result in zip(chunk.rows, chunk.results, strict=True):
            assert result.folds is not None
            part = _Partial(order.low, fold, order.bound.mode, rows, result.folds)
            self._partials[order.batch].append(part)

    def _limit_of(self, probing: Arrival | None, promises: Promises) -> Limit:
        if self._closing is None:
            return np.inf
        if not self.query.is_rows:
            return self._closing.limit(promises)
        keys = np.zeros(0, np.int64)
        if probing is not None:
            keys = self._closing.keys(probing.rows.columns, len(probing.rows))
        return max(self._limit, self._closing.limit_after(keys, promises))

    def _close(
        self, batch: int, probing: Arrival | None, window: Snapshot | None, limit: Limit
    ) -> list[Rows]:
        partials = self._partials.pop(batch)
        if probing is not None and window is not None:
            self._open += self._probed(probing, window, partials)
        return self._leave(limit)

    def _probed(
        self, probing: Arrival, window: Snapshot, partials: Sequence[_Partial]
    ) -> list[_Part]:
        """The rows that were probed and have a match."""
        merged = {
            (key, mode): Merged(mode, len(probing.ids))
            for key in self._folds
            for mode in self._plan.modes[key]
        }
        for part in sorted(partials, key=lambda part: part.low):  # floats add up in this order
            merged[self._folds[part.fold], part.mode].add(part.rows, part.folds)
        folds = {key: made.folds() for key, made in merged.items()}
        matched = np.flatnonzero(folds[self._plan.found].found)
        if not len(matched):
            return []
        own = probing.pick(matched)
        folds = {key: picked(made, matched) for key, made in folds.items()}
        index, columns = np.arange(len(matched)), own.rows.columns
        # Every row stands for the other side, too: no key is computed from it.
        tables = {self.side: own.base}
        folded = Folded(
            self.select.keys.restore(tables, index, index),
            len(matched),
            own_values(self.select.aggregation, columns, len(matched)),
            folds,
        )
        values = {k: self._best(k, own, window, folds) for k in self.select.values}
        keys = own.rows.time
        if self._closing is not None:
            keys = self._closing.keys(columns, len(matched))
        return [_Part(folded, values, own.rows.time, own.ids, keys)]

    def _best(
        self,
        k: int,
        own: Arrival,
        window: Snapshot,
        folds: Mapping[tuple[FoldKey, Mode], Folds],
    ) -> pa.Array:
        """What ``min_by`` or ``max_by`` gives of each row, NULL where nothing is best."""
        need = self._plan.needs[k].fold
        assert need is not None
        nearest = folds[need]
        assert nearest.position is not None
        some = np.flatnonzero(nearest.found)
        tables = {self.side: own.base, other(self.side): window.take(nearest.position[some])}
        rows = (some, np.arange(len(some)))
        found = self.select.values[k].restore(tables, *(rows if self.side == LEFT else rows[::-1]))
        index = np.zeros(len(own.ids), np.int64)
        index[some] = np.arange(len(some))
        return found.column(0).take(pa.array(index, mask=~nearest.found))

    def _leave(self, limit: Limit) -> list[Rows]:
        """Groups that are complete, by the time and arrival of their first row."""
        leaving, rest = [], []
        for part in self._open:
            chosen = below(part.keys, limit)
            if chosen.all():
                leaving.append(part)
            elif chosen.any():
                leaving.append(part.pick(np.flatnonzero(chosen)))
                rest.append(part.pick(np.flatnonzero(~chosen)))
            else:
                rest.append(part)
        self._open = rest
        if not leaving:
            return []
        found = _Part.concat(leaving)
        found = found.pick(np.lexsort((found.ids, found.times)))
        groups = Groups(found.folded.keys, found.folded.rows)
        if self._closing is None:
            self._check_unique(groups, found.folded)

        def best(k: int, row: np.ndarray, position: np.ndarray) -> pa.Array:
            return found.values[k].take(pa.array(row))

        batch = grouped(self.select, self._plan, found.folded, groups, best)
        none = np.zeros(batch.num_rows, np.int64)
        return [Rows(batch, none, none)] if batch.num_rows else []

    def _check_unique(self, groups: Groups, folded: Folded) -> None:
        """Refuse two rows with one key, where they are seen together.

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


def _joined(parts: Sequence[Folds]) -> Folds:
    """Folds of several groups of rows, one after the other."""
    positions = [p.position for p in parts if p.position is not None]
    return Folds(
        np.concatenate([p.found for p in parts]),
        np.concatenate([p.value for p in parts]),
        np.concatenate(positions) if positions else None,
    )
