"""Groups of pairs by keys of both sides, added batch by batch; pyarrow does the grouping.

A group is held as partial aggregates (sums, counts, extremes) that merge in any order. Integers are
exact: sums are decimals wide enough for 2**31 terms. Floating-point extremes are held as integers
in Spark's order, in which NaN is above everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.columns import Vector, int_vector
from penstock.host.columns import to_arrow, vector
from penstock.host.grouping.closing import Limit, below
from penstock.host.grouping.groups import ungroupable
from penstock.host.grouping.select import GroupSelect, as_vector
from penstock.host.grouping.values import check_sum, group_vector, mean
from penstock.query.plan import Aggregate, JoinQuery
from penstock.types import Kind, Type

#: Bits that a sum of many terms has more than one term.
_SUM_BITS = 31
#: Bits of Arrow's decimals.
_DECIMALS = {126: pa.decimal128(38, 0), 252: pa.decimal256(76, 0)}
#: NaN among floats as integers.
_NAN = np.iinfo(np.int64).max


@dataclass(frozen=True)
class _Part:
    """A column of partial aggregates.

    Parameters
    ----------
    function : str
        "count", "sum", "min" or "max".
    value : int or None
        Which aggregate's value it is of; None for all pairs.
    type : pyarrow.DataType
    """

    function: str
    value: int | None
    type: pa.DataType

    @property
    def name(self) -> str:
        return f"{self.function} {self.value}"

    @property
    def merge(self) -> str:
        """How it merges, as pyarrow calls it."""
        return "sum" if self.function == "count" else self.function


class PairGroups:
    """Groups, from the rows of a join that has their keys and values.

    Parameters
    ----------
    query : JoinQuery
        With an aggregation over keys of both sides.
    schemas : mapping of side to pyarrow.Schema
        Of the base tables.

    Raises
    ------
    QueryError
        A sum may need more digits than there are.
    """

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        aggregation = query.aggregation
        assert aggregation is not None
        self.aggregation = aggregation
        self.select = GroupSelect(query, aggregation, schemas)
        self._keys = [f"key {k}" for k in range(len(aggregation.keys))]
        select = list(zip(self._keys, aggregation.keys, strict=True))
        select += [
            (_column(k), one.value)
            for k, one in enumerate(aggregation.aggregates)
            if one.value is not None
        ]
        #: The join whose rows are grouped.
        self.pairs = replace(query, aggregation=None, select=tuple(select))
        self._needs = [_parts(k, one) for k, one in enumerate(aggregation.aggregates)]
        self._parts = list(dict.fromkeys(part for need in self._needs for part in need))
        types = dict(zip(self._keys, self.select.keys.schema.types, strict=True))
        types |= {part.name: part.type for part in self._parts}
        self._schema = pa.schema(list(types.items()))
        self._state: list[pa.Table] = []

    @property
    def nbytes(self) -> int:
        """Bytes of the groups that are held."""
        return sum(table.nbytes for table in self._state)

    def partial(self, batch: pa.RecordBatch) -> pa.Table:
        """Partial aggregates of rows of the join, to be given to :meth:`add`.

        Any thread may call it; nothing changes.

        Raises
        ------
        QueryError
            A key has a type that cannot be grouped.
        """
        columns = {name: _key(batch.column(name)) for name in self._keys}
        columns |= {part.name: self._terms(part, batch) for part in self._parts}
        return self._merged(pa.table(columns))

    def add(self, partial: pa.Table) -> None:
        """Merge partial aggregates into the groups."""
        self._state.append(partial)
        # Neighbours of like size are merged, so that few remain.
        while len(self._state) > 1 and self._state[-2].num_rows < 2 * self._state[-1].num_rows:
            last = self._state.pop()
            self._state[-1] = self._merged(pa.concat_tables([self._state[-1], last]))

    def leave(self, key: int, limit: Limit) -> pa.RecordBatch:
        """Output rows of the groups whose time key is below a limit, by that key and the others.

        They are forgotten.

        Parameters
        ----------
        key : int
            Which key is the time key.
        limit : int or float
            See :class:`~penstock.host.grouping.closing.Closing`.

        Raises
        ------
        DataError
            A sum is beyond its type.
        """
        name, dtype = self._keys[key], self.aggregation.keys[key].type
        leaving, rest = [self._schema.empty_table()], []
        for groups in self._state:
            closed = below(as_vector(groups.column(name), dtype).values, limit)
            leaving.append(groups.filter(pa.array(closed)))
            if not closed.all():
                rest.append(groups.filter(pa.array(~closed)) if closed.any() else groups)
        self._state = rest
        order = [(column, "ascending") for column in dict.fromkeys([name, *self._keys])]
        return self._output(self._merged(pa.concat_tables(leaving)).sort_by(order))

    def finish(self) -> pa.RecordBatch:
        """Output rows of all groups, which are forgotten.

        Raises
        ------
        DataError
            A sum is beyond its type.
        """
        groups = self._merged(pa.concat_tables([self._schema.empty_table(), *self._state]))
        self._state = []
        return self._output(groups)

    def _merged(self, table: pa.Table) -> pa.Table:
        """One row per group."""
        asked = [(part.name, part.merge) for part in self._parts]
        try:
            # One thread: lanes group beside each other, and floats add up in order.
            found = table.group_by(self._keys, use_threads=False).aggregate(asked)
        except pa.ArrowNotImplementedError:
            types = [str(table.schema.field(name).type) for name in self._keys]
            raise ungroupable(", ".join(types)) from None
        names = [*self._keys, *(f"{part.name}_{part.merge}" for part in self._parts)]
        return found.select(names).rename_columns(self._schema.names).cast(self._schema)

    def _terms(self, part: _Part, batch: pa.RecordBatch) -> pa.Array:
        """What a column of partial aggregates starts from: a term per row."""
        if part.value is None:
            return pa.array(np.ones(batch.num_rows, np.int64))
        dtype, array = self._type(part.value), batch.column(_column(part.value))
        if part.function == "count":
            return array.is_valid().cast(pa.int64())
        v = as_vector(array, dtype)
        if dtype.is_float and part.function != "sum":
            return pa.array(_ordered(v.values), mask=None if v.valid is None else ~v.valid)
        if dtype.is_float:
            v = Vector(v.values.astype(np.float64), v.valid)
            return pa.array(v.values, mask=None if v.valid is None else ~v.valid)
        if v.values.dtype != object and max(-v.lo, v.hi) * len(v.values) < 1 << 63:
            return to_arrow(v, dtype, pa.int64())  # the sum fits, and costs less
        return to_arrow(v, dtype, part.type)

    def _type(self, value: int) -> Type:
        found = self.aggregation.aggregates[value].value
        assert found is not None
        return found.type

    def _output(self, groups: pa.Table) -> pa.RecordBatch:
        arrays = {
            ("key", str(k)): groups.column(name).combine_chunks()
            for k, name in enumerate(self._keys)
        }
        vectors = {
            ("agg", str(k)): self._value(one, self._needs[k], groups)
            for k, one in enumerate(self.aggregation.aggregates)
        }
        return self.select.batch(groups.num_rows, arrays, vectors)

    def _value(self, one: Aggregate, parts: Sequence[_Part], groups: pa.Table) -> Vector:
        """An aggregate of every group."""
        made = [vector(groups.column(part.name), None, one.text) for part in parts]
        first = made[0]
        if one.function == "count":
            return int_vector(first.values)
        known = np.ones(groups.num_rows, bool) if first.valid is None else first.valid
        assert one.value is not None
        if one.function == "avg":
            return Vector(mean(one.value.type, first.values, made[1].values), known)
        if one.function == "sum":
            if one.type.is_integral:
                check_sum(one, first.values[known])
        elif one.type.is_float:
            return group_vector(_unordered(first.values, one.type), known)
        return group_vector(first.values, known)


def _parts(k: int, one: Aggregate) -> tuple[_Part, ...]:
    """What an aggregate is made from."""
    if one.function == "count":
        return (_Part("count", None if one.value is None else k, pa.int64()),)
    assert one.value is not None
    dtype = one.value.type
    if one.function in ("min", "max"):
        is_narrow = dtype.is_float or dtype.bits + (not dtype.signed) <= 64
        own = pa.int64() if is_narrow else _exact(dtype.bits, one)
        return (_Part(one.function, k, own),)
    total = pa.float64() if dtype.is_float else _exact(dtype.bits + _SUM_BITS, one)
    parts = (_Part("sum", k, total),)
    return parts if one.function == "sum" else (*parts, _Part("count", k, pa.int64()))


def _exact(bits: int, one: Aggregate) -> pa.DataType:
    for most, dtype in _DECIMALS.items():
        if bits < most:
            return dtype
    raise QueryError(f"{one.text} may need more than 76 digits; CAST its argument to DOUBLE")


def _column(k: int) -> str:
    return f"value {k}"


def _key(array: pa.Array) -> pa.Array:
    """Keys as they are compared: one NaN, and no negative zero."""
    if not pa.types.is_floating(array.type):
        return array
    plain = array.to_numpy(zero_copy_only=False) + array.type.to_pandas_dtype()(0)
    plain = np.where(np.isnan(plain), plain.dtype.type(np.nan), plain)
    return pa.array(plain, array.type, mask=array.is_null().to_numpy(zero_copy_only=False))


def _ordered(values: np.ndarray) -> np.ndarray:
    """int64 in the order of floats, NaN the greatest."""
    bits = (values.astype(np.float64) + 0.0).view(np.int64)
    codes = np.where(bits < 0, np.int64(np.iinfo(np.int64).min) - bits, bits)
    return np.where(np.isnan(values), _NAN, codes)


def _unordered(codes: np.ndarray, dtype: Type) -> np.ndarray:
    """The floats of :func:`_ordered`."""
    bits = np.where(codes < 0, np.int64(np.iinfo(np.int64).min) - codes, codes)
    values = np.where(codes == _NAN, np.nan, bits.view(np.float64))
    return values.astype(np.float32) if dtype.kind is Kind.FLOAT32 else values
