"""Merges entries into logs: by tables at first, by a loop compiled for the layout when told."""

from __future__ import annotations

from typing import Any

import numpy as np

from .layout import EntryLayout
from .merging import merge_source
from .probing import merge_all
from .sources import load_loop


class EntryMerger:
    """The merge of a layout's entries.

    Parameters
    ----------
    layout : EntryLayout
    """

    def __init__(self, layout: EntryLayout) -> None:
        self.layout = layout
        self._compiled: Any = None

    def compile(self) -> None:
        """Compile the loop of the layout, or load it where it is kept; once."""
        if self._compiled is None:
            loop = load_loop(merge_source(self.layout), "merge")
            log, index, texts = (
                np.zeros(1, np.int64),
                np.zeros(1, np.uint64),
                np.zeros(1, np.uint64),
            )
            loop(log, 0, 0, log, 0, index, 1, texts)
            self._compiled = loop

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
        if self._compiled is not None:
            return self._compiled(entries, first, last, log, count, index, epoch, texts)
        own = self.layout
        return merge_all(
            entries, first, last, log, count, own.words, index, epoch, own.masks, own.or_masks,
            own.key_table, own.second, own.fold_table, texts,
        )  # fmt: skip
