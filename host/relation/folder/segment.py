"""Segments: immutable files of pages, and the index of their pages."""

from __future__ import annotations

import math
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import FileError

from ...rows.columns import vector
from ...store.file_store import FileStore, Sink
from ...store.ranged_files import RangeReader
from ..key_hash import NULL_HASH, KeyHash
from .cutting import cut
from .page_filter import PageFilters, filters_of
from .pages import BLOCK_BYTES, PageFormat, PageKeys, checksums, joined, overhead, row_bytes, sliced

#: Names of hidden columns begin with a character that no column of a user has.
HASH_COLUMN = "\0hash"

DATA = "data"

#: Bytes of pages that are read at once where all are read.
READ_BYTES = 8 << 20
#: Bytes of pages that a thread reads at once where few of their rows are wanted.
PICK_BYTES = 1 << 20
_THREADS = 2
#: Bytes of the pages of an update that stay in memory: nearly every read needs them.
STAY_BYTES = 128 << 10
_LEAST, _GREATEST = "least:", "greatest:"
_INDEX = pa.schema(
    {
        "first": pa.uint64(),
        "last": pa.uint64(),
        "rows": pa.int32(),
        "bytes": pa.int64(),
        "checksum": pa.uint64(),
    }
)
#: Column of the index with a filter of each page; read when it is asked for.
_FILTER = pa.field("filter", pa.large_binary())


@dataclass(frozen=True)
class SegmentRecord:
    """Record of a segment in its version's record.

    Parameters
    ----------
    name : str
        Name of its files, without suffixes.
    checksum : str
        Checksum of its index.
    rows, pages, bytes : int
    key_pages : int
        Pages of rows in the order of their hashes; they come first.
    null_keys : int
        Rows whose key is NULL.
    """

    name: str
    checksum: str
    rows: int
    pages: int
    bytes: int
    key_pages: int
    null_keys: int

    @property
    def data(self) -> str:
        return f"{DATA}/{self.name}.pages"

    @property
    def index(self) -> str:
        return f"{DATA}/{self.name}.index"

    @property
    def files(self) -> tuple[str, str]:
        """Names of its files, in the order in which they are removed."""
        return self.index, self.data

    def is_among(self, names: set[str]) -> bool:
        """Whether both of its files have names among these."""
        return names.issuperset(self.files)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def index_names(schema: pa.Schema) -> list[str]:
    """Columns of the index of a segment.

    Parameters
    ----------
    schema : Schema
        Schema of its pages, hidden columns included.
    """
    bounded = [f.name for f in schema if f.name[0] != "\0" and has_bounds(f.type)]
    ends = (kind + name for name in bounded for kind in (_LEAST, _GREATEST))
    return [*_INDEX.names, _FILTER.name, *ends]


def has_bounds(dtype: pa.DataType) -> bool:
    """Whether an index has bounds of columns of this type."""
    return (
        (pa.types.is_integer(dtype) and not pa.types.is_uint64(dtype))
        or pa.types.is_floating(dtype)
        or pa.types.is_boolean(dtype)
        or pa.types.is_date(dtype)
        or pa.types.is_time(dtype)
        or pa.types.is_timestamp(dtype)
        or pa.types.is_duration(dtype)
        or (pa.types.is_decimal(dtype) and dtype.precision <= 18)
    )


