"""A join of two whole tables whose matches are folded per group instead of being delivered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.expr import build
from penstock.expr.node import Expr, Op, node, transform
from penstock.host.batch import BatchJoin
from penstock.host.device.base import Folds
from penstock.host.existence import ExistenceJoin
from penstock.host.grouped import GroupedJoin
from penstock.host.grouping.folded import Folded, grouped, own_values, picked
from penstock.host.grouping.groups import Groups
from penstock.host.grouping.select import GroupSelect
from penstock.host.sides import take
from penstock.host.table_join import RangeJoin, TableJoin
from penstock.program import Mode
from penstock.query.plan import LEFT, JoinQuery, other
from penstock.rewrite.folds import FoldKey, fold_plan
from penstock.rewrite.forms import fold_form
from penstock.types import Kind


@dataclass(frozen=True)
class FoldJoin(RangeJoin):
    """One program of the aggregates, and by which aggregates it is asked for."""

    key: FoldKey = field(kw_only=True)
    text: str = field(kw_only=True)


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


def range_join(
    query: JoinQuery,
) -> type[BatchJoin] | type[ExistenceJoin] | type[AggregateJoin]:
    """The join that the query asks for by range joins: of pairs, groups, or rows that match."""
    if query.aggregation is not None:
        return GroupedJoin if query.aggregation.side is None else AggregateJoin
    return ExistenceJoin if query.kind.is_existence else BatchJoin


class AggregateJoin(TableJoin):
    """Gives one row per group of a query with aggregates, in one batch."""

    def _check(self, query: JoinQuery) -> None:
        assert query.aggregation is not None

    def _prepare(self) -> None:
        query = self.query
        assert query.aggregation is not None
        assert query.aggregation.side is not None
        self.side = query.aggregation.side
        self.window_side = other(self.side)
        inputs = [replace(a, value=self._known(a.value) if a.by is None else a.value,
                          by=self._known(a.by)) for a in query.aggregation.aggregates]  # fmt: skip
        self.aggregation = replace(query.aggregation, aggregates=tuple(inputs))
        self.plan = fold_plan(self.aggregation)
        predicate = self._known(query.predicate)
        assert predicate is not None
        start, end = self.ranges_of(self.side)
        self.joins = [
            FoldJoin(
                fold_form(predicate, self.window_side, key.value, frozenset(modes), band=self.band),
                start,
                end,
                tuple(sorted(modes, key=lambda mode: mode.value)),
                key=key,
                text=", ".join(dict.fromkeys(self.plan.texts[key])),
            )
            for key, modes in self.plan.modes.items()
        ]
        self.pairs_in_window = self.joins[0].pairs
        schemas = {side: t.schema for side, t in self.tables.items()}
        self.select = GroupSelect(query, self.aggregation, schemas)

    @property
    def schema(self) -> pa.Schema:
        return self.select.schema

    @property
    def pairs_to_evaluate(self) -> int:
        return sum(join.pairs * len(join.modes) for join in self.joins)

    def _known(self, expr: Expr | None) -> Expr | None:
        """The expression on columns whose types say that they hold no NULL, where they hold none.

        What cannot be NULL needs no test, and ``count(e)`` is then ``count(*)``.
        """

        def rule(current: Expr, args: tuple[Expr, ...]) -> Expr:
            if current.op is not Op.COLUMN:
                return build.remake(current, args)
            column = self.sides[current.attr[0]].columns[current.attr]
            if column.valid is not None or current.type.kind is Kind.NULL:
                return current
            return node(Op.COLUMN, (), current.type.as_nullable(False), current.attr)

        return None if expr is None else transform(expr, rule)

    # -- running ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        folded = self.folded()

        def best(k: int, row: np.ndarray, position: np.ndarray) -> pa.Array:
            return self.at_pairs(k, folded.row[row], position)

        groups = Groups(folded.rows.keys, folded.rows.rows)
        batch = grouped(self.select, self.plan, folded.rows, groups, best)
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

    def _run(self, join: FoldJoin) -> dict[tuple[FoldKey, Mode], Folds]:
        """Aggregates of each row of the group's side, by mode."""
        columns, what = self.sides[self.side].columns, f"this query ({join.text})"
        with self.window_probe(join.form, frozenset(join.modes), what) as window:
            return {
                (join.key, mode): window.fold(columns, join.start, join.end, mode, self.progressed)
                for mode in join.modes
            }

    def _matched(self, folds: Mapping[tuple[FoldKey, Mode], Folds]) -> FoldedRows:
        stream = self.sides[self.side]
        matched = np.flatnonzero(folds[self.plan.found].found)
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
