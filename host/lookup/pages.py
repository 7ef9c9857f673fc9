"""Choices of the pages to read next into memory (the disk buffer of paper 5)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from .waiting import RowsByPage

#: Pages that are read at once at most, and those that are looked at first.
_MOST_PAGES, _FIRST_PAGES = 1 << 14, 1 << 9
#: Bytes that picked rows take, over their share of the page: keys with several rows, copies.
PICKED = 2


def fitting(pages: np.ndarray, sizes: np.ndarray, most_bytes: int) -> np.ndarray:
    """First pages, of these sizes, that fit into memory together; at least one."""
    fit = int(np.searchsorted(np.cumsum(sizes, dtype=np.int64), most_bytes, side="right"))
    return pages[: max(1, fit)]


def picked_bytes(sizes: np.ndarray, rows: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """About how many bytes of each page stay in memory when ``keys`` of its keys are wanted."""
    return np.minimum(sizes, PICKED * keys * (sizes / np.maximum(rows, 1)))


class PageChoice(ABC):
    """Chooses pages for waiting rows.

    Parameters
    ----------
    sizes : ndarray of int32, shape (pages,)
        Bytes of each page.
    most_bytes : int
        Most bytes of pages that are read at once; a longer page comes alone.

    Attributes
    ----------
    holds : bool
        Whether a row keeps its place until all pages have passed, since it is not known which one
        answers it.
    """

    holds = False

    def __init__(self, sizes: np.ndarray, most_bytes: int) -> None:
        self.sizes, self.most_bytes = sizes, most_bytes

    @abstractmethod
    def next(self, waiting: RowsByPage) -> np.ndarray:
        """Pages to read now, ascending but for a wrap around; at least one."""


class Cyclic(PageChoice):
    """All pages in turn, wanted or not (MESHJOIN, CACHEJOIN, D-CACHEJOIN)."""

    holds = True

    def __init__(self, sizes: np.ndarray, most_bytes: int) -> None:
        super().__init__(sizes, most_bytes)
        self._at = 0

    def next(self, waiting: RowsByPage) -> np.ndarray:
        left = np.arange(self._at, len(self.sizes))
        pages = fitting(left, self.sizes[self._at :], self.most_bytes)
        self._at = (int(pages[-1]) + 1) % len(self.sizes)
        return pages


class Oldest(PageChoice):
    """The page of the oldest waiting row, the head of the queue (HYBRIDJOIN).

    Later rows are younger than all that wait, so pages are ordered once for all waiting rows.
    """

    def __init__(self, sizes: np.ndarray, most_bytes: int) -> None:
        super().__init__(sizes, most_bytes)
        self._ahead = np.zeros(0, np.int64)

    def next(self, waiting: RowsByPage) -> np.ndarray:
        if not len(self._ahead):
            self._ahead = waiting.by_age()
        page, self._ahead = self._ahead[:1], self._ahead[1:]
        return page


class Wanted(PageChoice):
    """Pages that rows wait for, in the order of the file, pass after pass (``auto``).

    Only rows with wanted hashes stay of each page, so that many pages fit into memory together.
    """

    def __init__(self, sizes: np.ndarray, rows: np.ndarray, most_bytes: int) -> None:
        super().__init__(sizes, most_bytes)
        self._rows = rows
        self._ahead = np.zeros(0, np.int64)

    def next(self, waiting: RowsByPage) -> np.ndarray:
        if not len(self._ahead):
            self._ahead = waiting.pages
        looked_at = _FIRST_PAGES
        while True:
            ahead = self._ahead[:looked_at]
            keys = waiting.count_of(ahead)
            picked = picked_bytes(self.sizes[ahead], self._rows[ahead], keys)
            pages = fitting(ahead, picked, self.most_bytes)
            if len(pages) < looked_at or looked_at == _MOST_PAGES:
                break
            looked_at = min(4 * looked_at, _MOST_PAGES)
        self._ahead = self._ahead[len(pages) :]
        return pages
