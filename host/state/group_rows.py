"""Output rows of groups, computed from their entries a column at a time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Vector
from penstock.plan.group_query import GroupQuery
from penstock.plan.query import Aggregate
from penstock.types import Kind, Type

from ..emit.groups.group_values import value_of
from ..emit.groups.select import GroupSelect
from ..rows.columns import to_arrow
from .coded import is_coded
from .entry_layout import EntryLayout, Flag, FoldPlace
from .folds import Merge
from .sorting import by_column, in_order
from .texts import Texts
from .words import integers, plain_values


class GroupRows:
    """Maker of output rows: SELECT and HAVING of groups that are released.

    Parameters
    ----------
    query : GroupQuery
    layout : EntryLayout
    schemas : mapping of side to pyarrow.Schema
        Of the source's rows.
    ordered : bool
        Whether rows are sorted by their keys.
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
            valid = np.zeros(rows, bool) if is_empty else _where(columns, use.has_value)
            places = [layout.folds[number] for number in use.folds]
            if one.by is None:
                folds = [_fold_values(place, columns) for place in places]
                vectors["agg", str(k)] = value_of(one, folds, valid)
            else:
                arrays["agg", str(k)] = self._nearest(k, one, places[0], columns, valid, texts)
        return self._select.batch(rows, arrays, vectors)

    def _key(self, k: int, columns: np.ndarray, texts: Texts) -> pa.Array:
        place = self._layout.keys[k]
        valid = _where(columns, place.null, is_set=False)
        target = self._key_types[k]
        if place.is_coded:
            return texts.array(columns[place.offset], valid, target)
        words = columns[place.offset : place.offset + place.words]
        return _array(plain_values(words, place.expr.type, valid), place.expr.type, target)

    def _nearest(
        self,
        k: int,
        one: Aggregate,
        place: FoldPlace,
        columns: np.ndarray,
        has_value: np.ndarray | None,
        texts: Texts,
    ) -> pa.Array:
        assert one.value is not None
        valid = _where(columns, place.null, is_set=False)
        if has_value is not None:
            valid = has_value if valid is None else valid & has_value
        target = self._select.values[k].schema.field(0).type
        at = place.offset + place.fold.words + 2
        if is_coded(one.value.type):
            return texts.array(columns[at], valid, target)
        v = plain_values(columns[at : at + place.fold.value_words], one.value.type, valid)
        return _array(v, one.value.type, target)


def _fold_values(place: FoldPlace, columns: np.ndarray) -> np.ndarray:
    """Return the sums, counts or extremes of a fold, one per group."""
    words = columns[place.offset : place.offset + place.fold.words]
    is_float = place.fold.merge is Merge.FLOAT_SUM
    return words[0].view(np.float64) if is_float else integers(words, None).values


def _where(columns: np.ndarray, flag: Flag | None, *, is_set: bool = True) -> np.ndarray | None:
    """Return which groups have a flag as asked for; None if all have, or if there is no flag."""
    if flag is None:
        return None
    is_so = ((columns[flag.word] & flag.mask) != 0) == is_set
    return None if is_so.all() else is_so


def _array(v: Vector, dtype: Type, target: pa.DataType) -> pa.Array:
    """Return values as an Arrow column of the type that the base table, or SELECT, has."""
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
