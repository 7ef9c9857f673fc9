"""The log store: dense entries, and an index of them that owns no data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .merger import EntryMerger

#: Entries for which a log has room at first.
_FIRST_ENTRIES = 1 << 6
#: Slots of an index for each entry, at least: with linear probing, searches stay short. With three
#: for two entries, folding takes a quarter longer.
_SPACE = 2
#: Slots below which an index grows fourfold, since each growth costs as much as the entries that
#: are there; a larger one is doubled, which wastes less.
_FEW = 1 << 22
#: Words up to which a log grows eightfold: a gibibyte. What lies behind its entries is not touched,
#: so it takes addresses and no memory; beyond, it is doubled, since systems refuse addresses far
#: beyond their memory.
_FAR = 1 << 27
#: Epochs that 16 bits tell apart; 0 is that of an index never used.
_EPOCHS = 1 << 16
#: Entries that one log may have: their numbers take 32 bits of a slot.
MOST_ENTRIES = 1 << 32


@dataclass(frozen=True)
class Target:
    """Where rows are folded: a log store, and the least and the greatest time key that it takes."""

    store: LogStore
    low: int = -(1 << 63)
    high: int = (1 << 63) - 1


class LogStore:
    """A log of entries, one per group, and its index.

    Parameters
    ----------
    merger : EntryMerger
    entries : int
        For which there is room at first; more make it grow.
    """

    def __init__(self, merger: EntryMerger, entries: int = 0) -> None:
        layout = merger.layout
        self.layout, self._merger = layout, merger
        #: Entries in the log, and the epoch of the slots of the index that are used.
        self.count, self.epoch = 0, 1
        # The most entries there were when it was cleared.
        self._most = 0
        room = max(entries, _FIRST_ENTRIES)
        self.log = np.empty(room * layout.words, np.int64)
        self.index = np.zeros(_slots_for(room), np.uint64)

    @property
    def entries(self) -> np.ndarray:
        """The entries, int64 of shape (count, words): a view, until the next change."""
        words = self.layout.words
        return self.log[: self.count * words].reshape(self.count, words)

    @property
    def nbytes(self) -> int:
        """Bytes of the index, and of the log as far as it was ever written."""
        most = max(self._most, self.count)
        return most * self.layout.entry_bytes + self.index.nbytes

    def merge(self, entries: np.ndarray, first: int, last: int, texts: np.ndarray) -> None:
        """Merge the entries ``[first, last)`` of an array of them.

        Parameters
        ----------
        entries : ndarray of int64, shape (n * words,)
        texts : ndarray of uint64
            The hash of each text, by code.
        """
        self.make_room(last - first, texts)
        self.count = self._merger.merge(
            entries, first, last, self.log, self.count, self.index, self.epoch, texts
        )

    def make_room(self, more: int, texts: np.ndarray) -> None:
        """Let the log and the index grow, so that so many more entries can be merged."""
        self._reserve(more)
        if _SPACE * (self.count + more) > len(self.index):
            self._grow_index(self.count + more, texts)

    def append(self, entries: np.ndarray) -> None:
        """Add entries without looking for equal keys; the index does not know them.

        Parameters
        ----------
        entries : ndarray of int64, shape (n, words)
        """
        self._reserve(len(entries))
        words = self.layout.words
        self.log[self.count * words : (self.count + len(entries)) * words] = entries.reshape(-1)
        self.count += len(entries)

    def clear(self) -> None:
        """Forget all entries, in no time: the index is of the next epoch."""
        self._most = max(self._most, self.count)
        self.count = 0
        self.epoch += 1
        if self.epoch == _EPOCHS:
            self.index[:] = 0
            self.epoch = 1

    def _reserve(self, more: int) -> None:
        """Make room for more entries in the log."""
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
        self.epoch = 1
        self._merger.enter(self.log, self.count, self.index, self.epoch, texts)


def _slots_for(entries: int) -> int:
    return 1 << (_SPACE * max(entries, _FIRST_ENTRIES) - 1).bit_length()
