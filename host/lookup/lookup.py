"""Rows of a stream that look up rows of a relation: a state machine without input and output.

Input: rows (their numbers and the hashes of their keys), and pages that were read. Output: pages to
read next, and for each row of the stream the rows of the relation with its hash; a join then
compares the keys themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..relation.border import PageIndex, PageRows
from .cache import Cache, KeyGroups
from .pages import PageChoice
from .waiting import RowsByPage


@dataclass(frozen=True)
class Answers:
    """Rows of the stream that have met the whole relation.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        Their numbers.
    group : ndarray of int64, shape (n,)
        Each row's group in ``groups``, whose rows of the relation it may match; -1 for none.
    groups : KeyGroups
    """

    ids: np.ndarray
    group: np.ndarray
    groups: KeyGroups


@dataclass(frozen=True, eq=False)
class PageRequest:
    """Pages that are to be read, and the rows of the stream that they answer.

    Parameters
    ----------
    pages : ndarray of int64
        Ascending but for a wrap around.
    ids : ndarray of int64, shape (n,)
        The rows' numbers.
    key_hashes : ndarray of uint64, shape (hashes,)
        Their distinct hashes, ascending.
    group : ndarray of int64, shape (n,)
        The place of each row's hash in ``key_hashes``.
    matched : ndarray of int64, shape (hashes,)
        How many of the rows have each hash.
    """

    pages: np.ndarray
    ids: np.ndarray
    key_hashes: np.ndarray
    group: np.ndarray
    matched: np.ndarray


@dataclass
class Counts:
    """Counts of a look-up so far.

    Parameters
    ----------
    rows, hits : int
        Rows of the stream with a key, and those among them that the cache answered.
    absent : int
        Rows with a key that the relation lacks, as a filter knew or a page has shown.
    pages, page_bytes : int
        Pages read, and their bytes.
    reads : int
        Times that pages were asked for.
    """

    rows: int = 0
    hits: int = 0
    absent: int = 0
    pages: int = 0
    page_bytes: int = 0
    reads: int = 0


class Lookup:
    """Finds the rows of one version of a relation that rows of a stream may match.

    Parameters
    ----------
    index : PageIndex
        Index of the version.
    cache : Cache
        Cache for this version; may have entries.
    choice : PageChoice
    counts : Counts, optional
        To continue; of an earlier version, say.
    lacks : callable, optional
        Tests hashes: whether the version certainly has no row of each.
    """

    def __init__(
        self,
        index: PageIndex,
        cache: Cache,
        choice: PageChoice,
        counts: Counts | None = None,
        lacks: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.index, self.cache, self.choice = index, cache, choice
        self.lacks = lacks
        self.waiting = RowsByPage(len(index.first))
        self.counts = counts or Counts()
        self._held: deque[tuple[int, int]] = deque()  # rows, and the pages read when they leave
        self._held_rows = 0
        self._asked_rows = 0

    @property
    def occupied(self) -> int:
        """Rows that take up memory: they wait, or keep their place until a pass ends."""
        return max(self._held_rows, self.unanswered)

    @property
    def unanswered(self) -> int:
        """Rows that wait for a page, or for one that is being read."""
        return self.waiting.rows + self._asked_rows

    def admit(self, ids: np.ndarray, hashes: np.ndarray) -> Answers:
        """Take rows in; returns the rows that memory answers, the others wait.

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
            Ascending from call to call.
        hashes : ndarray of uint64, shape (n,)
        """
        self.cache.came(hashes)
        entries = self.cache.find(hashes)
        is_hit = entries >= 0
        missed = np.flatnonzero(~is_hit)
        self.counts.rows += len(ids)
        self.counts.hits += len(ids) - len(missed)
        missed, absent, pages = self._placed(hashes, missed)
        self.counts.absent += len(absent)
        self.waiting.add(ids[missed], hashes[missed], pages)
        if self.choice.holds and len(missed):
            self._hold(len(missed))
        hit_entries, group = self._numbered(entries[is_hit])
        answered = np.concatenate([ids[is_hit], ids[absent]])
        group = np.concatenate([group, np.full(len(absent), -1)])
        return Answers(answered, group, self.cache.groups(hit_entries))

    def _placed(
        self, hashes: np.ndarray, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split rows by whether their key may exist; also gives the page of each that may.

        Keys are searched in the order of their hashes, since index and filters are larger than the
        processor's caches.
        """
        order = np.argsort(hashes[rows])
        ordered = hashes[rows[order]]
        is_there = np.ones(len(rows), bool)
        if self.lacks is not None:
            is_there[order] = ~self.lacks(ordered)
        pages = np.empty(len(rows), np.int64)
        pages[order] = self.index.page_of(ordered)
        return rows[is_there], rows[~is_there], pages[is_there]

    def _numbered(self, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distinct entries, ascending, and the position of each entry among them."""
        is_used = np.zeros(len(self.cache), bool)
        is_used[entries] = True
        used = np.flatnonzero(is_used)
        number = np.empty(len(self.cache), np.int64)
        number[used] = np.arange(len(used))
        return used, number[entries]

    def ask(self) -> PageRequest:
        """The pages to read now; there must be a row that waits, or one that holds its place.

        Later rows do not wait for this read.
        """
        pages = self.choice.next(self.waiting)
        ids, hashes = self.waiting.rows_for(pages)
        self.waiting.drop(pages)
        self._asked_rows += len(ids)
        return PageRequest(pages, ids, *_distinct(hashes))

    def take_back(self, request: PageRequest) -> None:
        """Let the rows of a request wait again, since its pages could not be read."""
        self._asked_rows -= len(request.ids)
        hashes = request.key_hashes[request.group]
        self.waiting.add(request.ids, hashes, self.index.page_of(hashes))

    def arrived(self, request: PageRequest, rows: PageRows) -> Answers:
        """Take in pages that were read: all rows that waited for them are answered.

        Parameters
        ----------
        request : PageRequest
        rows : PageRows
            Rows of the requested pages; rows with other hashes may be missing.
        """
        self._asked_rows -= len(request.ids)
        self.counts.pages += len(request.pages)
        self.counts.page_bytes += int(self.index.bytes[request.pages].sum())
        self.counts.reads += 1
        self._release()
        groups = KeyGroups.of_keys(request.key_hashes, rows)
        self.counts.absent += int(request.matched[groups.counts == 0].sum())
        width = rows.batch.nbytes / max(1, rows.batch.num_rows)
        self.cache.offer(groups, request.matched, width)
        return Answers(request.ids, request.group, groups)

    def _hold(self, rows: int) -> None:
        """Count rows that entered now, until all pages have passed."""
        self._held.append((rows, self.counts.pages + len(self.index.first)))
        self._held_rows += rows

    def _release(self) -> None:
        while self._held and self._held[0][1] <= self.counts.pages:
            self._held_rows -= self._held.popleft()[0]


def _distinct(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``np.unique`` of hashes, with the position of each hash and with counts."""
    order = np.argsort(hashes)
    ordered = hashes[order]
    is_first = np.ones(len(hashes), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    firsts = np.flatnonzero(is_first)
    place = np.empty(len(hashes), np.int64)
    place[order] = np.cumsum(is_first) - 1
    return ordered[firsts], place, np.diff(firsts, append=len(hashes))
