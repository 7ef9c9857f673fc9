"""HS and its queue (paper 5): rows of the stream that wait for a page of the relation."""

from __future__ import annotations

import numpy as np

from penstock.kept_code import kept

_NONE = np.int32(-1)
#: Bytes of each page, whether rows wait for it or not.
PLACE_BYTES = 12


class RowsByPage:
    """HS: waiting rows of the stream, a queue for each page, in order of arrival.

    Parameters
    ----------
    pages : int
        Pages of the relation.
    """

    def __init__(self, pages: int) -> None:
        self.rows = 0
        self._first = np.full(pages, _NONE, np.int32)
        self._last = np.full(pages, _NONE, np.int32)
        self._count = np.zeros(pages, np.int32)
        self._next = np.zeros(0, np.int32)
        self._ids = np.zeros(0, np.int64)
        self._hashes = np.zeros(0, np.uint64)
        self._free = np.zeros(0, np.int32)
        self._vacant = 0

    @property
    def memory_bytes(self) -> int:
        """Bytes that the queues take for rows; each page takes :data:`PLACE_BYTES` besides."""
        parts = (self._next, self._ids, self._hashes)
        return sum(part.nbytes for part in parts) + self._free.nbytes

    @property
    def pages(self) -> np.ndarray:
        """Pages for which rows wait, ascending."""
        return np.flatnonzero(self._count)

    def count_of(self, pages: np.ndarray) -> np.ndarray:
        """Number of rows that wait for each page."""
        return self._count[pages]

    def add(self, ids: np.ndarray, hashes: np.ndarray, pages: np.ndarray) -> None:
        """Let rows wait.

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
            Numbers by which the caller knows them, ascending from call to call.
        hashes : ndarray of uint64, shape (n,)
        pages : ndarray of int, shape (n,)
            The page of each.
        """
        self._grow(len(ids))
        self._vacant = _add(
            ids, hashes, pages, self._first, self._last, self._count, self._next, self._ids,
            self._hashes, self._free, self._vacant,
        )  # fmt: skip
        self.rows += len(ids)

    def rows_for(self, pages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows that wait for some pages.

        Returns
        -------
        ids : ndarray of int64
            Page by page, in the order of ``pages``.
        hashes : ndarray of uint64
        """
        total = int(self._count[pages].sum())
        ids, hashes = np.empty(total, np.int64), np.empty(total, np.uint64)
        _copy(pages, ids, hashes, self._first, self._count, self._next, self._ids, self._hashes)
        return ids, hashes

    def drop(self, pages: np.ndarray) -> None:
        """Take out the rows that wait for some pages."""
        self.rows -= int(self._count[pages].sum())
        self._vacant = _drop(
            pages, self._first, self._last, self._count, self._next, self._free, self._vacant
        )

    def by_age(self) -> np.ndarray:
        """Pages for which rows wait, by the age of their oldest row, the oldest first."""
        pages = self.pages
        return pages[np.argsort(self._ids[self._first[pages]])]

    def _grow(self, more: int) -> None:
        missing = more - self._vacant
        if missing <= 0:
            return
        old = len(self._ids)
        new = max(2 * old, old + missing, 1024)
        for name in ("_next", "_ids", "_hashes", "_free"):
            kept_part = getattr(self, name)
            longer = np.zeros(new, kept_part.dtype)
            longer[:old] = kept_part
            setattr(self, name, longer)
        self._free[self._vacant : self._vacant + new - old] = np.arange(old, new)
        self._vacant += new - old


@kept()
def _add(ids, hashes, pages, first, last, count, following, own_ids, own_hashes, free, vacant):
    for k in range(len(ids)):
        vacant -= 1
        place = free[vacant]
        page = pages[k]
        own_ids[place], own_hashes[place], following[place] = ids[k], hashes[k], _NONE
        if count[page]:
            following[last[page]] = place
        else:
            first[page] = place
        last[page] = place
        count[page] += 1
    return vacant


@kept()
def _copy(pages, ids, hashes, first, count, following, own_ids, own_hashes):
    at = 0
    for page in pages:
        place = first[page]
        for _ in range(count[page]):
            ids[at], hashes[at] = own_ids[place], own_hashes[place]
            at += 1
            place = following[place]


@kept()
def _drop(pages, first, last, count, following, free, vacant):
    for page in pages:
        place = first[page]
        for _ in range(count[page]):
            free[vacant] = place
            vacant += 1
            place = following[place]
        first[page] = last[page] = _NONE
        count[page] = 0
    return vacant
