"""Sort of entries by their keys: a radix sort of words, from the last key to the first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kept_code import kept

from ..emit.groups.floats import ordered
from . import machine
from .entry_layout import EntryLayout, KeyPlace
from .machine import prefetch
from .texts import Texts

_SIGN = np.int64(-(1 << 63))
_ALL = np.uint64((1 << 64) - 1)
#: How many entries ahead memory is prefetched.
_AHEAD = 16


def in_order(entries: np.ndarray, layout: EntryLayout, texts: Texts) -> np.ndarray:
    """Return the order of entries by time key, then by the other keys.

    Texts sort by their bytes, NaN is the greatest number, and NULL comes last.

    Parameters
    ----------
    entries : ndarray of int64, shape (n, words)

    Returns
    -------
    ndarray of uint32 or int64, shape (n,)
    """
    rows = len(entries)
    order = np.arange(rows, dtype=np.uint32 if rows < 1 << 32 else np.int64)
    if rows < 2:
        return order
    places = [p for k, p in enumerate(layout.keys) if k != layout.time]
    if layout.time is not None:
        places.insert(0, layout.keys[layout.time])
    varying = np.zeros(layout.words, np.int64)
    _vary(entries.reshape(-1), rows, layout.words, varying)
    for place in reversed(places):
        for column, bits in _columns(entries, place, texts, varying):
            # Sorted so far by less significant words; the first ones are in the order of the log.
            order = _radix(np.ascontiguousarray(column).view(np.uint64), order, np.uint64(bits))
    return order


def by_column(entries: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """Return entries in an order (None: as they are), transposed: int64 of shape (words, n)."""
    rows, words = entries.shape
    out = np.empty((words, rows), np.int64)
    if order is None:
        order = np.arange(rows, dtype=np.uint32 if rows < 1 << 32 else np.int64)
    _transpose(entries.reshape(-1), words, order, out)
    return out


def _columns(
    entries: np.ndarray, place: KeyPlace, texts: Texts, varying: np.ndarray
) -> Iterator[tuple[np.ndarray, np.uint64]]:
    """Yield the words to sort a key by, the least significant first, and the bits that vary."""
    for word in range(place.offset, place.offset + place.words):
        bits = varying[word]
        if not bits:
            continue
        column = entries[:, word]
        if place.is_coded:
            yield _ranks(column, texts), _ALL
        elif place.expr.type.is_float:
            yield ordered(np.ascontiguousarray(column).view(np.float64)) ^ _SIGN, _ALL
        else:
            is_top = word == place.offset + place.words - 1
            yield column ^ _SIGN if is_top else column, np.uint64(int(bits) & (1 << 64) - 1)
    if place.null is not None and (int(varying[place.null.word]) >> place.null.bit) & 1:
        yield (entries[:, place.null.word] >> place.null.bit) & 1, np.uint64(1)


def _ranks(codes: np.ndarray, texts: Texts) -> np.ndarray:
    """Return the rank of each code's text among all texts in use, by bytes."""
    used = np.unique(codes)
    order = pc.call_function("sort_indices", [texts.values(used, pa.large_binary())]).to_numpy()
    ranks = np.zeros(int(used[-1]) + 1, np.int64)
    ranks[used[order]] = np.arange(len(used))
    return ranks[codes]


def _vary_plainly(entries, rows, words, varying):
    matrix = entries.reshape(rows, words)
    varying |= np.bitwise_or.reduce(matrix ^ matrix[0])


@kept(plain=_vary_plainly)
def _vary(entries, rows, words, varying):
    """Set the bits of each word in which some entry differs from the first."""
    for e in range(rows):
        for word in range(words):
            varying[word] |= entries[e * words + word] ^ entries[word]


def _sort_plainly(words, order, bits):
    return order[np.argsort(words[order], kind="stable")]


@kept(plain=_sort_plainly)
def _radix(words, order, bits):
    """Sort an order of rows by their words, stably, a byte at a time; returns the new order.

    Parameters
    ----------
    words : ndarray of uint64
        By row.
    order : ndarray of uint32 or int64
    bits : uint64
        The bits that vary: a byte without one is skipped.
    """
    rows = len(order)
    current, following = np.empty_like(words), np.empty_like(words)
    for k in range(rows):
        current[k] = words[order[k]]
    next_order = np.empty_like(order)
    counts = np.empty(256, np.int64)
    for byte in range(8):
        shift = np.uint64(8 * byte)
        if (bits >> shift) & np.uint64(255) == 0:
            continue
        counts[:] = 0
        for k in range(rows):
            counts[np.int64((current[k] >> shift) & np.uint64(255))] += 1
        total = 0
        for digit in range(256):
            some = counts[digit]
            counts[digit] = total
            total += some
        for k in range(rows):
            word = current[k]
            digit = np.int64((word >> shift) & np.uint64(255))
            target = counts[digit]
            counts[digit] = target + 1
            following[target] = word
            next_order[target] = order[k]
        current, following = following, current
        order, next_order = next_order, order
    return order


def _transpose_plainly(entries, words, order, out):
    out[:] = entries.reshape(-1, words)[order].T


@kept(machine, plain=_transpose_plainly)
def _transpose(entries, words, order, out):
    """Write entries in an order, transposed: each word to a row of ``out``."""
    rows = len(order)
    for k in range(rows):
        prefetch(entries, np.int64(order[min(k + _AHEAD, rows - 1)]) * words)
        base = np.int64(order[k]) * words
        for word in range(words):
            out[word, k] = entries[base + word]
