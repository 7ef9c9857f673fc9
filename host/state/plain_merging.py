"""Merging of entries by NumPy: for few entries, before loops are compiled."""

from __future__ import annotations

import numpy as np

from .entry_layout import EntryLayout, FoldPlace
from .folds import Merge

_HALF = np.int64(0xFFFF_FFFF)


def merge_plainly(layout: EntryLayout, entries: np.ndarray, count: int) -> np.ndarray:
    """Merge entries of equal keys, as :func:`~.probing.merge_all` does.

    Parameters
    ----------
    layout : EntryLayout
    entries : ndarray of int64, shape (n, words)
    count : int
        The first ``count`` entries differ in their keys, and keep their places in the result.

    Returns
    -------
    ndarray of int64, shape (groups, words)
        One entry per key, in the order in which the keys come first.
    """
    keys = entries[:, : layout.compared] & layout.masks
    order = np.lexsort(keys.T) if layout.compared else np.arange(len(entries))
    begins = np.ones(len(entries), bool)
    begins[1:] = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
    starts = np.flatnonzero(begins)
    first = order[starts]  # equal entries are in their order, since the sort is stable
    places = np.argsort(first)
    out, merged = entries[first], entries[order]
    group = np.cumsum(begins) - 1
    for word, mask in enumerate(layout.or_masks):
        out[:, word] |= np.bitwise_or.reduceat(merged[:, word] & mask, starts)
    for place in layout.folds:
        at, words, merge = place.offset, place.fold.words, place.fold.merge
        if merge is Merge.SUM:
            out[:, at : at + words] = _sums(merged[:, at : at + words], starts)
        elif merge is Merge.FLOAT_SUM:
            totals, later = out[:, at].copy().view(np.float64), ~begins
            with np.errstate(all="ignore"):  # one after the other: a sum depends on the order
                np.add.at(totals, group[later], merged[later, at].copy().view(np.float64))
            out[:, at] = totals.view(np.int64)
        else:
            _take_nearest(place, out, merged, group, starts)
    return out[places]


def _sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Add integers of some words each, modulo their width, group by group."""
    sums = np.empty((len(starts), values.shape[1]), np.int64)
    if values.shape[1] == 1:
        return np.add.reduceat(values, starts)
    carry = np.zeros(len(starts), np.int64)
    for word in range(values.shape[1]):
        low = np.add.reduceat(values[:, word] & _HALF, starts) + carry
        high = np.add.reduceat(values[:, word] >> 32 & _HALF, starts) + (low >> 32)
        sums[:, word], carry = high << 32 | low & _HALF, high >> 32
    return sums


def _take_nearest(
    place: FoldPlace, out: np.ndarray, merged: np.ndarray, group: np.ndarray, starts: np.ndarray
) -> None:
    """Copy the words of each group's least, greatest or nearest entry."""
    fold, at, top = place.fold, place.offset, place.offset + place.fold.words - 1
    reverse = np.int64(-1 if fold.merge in (Merge.MAX, Merge.MAX_BY) else 0)
    ranked: list[np.ndarray] = [
        (merged[:, word] ^ reverse).view(np.uint64) for word in range(at, top)
    ]
    ranked.append(merged[:, top] ^ reverse)
    if fold.merge in (Merge.MIN_BY, Merge.MAX_BY):
        ranked = [merged[:, top + 2], merged[:, top + 1], *ranked]
    chosen = merged[np.lexsort([*ranked, group])[starts]]
    end = at + fold.total_words
    out[:, at:end] = chosen[:, at:end]
    if place.null is not None:
        word, mask = place.null.word, np.int64(place.null.mask)
        out[:, word] = (out[:, word] & ~mask) | (chosen[:, word] & mask)