def stretches(sizes: np.ndarray, most_bytes: int) -> list[slice]:
    """Cut pages of these sizes into stretches to read at once, each of about ``most_bytes``."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // most_bytes)) + 1
    return [slice(low, high) for low, high in pairwise([0, *cuts.tolist(), len(sizes)])]


class PageSegment:
    """A segment that is read.

    Parameters
    ----------
    files : FileStore
    record : SegmentRecord
    schema : Schema
        Schema of its pages, hidden columns included.
    is_delta : bool
        Whether it is an update's; then its pages stay in memory once they are read, if they are
        few.
    """

    def __init__(
        self,
        files: FileStore,
        record: SegmentRecord,
        schema: pa.Schema,
        *,
        is_delta: bool = False,
    ) -> None:
        self._files, self.record = files, record
        self.stays = is_delta and record.bytes <= STAY_BYTES
        self._is_delta = is_delta
        self._raw: np.ndarray | None = None
        self.format = PageFormat(schema)
        self._schema = schema
        table = self._index_columns(_INDEX.names)
        #: The least hash that a row of each page may have.
        self.first = table["first"].to_numpy().copy()
        self.first[: min(1, record.key_pages)] = 0
        self.rows = table["rows"].to_numpy().copy()
        self._checksums = table["checksum"].to_numpy().copy()
        #: Where each page begins in the file, and the end of the last one.
        self._offsets = np.concatenate([[0], np.cumsum(table["bytes"].to_numpy())])
        # Open from now on: in a folder, a version that is in use outlives the removal of its files.
        self._reader: RangeReader | None = files.ranges(record.data)
        self._threads: ThreadPoolExecutor | None = None
        self._filters: weakref.ref[PageFilters] | None = None

    @property
    def memory_bytes(self) -> int:
        """Bytes of the index, and of pages that stay in memory."""
        held = self.record.bytes if self.stays else 0
        arrays = (self.first, self.rows, self._checksums, self._offsets)
        last = self.first.nbytes if self._is_delta else 0
        return sum(array.nbytes for array in arrays) + held + last

    @cached_property
    def last(self) -> np.ndarray:
        """The greatest hash of each page, for updates only; uint64."""
        return self._index_columns(["last"]).column(0).to_numpy().copy()

    def bytes_of(self, pages: np.ndarray | slice) -> np.ndarray:
        """Bytes of some pages; int64."""
        if isinstance(pages, slice):
            return np.diff(self._offsets)[pages]
        return self._offsets[pages + 1] - self._offsets[pages]

    def bounds(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest value of a column in each page."""
        table = self._index_columns([_LEAST + column, _GREATEST + column])
        return table.column(0).to_numpy(), table.column(1).to_numpy()

    def filters(self) -> PageFilters:
        """Filters of the pages of keys; in memory as long as somebody keeps them."""
        filters = None if self._filters is None else self._filters()
        if filters is None:
            column = self._index_columns([_FILTER.name]).column(0).combine_chunks()
            filters = PageFilters(column.slice(0, self.record.key_pages))
            self._filters = weakref.ref(filters)
        return filters

    def page_of(self, hashes: np.ndarray) -> np.ndarray:
        """The page of keys that would have each hash, -1 where there are none; int64."""
        return np.searchsorted(self.first[: self.record.key_pages], hashes, "right") - 1

    def _index_columns(self, names: Sequence[str]) -> pa.Table:
        return self._files.columns(self.record.index, self.record.checksum, names).select(names)

    def read(self, pages: np.ndarray, columns: Sequence[str]) -> list[pa.Array]:
        """Columns of the rows of some pages, in the order of the pages.

        Raises
        ------
        FileError
        """
        if not self.stays:
            raw = np.empty(int(self.bytes_of(pages).sum()), np.uint8)
            starts = self._checked(pages, raw)
        else:
            if self._raw is None:
                raw = np.empty(self.record.bytes, np.uint8)
                self._checked(np.arange(self.record.pages), raw)
                self._raw = raw
            raw, starts = self._raw, self._offsets[pages]
        return self._rows(pages, raw, starts, columns, None)[0]

    def read_with(
        self, pages: np.ndarray, columns: Sequence[str], wanted: PageKeys
    ) -> tuple[list[pa.Array], np.ndarray]:
        """Columns of the rows with wanted hashes in some pages, and their number in each page.

        Raises
        ------
        FileError
        """
        # A few pages at a time, which stay in the processor's cache until their rows are picked.
        parts = stretches(self.bytes_of(pages), PICK_BYTES)

        def picked(part: slice) -> tuple[list[pa.Array], np.ndarray]:
            return self._picked(pages[part], columns, wanted.on(part))

        self._open()
        if len(parts) == 1:
            return picked(parts[0])
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS)
        pieces = list(self._threads.map(picked, parts))
        arrays = [pa.concat_arrays(column) for column in zip(*(f[0] for f in pieces), strict=True)]
        return arrays, np.concatenate([counts for _, counts in pieces])

    def _picked(
        self, pages: np.ndarray, columns: Sequence[str], wanted: PageKeys
    ) -> tuple[list[pa.Array], np.ndarray]:
        raw = np.empty(int(self.bytes_of(pages).sum()), np.uint8)
        return self._rows(pages, raw, self._checked(pages, raw), columns, wanted)

    def _rows(
        self,
        pages: np.ndarray,
        raw: np.ndarray,
        starts: np.ndarray,
        columns: Sequence[str],
        wanted: PageKeys | None,
    ) -> tuple[list[pa.Array], np.ndarray]:
        counts = self.rows[pages].astype(np.int64)
        rows = self.format.rows(raw, starts, counts, columns, HASH_COLUMN, wanted)
        if rows is None:
            raise self._damaged("its pages have other numbers of rows than its index says")
        return rows

    def _checked(self, pages: np.ndarray, raw: np.ndarray) -> np.ndarray:
        """Read the bytes of pages and check them; returns the position of each page."""
        try:
            return self._checked_once(pages, raw)
        except FileError as error:
            try:  # the file may have been restored since it was opened, as another file
                self._reader = self._files.ranges(self.record.data)
            except FileError:
                raise error from None
            return self._checked_once(pages, raw)

    def _checked_once(self, pages: np.ndarray, raw: np.ndarray) -> np.ndarray:
        lengths = self.bytes_of(pages)
        starts = np.cumsum(lengths) - lengths
        self._read_bytes(pages, raw, starts)
        wrong = checksums(raw, starts, lengths) != self._checksums[pages]
        if wrong.any():
            page = int(pages[np.argmax(wrong)])
            raise self._damaged(f"page {page} is not what was written: its checksum differs")
        return starts

    def _read_bytes(self, pages: np.ndarray, raw: np.ndarray, starts: np.ndarray) -> None:
        if not len(pages):
            return
        reader = self._open()
        # Neighbours are read at once.
        firsts = np.concatenate([[0], np.flatnonzero(np.diff(pages) != 1) + 1])
        places = starts[firsts]
        lengths = np.diff(places, append=len(raw))
        try:
            end = reader.read_stretches(raw, places, lengths, self._offsets[pages[firsts]])
        except OSError as error:
            raise self._damaged(f"cannot be read: {error}") from error
        if end is not None:
            raise self._damaged(f"it is truncated: it ends at byte {end:,}")

    def _open(self) -> RangeReader:
        if self._reader is None:
            raise FileError(f"{self._files.root} was closed; open it again to read it")
        return self._reader

    def _damaged(self, damage: str) -> FileError:
        return FileError(
            f"{self._files.shown(self.record.data)}: {damage}; `penstock relation check "
            f"{self._files.root}` lists all that is damaged; restore the relation from a backup, "
            "or build it anew"
        )

    def hashes(self) -> np.ndarray:
        """Hashes of all keys, in the order of the pages.

        Raises
        ------
        FileError
        """
        keyed = np.arange(self.record.key_pages or self.record.pages)
        at_once = stretches(self.bytes_of(keyed), READ_BYTES)
        parts = [self.read(keyed[some], [HASH_COLUMN])[0].to_numpy() for some in at_once]
        return np.concatenate([np.zeros(0, np.uint64), *parts])

    def check(self, key_hash: KeyHash, key: Sequence[str]) -> Iterator[str]:
        """Read all pages; yield a line for each one that is damaged."""
        for page in range(self.record.pages):
            try:
                problem = self._problem(page, key_hash, key)
            except FileError as error:
                problem = str(error)
            if problem is not None:
                yield problem

    def _problem(self, page: int, key_hash: KeyHash, key: Sequence[str]) -> str | None:
        """Describe a fault in a page whose checksum is right; None if it has none."""
        names = [name for name in self._schema.names if name[0] != "\0"]
        if not key:
            self.read(np.array([page]), names)
            return None
        hashes, *columns = self.read(np.array([page]), [HASH_COLUMN, *names])
        rows = pa.RecordBatch.from_arrays(columns, names)
        stored = hashes.to_numpy()
        if not np.array_equal(stored, key_hash.of_rows(rows, key, "")):
            return str(self._damaged(f"page {page} has rows whose hash is not that of their key"))
        if page < self.record.key_pages and len(stored):
            in_order = bool((stored[1:] >= stored[:-1]).all())
            if not in_order or stored[0] < self.first[page] or stored[-1] != self.last[page]:
                return str(self._damaged(f"page {page} has rows that belong to another page"))
        return None

    def close(self) -> None:
        """Close the file."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class SegmentWriter:
    """Writes a segment.

    Parameters
    ----------
    files : FileStore
    schema : Schema
        Schema of the rows, hidden columns included.
    page_bytes : int
        A page is closed before it would be longer, if that is possible.
    by_hash : bool
        Whether rows come in the order of their hashes, and those of one hash share a page.
    check : callable or None
        Called with the rows of pages of keys before they are written.
    """

    def __init__(
        self,
        files: FileStore,
        schema: pa.Schema,
        page_bytes: int,
        *,
        by_hash: bool,
        check: Callable[[pa.RecordBatch], None] | None = None,
    ) -> None:
        self._files, self._schema = files, schema
        # For rows: the rest of a page says where their columns are.
        self._room = max(page_bytes - overhead(schema), page_bytes // 2)
        self._unit = max(8, math.gcd(page_bytes, BLOCK_BYTES))
        self._by_hash, self._in_key_pages = by_hash, by_hash
        self._check = check
        self._bounded = [f.name for f in schema if f.name[0] != "\0" and has_bounds(f.type)]
        self._name = uuid.uuid4().hex
        self._rows = self._pages = self._bytes = self._key_pages = self._null_keys = 0
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._wanted_rows = 0
        self._stack = ExitStack()
        self._entries: list[pa.RecordBatch] = []
        self._data: Sink | None = None
        self._index: Any = None

    def __enter__(self) -> SegmentWriter:
        with ExitStack() as stack:
            self._data = stack.enter_context(self._files.writing(f"{DATA}/{self._name}.pages"))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows behind all others."""
        if not batch.num_rows:
            return
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        # A page that does not end, of one hash, is not looked at with each batch.
        if self._pending_rows >= self._wanted_rows:
            self._write_pages(last=False)

    def end_of_keys(self) -> None:
        """Say that rows without a key follow."""
        self._write_pages(last=True)
        if self._by_hash and not self._pages:
            self._write_page_of_nothing()
        self._key_pages = self._pages if self._by_hash else 0
        self._in_key_pages = False

    def _write_page_of_nothing(self) -> None:
        """Write a page without rows, since the page of a key is read even if there are none."""
        empty = pa.RecordBatch.from_pylist([], self._schema)
        self._put(empty, np.zeros(1, np.int64))

    def _write_pages(self, *, last: bool) -> None:
        if not self._pending_rows:
            return
        rows = pa.concat_batches(self._pending)
        hashes = rows.column(0).to_numpy() if self._in_key_pages else None
        ends = cut(row_bytes(rows), hashes, self._room, last=last)
        if len(ends):
            self._put(rows.slice(0, int(ends[-1])), ends)
            rows = rows.slice(int(ends[-1]))
        self._pending, self._pending_rows = [rows] if rows.num_rows else [], rows.num_rows
        self._wanted_rows = 2 * self._pending_rows

    def _put(self, rows: pa.RecordBatch, ends: np.ndarray) -> None:
        """Write pages that end before these rows."""
        if self._check is not None and self._in_key_pages:
            self._check(rows)
        raw, lengths = joined(sliced(rows, ends.tolist()), self._unit)
        offsets = np.cumsum(lengths) - lengths
        assert self._data is not None
        self._data.write(raw)
        starts = np.concatenate([[0], ends[:-1]])
        hashes = np.zeros(rows.num_rows, np.uint64)
        if HASH_COLUMN in self._schema.names:
            hashes = rows.column(HASH_COLUMN).to_numpy()
            self._null_keys += 0 if self._in_key_pages else int((hashes == NULL_HASH).sum())
        filled = rows.num_rows > 0
        first = hashes[starts] if filled else np.zeros(1, np.uint64)
        last = hashes[ends - 1] if filled else np.zeros(1, np.uint64)
        columns = [
            pa.array(first),
            pa.array(last),
            pa.array(np.diff(ends, prepend=0).astype(np.int32)),
            pa.array(lengths),
            pa.array(checksums(raw, offsets, lengths)),
        ]
        none = np.zeros(len(ends), np.int64)
        in_filter = (hashes, ends) if self._in_key_pages and filled else (hashes[:0], none)
        columns.append(filters_of(*in_filter))
        names = [*_INDEX.names, _FILTER.name]
        for name in self._bounded:
            least, greatest = _bounds(rows.column(name), starts if filled else ends, filled)
            columns += [pa.array(least), pa.array(greatest)]
            names += [_LEAST + name, _GREATEST + name]
        self._entries.append(pa.RecordBatch.from_arrays(columns, names))
        self._rows += rows.num_rows
        self._pages += len(ends)
        self._bytes += len(raw)

    def finish(self) -> SegmentRecord:
        """Write the last rows and the index; the files exist once the ``with`` block has ended."""
        if self._in_key_pages or not self._by_hash:
            self.end_of_keys()
        self._write_pages(last=True)
        if not self._pages:
            self._write_page_of_nothing()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, self._entries[0].schema) as writer:
            writer.write(pa.concat_batches(self._entries))
        written = self._files.put(f"{DATA}/{self._name}.index", sink.getvalue())
        return SegmentRecord(
            name=self._name,
            checksum=written.checksum,
            rows=self._rows,
            pages=self._pages,
            bytes=self._bytes,
            key_pages=self._key_pages,
            null_keys=self._null_keys,
        )


def _bounds(column: pa.Array, starts: np.ndarray, filled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest value of each page; the other way round where it has none."""
    v = vector(column, None, "")
    values = v.values
    if values.dtype.kind == "b":
        values = values.astype(np.int64)
    is_float = values.dtype.kind == "f"
    values = values.astype(np.float64 if is_float else np.int64)
    top = np.inf if is_float else np.iinfo(np.int64).max
    bottom = -np.inf if is_float else np.iinfo(np.int64).min
    if not filled:
        return np.array([top], values.dtype), np.array([bottom], values.dtype)
    lows, highs = values, values
    if v.valid is not None:
        lows, highs = np.where(v.valid, values, top), np.where(v.valid, values, bottom)
    with np.errstate(invalid="ignore"):
        # fmin leaves NaN out, maximum keeps it.
        return np.fmin.reduceat(lows, starts), np.maximum.reduceat(highs, starts)
