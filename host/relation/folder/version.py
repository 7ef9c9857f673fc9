"""A version of a relation in a folder: its base's pages, with later changes merged into them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaError

from ..border import PageIndex, PageRows, Version
from ..key_hash import NULL_HASH
from .keys import keys_within
from .page_layout import RelationLayout
from .pages import PageKeys
from .records import VersionRecord
from .segment import HASH_COLUMN, READ_BYTES, PageSegment, has_bounds, stretches


class FolderVersion(Version):
    """A version: the base's pages, with the updates since merged in when they are read.

    Parameters
    ----------
    layout : RelationLayout
    record : VersionRecord
    base : PageSegment
    deltas : sequence of (PageSegment or None, PageSegment or None)
        Added rows and removed keys of each update since the base, the oldest first.
    changes : callable
        Called with a version's number; returns the hashes of keys that changed since.
    """

    def __init__(
        self,
        layout: RelationLayout,
        record: VersionRecord,
        base: PageSegment,
        deltas: Sequence[tuple[PageSegment | None, PageSegment | None]],
        changes: Callable[[int, int], np.ndarray | None],
    ) -> None:
        self._layout, self.record, self._base = layout, record, base
        self._deltas = deltas
        self._changes = changes
        self.number, self.rows, self.created = record.number, record.rows, record.created
        self._ranked = [base, *(rows for rows, _ in deltas)]
        key_pages = base.record.key_pages
        # Pages without an order by hash: which segment each is of, and its number there.
        plain = [
            (
                rank,
                np.arange(
                    one.record.key_pages if layout.by_hash else 0, one.record.pages, dtype=np.int32
                ),
            )
            for rank, one in enumerate(self._ranked)
            if one is not None
        ]
        self._plain_rank = np.concatenate([np.full(len(p), rank, np.int32) for rank, p in plain])
        self._plain_page = np.concatenate([pages for _, pages in plain])
        self._key_pages = key_pages
        self.index = self._index_of()
        self.bytes = sum(one.bytes for one in record.segments)

    def _index_of(self) -> PageIndex:
        base, keyed = self._base, self._key_pages
        self._first = base.first[:keyed]
        rows, sizes = [base.rows[:keyed]], [base.bytes_of(slice(0, keyed))]
        if self._layout.by_hash and self._deltas:
            rows[0] = rows[0].astype(np.int64)
            for delta_rows, removed in self._deltas:
                for one in (delta_rows, removed):
                    if one is None:
                        continue
                    low, high = self._pages_of(one, np.arange(keyed))
                    held = np.concatenate([[0], np.cumsum(one.bytes_of(slice(None)))])
                    if not one.stays:
                        sizes[0] += held[high] - held[low]
                    if one is delta_rows:
                        counts = np.concatenate([[0], np.cumsum(one.rows, dtype=np.int64)])
                        rows[0] += counts[high] - counts[low]
        for rank, one in enumerate(self._ranked):
            plain = self._plain_page[self._plain_rank == rank]
            if one is not None and len(plain):
                rows.append(one.rows[plain])
                sizes.append(one.bytes_of(plain))
        index = PageIndex(
            first=self._first, rows=_int32(rows), bytes=_int32(sizes), bounds=_Bounds(self)
        )
        segments = [base, *(one for pair in self._deltas for one in pair if one is not None)]
        held = index.bytes.nbytes + self._plain_rank.nbytes + self._plain_page.nbytes
        held += 0 if index.rows.base is base.rows else index.rows.nbytes
        held += 0 if self._layout.by_hash else _bytes(removed for _, removed in self._deltas)
        return replace(index, memory_bytes=sum(one.memory_bytes for one in segments) + held)

    def _ends_of(self, pages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest hash that a row of each page may have."""
        is_last = pages == len(self._first) - 1
        after = self._first[np.where(is_last, pages, pages + 1)]
        return self._first[pages], np.where(is_last, NULL_HASH, after - np.uint64(1))

    def _pages_of(self, segment: PageSegment, pages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pages of keys ``[low, high)`` of a delta that may have rows of each of some pages."""
        keyed = segment.record.key_pages
        first, last = self._ends_of(pages)
        low = np.searchsorted(segment.last[:keyed], first, "left")
        high = np.searchsorted(segment.first[:keyed], last, "right")
        return low, np.maximum(low, high)

    @property
    def filter_bytes(self) -> int:
        if not self._layout.by_hash:
            return 0
        return sum(one.record.rows + 8 * one.record.pages for one in self._with_rows)

    def filters(self) -> Callable[[np.ndarray], np.ndarray] | None:
        if not self._layout.by_hash:
            return None
        parts = [(one, one.filters()) for one in self._with_rows]

        def lacks(hashes: np.ndarray) -> np.ndarray:
            lacking = np.ones(len(hashes), bool)
            for one, filters in parts:
                lacking &= filters.lack(hashes, one.page_of(hashes))
            return lacking

        return lacks

    @property
    def _with_rows(self) -> list[PageSegment]:
        """Segments with rows; segments of removed keys alone are left out."""
        return [self._base, *(rows for rows, _ in self._deltas if rows is not None)]

    def changed_since(self, number: int) -> np.ndarray | None:
        return self._changes(number, self.number)

    def read(
        self, pages: np.ndarray, columns: Sequence[str], key_hashes: np.ndarray | None = None
    ) -> PageRows:
        pages = np.asarray(pages, np.int64)
        self._check(columns)
        keyed = pages < self._key_pages
        if keyed.all():
            return self._read_keyed(pages, columns, key_hashes)
        if not keyed.any():
            return self._read_plain(pages, columns)
        parts = [
            self._read_keyed(pages[keyed], columns),
            self._read_plain(pages[~keyed], columns),
        ]
        order = np.concatenate([np.flatnonzero(keyed), np.flatnonzero(~keyed)])
        return _in_order(parts, order)

    def _check(self, columns: Sequence[str]) -> None:
        names = self._layout.schema.names
        for column in columns:
            if column not in names:
                raise SchemaError(
                    f"the relation {self._layout.name} has no column {column}; it has "
                    f"{', '.join(names)}"
                )

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[PageRows]:
        """All rows, some pages at a time."""
        wanted = self._layout.schema.names if columns is None else columns
        for some in stretches(self.index.bytes, READ_BYTES):
            yield self.read(np.arange(some.start, some.stop), wanted)

    def _read_plain(self, pages: np.ndarray, columns: Sequence[str]) -> PageRows:
        plain = pages - self._key_pages
        ranks, numbers = self._plain_rank[plain], self._plain_page[plain]
        parts, places = [], []
        for rank in np.unique(ranks).tolist():
            at = np.flatnonzero(ranks == rank)
            segment = self._ranked[rank]
            assert segment is not None
            parts.append(self._without_removed(segment, rank, numbers[at], columns))
            places.append(at)
        if len(parts) == 1:
            return parts[0]
        return _in_order(parts, np.concatenate(places))

    def _without_removed(
        self, segment: PageSegment, rank: int, pages: np.ndarray, columns: Sequence[str]
    ) -> PageRows:
        """Rows of a clustered relation that no later update has removed."""
        rows = self._rows(segment, pages, self._with_key(columns, self._removed_in_memory(rank)))
        hidden = np.zeros(len(rows.hashes), bool)
        if rank < len(self._deltas):
            for _, hashes, keys in self._removed_in_memory(rank):
                self._hide(hidden, np.ones(len(hidden), bool), rows, hashes, keys)
        return _visible(rows, hidden, columns)

    def _removed_in_memory(self, rank: int) -> list[tuple[int, np.ndarray, pa.RecordBatch]]:
        """Keys that updates after some rank have removed, if the relation is clustered."""
        return [] if self._layout.by_hash else [one for one in self._all_removed if one[0] > rank]

    @cached_property
    def _all_removed(self) -> list[tuple[int, np.ndarray, pa.RecordBatch]]:
        parts = []
        for number, (_, removed) in enumerate(self._deltas):
            if removed is not None:
                rows = self._rows(removed, np.arange(removed.record.pages), self._layout.record.key)
                parts.append((number + 1, rows.hashes, rows.batch))
        return parts

    def _with_key(self, columns: Sequence[str], needed: object) -> list[str]:
        return list(dict.fromkeys([*columns, *self._layout.record.key])) if needed else [*columns]

    def _rows(self, segment: PageSegment, pages: np.ndarray, columns: Sequence[str]) -> PageRows:
        """Rows of pages as they are in a segment."""
        has_hash = HASH_COLUMN in segment.format.schema.names
        arrays = segment.read(pages, [HASH_COLUMN, *columns] if has_hash else list(columns))
        counts = segment.rows[pages].astype(np.int64)
        # Not to_numpy, whose arrays are read-only, and another type to Numba.
        hashes = (
            np.frombuffer(arrays[0].buffers()[1], np.uint64)
            if has_hash
            else np.zeros(int(counts.sum()), np.uint64)
        )
        return self._page_rows(hashes, arrays[1:] if has_hash else arrays, columns, counts)

    def _page_rows(
        self,
        hashes: np.ndarray,
        arrays: Sequence[pa.Array],
        columns: Sequence[str],
        counts: np.ndarray,
    ) -> PageRows:
        starts = np.concatenate([[0], np.cumsum(counts)])
        schema = pa.schema([self._layout.schema.field(name) for name in columns])
        if not columns:
            empty = pa.RecordBatch.from_struct_array(pa.array([{}] * len(hashes), pa.struct([])))
            return PageRows(hashes, empty, starts)
        return PageRows(hashes, pa.RecordBatch.from_arrays(list(arrays), schema=schema), starts)

    def _base_rows(
        self, pages: np.ndarray, columns: Sequence[str], key_hashes: np.ndarray | None
    ) -> PageRows:
        """Rows of the base's pages; rows with other hashes than ``key_hashes`` may be left out."""
        if key_hashes is None:
            return self._rows(self._base, pages, columns)
        first, last = self._ends_of(pages)
        lows = np.searchsorted(key_hashes, first, "left")
        highs = np.searchsorted(key_hashes, last, "right")
        arrays, counts = self._base.read_with(
            pages, [HASH_COLUMN, *columns], PageKeys(key_hashes, lows, highs)
        )
        return self._page_rows(arrays[0].to_numpy(), arrays[1:], columns, counts)

    def _read_keyed(
        self, pages: np.ndarray, columns: Sequence[str], key_hashes: np.ndarray | None = None
    ) -> PageRows:
        if not self._deltas:
            return self._base_rows(pages, columns, key_hashes)
        removed = self._changes_in(
            pages, [keys for _, keys in self._deltas], self._layout.record.key
        )
        wanted = self._with_key(columns, removed)
        added = self._changes_in(pages, [rows for rows, _ in self._deltas], wanted)
        base = self._base_rows(pages, wanted, key_hashes)
        if added or removed:
            base = self._merged(base, added, removed)
        return _visible(base, np.zeros(0, bool), columns)

    def _merged(
        self,
        base: PageRows,
        added: Sequence[tuple[int, np.ndarray, PageRows]],
        removed: Sequence[tuple[int, np.ndarray, PageRows]],
    ) -> PageRows:
        """Merge the base's rows with the updates' rows and removed keys; few pages change."""
        counts = np.diff(base.starts)
        is_changed = np.zeros(len(counts), bool)
        for _, places, _ in (*added, *removed):
            is_changed[places] = True
        place = np.repeat(np.arange(len(counts)), counts)
        changed = np.flatnonzero(is_changed[place])
        # Rows of the changed pages: their numbers, where the deltas' rows come behind the base's.
        more = [rows for _, _, rows in added]
        hashes = np.concatenate([base.hashes, *(rows.hashes for rows in more)])
        batch = pa.concat_batches([base.batch, *(rows.batch for rows in more)])
        numbers = np.concatenate([changed, np.arange(len(base.hashes), len(hashes))])
        places = np.concatenate([place[changed], *(at for _, at, _ in added)])
        ranks = np.concatenate(
            [np.zeros(len(changed), np.int64), *(np.full(len(at), rank) for rank, at, _ in added)]
        )
        if removed:
            some = PageRows(hashes[numbers], batch.take(pa.array(numbers)), base.starts)
            hidden = np.zeros(len(numbers), bool)
            for after, _, keys in removed:
                self._hide(hidden, ranks < after, some, keys.hashes, keys.batch)
            shown = ~hidden
            numbers, places, ranks = numbers[shown], places[shown], ranks[shown]
        order = np.lexsort((ranks, hashes[numbers], places))
        numbers, places = numbers[order], places[order]
        counts = np.where(is_changed, np.bincount(places, minlength=len(counts)), counts)
        starts = np.concatenate([[0], np.cumsum(counts)])
        rows = np.empty(int(starts[-1]), np.int64)
        same = np.flatnonzero(~is_changed[place])
        rows[same + (starts[:-1] - base.starts[:-1])[place[same]]] = same
        first = np.searchsorted(places, places, "left")
        rows[starts[places] + np.arange(len(places)) - first] = numbers
        return PageRows(hashes[rows], batch.take(pa.array(rows)), starts)

    def _changes_in(
        self, pages: np.ndarray, segments: Sequence[PageSegment | None], columns: Sequence[str]
    ) -> list[tuple[int, np.ndarray, PageRows]]:
        """Rows of deltas that belong to some pages.

        Returns
        -------
        list of (int, ndarray, PageRows)
            The number of the delta, from 1, and for each row the position of its page.
        """
        by_number = np.argsort(pages, kind="stable")
        parts = []
        for number, segment in enumerate(segments):
            if segment is None:
                continue
            low, high = self._pages_of(segment, pages)
            # How many of the pages begin, and end, at each page of the segment.
            change = np.zeros(segment.record.key_pages + 1, np.int64)
            np.add.at(change, low, 1)
            np.add.at(change, high, -1)
            wanted = np.flatnonzero(np.cumsum(change)[:-1] > 0)
            if not len(wanted):
                continue
            rows = self._rows(segment, wanted, columns)
            row_pages = self.index.page_of(rows.hashes)
            place = np.searchsorted(pages[by_number], row_pages)
            place = by_number[np.minimum(place, len(pages) - 1)]
            is_asked = pages[place] == row_pages
            if not is_asked.any():
                continue
            kept = np.flatnonzero(is_asked)
            batch = rows.batch.take(pa.array(kept))
            parts.append((number + 1, place[kept], PageRows(rows.hashes[kept], batch, rows.starts)))
        return parts

    def _hide(
        self,
        hidden: np.ndarray,
        is_older: np.ndarray,
        rows: PageRows,
        removed_hashes: np.ndarray,
        removed_keys: pa.RecordBatch,
    ) -> None:
        """Mark rows that are older than an update and have a key that it removes."""
        hashes = np.unique(removed_hashes)
        near = np.minimum(np.searchsorted(hashes, rows.hashes), max(len(hashes) - 1, 0))
        is_near = is_older & (hashes[near] == rows.hashes) if len(hashes) else is_older & False
        candidates = np.flatnonzero(is_near)
        if not len(candidates):
            return
        near_hashes = rows.hashes[candidates]
        chosen = np.flatnonzero(np.isin(removed_hashes, near_hashes))
        key = self._layout.record.key
        row_keys = [rows.batch.column(name).take(pa.array(candidates)) for name in key]
        chosen_keys = [removed_keys.column(name).take(pa.array(chosen)) for name in key]
        # Rows with NULL in their key have no key; nothing takes them away.
        has_key = np.ones(len(candidates), bool)
        for column in row_keys:
            has_key &= column.is_valid().to_numpy(zero_copy_only=False)
        row_keys = [column.filter(pa.array(has_key)) for column in row_keys]
        hidden[candidates[has_key]] |= keys_within(row_keys, chosen_keys)

    def bounds(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest value of a column in each page, changes included."""
        parts = [one.bounds(column) if one is not None else None for one in self._ranked]
        assert parts[0] is not None
        keyed = self._key_pages
        least, greatest = parts[0][0][:keyed].copy(), parts[0][1][:keyed].copy()
        if self._layout.by_hash:
            for segment, part in zip(self._ranked[1:], parts[1:], strict=True):
                if segment is None or part is None:
                    continue
                low, high = self._pages_of(segment, np.arange(keyed))
                for page in np.flatnonzero(high > low).tolist():
                    some = slice(low[page], high[page])
                    least[page] = np.fmin(least[page], part[0][some].min())
                    greatest[page] = np.maximum(greatest[page], part[1][some].max())
        lows, highs = [least], [greatest]
        for rank, part in enumerate(parts):
            if part is not None:
                plain = self._plain_page[self._plain_rank == rank]
                lows.append(part[0][plain])
                highs.append(part[1][plain])
        return np.concatenate(lows), np.concatenate(highs)

    @property
    def bounded(self) -> list[str]:
        """Columns that pages have bounds of."""
        return [field.name for field in self._layout.schema if has_bounds(field.type)]


class _Bounds(Mapping[str, tuple[np.ndarray, np.ndarray]]):
    """Bounds of pages by column; each column's are read when first asked for."""

    def __init__(self, version: FolderVersion) -> None:
        self._version = version
        self._read: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def __getitem__(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        if column not in self._read:
            if column not in self._version.bounded:
                raise KeyError(column)
            self._read[column] = self._version.bounds(column)
        return self._read[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._version.bounded)

    def __len__(self) -> int:
        return len(self._version.bounded)


def _bytes(segments: Iterable[PageSegment | None]) -> int:
    return sum(one.record.bytes for one in segments if one is not None)


def _int32(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Join parts to int32, too large numbers capped; one part of int32 is not copied."""
    if len(parts) == 1 and parts[0].dtype == np.int32:
        return parts[0]
    return np.minimum(np.concatenate(parts), np.iinfo(np.int32).max).astype(np.int32)


def _visible(rows: PageRows, hidden: np.ndarray, columns: Sequence[str]) -> PageRows:
    """Rows that are not hidden, with these columns."""
    batch = (
        rows.batch.select(list(columns)) if rows.batch.schema.names != [*columns] else rows.batch
    )
    if not hidden.any():
        return PageRows(rows.hashes, batch, rows.starts)
    shown = np.flatnonzero(~hidden)
    starts = np.searchsorted(shown, rows.starts)
    return PageRows(rows.hashes[shown], batch.take(pa.array(shown)), starts)


def _in_order(parts: Sequence[PageRows], order: np.ndarray) -> PageRows:
    """Rows of several reads, by page: page k of all comes to the place ``order[k]``."""
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    froms = np.cumsum(counts) - counts
    back = np.argsort(order)
    starts = np.concatenate([[0], np.cumsum(counts[back])])
    shift = np.repeat(froms[back] - starts[:-1], counts[back])
    rows = np.arange(int(starts[-1])) + shift
    hashes = np.concatenate([part.hashes for part in parts])
    batch = pa.concat_batches([part.batch for part in parts])
    return PageRows(hashes[rows], batch.take(pa.array(rows)), starts)
