"""Contributions of rows by a loop compiled for the query, over the buffers of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.columns import evaluate_columns
from penstock.expr.node import Expr, Op, walk
from penstock.plan.group_query import GroupQuery
from penstock.types import Kind

from ..rows import gather
from ..rows.columns import load
from .coded import as_bytes, is_coded, is_coded_column
from .contributions import Contributions
from .entry_layout import EntryLayout
from .entry_source import entry_source
from .generated_sources import load_loops
from .merger import EntryMerger
from .store import LogStore, Target
from .texts import Texts
from .words import integer_words

#: Rows that one call merges; the log needs room for them as if each were a group.
MERGED_ROWS = 1 << 16

#: Stands for the values of a column if only its validity is read.
_NOTHING = np.zeros(0, np.int64)


class CompiledContributions:
    """Maker of contributions by a loop that is compiled for the query.

    Parameters
    ----------
    query : GroupQuery
    layout : EntryLayout
    schema : pyarrow.Schema
        Of the batches.
    rows : int
        Most rows of a chunk.
    without_null : bool
        Whether the loop is for batches whose columns have no NULL.

    Raises
    ------
    NotCompilable
        See :func:`~.entry_source.entry_source`.
    """

    def __init__(
        self,
        query: GroupQuery,
        layout: EntryLayout,
        schema: pa.Schema,
        rows: int,
        *,
        without_null: bool = False,
    ) -> None:
        self._query, self._layout, self._rows = query, layout, rows
        self._schema = schema
        source = entry_source(query, layout, without_null=without_null)
        self._leaves, self._bounds = source.leaves, source.bounds
        self._contribute, self._fold, *_ = load_loops(
            source.text, "contribute", "fold", "merge", "enter", "lead"
        )
        self._scales = query.scale_of(query.source.side)
        self._chosen = np.empty(rows, np.int64)
        self._out = np.empty(rows * layout.words, np.int64)
        self._outcome = np.zeros(4, np.int64)
        # Valid everywhere, of a column without NULL.
        self._ones = np.zeros(0, np.uint8)
        self._required = [n for n in source.names if without_null or not schema.field(n).nullable]
        self._direct = [_is_direct(expr, schema, self._scales) for expr, _ in self._leaves]
        #: A part that is computed as a column may fail in rows that WHERE leaves out.
        self.is_safe = not any(
            e.may_fail
            for (e, _), direct in zip(self._leaves, self._direct, strict=True)
            if not direct
        )
        if self.is_safe:
            empty = schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema)]
            store = LogStore(EntryMerger(layout))
            list(self.make(empty[0], Texts(), 0, lambda: Target(store), compiles=True))

    def fits(self, batch: pa.RecordBatch) -> bool:
        """Whether a batch has the schema of the loop, and its values are within the bounds."""
        if not batch.schema.equals(self._schema):
            return False
        if any(has_null(batch.column(name)) for name in self._required):
            return False
        for column, (low, high) in self._bounds.items():
            array = batch.column(column.attr[1])
            if not _is_plain(array.type):
                continue
            whole = pa.int64() if array.type.bit_width == 64 else pa.int32()
            ends = pc.call_function("min_max", [array.view(whole)])
            least, greatest = ends["min"].as_py(), ends["max"].as_py()
            if least is not None and not (low <= least and greatest <= high):
                return False
        return True

    def make(
        self,
        batch: pa.RecordBatch,
        texts: Texts,
        place: int,
        target: Callable[[], Target] | None,
        *,
        compiles: bool = False,
    ) -> Iterator[Contributions]:
        """Yield the contributions of a batch that fits, by chunk; each is valid until the next.

        Rows of a chunk are merged into the target up to the first that belongs to another pane;
        the rows from there on become entries.

        Parameters
        ----------
        texts : Texts
            Gets the texts that are new.
        place : int
            Number of the batch's first row, with its feed.
        target : callable or None
            Returns the log store to merge a chunk's rows into; None to make entries of all rows.
        compiles : bool
            Whether to call each loop at least once, so that Numba compiles it.
        """
        columns = self._columns(batch, texts)
        first, rows = 0, batch.num_rows
        while first < rows or compiles:
            if target is not None:
                last = min(first + MERGED_ROWS, rows)
                first, part = self._merged(columns, place, first, last, target(), texts)
                yield part
                if first == last and not compiles:
                    continue
            last = min(first + self._rows, rows)
            yield self._entries(columns, place, first, last)
            first, compiles = last, False

    def _merged(
        self, columns: list[Any], place: int, first: int, last: int, target: Target, texts: Texts
    ) -> tuple[int, Contributions]:
        """Merge rows up to the first of another pane; returns where that is, and the counts."""
        store = target.store
        store.make_room(last - first, texts.hashes)
        self._fold(
            *columns, place, first, last, self._chosen, self._out, self._outcome, target.low,
            target.high, store.log, store.count, store.index, store.epoch, texts.hashes,
        )  # fmt: skip
        merged, without, end, store.count = self._outcome.tolist()
        nothing = self._out.reshape(-1, self._layout.words)[:0]
        filtered = end - first - merged - without
        return end, Contributions(nothing, filtered, without, merged=merged)

    def _entries(self, columns: list[Any], place: int, first: int, last: int) -> Contributions:
        self._contribute(*columns, place, first, last, self._chosen, self._out, self._outcome)
        count, without, low, high = self._outcome.tolist()
        words = self._layout.words
        entries = self._out[: count * words].reshape(count, words)
        return Contributions(entries, last - first - count - without, without, (low, high))

    def _columns(self, batch: pa.RecordBatch, texts: Texts) -> list[Any]:
        """Return arguments of the loop: each leaf's values, and where they are not NULL."""
        needed = -(-batch.num_rows // 8) + 1
        if len(self._ones) < needed:
            self._ones = _read_only(np.full(2 * needed, 255, np.uint8))
        arguments: list[Any] = []
        for (expr, words), direct in zip(self._leaves, self._direct, strict=True):
            if direct:
                array = batch.column(expr.attr[1])
                values, valid, offset = _buffers(array)
            else:
                values, mask = self._computed(expr, words, batch, texts)
                valid = None if mask is None else np.packbits(mask, bitorder="little")
                offset = 0
            arguments.append(_read_only(values))
            if expr.type.nullable:
                arguments += (self._ones, 0) if valid is None else (_read_only(valid), offset)
        return arguments

    def _computed(
        self, expr: Expr, words: int, batch: pa.RecordBatch, texts: Texts
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute a leaf as a column; returns its words, and where it is not NULL."""
        if is_coded_column(expr):
            column = batch.column(expr.attr[1])
            column = as_bytes(column) if words else _decoded(column)
            mask = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
            return texts.encode(column) if words else _NOTHING, mask
        side = self._query.source
        names = sorted({leaf.attr[1] for leaf in walk(expr) if leaf.op is Op.COLUMN})
        quick = _quick(expr, batch)
        if quick is not None:
            return quick
        loaded = load(batch, names, self._scales, side.alias)
        vectors = {(side.side, name): v for name, v in loaded.items()}
        v = evaluate_columns(expr, vectors, batch.num_rows)
        if expr.type.is_text:
            kind = pa.large_binary() if expr.type.kind is Kind.BINARY else pa.large_string()
            masked = None if v.valid is None else ~v.valid
            return texts.encode(pa.array(list(v.values), kind, mask=masked)), v.valid
        if expr.type.is_integral:
            return np.ascontiguousarray(integer_words(v, words).reshape(-1)), v.valid
        return np.ascontiguousarray(v.values), v.valid


def has_null(array: pa.Array) -> bool:
    """Whether a column may have a NULL: in its rows, or in its dictionary."""
    if isinstance(array, pa.DictionaryArray) and array.dictionary.null_count:
        return True
    return array.null_count > 0


def _is_direct(expr: Expr, schema: pa.Schema, scales: dict[str, int]) -> bool:
    """Whether a leaf is a column whose Arrow buffer the loop can read."""
    if expr.op is not Op.COLUMN or is_coded(expr.type) or expr.attr[1] in scales:
        return False
    return _is_plain(schema.field(expr.attr[1]).type)


def _is_plain(dtype: pa.DataType) -> bool:
    if pa.types.is_date64(dtype) or pa.types.is_uint64(dtype) or pa.types.is_float16(dtype):
        return False
    return gather.word(dtype) is not None


def _buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Return the values of an array of plain numbers, its validity bitmap, and its bit offset."""
    dtype = array.type
    word = gather.word(dtype)
    assert word is not None
    if pa.types.is_floating(dtype):
        word = np.dtype(f"f{word.itemsize}")
    elif not pa.types.is_unsigned_integer(dtype):
        word = np.dtype(f"i{word.itemsize}")
    mask = array.buffers()[0] if array.null_count else None
    valid = None if mask is None else np.frombuffer(mask, np.uint8)
    return gather.values(array, word), valid, array.offset


def _quick(expr: Expr, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Compare a column of text with a constant, by Arrow; None for other expressions."""
    if expr.op is not Op.EQ or not expr.args[0].type.is_text:
        return None
    column, value = expr.args if expr.args[1].is_const else expr.args[::-1]
    if column.op is not Op.COLUMN or not value.is_const or value.attr is None:
        return None
    array = batch.column(column.attr[1])
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    is_equal = pc.call_function("equal", [array, pa.scalar(value.attr, array.type)])
    mask = None
    if is_equal.null_count:
        mask = is_equal.is_valid().to_numpy(zero_copy_only=False)
        is_equal = is_equal.fill_null(False)
    return is_equal.to_numpy(zero_copy_only=False), mask


def _decoded(column: pa.Array) -> pa.Array:
    """Decode a dictionary column, so that its validity shows every NULL."""
    is_dictionary = pa.types.is_dictionary(column.type)
    return column.dictionary_decode() if is_dictionary else column


def _read_only(values: np.ndarray) -> np.ndarray:
    """Return a read-only view: the one array type that the loop is compiled for."""
    view = values.view()
    view.flags.writeable = False
    return view
