"""Contributions: each row as an entry of a group of that row alone, computed column by column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import DataError
from penstock.expr import ops
from penstock.expr.columns import Vector, evaluate_all, evaluate_columns
from penstock.expr.node import Expr
from penstock.plan.group_query import GroupQuery
from penstock.plan.query import columns
from penstock.types import INT64, Kind

from ..rows.columns import load
from ..rows.gather import take
from .coded import as_bytes, is_coded, is_coded_column
from .entry_layout import EntryLayout
from .folds import Merge
from .texts import Texts
from .words import integer_words, key_words, order_words, plain_words, sum_words

#: Low bits of a place, which number the row in its feed; the bits above number the feed.
ROW_BITS = 44
#: Feeds that a place can number.
MOST_FEEDS = 1 << (63 - ROW_BITS)


@dataclass(frozen=True)
class FoldedRows:
    """Counts of a folded batch's rows.

    Parameters
    ----------
    rows : int
        Folded into groups.
    filtered : int
        Left out by WHERE.
    without_time : int
        In no window, since their time is NULL.
    """

    rows: int
    filtered: int
    without_time: int


@dataclass(frozen=True)
class Contributions:
    """Entries of rows, and counts of rows that are not among them.

    Parameters
    ----------
    entries : ndarray of int64, shape (n, words)
    filtered : int
        Rows that WHERE leaves out.
    without_time : int
        Rows that it admits, but whose time is NULL.
    times : (int, int) or None
        The least and the greatest time key, if they are known.
    merged : int
        Rows that are merged already, and not among the entries.
    """

    entries: np.ndarray
    filtered: int
    without_time: int
    times: tuple[int, int] | None = None
    merged: int = 0


class ColumnContributions:
    """Maker of contributions in NumPy, one expression after another.

    Parameters
    ----------
    query : GroupQuery
    layout : EntryLayout
    """

    def __init__(self, query: GroupQuery, layout: EntryLayout) -> None:
        self._query, self._layout = query, layout
        side = query.source
        self._exprs = tuple(
            dict.fromkeys(
                e
                for e in (
                    *query.aggregation.keys,
                    *layout.exists,
                    *(x for p in layout.folds for x in (p.fold.value, p.fold.by) if x is not None),
                    *(() if side.time is None else (side.time,)),
                )
                if not is_coded_column(e)
            )
        )
        self._scales = query.scale_of(side.side)
        #: Names of the columns that expressions read; plain columns of text are only encoded.
        self.computed = tuple(
            sorted({c for e in (*self._exprs, side.filter) for _, c in columns(e)})
        )

    def make(self, batch: pa.RecordBatch, texts: Texts, place: int) -> Contributions:
        """Make the contributions of a batch's rows.

        Parameters
        ----------
        texts : Texts
            Gets the texts that are new.
        place : int
            Number of the batch's first row, with its feed.

        Raises
        ------
        DataError
            A CAST met a value that does not fit, or a time exceeds 64 bits.
        SchemaError
            The batch lacks a column.
        """
        side = self._query.source
        loaded = load(batch, self.computed, self._scales, side.alias)
        known = {(side.side, name): v for name, v in loaded.items()}
        rows = np.arange(batch.num_rows)
        if side.filter is not ops.TRUE:
            rows = np.flatnonzero(evaluate_columns(side.filter, known, len(rows)).true)
            known = _picked(known, rows)
        filtered, without_time = batch.num_rows - len(rows), 0
        if self._query.windowed and side.time is not None and side.time.type.nullable:
            valid = evaluate_columns(side.time, known, len(rows)).valid
            if valid is not None:
                without_time = int((~valid).sum())
                rows = rows[valid]
                known = _picked(known, np.flatnonzero(valid))
        vectors = dict(zip(self._exprs, evaluate_all(self._exprs, known, len(rows)), strict=True))
        whole = len(rows) == batch.num_rows
        base = _Texts(batch, None if whole else rows, texts)
        return Contributions(self._entries(vectors, base, rows + place), filtered, without_time)

    def _entries(self, vectors: dict[Expr, Vector], base: _Texts, places: np.ndarray) -> np.ndarray:
        layout, rows = self._layout, len(places)
        out = np.empty((rows, layout.words), np.int64)
        out[:] = layout.zero
        for k, key in enumerate(layout.keys):
            v = vectors.get(key.expr)
            if key.is_coded:
                codes, valid = base.codes(key.expr, v)
                out[:, key.offset] = codes
            else:
                assert v is not None
                valid = v.valid
                if k == layout.time:
                    _require_one_word(v, "the time key of a group")
                if key.expr.type.kind is not Kind.NULL:
                    words = key_words(v, key.expr.type, key.words)
                    out[:, key.offset : key.offset + key.words] = words
                if k == layout.time and valid is not None:
                    out[~valid, key.offset] = INT64[1]  # closed last of all
            if key.null is not None and valid is not None:
                out[~valid, key.null.word] |= key.null.mask
        for expr, flag in layout.exists.items():
            valid = base.valid(expr) if is_coded_column(expr) else vectors[expr].valid
            out[slice(None) if valid is None else valid, flag.word] |= flag.mask
        for fold_place in layout.folds:
            fold, at = fold_place.fold, fold_place.offset
            if fold.is_count:
                valid = None
                if fold.value is not None:
                    is_column = is_coded_column(fold.value)
                    valid = base.valid(fold.value) if is_column else vectors[fold.value].valid
                out[:, at] = 1 if valid is None else valid
                continue
            folded = fold.by if fold.by is not None else fold.value
            assert folded is not None
            v = vectors[folded]
            known = slice(None) if v.valid is None else v.valid
            if fold.merge is Merge.FLOAT_SUM:
                words = sum_words(v)
            elif fold.merge is Merge.SUM:
                words = integer_words(v, fold.words)
            else:
                words = order_words(v, folded.type, fold.words)
            out[known, at : at + fold.words] = words[known]
            if not fold.has_nearest:
                continue
            at += fold.words
            time = self._query.source.time
            if time is None:
                out[known, at] = 0
            else:
                v_time = vectors[time]
                _require_one_word(v_time, "an event time")
                times = v_time.values.astype(np.int64)
                times = times if v_time.valid is None else np.where(v_time.valid, times, INT64[1])
                out[known, at] = times[known]
            out[known, at + 1] = places[known]
            value, valid = fold.value, None
            assert value is not None
            if is_coded(value.type):
                codes, valid = base.codes(value, vectors.get(value))
                out[known, at + 2] = codes[known]
            elif value.type.kind is Kind.NULL:
                valid = np.zeros(rows, bool)
            else:
                valid = vectors[value].valid
                carried = plain_words(vectors[value], value.type, fold.value_words)
                out[known, at + 2 : at + 2 + fold.value_words] = carried[known]
            if fold_place.null is not None and valid is not None:
                nulls = ~valid if v.valid is None else ~valid & v.valid
                out[nulls, fold_place.null.word] |= fold_place.null.mask
        return out


class _Texts:
    """Encoder of the text columns of a batch's admitted rows; each column is encoded once."""

    def __init__(self, batch: pa.RecordBatch, rows: np.ndarray | None, texts: Texts) -> None:
        self._batch, self._rows, self._texts = batch, rows, texts
        self._done: dict[Expr, tuple[np.ndarray, np.ndarray | None]] = {}

    def codes(self, expr: Expr, v: Vector | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Return codes and validity of a plain column, or of computed values if given."""
        if expr not in self._done:
            if v is None:
                self._done[expr] = (
                    self._texts.encode(as_bytes(self._column(expr))),
                    self.valid(expr),
                )
            else:
                array = pa.array(list(v.values), mask=None if v.valid is None else ~v.valid)
                if pa.types.is_null(array.type):
                    array = array.cast(pa.large_binary())
                self._done[expr] = self._texts.encode(array), v.valid
        return self._done[expr]

    def valid(self, expr: Expr) -> np.ndarray | None:
        column = self._column(expr)
        if not column.null_count:
            return None
        return column.is_valid().to_numpy(zero_copy_only=False)

    def _column(self, expr: Expr) -> pa.Array:
        column = self._batch.column(expr.attr[1])
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return column if self._rows is None else take(column, self._rows)


_Vectors = dict[tuple[str, str], Vector]


def _picked(vectors: _Vectors, rows: np.ndarray) -> _Vectors:
    return {name: v.at(rows) for name, v in vectors.items()}


def _require_one_word(v: Vector, name: str) -> None:
    known = v.known
    if known.dtype != object or not len(known):
        return
    if known.min() < INT64[0] or known.max() > INT64[1]:
        raise DataError(
            f"{name} lies beyond 64 bits; leave such rows out with WHERE, or compute in a coarser "
            "unit"
        )
