"""Makes output rows of entries, a column at a time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Vector, int_vector
from penstock.plan.group_query import GroupQuery
from penstock.plan.query import Aggregate
from penstock.types import Kind, Type

from ..emit.groups.select import GroupSelect
from ..emit.groups.values import mean, total
from ..rows.columns import to_arrow
from .coded import is_coded
from .folds import Merge
from .layout import EntryLayout, Flag, FoldPlace, Uses
from .sorting import by_column, in_order
from .texts import Texts
from .words import extremes, integers, plain_values


class GroupRows:
    """Computes SELECT and HAVING of groups that leave.

    Parameters
    ----------
    query : GroupQuery
    layout : EntryLayout
    schemas : mapping of side to pyarrow.Schema
        Of the source's rows.
    ordered : bool
        Whether rows are put in the order of their keys.
    """

    def __init__(
        self,
        query: GroupQuery,
        layout: EntryLayout,
        schemas: Mapping[str, pa.Schema],
        *,
        ordered: bool,
    ) -> None:
        self._layout, self._query, self._ordered = layout, query, ordered
        self._select = GroupSelect(query, query.aggregation, schemas)
        self._key_types = self._select.keys.schema.types
        self._scales = query.scale_of(query.source.side)

    @property
    def schema(self) -> pa.Schema:
        return self._select.schema

    def rows(self, entries: np.ndarray, texts: Texts, *, is_empty: bool = False) -> pa.RecordBatch:
        """Make output rows: if ordered, by the time key, then by the other keys.

        Parameters
        ----------
        entries : ndarray of int64, shape (n, words)
        is_empty : bool
            The one group of a query without GROUP BY has no row: sums are NULL.

        Raises
        ------
        DataError
            A sum is beyond its type.
        """
        layout = self._layout
        rows = len(entries)
        columns = by_column(entries, in_order(entries, layout, texts) if self._ordered else None)
        arrays = {("key", str(k)): self._key(k, columns, texts) for k in range(len(layout.keys))}
        vectors: dict[tuple[str, str], Vector] = {}
        uses = zip(self._query.aggregation.aggregates, layout.uses, strict=True)
        for k, (one, use) in enumerate(uses):
            found = np.zeros(rows, bool) if is_empty else _where(columns, use.found)
            place = layout.folds[use.first]
            if one.by is None:
                vectors["agg", str(k)] = self._value(one, use, place, columns, found)
            else:
                arrays["agg", str(k)] = self._nearest(k, one, place, columns, found, texts)
        return self._select.batch(rows, arrays, vectors)

    def _key(self, k: int, columns: np.ndarray, texts: Texts) -> pa.Array:
        place = self._layout.keys[k]
        valid = _where(columns, place.null, is_set=False)
        target = self._key_types[k]
        if place.is_coded:
            return texts.array(columns[place.offset], valid, target)
        words = columns[place.offset : place.offset + place.words]
        return _array(plain_values(words, place.expr.type, valid), place.expr.type, target)

    def _value(
        self,
        one: Aggregate,
        use: Uses,
        place: FoldPlace,
        columns: np.ndarray,
        found: np.ndarray | None,
    ) -> Vector:
        words = columns[place.offset : place.offset + place.fold.words]
        if one.function == "count":
            return int_vector(words[0])
        assert one.value is not None
        dtype = one.value.type
        if one.function in ("min", "max"):
            return extremes(words, dtype, found)
        known = np.ones(len(words[0]), bool) if found is None else found
        if place.fold.merge is Merge.FLOAT_SUM:
            sums = words[0].view(np.float64)
        else:
            sums = integers(words, None).values
        if one.function == "avg":
            assert use.count is not None
            counts = columns[self._layout.folds[use.count].offset]
            return mean(one, sums, counts, found)
        return total(one, sums, known)

    def _nearest(
        self,
        k: int,
        one: Aggregate,
        place: FoldPlace,
        columns: np.ndarray,
        found: np.ndarray | None,
        texts: Texts,
    ) -> pa.Array:
        assert one.value is not None
        valid = _where(columns, place.null, is_set=False)
        if found is not None:
            valid = found if valid is None else valid & found
        target = self._select.values[k].schema.field(0).type
        at = place.offset + place.fold.words + 2
        if is_coded(one.value.type):
            return texts.array(columns[at], valid, target)
        v = plain_values(columns[at : at + place.fold.value_words], one.value.type, valid)
        return _array(v, one.value.type, target)


def _where(columns: np.ndarray, flag: Flag | None, *, is_set: bool = True) -> np.ndarray | None:
    """Where a flag is set, or is not; None if it is so everywhere, or if there is no flag."""
    if flag is None:
        return None
    found = ((columns[flag.word] & flag.mask) != 0) == is_set
    return None if found.all() else found


def _array(v: Vector, dtype: Type, target: pa.DataType) -> pa.Array:
    """A column as the base table has it, or as a computed one."""
    mask = None if v.valid is None else ~v.valid
    if dtype.kind is Kind.DECIMAL and pa.types.is_floating(target):
        # Declared as a decimal: the float that stands for it, as it was read.
        floats = v.values.astype(np.float64) / 10.0**dtype.scale
        return pa.array(floats.astype(target.to_pandas_dtype()), target, mask=mask)
    if dtype.kind is Kind.DECIMAL and pa.types.is_integer(target):
        return pa.array(v.values // 10**dtype.scale, target, mask=mask)
    if pa.types.is_decimal(target) and target.bit_width < 128:
        wide = pa.decimal128(target.precision, target.scale)
        return to_arrow(v, dtype, wide).cast(target)
    if pa.types.is_date64(target):
        return to_arrow(v, dtype, pa.date32()).cast(target)
    if pa.types.is_integer(target) and not pa.types.is_uint64(target):
        return to_arrow(v, dtype, pa.int64()).cast(target)
    return to_arrow(v, dtype, target)
