"""Pages in bytes: each is a record batch as a message of Arrow's IPC format, without a schema.

Many small pages are read in one call. Arrow's reader makes an object for each page and column; here
a loop of machine code finds the buffers of all pages in the messages' metadata, and copies the
values of a column from page after page.

A message is ``FFFFFFFF``, the length of its metadata, the metadata and the body; see "Encapsulated
message format" and ``Message.fbs`` in Arrow's documents. The metadata is a flatbuffer: a table is
reached by an offset, and says by its vtable where its fields are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import njit

from penstock.errors import DataError
from penstock.kept_code import kept

from .picking import picked_bits, picked_text, picked_values, search

#: Bytes before the metadata of a message: a mark and the metadata's length.
_PREFIX = 8
#: Bytes that an operating system keeps of a file together; a page that is in two of them takes
#: twice the time to read.
BLOCK_BYTES = 4096
#: Most zeros behind a page, as a share of the page.
_PADDING = 1 / 8
#: Where the vtables of Message and RecordBatch say the places of these fields, in bytes.
_HEADER = 8
_LENGTH, _NODES, _BUFFERS = 4, 6, 8
#: Bytes of a FieldNode (length, NULLs) and of a Buffer (offset, length).
_STRUCT = 16
#: An odd number with half of its bits set, to mix words.
_PRIME = np.uint64(0x9FB21C651E98DF25)


@dataclass(frozen=True)
class _Field:
    """Layout of a column in a message.

    Parameters
    ----------
    type : DataType
    node, buffer : int
        Number of its first FieldNode and of its first Buffer.
    width : int
        Bytes of a value; 0 for booleans, -4 or -8 for text with offsets of so many bytes.
    """

    type: pa.DataType
    node: int
    buffer: int
    width: int | None


@dataclass(frozen=True, eq=False)
class PageKeys:
    """Hashes wanted from some pages.

    Parameters
    ----------
    hashes : ndarray of uint64
        Ascending.
    lows, highs : ndarray of int64, shape (pages,)
        Page k may have rows of ``hashes[lows[k]:highs[k]]``.
    """

    hashes: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    def on(self, pages: slice) -> PageKeys:
        """The hashes wanted from some of the pages."""
        return PageKeys(self.hashes, self.lows[pages], self.highs[pages])


class PageFormat:
    """The pages of one schema.

    Parameters
    ----------
    schema : Schema
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._fields: list[_Field] = []
        nodes = buffers = 0
        for field in schema:
            self._fields.append(_Field(field.type, nodes, buffers, _width(field.type)))
            own_nodes, own_buffers = _counts(field.type)
            nodes, buffers = nodes + own_nodes, buffers + own_buffers
        self._nodes, self._buffers = nodes, buffers

    def rows(
        self,
        raw: np.ndarray,
        starts: np.ndarray,
        counts: np.ndarray,
        columns: Sequence[str],
        key: str = "",
        wanted: PageKeys | None = None,
    ) -> tuple[list[pa.Array], np.ndarray] | None:
        """Some columns of the rows of pages, one page after the other; how many each page has.

        Parameters
        ----------
        raw : ndarray of uint8
        starts : ndarray of int64, shape (pages,)
            Where the pages begin in ``raw``, which holds what was written.
        counts : ndarray of int64, shape (pages,)
            Their rows.
        columns : sequence of str
        key : str
            Column of the hashes, which ascend in each page; for ``wanted``.
        wanted : PageKeys, optional
            Hashes of the rows to give; all rows by default.

        Returns
        -------
        (list of Array, ndarray of int64), or None
            None: the pages have other numbers of rows.

        Raises
        ------
        DataError
            Texts are too long for one array.
        """
        located = self._located(raw, starts, counts)
        if located is None:
            return None
        nulls, places = located
        firsts = np.cumsum(counts) - counts
        if wanted is None:
            pages = np.repeat(np.arange(len(counts)), counts)
            rows = np.arange(len(pages)) - firsts[pages]
        else:
            hashes = places[self._fields[self.schema.get_field_index(key)].buffer + 1]
            pages, rows = search(raw, hashes, counts, wanted.hashes, wanted.lows, wanted.highs)
        arrays = []
        for name in columns:
            number = self.schema.get_field_index(name)
            field = self._fields[number]
            if field.width is None:
                every = self._by_arrow(raw, starts, number)
                arrays.append(every.take(pa.array(firsts[pages] + rows)))
                continue
            valid, field_nulls = None, nulls[field.node]
            if field_nulls.any():
                # A page without NULL has no bits.
                bits = np.where(field_nulls > 0, places[field.buffer], -1)
                valid = pa.py_buffer(picked_bits(raw, bits, pages, rows))
            arrays.append(_picked(field, raw, places[field.buffer + 1 :], pages, rows, valid))
        return arrays, np.bincount(pages, minlength=len(starts))

    def _located(
        self, raw: np.ndarray, starts: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """NULLs of each field and page, and where its buffers are; None as for :meth:`rows`."""
        pages = len(starts)
        lengths = np.empty(pages, np.int64)
        nulls = np.empty((self._nodes, pages), np.int64)
        places = np.empty((self._buffers, pages), np.int64)
        _find(raw, starts, lengths, nulls, places)
        return (nulls, places) if np.array_equal(lengths, counts) else None

    def _by_arrow(self, raw: np.ndarray, starts: np.ndarray, number: int) -> pa.Array:
        """A column of another type, by Arrow's reader."""
        parts = [
            pa.ipc.read_record_batch(pa.py_buffer(raw[start:]), self.schema).column(number)
            for start in starts
        ]
        return pa.concat_arrays(parts) if parts else pa.array([], self._fields[number].type)


def message(batch: pa.RecordBatch) -> pa.Buffer:
    """A page of these rows."""
    return batch.serialize()


def overhead(schema: pa.Schema) -> int:
    """About how many bytes of a page are not its rows."""
    buffers = sum(_counts(field.type)[1] for field in schema)
    return message(pa.RecordBatch.from_pylist([], schema)).size + 8 * buffers


def joined(messages: Sequence[pa.Buffer], unit: int) -> tuple[np.ndarray, np.ndarray]:
    """Pages behind each other, each with zeros behind it up to a multiple of ``unit``, if few do.

    Returns
    -------
    raw : ndarray of uint8
    lengths : ndarray of int64
        Bytes of the pages with their zeros.
    """
    sizes = np.array([m.size for m in messages], np.int64)
    zeros = -sizes % unit
    lengths = np.where(zeros <= sizes * _PADDING, sizes + zeros, sizes)
    raw = np.zeros(int(lengths.sum()), np.uint8)
    for one, end, length in zip(messages, np.cumsum(lengths), lengths, strict=True):
        raw[end - length :][: one.size] = np.frombuffer(one, np.uint8)
    return raw, lengths


def checksums(raw: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Checksums of pages.

    They detect damage by a disk or a copy, not changes that somebody made on purpose. Each lane of
    8 takes every eighth word of 8 bytes, by steps that can be undone: so a single damaged word
    always changes the checksum.

    Parameters
    ----------
    raw : ndarray of uint8
    starts, lengths : ndarray of int64
        The pages' bytes; the lengths are multiples of 8.
    """
    sums = np.empty(len(starts), np.uint64)
    _sum_up(raw, starts, lengths, sums)
    return sums


def row_bytes(batch: pa.RecordBatch) -> np.ndarray:
    """About how many bytes each row takes in a page; int64."""
    total = np.full(batch.num_rows, 0, np.int64)
    for column in batch.columns:
        width = _width(column.type)
        if width is None:
            total += column.nbytes // max(batch.num_rows, 1) + 1
        elif width < 0:
            kind = np.int32 if width == -4 else np.int64
            offsets = np.frombuffer(column.buffers()[1] or b"\0" * 8, kind)
            row_offsets = offsets[column.offset : column.offset + len(column) + 1]
            total += np.diff(row_offsets).astype(np.int64) - width if len(column) else 0
        else:
            total += max(width, 1)
    return total


def _width(dtype: pa.DataType) -> int | None:
    if pa.types.is_boolean(dtype):
        return 0
    if pa.types.is_string(dtype) or pa.types.is_binary(dtype):
        return -4
    if pa.types.is_large_string(dtype) or pa.types.is_large_binary(dtype):
        return -8
    if (
        pa.types.is_primitive(dtype)
        or pa.types.is_decimal(dtype)
        or pa.types.is_fixed_size_binary(dtype)
        or dtype == pa.month_day_nano_interval()
    ):
        return dtype.bit_width // 8 or None
    return None


def _counts(dtype: pa.DataType) -> tuple[int, int]:
    """Numbers of FieldNodes and Buffers of a column, counted in an empty page."""
    empty = pa.RecordBatch.from_arrays([pa.array([], dtype)], ["x"]).serialize()
    return tuple(_vectors(np.frombuffer(empty, np.uint8)))


def _picked(
    field: _Field,
    raw: np.ndarray,
    places: np.ndarray,
    pages: np.ndarray,
    rows: np.ndarray,
    valid: pa.Buffer | None,
) -> pa.Array:
    width = field.width
    if width == 0:
        data = [picked_bits(raw, places[0], pages, rows)]
    elif width is not None and width > 0:
        data = [picked_values(raw, places[0], width, pages, rows)]
    else:
        kind = np.int32 if width == -4 else np.int64
        offsets, text = picked_text(raw, kind, places[0], places[1], pages, rows)
        if offsets[-1] > np.iinfo(kind).max:
            raise DataError(
                f"{pages[-1] + 1:,} pages hold more than 2 GiB in a column of {field.type}; read "
                f"fewer pages at once, or store the column as large_{field.type}"
            )
        data = [offsets.astype(kind, copy=False), text]
    buffers = [valid, *(pa.py_buffer(one) for one in data)]
    return pa.Array.from_buffers(field.type, len(rows), buffers)


@njit(nogil=True)
def _word(raw, at):
    return (
        np.int64(raw[at])
        | np.int64(raw[at + 1]) << 8
        | np.int64(raw[at + 2]) << 16
        | np.int64(raw[at + 3]) << 24
    )


@njit(nogil=True)
def _place(raw, table, field):
    """Position of a field of a table; -1 if it has its default."""
    vtable = table - np.int64(np.int32(_word(raw, table)))
    size = np.int64(raw[vtable]) | np.int64(raw[vtable + 1]) << 8
    if field >= size:
        return -1
    offset = np.int64(raw[vtable + field]) | np.int64(raw[vtable + field + 1]) << 8
    return table + offset if offset else -1


@njit(nogil=True)
def _batch_of(raw, start):
    """Position of the table RecordBatch of a message."""
    root = start + _PREFIX
    header = _place(raw, root + _word(raw, root), _HEADER)
    return header + _word(raw, header)


@njit(nogil=True)
def _vector(raw, table, field):
    """Position of the vector of a field."""
    at = _place(raw, table, field)
    return at + _word(raw, at)


@kept()
def _vectors(raw):
    batch = _batch_of(raw, np.int64(0))
    nodes, buffers = _vector(raw, batch, _NODES), _vector(raw, batch, _BUFFERS)
    return _word(raw, nodes), _word(raw, buffers)


@njit(nogil=True)
def _long(raw, at):
    return _word(raw, at) | _word(raw, at + 4) << 32


@kept()
def _find(raw, starts, lengths, nulls, places):
    """Each page's number of rows, its NULLs per FieldNode, and where in ``raw`` its buffers are."""
    for page in range(len(starts)):
        start = starts[page]
        body = start + _PREFIX + _word(raw, start + 4)
        batch = _batch_of(raw, start)
        length = _place(raw, batch, _LENGTH)
        lengths[page] = _long(raw, length) if length >= 0 else 0
        node = _vector(raw, batch, _NODES) + 4
        for k in range(len(nulls)):
            nulls[k, page] = _long(raw, node + k * _STRUCT + 8)
        buffer = _vector(raw, batch, _BUFFERS) + 4
        for k in range(len(places)):
            places[k, page] = body + _long(raw, buffer + k * _STRUCT)


@njit(nogil=True)
def _step(lane: np.uint64, word: np.uint64) -> np.uint64:
    mixed = (lane ^ word) * _PRIME
    return mixed << np.uint64(31) | mixed >> np.uint64(33)


@njit(nogil=True)
def _turn(lane: np.uint64, word: np.uint64) -> np.uint64:
    total = lane + word
    return total << np.uint64(29) | total >> np.uint64(35)


@kept()
def _sum_up(raw, starts, lengths, sums):
    words = raw.view(np.uint64)
    for page in range(len(starts)):
        a, b, c, d = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
        e, f, g, h = np.uint64(5), np.uint64(6), np.uint64(7), np.uint64(8)
        at = starts[page] >> 3
        end = at + (lengths[page] >> 3)
        while at + 8 <= end:
            a = _turn(a, words[at])
            b = _turn(b, words[at + 1])
            c = _turn(c, words[at + 2])
            d = _turn(d, words[at + 3])
            e = _turn(e, words[at + 4])
            f = _turn(f, words[at + 5])
            g = _turn(g, words[at + 6])
            h = _turn(h, words[at + 7])
            at += 8
        while at < end:
            a = _turn(a, words[at])
            at += 1
        total = np.uint64(lengths[page])
        for lane in (a, b, c, d, e, f, g, h):
            total = _step(total, lane)
        sums[page] = total ^ total >> np.uint64(29)


def sliced(batch: pa.RecordBatch, ends: Iterable[int]) -> list[pa.Buffer]:
    """Pages of a batch's rows; each ends before the row of its end."""
    pages, start = [], 0
    for end in ends:
        pages.append(message(batch.slice(start, end - start)))
        start = end
    return pages
