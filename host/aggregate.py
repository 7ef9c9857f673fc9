"""A join of two whole tables whose matches are folded per group instead of being delivered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.expr import build
from penstock.expr.columns import Vector, evaluate_columns
from penstock.expr.node import Expr, Op, node, transform
from penstock.host.batch import BatchJoin
from penstock.host.columns import arrow_type, to_arrow, vector
from penstock.host.completeness.run import WindowRun
from penstock.host.device.base import Folds
from penstock.host.existence import ExistenceJoin
from penstock.host.group_values import GroupValues
from penstock.host.groups import Groups
from penstock.host.output import Restorer
from penstock.host.probe import Prober
from penstock.host.table_join import RangeJoin, TableJoin
from penstock.program import Mode
from penstock.query.plan import LEFT, Aggregate, JoinQuery, other
from penstock.rewrite.folds import FoldKey, fold_plan
from penstock.rewrite.forms import fold_form
from penstock.types import Kind, Type


@dataclass(frozen=True)
class FoldJoin(RangeJoin):
    """One program of the aggregates, and by which aggregates it is asked for."""

    key: FoldKey = field(kw_only=True)
    text: str = field(kw_only=True)


def range_join(
    query: JoinQuery,
) -> type[BatchJoin] | type[ExistenceJoin] | type[AggregateJoin]:
    """The join that the query asks for by range joins: of pairs, groups, or rows that match."""
    if query.aggregation is not None:
        return AggregateJoin
    return ExistenceJoin if query.kind.is_existence else BatchJoin


class AggregateJoin(TableJoin):
    """Gives one row per group of a query with aggregates, in one batch."""

    def _check(self, query: JoinQuery) -> None:
        assert query.aggregation is not None

    def _prepare(self) -> None:
        query = self.query
        assert query.aggregation is not None
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
        keys = tuple((str(k), key) for k, key in enumerate(self.aggregation.keys))
        self.key_restorer = Restorer(replace(query, select=keys), schemas)
        self.value_restorers = {
            k: Restorer(replace(query, select=(("value", a.value),)), schemas)
            for k, a in enumerate(self.aggregation.aggregates)
            if a.by is not None and a.value is not None
        }
        self._schema = pa.schema(
            [pa.field(name, self._type_of(expr, name)) for name, expr in self.aggregation.select]
        )

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def pairs_to_evaluate(self) -> int:
        return sum(join.pairs * len(join.modes) for join in self.joins)

    def _known(self, expr: Expr | None) -> Expr | None:
        """The expression on columns whose types say that they hold no NULL, where they hold none.

        What cannot be NULL needs no test, and ``count(e)`` is then ``count(*)``.
        """

        def rule(current: Expr, args: tuple[Expr, ...]) -> Expr:
            if current.op is not Op.COLUMN:
                return build.remake(current, args) if args != current.args else current
            column = self.sides[current.attr[0]].columns[current.attr]
            if column.valid is not None or current.type.kind is Kind.NULL:
                return current
            return node(Op.COLUMN, (), current.type.as_nullable(False), current.attr)

        return None if expr is None else transform(expr, rule)

    def _type_of(self, expr: Expr, name: str) -> pa.DataType:
        """Arrow type of an output column; a column that is passed on keeps its own."""
        if expr.op is Op.COLUMN:
            kind, index = expr.attr
            if kind == "key":
                return self.key_restorer.schema.field(int(index)).type
            one = self.aggregation.aggregates[int(index)]
            if int(index) in self.value_restorers:
                return self.value_restorers[int(index)].schema.field(0).type
            value = one.value if one.function in ("min", "max") else None
            if value is not None and value.op is Op.COLUMN and value.type.kind is not Kind.DECIMAL:
                side, column = value.attr
                found = self.tables[side].schema.field(column).type
                return found.value_type if pa.types.is_dictionary(found) else found
        return arrow_type(expr.type, name)

    # -- running ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        # Each pair once, however many folds test it.
        self.stats.pairs_in_window = self.pairs_in_window
        folds: dict[tuple[FoldKey, Mode], Folds] = {}
        for join in self.joins:
            folds |= self._run(join)
        batch = self._output(folds)
        self.stats.rows += batch.num_rows
        self.stats.stop()
        yield batch

    def _run(self, join: FoldJoin) -> dict[tuple[FoldKey, Mode], Folds]:
        """Aggregates of each row of the group's side, by mode."""
        stream, window = self.sides[self.side], self.sides[self.window_side]
        prober = Prober(
            join.form,
            self.device,
            self.stats,
            names=self.names,
            modes=frozenset(join.modes),
            what=f"this query ({join.text})",
        )
        run = WindowRun(window.time, prober.keys(window.columns, len(window)))
        try:
            return {
                (join.key, mode): prober.fold(
                    run, stream.columns, join.start, join.end, mode, self.progressed
                )
                for mode in join.modes
            }
        finally:
            prober.close()

    def _output(self, folds: Mapping[tuple[FoldKey, Mode], Folds]) -> pa.RecordBatch:
        stream = self.sides[self.side]
        matched = np.flatnonzero(folds[self.plan.found].found)
        rows = stream.row[matched]
        # Every row stands for the other side, too: no key is computed from it.
        keys = self.key_restorer.restore(self.tables, *self._both(rows, np.zeros(len(rows), int)))
        groups = Groups(keys, len(rows))
        arrays = {("key", str(k)): array for k, array in enumerate(groups.keys)}
        vectors: dict[tuple[str, str], Vector] = {}
        for k, key in enumerate(self.aggregation.keys):
            if key.type.kind is not Kind.OTHER:
                vectors["key", str(k)] = _as_vector(groups.keys[k], key.type)
        for k, (one, need) in enumerate(
            zip(self.aggregation.aggregates, self.plan.needs, strict=True)
        ):
            part = GroupValues(one, need, folds, matched, groups)
            if one.by is not None:
                array = self._by(k, part)
                arrays["agg", str(k)] = array
                if one.type.kind is not Kind.OTHER:
                    vectors["agg", str(k)] = _as_vector(array, one.type)
            else:
                vectors["agg", str(k)] = part.value(self._own(one, matched))
        made = [
            arrays[expr.attr]
            if expr.op is Op.COLUMN and expr.attr in arrays
            else _as_array(evaluate_columns(expr, vectors, groups.count), expr.type, field.type)
            for (_, expr), field in zip(self.aggregation.select, self._schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(made, schema=self._schema)
        if self.aggregation.having is build.TRUE:
            return batch
        keep = evaluate_columns(self.aggregation.having, vectors, groups.count)
        chosen = keep.values if keep.valid is None else keep.values & keep.valid
        return batch.filter(pa.array(chosen))

    def _own(self, one: Aggregate, matched: np.ndarray) -> Vector | None:
        """The aggregate's value of each matched row, if the group's own side has it."""
        if one.value is None or one.value.sides - {self.side}:
            return None
        stream = self.sides[self.side]
        v = evaluate_columns(one.value, stream.columns, len(stream))
        return Vector(v.values[matched], None if v.valid is None else v.valid[matched], v.lo, v.hi)

    def _by(self, k: int, part: GroupValues) -> pa.Array:
        """``min_by`` or ``max_by``: the value at each group's best pair."""
        row, position = part.best()
        some = np.flatnonzero(row >= 0)
        own = self.sides[self.side].row[part.matched[row[some]]]
        window = self.sides[self.window_side].row[position[some]]
        found = self.value_restorers[k].restore(self.tables, *self._both(own, window)).column(0)
        index = np.zeros(len(row), np.int64)
        index[some] = np.arange(len(some))
        return found.take(pa.array(index, mask=row < 0))

    def _both(self, own: np.ndarray, window: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers of the left and of the right table."""
        return (own, window) if self.side == LEFT else (window, own)


def _as_vector(array: pa.Array, dtype: Type) -> Vector:
    """A column of the output as expressions take it."""
    is_scaled = dtype.kind is Kind.DECIMAL and not pa.types.is_decimal(array.type)
    return vector(array, dtype.scale if is_scaled else None, "the output")


def _as_array(v: Vector, dtype: Type, target: pa.DataType) -> pa.Array:
    """Arrow array of a value; ``target`` may be narrower than what computed columns have."""
    if pa.types.is_integer(target) or pa.types.is_temporal(target) or pa.types.is_float32(target):
        return to_arrow(v, dtype, arrow_type(dtype, "")).cast(target)
    return to_arrow(v, dtype, target)
