"""Sorts entries by their keys: a radix sort of words, from the last key to the first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..emit.groups.floats import ordered
from ..kept_code import kept
from .layout import EntryLayout, KeyPlace
from .texts import Texts

_SIGN = np.int64(-(1 << 63))


def in_order(entries: np.ndarray, layout: EntryLayout, texts: Texts) -> np.ndarray:
    """The numbers of entries by time key, then by the other keys in their order, int64.

    Texts are in the order of their bytes, NaN is the greatest number, and NULL comes last.

    Parameters
    ----------
    entries : ndarray of int64, shape (n, words)
    """
    order = np.arange(len(entries))
    if len(entries) < 2:
        return order
    places = [p for k, p in enumerate(layout.keys) if k != layout.time]
    if layout.time is not None:
        places.insert(0, layout.keys[layout.time])
    for place in reversed(places):
        for column in _columns(entries, place, texts):
            if (column != column[0]).any():
                order = _sorted(column[order], order)
    return order


def _columns(entries: np.ndarray, place: KeyPlace, texts: Texts) -> list[np.ndarray]:
    """Words as uint64 whose order is that of a key, the least significant first."""
    own = [entries[:, place.offset + k] for k in range(place.words)]
    if place.is_text:
        words = [_ranks(own[0], texts)]
    elif place.expr.type.is_float:
        # Through NaN the codes need the bits to be doubles again.
        words = [ordered(np.ascontiguousarray(own[0]).view(np.float64)) ^ _SIGN]
    else:
        words = [*own[:-1], own[-1] ^ _SIGN]
    if place.null is not None:
        words.append((entries[:, place.null.word] >> place.null.bit) & 1)
    return [np.ascontiguousarray(word).view(np.uint64) for word in words]


def _ranks(codes: np.ndarray, texts: Texts) -> np.ndarray:
    """Where the text of each code is among all of them, in the order of bytes."""
    used = np.unique(codes)
    order = pc.call_function("sort_indices", [texts.values(used, pa.large_binary())]).to_numpy()
    ranks = np.zeros(int(used[-1]) + 1 if len(used) else 0, np.int64)
    ranks[used[order]] = np.arange(len(used))
    return ranks[codes]


def _sorted(words: np.ndarray, order: np.ndarray) -> np.ndarray:
    counts = np.zeros((8, 256), np.int64)
    return _radix(words, order.copy(), np.empty_like(words), np.empty_like(order), counts)


@kept()
def _radix(words, order, other_words, other_order, counts):
    """Sort ``order`` by words, stably, a byte at a time; bytes that all words share cost nothing.

    Parameters
    ----------
    words, other_words : ndarray of uint64
    order, other_order : ndarray of int64
    counts : ndarray of int64, shape (8, 256)
        Zeros.
    """
    rows = len(words)
    for k in range(rows):
        word = words[k]
        for byte in range(8):
            counts[byte, np.int64((word >> np.uint64(8 * byte)) & np.uint64(255))] += 1
    for byte in range(8):
        shift = np.uint64(8 * byte)
        if counts[byte, np.int64((words[0] >> shift) & np.uint64(255))] == rows:
            continue
        total = 0
        for digit in range(256):
            own = counts[byte, digit]
            counts[byte, digit] = total
            total += own
        for k in range(rows):
            digit = np.int64((words[k] >> shift) & np.uint64(255))
            target = counts[byte, digit]
            counts[byte, digit] = target + 1
            other_words[target] = words[k]
            other_order[target] = order[k]
        words, other_words = other_words, words
        order, other_order = other_order, order
    return order
