"""Answers of one node by itself: rows of keys from its cache, or from the relation's pages."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaError

from ...relation.border import Version
from ...relation.folder.folder_relation import FolderRelation
from ..algorithm import Algorithm
from ..cache import Cache, KeyGroups
from ..memory import split_of
from ..pages import fitting, picked_bytes

#: Share of the memory that is left for kept rows; the rest is for requests that are answered.
_CACHE_SHARE = 0.75
#: Bytes of a key in a request: hash, count, and positions while it is answered.
KEY_BYTES = 48
#: Older versions that are held open.
_OLDER = 2
#: Requests that are answered at a time, each with room for pages.
_AT_A_TIME = 2


@dataclass
class AnswerCounts:
    """Counts of keys that a node has answered by itself.

    Parameters
    ----------
    keys, hits, absent : int
        Keys; those whose rows were in memory; those that the relation lacks.
    pages, page_bytes : int
        Read, and their bytes.
    older : int
        Keys of a version other than the newest one, which are not kept.
    """

    keys: int = 0
    hits: int = 0
    absent: int = 0
    pages: int = 0
    page_bytes: int = 0
    older: int = 0


class KeyAnswers:
    """Answers for any key of any version; for use by any thread.

    Only rows of the newest version that was asked for are cached, with all columns ever asked for.

    Parameters
    ----------
    relation : FolderRelation
        Found by key.
    memory_bytes : int

    Raises
    ------
    UsageError
        The memory is too small.
    FileError
    """

    def __init__(self, relation: FolderRelation, memory_bytes: int) -> None:
        self._relation, self._memory_bytes = relation, memory_bytes
        self.counts = AnswerCounts()
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._running = threading.Semaphore(_AT_A_TIME)
        self._older: OrderedDict[int, Version] = OrderedDict()
        self._columns: tuple[str, ...] = ()
        self._cache: Cache | None = None
        self._use(relation.version(), goes_on=False)

    def _use(self, version: Version, *, goes_on: bool) -> None:
        split = split_of(
            version,
            self._memory_bytes,
            KEY_BYTES,
            Algorithm.AUTO,
            goes_on=goes_on,
            cache_share=_CACHE_SHARE,
        )
        lacks = version.filters() if split.filter else None
        if self._cache is not None:
            self._cache.drop(version.changed_since(self.version.number))
            self._cache.resize(split.cache)
        self.version, self.split, self._lacks = version, split, lacks

    @property
    def cached(self) -> int:
        """Keys whose rows are in memory."""
        return 0 if self._cache is None else len(self._cache)

    @property
    def kept_bytes(self) -> int:
        """Bytes of rows in memory."""
        return 0 if self._cache is None else self._cache.memory_bytes

    def weight(self, keys: int) -> int:
        """About how many bytes a request for this many keys takes."""
        version = self.version
        return int(keys * (KEY_BYTES + 2 * version.bytes / max(1, version.rows)))

    def groups(self, number: int, columns: Sequence[str], hashes: np.ndarray) -> KeyGroups:
        """Rows of some keys; keys without rows may be missing.

        Parameters
        ----------
        number : int
            Of the version.
        columns : sequence of str
        hashes : ndarray of uint64, ascending
            Distinct.

        Raises
        ------
        SchemaError
            The relation has no such column.
        FileError
            The version is gone, or damaged.
        """
        missing = [name for name in columns if name not in self._relation.schema.names]
        if missing:
            raise SchemaError(
                f"{self._relation.name} has no column {missing[0]!r:.80}; it has "
                f"{', '.join(self._relation.schema.names)}"
            )
        with self._running:
            version = self._opened(number)
            self.counts.keys += len(hashes)
            kept, missed = self._kept(version, columns, hashes)
            if kept is None:
                self.counts.older += len(hashes)
            parts = [] if kept is None else [kept]
            parts += self._read(version, columns, missed, keeps=kept is not None)
            return KeyGroups.concat(parts) if len(parts) > 1 else parts[0]

    def _opened(self, number: int) -> Version:
        """Open a version; if it is the newest so far, its rows are cached from now on."""
        version = self.version
        if number == version.number:
            return version
        with self._opening:
            if number in self._older:
                self._older.move_to_end(number)
                return self._older[number]
            opened = self._relation.version(number)
            with self._lock:
                if number > self.version.number:
                    self._use(opened, goes_on=True)
                    return opened
            self._older[number] = opened
            while len(self._older) > _OLDER:
                self._older.popitem(last=False)
            return opened

    def _kept(
        self, version: Version, columns: Sequence[str], hashes: np.ndarray
    ) -> tuple[KeyGroups | None, np.ndarray]:
        """Cached groups of keys (None for a version that is not cached), and keys to read."""
        with self._lock:
            if version is not self.version:
                return None, hashes
            cache = self._cache_of(columns)
            cache.came(hashes)
            entries = cache.find(hashes)
            is_hit = entries >= 0
            kept = cache.groups(np.sort(entries[is_hit]))
            lacks = self._lacks
        missed = hashes[~is_hit]
        self.counts.hits += len(hashes) - len(missed)
        if lacks is not None and len(missed):
            is_there = ~lacks(missed)
            self.counts.absent += len(missed) - int(is_there.sum())
            missed = missed[is_there]
        return _with_columns(kept, columns), missed

    def _cache_of(self, columns: Sequence[str]) -> Cache:
        """The cache, made anew if a column was not asked for before."""
        more = [name for name in columns if name not in self._columns]
        if self._cache is None or more:
            self._columns = (*self._columns, *more)
            schema = pa.schema([self._relation.schema.field(name) for name in self._columns])
            version, size = self.version, self.split.cache
            keys = int(size * version.rows / max(1, version.bytes))
            self._cache = Algorithm.AUTO.cache(schema, size, keys)
        return self._cache

    def _read(
        self, version: Version, columns: Sequence[str], hashes: np.ndarray, *, keeps: bool
    ) -> list[KeyGroups]:
        """Read the rows of some keys, as many pages at a time as there is room for."""
        wanted = self._columns if keeps else tuple(columns)
        index = version.index
        pages = index.page_of(hashes)
        left, keys = np.unique(pages, return_counts=True)
        sizes = picked_bytes(index.bytes[left], index.rows[left], keys)
        parts: list[KeyGroups] = []
        while len(left) or not parts:
            some = fitting(left, sizes, self.split.pages // _AT_A_TIME)
            some = left[: len(some)]
            low, high = np.searchsorted(pages, [some[0], some[-1] + 1]) if len(some) else (0, 0)
            on_pages = hashes[low:high]
            groups = KeyGroups.of_keys(on_pages, version.read(some, wanted, on_pages))
            groups = groups.pick(np.arange(len(groups)))  # others' rows are not kept
            self.counts.pages += len(some)
            self.counts.page_bytes += int(index.bytes[some].sum())
            self.counts.absent += int((groups.counts == 0).sum())
            parts.append(groups)
            left, sizes = left[len(some) :], sizes[len(some) :]
        read = parts[0] if len(parts) == 1 else KeyGroups.concat(parts)
        if keeps:
            self._keep(version, wanted, read)
        return [_with_columns(read, columns)]

    def _keep(self, version: Version, columns: tuple[str, ...], groups: KeyGroups) -> None:
        """Offer groups that were read to the cache."""
        width = groups.batch.nbytes / max(1, groups.batch.num_rows)
        with self._lock:
            cache = self._cache
            if cache is None or version is not self.version or columns != self._columns:
                return  # there is a newer version, or a cache of more columns
            new = np.flatnonzero(cache.find(groups.hashes) < 0)
            if len(new):
                some = KeyGroups(
                    groups.hashes[new], groups.starts[new], groups.counts[new], groups.batch
                )
                cache.offer(some, np.ones(len(new), np.int64), width)


def _with_columns(groups: KeyGroups, columns: Sequence[str]) -> KeyGroups:
    batch = groups.batch
    if batch.schema.names != list(columns):
        batch = batch.select(list(columns))
    return KeyGroups(groups.hashes, groups.starts, groups.counts, batch)
