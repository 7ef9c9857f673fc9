"""Memory of a look-up: index and pages (disk buffer), cache (HR), waiting rows (HS), filters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.errors import UsageError

from ..relation.border import Version
from .algorithm import Algorithm
from .cache import ENTRY_BYTES
from .frequency import Frequency
from .waiting import PLACE_BYTES

#: Bytes of a waiting row beside the row itself: its number, hash and link, and those of its group.
ROW_BYTES = 48
#: Bytes of pages that are read at once: at least and at most.
LEAST_PAGES, MOST_PAGES = 1 << 18, 8 << 20
#: Rows of the stream that must find room at least.
LEAST_ROWS = 1 << 10
#: Most of what is left for filters of the pages' keys.
FILTER_SHARE = 0.25
#: Share of the rows' memory for rows of the relation that were found and did not leave yet.
ANSWERED_SHARE = 0.25
#: Share of what is left then for the cache, at first; the rest is for waiting rows.
CACHE_SHARE = 0.6
#: Bytes that a relation takes that is kept whole for scans, over those of its rows: prepared keys
#: and the orders by which it is searched.
KEPT = 5
#: Most of what is left for a relation that is kept whole.
KEPT_SHARE = 0.8


@dataclass(frozen=True)
class MemorySplit:
    """Bytes of each part of a lookup's memory.

    Parameters
    ----------
    index : int
        First hash, rows and bytes of each page, and the places of rows that wait for it.
    pages : int
        Pages that are read at once (the disk buffer).
    cache : int
        The cache (HR): kept rows, their entries, and how often keys came.
    rows : int
        Waiting rows of the stream (HS and its queue).
    filter : int
        Filters of the pages' keys, if they fit: a row whose key is absent reads no page.
    """

    index: int
    pages: int
    cache: int
    rows: int
    filter: int = 0

    @staticmethod
    def share_out(
        memory_bytes: int,
        index: int,
        row_bytes: float,
        *,
        keeps_rows: bool,
        goes_on: bool = False,
        filter_bytes: int = 0,
        cache_share: float = CACHE_SHARE,
    ) -> MemorySplit:
        """Share out memory.

        Parameters
        ----------
        memory_bytes : int
            Total memory.
        index : int
            Bytes of the relation's index.
        row_bytes : float
            Bytes of a row of the stream.
        keeps_rows : bool
            Whether there is a cache.
        goes_on : bool
            Whether the join runs already, and the relation's index has grown meanwhile: then it
            goes on with the least that it needs, though that is more.
        filter_bytes : int
            Bytes that the filters would take.
        cache_share : float
            The cache's share of the memory left for cache and waiting rows.

        Raises
        ------
        UsageError
            The memory is too small.
        """
        rows = int(LEAST_ROWS * (row_bytes + ROW_BYTES))
        least = index + LEAST_PAGES + rows
        if goes_on:
            memory_bytes = max(memory_bytes, least)
        if memory_bytes < least:
            raise UsageError(
                f"memory_bytes is {memory_bytes:,}, and this join needs {least:,} at least: "
                f"{index:,} for the relation's index, {LEAST_PAGES:,} for its pages, {rows:,} for "
                f"{LEAST_ROWS:,} rows of the stream; give it more"
            )
        pages = min(MOST_PAGES, max(LEAST_PAGES, memory_bytes // 16))
        left = memory_bytes - index - pages
        fits = filter_bytes <= left * FILTER_SHARE and left - filter_bytes >= rows
        filters = filter_bytes if fits else 0
        left -= filters
        cache = min(int(left * cache_share), left - rows) if keeps_rows else 0
        return MemorySplit(index, pages, cache, left - cache, filters)

    @property
    def cache_share(self) -> float:
        """Share of the cache in the memory of cache and waiting rows."""
        return self.cache / (self.cache + self.rows)

    def rows_of(self, row_bytes: float) -> int:
        """Number of rows of the stream that may wait."""
        waiting = self.rows * (1 - ANSWERED_SHARE)
        return max(LEAST_ROWS, int(waiting / (row_bytes + ROW_BYTES)))

    @property
    def answered_bytes(self) -> int:
        """Bytes of matching rows of the relation that leave together."""
        return int(self.rows * ANSWERED_SHARE)

    @property
    def request_bytes(self) -> int:
        """Bytes of pages that are asked for together, while the ones before are processed."""
        return self.pages // 2


def split_of(
    version: Version,
    memory_bytes: int,
    row_bytes: float,
    algorithm: Algorithm | None,
    *,
    goes_on: bool = False,
    cache_share: float | None = None,
    filtered: bool = True,
    kept_row_bytes: float = 0,
) -> MemorySplit:
    """Share out memory for a look-up in a version.

    Parameters
    ----------
    version : Version
    memory_bytes, row_bytes, goes_on
        As for :meth:`MemorySplit.share_out`.
    algorithm : Algorithm or None
        None for scans, which have no cache by key.
    cache_share : float, optional
    filtered : bool
        Whether to have filters, if they fit.
    kept_row_bytes : float
        Bytes of a row of the relation, for scans, which keep all of its rows if these have room,
        and the version's state can be read again.

    Raises
    ------
    UsageError
        The memory is too small.
    """
    by_key = algorithm is not None
    split = MemorySplit.share_out(
        memory_bytes,
        version.index.memory_bytes + PLACE_BYTES * len(version.index.first)
        if by_key
        else version.scanned.memory_bytes,
        row_bytes,
        keeps_rows=by_key and algorithm.keeps_rows,
        goes_on=goes_on,
        filter_bytes=version.filter_bytes if filtered and algorithm is Algorithm.AUTO else 0,
        cache_share=CACHE_SHARE if cache_share is None else cache_share,
    )
    if not (kept_row_bytes and version.keeps_state):
        return split
    kept, least = kept_bytes(version, kept_row_bytes), LEAST_ROWS * (row_bytes + ROW_BYTES)
    if kept > min(split.rows * KEPT_SHARE, split.rows - least):
        return split
    return replace(split, cache=split.cache + kept, rows=split.rows - kept)


def kept_bytes(version: Version, kept_row_bytes: float) -> int:
    """Bytes of a version that is kept whole for scans, given those of a row."""
    return int(version.rows * KEPT * kept_row_bytes)


def kept_text(version: Version, split: MemorySplit, kept_row_bytes: float) -> str:
    """Whether scans keep a version, and if not, the memory in which they would."""
    if split.cache or not version.rows:
        return "all rows, with the orders to search them, once they were read"
    if not version.keeps_state:
        return "nothing, since the server's rows may change; they are read anew"
    needed = split.index + MOST_PAGES + kept_bytes(version, kept_row_bytes) / KEPT_SHARE
    return (
        f"nothing: pages are read anew; with memory of {needed / 1e6 + 1:.0f} MB all rows are kept"
    )


def kept_keys(version: Version, cache_bytes: int) -> float:
    """About how many keys of a version have room in a cache that counts how often keys come."""
    row_bytes = version.bytes / max(1, version.rows)
    counters = Frequency.bytes_for(int(cache_bytes / row_bytes)) if row_bytes else 0
    return max(0, cache_bytes - counters) / (row_bytes + ENTRY_BYTES)
