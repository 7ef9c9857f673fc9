"""Groups of rows, and of pairs, as partial aggregates, which pyarrow merges in any order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.columns import Vector
from penstock.plan.group_query import Grouped
from penstock.plan.query import Aggregate, JoinQuery

from ...rows.columns import vector
from ...rows.gather import order_by
from .closing import Limit, below
from .floats import plain_keys
from .group_values import value_of
from .pieces import NearestColumns, PartialColumn, by_type, extreme, parts_of
from .select import GroupSelect, as_vector

#: Columns of the time and place of a group's first row.
FIRST_ROW = ("first time", "first place")
#: Most tables of partial aggregates before the smallest neighbours are merged.
_MOST_TABLES = 8
#: Key of the one group of a query without GROUP BY.
_ONE_GROUP = "one group"


class PartialGroups:
    """Groups whose partial aggregates are added table by table.

    Parameters
    ----------
    query : JoinQuery or GroupQuery
        A query with an aggregation.
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables.
    by_first_row : bool
        Whether groups leave in the order of their first rows, by time and place; otherwise in the
        order of their keys.

    Raises
    ------
    QueryError
        A sum may need more digits than a decimal has.
    """

    def __init__(
        self, query: Grouped, schemas: Mapping[str, pa.Schema], *, by_first_row: bool = False
    ) -> None:
        aggregation = query.aggregation
        assert aggregation is not None
        self.aggregation = aggregation
        self.select = GroupSelect(query, aggregation, schemas)
        #: Names of the key columns in tables of partial aggregates.
        self.keys = [f"key {k}" for k in range(len(aggregation.keys))] or [_ONE_GROUP]
        self._needs = [parts_of(k, one) for k, one in enumerate(aggregation.aggregates)]
        self._parts = list(dict.fromkeys(part for need in self._needs for part in need))
        self._nearest = [
            NearestColumns(
                k, extreme(by_type(one), one), self.select.values[k].schema.field(0).type
            )
            for k, one in enumerate(aggregation.aggregates)
            if one.by is not None
        ]
        types = {name: pa.int64() for name in self.keys}
        if aggregation.keys:
            types = dict(zip(self.keys, self.select.keys.schema.types, strict=True))
        types |= {part.name: part.type for part in self._parts}
        types |= {name: t for one in self._nearest for name, t in one.columns.items()}
        self._first_row = FIRST_ROW if by_first_row else ()
        types |= dict.fromkeys(self._first_row, pa.int64())
        #: Schema of partial aggregates.
        self.schema = pa.schema(list(types.items()))
        self._state: list[pa.Table] = []

    @property
    def nbytes(self) -> int:
        """Bytes of all groups so far."""
        return sum(table.nbytes for table in self._state)

    def add(self, partial: pa.Table) -> None:
        """Merge partial aggregates into the groups."""
        self._state.append(partial)
        # Neighbours of similar size are merged, so that few tables remain.
        while len(self._state) > _MOST_TABLES:
            sizes = [table.num_rows for table in self._state]
            first = min(range(1, len(sizes)), key=lambda k: sizes[k - 1] + sizes[k]) - 1
            self._state[first : first + 2] = [self._one_table(self._state[first : first + 2])]

    def leave(self, key: int, limit: Limit) -> pa.RecordBatch:
        """Return output rows of groups whose time key is below a limit, and forget the groups.

        The rows are in the order of the time key, then of the other keys.

        Parameters
        ----------
        key : int
            Number of the time key.
        limit : int or float
            See :class:`~penstock.host.emit.groups.closing.GroupClosing`.

        Raises
        ------
        DataError
            A sum is beyond its type.
        """
        name, dtype = self.keys[key], self.aggregation.keys[key].type
        leaving, staying = [], []
        for groups in self._state:
            closed = below(as_vector(groups.column(name), dtype).values, limit)
            if closed.any():
                leaving.append(groups if closed.all() else groups.filter(pa.array(closed)))
            if not closed.all():
                staying.append(groups.filter(pa.array(~closed)) if closed.any() else groups)
        self._state = staying
        groups = self._one_table(leaving)
        order = self._first_row or dict.fromkeys([name, *self.keys])
        return self._output(_sorted(groups, order))

    def held(self) -> pa.Table:
        """Return the partial aggregates of all groups, and forget them."""
        tables, self._state = self._state, []
        return self._one_table(tables)

    def _one_table(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Merge tables; a group has at most one row in each."""
        if len(tables) == 1:
            return tables[0]
        return self._merged(pa.concat_tables([self.schema.empty_table(), *tables]))

    def finish(self) -> pa.RecordBatch:
        """Return output rows of all groups, and forget the groups.

        Raises
        ------
        DataError
            A sum is beyond its type.
        """
        groups = self.held()
        if not self.aggregation.keys and not groups.num_rows:
            groups = self._nothing()
        return self._output(_sorted(groups, self._first_row))

    def _nothing(self) -> pa.Table:
        """Make the one group of a query without GROUP BY and without any pair."""
        counts = {part.name for part in self._parts if part.function == "count"} | {_ONE_GROUP}
        return pa.table(
            [
                pa.array([0], f.type) if f.name in counts else pa.nulls(1, f.type)
                for f in self.schema
            ],
            schema=self.schema,
        )

    def _merged(self, table: pa.Table) -> pa.Table:
        """Merge partial aggregates into one row per group."""
        table = _sorted(table, self._first_row)
        merges = [(part.name, part.merge) for part in self._parts]
        merges += [(name, "first") for name in self._first_row]
        columns = [*(part.name for part in self._parts), *self._first_row]
        best: dict[str, np.ndarray] = {}
        for one in self._nearest:
            order = _best_first(table, one)
            rank = np.empty(len(order), np.int64)
            rank[order] = np.arange(len(order))
            best[one.by_name] = order
            table = table.append_column(f"rank of {one.by_name}", pa.array(rank))
            merges.append((f"rank of {one.by_name}", "min"))
            columns.append(f"rank of {one.by_name}")
        try:
            # One thread: lanes already group in parallel, and floats must be added in order.
            merged = table.group_by(self.keys, use_threads=False).aggregate(merges)
        except pa.ArrowNotImplementedError:
            types = [str(table.schema.field(name).type) for name in self.keys]
            raise ungroupable(", ".join(types)) from None
        names = [*self.keys, *(f"{name}_{merge}" for name, merge in merges)]
        merged = merged.select(names).rename_columns([*self.keys, *columns])
        for one in self._nearest:
            rank = merged.column(f"rank of {one.by_name}").to_numpy()
            rows = pa.array(best[one.by_name][rank] if len(rank) else rank)
            for name in one.columns:
                merged = merged.append_column(name, table.column(name).take(rows))
        return merged.select(self.schema.names).cast(self.schema)

    def _output(self, groups: pa.Table) -> pa.RecordBatch:
        arrays = {
            ("key", str(k)): groups.column(f"key {k}").combine_chunks()
            for k in range(len(self.aggregation.keys))
        }
        arrays |= {
            ("agg", str(one.aggregate)): groups.column(one.value_name).combine_chunks()
            for one in self._nearest
        }
        vectors = {
            ("agg", str(k)): self._value(one, self._needs[k], groups)
            for k, one in enumerate(self.aggregation.aggregates)
            if one.by is None
        }
        return self.select.batch(groups.num_rows, arrays, vectors)

    def _value(self, one: Aggregate, parts: Sequence[PartialColumn], groups: pa.Table) -> Vector:
        """Compute an aggregate of every group."""
        merged = [vector(groups.column(part.name), None, one.text) for part in parts]
        return value_of(one, [column.values for column in merged], merged[0].valid)


