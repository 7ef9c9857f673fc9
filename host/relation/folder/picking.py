"""Picks rows, such as those with wanted hashes, out of the bytes of pages."""

from __future__ import annotations

import numpy as np

from penstock.kept_code import kept


def search(
    raw: np.ndarray,
    places: np.ndarray,
    counts: np.ndarray,
    hashes: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the rows of pages that have wanted hashes.

    Parameters
    ----------
    raw : ndarray of uint8
    places : ndarray of int64, shape (pages,)
        Where the hashes of each page begin in ``raw``, which ascend.
    counts : ndarray of int64, shape (pages,)
        Rows of each page.
    hashes : ndarray of uint64
        Wanted, ascending.
    lows, highs : ndarray of int64, shape (pages,)
        Page k may have rows of ``hashes[lows[k]:highs[k]]``.

    Returns
    -------
    pages, rows : ndarray of int64
        The page of each row that was found, and its number there; in the order of both.
    """
    most = int(counts.sum())
    pages, rows = np.empty(most, np.int64), np.empty(most, np.int64)
    count = _search(raw.view(np.uint64), places >> 3, counts, hashes, lows, highs, pages, rows)
    return pages[:count], rows[:count]


def picked_values(
    raw: np.ndarray, places: np.ndarray, width: int, pages: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Values of some rows, as bytes, where each takes ``width`` bytes.

    Parameters
    ----------
    places : ndarray of int64, shape (pages,)
        Where the values of each page begin in ``raw``.
    pages, rows : ndarray of int64
    """
    word = min(8, width & -width)  # bytes of the longest words that a value is made of
    words, kind = width // word, f"u{word}"
    out = np.empty(len(rows) * words, kind)
    _pick_words(raw.view(kind), places // word, words, pages, rows, out)
    return out.view(np.uint8)


def picked_bits(
    raw: np.ndarray, places: np.ndarray, pages: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Bits of some rows; where a page has none (-1), they are 1."""
    out = np.zeros(-(-len(rows) // 8), np.uint8)
    _pick_bits(raw, places, pages, rows, out)
    return out


def picked_text(
    raw: np.ndarray,
    kind: type[np.signedinteger],
    offsets: np.ndarray,
    texts: np.ndarray,
    pages: np.ndarray,
    rows: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Offsets, as int64, and text of some rows.

    Parameters
    ----------
    kind : type
        Type of the pages' offsets.
    offsets, texts : ndarray of int64, shape (pages,)
        Where the offsets and the text of each page begin in ``raw``.
    """
    words, places = raw.view(kind), offsets // np.dtype(kind).itemsize
    ends = np.zeros(len(rows) + 1, np.int64)
    _pick_lengths(words, places, pages, rows, ends)
    np.cumsum(ends, out=ends)
    out = np.empty(int(ends[-1]), np.uint8)
    _pick_text(raw, words, places, texts, pages, rows, ends, out)
    return ends, out


@kept()
def _search(words, places, counts, hashes, lows, highs, pages, rows):
    count = 0
    for page in range(len(places)):
        first, low, end = places[page], 0, counts[page]
        for k in range(lows[page], highs[page]):
            wanted = hashes[k]
            high = end
            while low < high:
                middle = (low + high) >> 1
                if words[first + middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            while low < end and words[first + low] == wanted:
                pages[count], rows[count] = page, low
                count += 1
                low += 1
    return count


@kept()
def _pick_words(raw, places, words, pages, rows, out):
    for k in range(len(rows)):
        at = places[pages[k]] + rows[k] * words
        for word in range(words):
            out[k * words + word] = raw[at + word]


@kept()
def _pick_bits(raw, places, pages, rows, out):
    for k in range(len(rows)):
        at, row = places[pages[k]], rows[k]
        if at < 0 or raw[at + (row >> 3)] >> (row & 7) & 1:
            out[k >> 3] |= np.uint8(1 << (k & 7))


@kept()
def _pick_lengths(words, places, pages, rows, ends):
    for k in range(len(rows)):
        at = places[pages[k]] + rows[k]
        ends[k + 1] = words[at + 1] - words[at]


@kept()
def _pick_text(raw, words, places, texts, pages, rows, ends, out):
    k = 0
    while k < len(rows):
        first, page = k, pages[k]
        start = texts[page] + words[places[page] + rows[k]]
        k += 1
        while k < len(rows) and pages[k] == page and rows[k] == rows[k - 1] + 1:
            k += 1  # neighbours lie behind each other
        size = ends[k] - ends[first]
        out[ends[first] : ends[k]] = raw[start : start + size]
