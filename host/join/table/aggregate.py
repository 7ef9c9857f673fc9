"""A join of two whole tables whose matches are folded per group instead of being delivered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.plan.folds import FoldKey
from penstock.plan.query import LEFT, JoinQuery, other
from penstock.program import Mode

from ...device.base import Folds
from ...emit.groups.folded import Folded, grouped, own_values, picked
from ...emit.groups.groups import Groups
from ...emit.groups.select import GroupSelect
from ...rows.sides import take
from .table_join import RangeJoin, TableJoin


@dataclass(frozen=True)
class FoldedRows:
    """Rows of the group's side with a match, in order of time.

    Parameters
    ----------
    rows : Folded
    row, time : ndarray of int64
        Row of the table, and event time, of each.
    """

    rows: Folded
    row: np.ndarray
    time: np.ndarray


class AggregateJoin(TableJoin):
    """Gives one row per group of a query with aggregates, in one batch."""

    def _check(self, query: JoinQuery) -> None:
        assert query.aggregation is not None

    def _prepare(self) -> None:
        self.plan = self.plan.without_null(self._is_never_null)
        query = self.plan.query
        assert query.aggregation is not None
        assert query.aggregation.side is not None
        self.side = query.aggregation.side
        self.window_side = other(self.side)
        self.aggregation = query.aggregation
        start, end = self.ranges_of(self.side)
        self.joins = [RangeJoin(one, start, end) for one in self.plan.folded()]
        self.pairs_in_window = self.joins[0].pairs
        schemas = {side: t.schema for side, t in self.tables.items()}
        self.select = GroupSelect(self.query, self.aggregation, schemas)

    def _is_never_null(self, column: tuple[str, str]) -> bool:
        return self.sides[column[0]].columns[column].valid is None

    @property
    def schema(self) -> pa.Schema:
        return self.select.schema

    @property
    def pairs_to_evaluate(self) -> int:
        return sum(join.pairs * len(join.evaluation.modes) for join in self.joins)

    # -- running ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        folded = self.folded()

        def best(k: int, row: np.ndarray, position: np.ndarray) -> pa.Array:
            return self.at_pairs(k, folded.row[row], position)

        groups = Groups(folded.rows.keys, folded.rows.rows)
        batch = grouped(self.select, self.plan.folds, folded.rows, groups, best)
        self.stats.rows += batch.num_rows
        self.stats.stop()
        yield batch

    def folded(self) -> FoldedRows:
        """The rows of the group's side that have matches, folded over them."""
        # Each pair once, however many folds test it.
        self.stats.pairs_in_window = self.pairs_in_window
        folds: dict[tuple[FoldKey, Mode], Folds] = {}
        for join in self.joins:
            folds |= self._run(join)
        return self._matched(folds)

    def at_pairs(self, k: int, row: np.ndarray, position: np.ndarray) -> pa.Array:
        """What aggregate k takes from its best pairs.

        Parameters
        ----------
        k : int
        row : ndarray of int
            Of the table of the group's side.
        position : ndarray of int
            Of the other side, in order of time.
        """
        both = self._both(row, self.sides[self.window_side].row[position])
        return self.select.values[k].restore(self.tables, *both).column(0)

    def _run(self, join: RangeJoin) -> dict[tuple[FoldKey, Mode], Folds]:
        """Aggregates of each row of the group's side, by mode."""
        columns, made = self.sides[self.side].columns, join.evaluation
        assert made.fold is not None
        with self.window_probe(made) as window:
            return {
                (made.fold, mode): window.fold(columns, join.start, join.end, mode, self.progressed)
                for mode in made.modes
            }

    def _matched(self, folds: Mapping[tuple[FoldKey, Mode], Folds]) -> FoldedRows:
        stream = self.sides[self.side]
        matched = np.flatnonzero(folds[self.plan.folds.found].found)
        rows = stream.row[matched]
        # Every row stands for the other side, too: no key is computed from it.
        keys = self.select.keys.restore(self.tables, *self._both(rows, np.zeros(len(rows), int)))
        own = own_values(self.aggregation, stream.columns, len(stream))
        folded = Folded(
            keys,
            len(rows),
            {k: take(v, matched) for k, v in own.items()},
            {key: picked(part, matched) for key, part in folds.items()},
        )
        return FoldedRows(folded, rows, stream.time[matched])

    def _both(self, own: np.ndarray, window: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers of the left and of the right table."""
        return (own, window) if self.side == LEFT else (window, own)
