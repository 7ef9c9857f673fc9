"""Log store (the paper's LSS): entries one behind another, and a hash index that owns no data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .merger import EntryMerger
from .plain_merging import merge_plainly

#: Entries that a new log has room for.
_FIRST_ENTRIES = 1 << 6
#: Slots of an index for each entry, at least: with linear probing, searches stay short. With 1.5,
#: folding takes a quarter longer.
_SPACE = 2
#: Slots below which an index grows fourfold, since each growth visits all entries; a larger index
#: is doubled, which wastes less.
_FEW = 1 << 22
#: Words up to which a log grows eightfold: a gibibyte. Room behind its entries is not touched: it
#: takes addresses but no memory. A larger log is doubled, since systems refuse far more addresses
#: than they have memory.
_FAR = 1 << 27
#: Epochs that 16 bits can number; a slot never used has 0.
_EPOCHS = 1 << 16
#: Most entries of a log: their numbers take 32 bits of a slot.
MOST_ENTRIES = 1 << 32


@dataclass(frozen=True)
class Target:
    """A log store to fold rows into, with the least and the greatest time key that it takes."""

    store: LogStore
    low: int = -(1 << 63)
    high: int = (1 << 63) - 1


class LogStore:
    """A log of entries, one per group, and its hash index.

    Parameters
    ----------
    merger : EntryMerger
    entries : int
        Room at first; the log grows beyond.
    """

    def __init__(self, merger: EntryMerger, entries: int = 0) -> None:
        layout = merger.layout
        self.layout, self._merger = layout, merger
        #: Entries in the log, and the epoch by which used slots of the index are stamped.
        self.count, self.epoch = 0, 1
        # The most entries that it ever had before it was cleared or grew.
        self._most = 0
        #: Whether the index has all entries.
        self._is_indexed = True
        room = max(entries, _FIRST_ENTRIES)
        self.log = np.empty(room * layout.words, np.int64)
        self.index = np.zeros(_slots_for(room), np.uint64)

    @property
    def entries(self) -> np.ndarray:
        """Entries, int64 of shape (count, words): a view, valid until the next change."""
        words = self.layout.words
        return self.log[: self.count * words].reshape(self.count, words)

    @property
    def nbytes(self) -> int:
        """Bytes of the index, and of the part of the log that was ever written."""
        most = max(self._most, self.count)
        return most * self.layout.entry_bytes + self.index.nbytes

    def merge(self, entries: np.ndarray, first: int, last: int, texts: np.ndarray) -> None:
        """Merge the entries ``[first, last)`` of an array: into the group of equal keys, if any.

        Parameters
        ----------
        entries : ndarray of int64, shape (n * words,)
        texts : ndarray of uint64
            The hash of each text, by code.
        """
        if first == last:
            return
        if self._merger.is_plain(self.count + last - first):
            self._reserve(last - first)
            words = self.layout.words
            both = np.concatenate([self.entries, entries.reshape(-1, words)[first:last]])
            merged = merge_plainly(self.layout, both, self.count)
            self.count, self._is_indexed = len(merged), False
            self.entries[:] = merged
            return
        self.make_room(last - first, texts)
        self.count = self._merger.merge(
            entries, first, last, self.log, self.count, self.index, self.epoch, texts
        )

    def make_room(self, more: int, texts: np.ndarray) -> None:
        """Grow the log and the index so that ``more`` entries can be merged."""
        self._reserve(more)
        if not self._is_indexed or _SPACE * (self.count + more) > len(self.index):
            self._grow_index(self.count + more, texts)

    def append(self, entries: np.ndarray) -> None:
        """Append entries without looking for equal keys; they are not in the index.

        Parameters
        ----------
        entries : ndarray of int64, shape (n, words)
        """
        self._reserve(len(entries))
        words = self.layout.words
        self.log[self.count * words : (self.count + len(entries)) * words] = entries.reshape(-1)
        self.count += len(entries)

    def clear(self) -> None:
        """Forget all entries, in O(1): the next epoch makes all slots of the index empty."""
        self._most = max(self._most, self.count)
        self.count, self._is_indexed = 0, True
        self.epoch += 1
        if self.epoch == _EPOCHS:
            self.index[:] = 0
            self.epoch = 1

    def _reserve(self, more: int) -> None:
        """Grow the log so that ``more`` entries fit."""
        needed = (self.count + more) * self.layout.words
        if needed <= len(self.log):
            return
        if self.count + more > MOST_ENTRIES:
            raise MemoryError(f"a worker holds at most {MOST_ENTRIES} groups; add workers")
        size = len(self.log)
        grown = np.empty(max(needed, 2 * size, min(8 * size, _FAR)), np.int64)
        grown[: self.count * self.layout.words] = self.log[: self.count * self.layout.words]
        self.log, self._most = grown, self.count

    def _grow_index(self, entries: int, texts: np.ndarray) -> None:
        times = 4 if len(self.index) < _FEW else 2
        self.index = np.zeros(max(_slots_for(entries), times * len(self.index)), np.uint64)
        self.epoch, self._is_indexed = 1, True
        self._merger.enter(self.log, self.count, self.index, self.epoch, texts)


def _slots_for(entries: int) -> int:
    return 1 << (_SPACE * max(entries, _FIRST_ENTRIES) - 1).bit_length()
