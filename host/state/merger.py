"""Merges entries into logs: by tables at first, by a loop compiled for the layout when told."""

from __future__ import annotations

from typing import Any

import numpy as np

from .layout import EntryLayout
from .merging import merge_source
from .probing import index_all, merge_all
from .sources import load_loops


class EntryMerger:
    """The merge of a layout's entries.

    Parameters
    ----------
    layout : EntryLayout
    """

    def __init__(self, layout: EntryLayout) -> None:
        self.layout = layout
        self._merge: Any = None
        self._enter: Any = None

    def compile(self) -> None:
        """Compile the loops of the layout, or load them where they are kept; once."""
        if self._merge is None:
            merge, enter = load_loops(merge_source(self.layout), "merge", "enter")
            log, index, texts = (
                np.zeros(1, np.int64),
                np.zeros(1, np.uint64),
                np.zeros(1, np.uint64),
            )
            merge(log, 0, 0, log, 0, index, 1, texts)
            enter(log, 0, index, 1, texts)
            self._merge, self._enter = merge, enter

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
        """See :func:`~.probing.merge_all`; returns how many entries the log then has."""
        if self._merge is not None:
            return self._merge(entries, first, last, log, count, index, epoch, texts)
        own = self.layout
        return merge_all(
            entries, first, last, log, count, own.words, index, epoch, own.masks, own.or_masks,
            own.key_table, own.second, own.fold_table, texts,
        )  # fmt: skip

    def enter(
        self, log: np.ndarray, count: int, index: np.ndarray, epoch: int, texts: np.ndarray
    ) -> None:
        """See :func:`~.probing.index_all`."""
        if self._enter is not None:
            self._enter(log, count, index, epoch, texts)
            return
        own = self.layout
        index_all(log, count, own.words, index, epoch, own.key_table, own.second, texts)
