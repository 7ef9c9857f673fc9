"""Merging of entries into logs: by generic loops, until loops are compiled for the layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.kept_code import PLAIN

from .entry_layout import EntryLayout
from .generated_sources import load_loops
from .merging import merge_source
from .probing import index_all, leaders, merge_all, scatter


class EntryMerger:
    """Loops that merge, index and split by leader the entries of one layout.

    Parameters
    ----------
    layout : EntryLayout
    interprets : bool
        Whether few entries are merged by NumPy, rather than to compile or load any loops.
    """

    def __init__(self, layout: EntryLayout, *, interprets: bool = False) -> None:
        self.layout, self._interprets = layout, interprets
        self._merge: Any = None
        self._enter: Any = None
        self._lead: Any = None

    def compile(self) -> None:
        """Compile the loops for the layout, or load kept machine code; only the first call does."""
        if self._merge is None:
            merge, enter, lead = load_loops(merge_source(self.layout), "merge", "enter", "lead")
            log, index, texts = (
                np.zeros(1, np.int64),
                np.zeros(1, np.uint64),
                np.zeros(1, np.uint64),
            )
            merge(log, 0, 0, log, 0, index, 1, texts)
            enter(log, 0, index, 1, texts)
            lead(log, 0, texts, np.zeros(0, np.int16), np.zeros(0, np.int16))
            self._merge, self._enter, self._lead = merge, enter, lead

    def is_plain(self, entries: int) -> bool:
        """Whether to merge so many entries, those of the log included, by NumPy."""
        if self._merge is not None or not self._interprets:
            return False
        return PLAIN.takes_rows("merge of groups", entries)

    def merge(
        self,
        entries: np.ndarray,
        first: int,
        last: int,
        log: np.ndarray,
        count: int,
        index: np.ndarray,
        epoch: int,
        texts: np.ndarray,
    ) -> int:
        """Merge entries, as :func:`~.probing.merge_all`; returns the new count of the log."""
        if self._merge is not None:
            return self._merge(entries, first, last, log, count, index, epoch, texts)
        layout = self.layout
        return merge_all(
            entries, first, last, log, count, layout.words, index, epoch, layout.masks,
            layout.or_masks, layout.key_table, layout.second, layout.fold_table, texts,
        )  # fmt: skip

    def enter(
        self, log: np.ndarray, count: int, index: np.ndarray, epoch: int, texts: np.ndarray
    ) -> None:
        """Index the entries of a log, as :func:`~.probing.index_all`."""
        if self._enter is not None:
            self._enter(log, count, index, epoch, texts)
            return
        layout = self.layout
        index_all(log, count, layout.words, index, epoch, layout.key_table, layout.second, texts)

    def leaders(self, entries: np.ndarray, texts: np.ndarray, homes: np.ndarray) -> np.ndarray:
        """Return the rank of each entry's leader, int16 of shape (n,).

        Parameters
        ----------
        entries : ndarray of int64, shape (n, words), contiguous
        texts : ndarray of uint64
            The hash of each text, by code.
        homes : ndarray of int16, shape (WORKER_CELLS,)
            The leader of each cell.
        """
        flat, last = entries.reshape(-1), len(entries)
        ranks = np.empty(last, np.int16)
        if self._lead is not None:
            self._lead(flat, last, texts, homes, ranks)
        else:
            layout = self.layout
            leaders(flat, last, layout.words, layout.key_table, texts, homes, ranks)
        return ranks

    def by_leader(
        self, entries: np.ndarray, texts: np.ndarray, homes: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Yield the entries that each rank leads, by rank; arguments as for :meth:`leaders`."""
        ranks = self.leaders(entries, texts, homes)
        counts = np.bincount(ranks, minlength=homes[-1] + 1)
        out, ends = np.empty_like(entries), np.cumsum(counts) - counts
        flat = out.reshape(-1)
        scatter(entries.reshape(-1), len(entries), self.layout.words, ranks, ends, flat)
        start = 0
        for end in ends.tolist():
            yield out[start:end]
            start = end