class PairGroups(PartialGroups):
    """Groups of the rows of a join that selects their keys and values.

    Parameters and errors as for :class:`~penstock.host.emit.groups.partial.PartialGroups`; the keys
    are of both sides.
    """

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        super().__init__(query, schemas)
        select = list(zip(self.keys, self.aggregation.keys, strict=True))
        select += [
            (_column(k), one.value)
            for k, one in enumerate(self.aggregation.aggregates)
            if one.value is not None
        ]
        #: The join whose rows are grouped.
        self.pairs = replace(query, aggregation=None, select=tuple(select))

    def partial(self, batch: pa.RecordBatch) -> pa.Table:
        """Make partial aggregates of rows of the join, for :meth:`add`.

        Any thread may call it; nothing changes.

        Raises
        ------
        QueryError
            A key has a type that cannot be grouped.
        """
        columns = {name: plain_keys(batch.column(name)) for name in self.keys}
        columns |= {part.name: self._terms(part, batch) for part in self._parts}
        return self._merged(pa.table(columns))

    def _terms(self, part: PartialColumn, batch: pa.RecordBatch) -> pa.Array:
        """Return the terms, one per row, that a column of partial aggregates merges."""
        if part.value is None:
            return pa.array(np.ones(batch.num_rows, np.int64))
        array = batch.column(_column(part.value))
        if part.function == "count":
            return array.is_valid().cast(pa.int64())
        one = self.aggregation.aggregates[part.value].value
        assert one is not None
        return part.terms(as_vector(array, one.type), one.type)


def _column(k: int) -> str:
    return f"value {k}"


def ungroupable(types: str) -> QueryError:
    """Make the error for a GROUP BY key of a type that cannot be grouped."""
    return QueryError(
        f"GROUP BY a column of type {types} is not supported; group by a number, text, date or time"
    )


def _sorted(table: pa.Table, names: Collection[str]) -> pa.Table:
    """Sort a table by some columns, if there are any."""
    if not names or table.num_rows < 2:
        return table
    return table.take(order_by([table.column(name) for name in names]))


def _best_first(table: pa.Table, one: NearestColumns) -> np.ndarray:
    """Return the order of rows from the best on; rows without a pair come last."""
    by = vector(table.column(one.by_name), None, one.by_name)
    valid = np.ones(table.num_rows, bool) if by.valid is None else by.valid
    codes = np.unique(by.values, return_inverse=True)[1]  # sorts Python integers, too
    ties = [table.column(name).fill_null(0).to_numpy() for name in one.tie_names]
    return np.lexsort((*reversed(ties), codes, ~valid))
