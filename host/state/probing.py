"""Generic compiled loops of the log store: hash, probe, merge and append entries.

Entries lie one behind another in a log, ``words`` words each. A slot of the index is a word: the
epoch (16 bits), a tag of the hash (16 bits), the number of the entry (32 bits). A slot of another
epoch is empty, so raising the epoch clears the index.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.kept_code import kept

from ..keys import hashing, splitmix
from ..keys.hashing import NULL, mix
from ..keys.splitmix import SEED, SPREAD
from ..routing import base as base_routing
from ..routing.base import WORKER_CELLS
from . import entry_layout, machine
from .entry_layout import (
    KEY_IS_TEXT,
    KEY_NULL_MASK,
    KEY_NULL_WORD,
    KEY_OFFSET,
    KEY_WORDS,
    MERGE,
    NULL_MASK,
    NULL_WORD,
    OFFSET,
    VALUE_WORDS,
    WORDS,
)
from .machine import float_of, prefetch, word_of

#: Entries whose memory is prefetched together: enough to overlap misses, few enough for L1.
AHEAD = 128

#: Shift of the tag in a hash, and of the epoch in a slot; mask of the entry's number in a slot.
TAG = np.uint64(48)
ENTRY = np.uint64(0xFFFF_FFFF)
ONE = np.uint64(1)
_SUM, _FLOAT_SUM, _MIN, _MAX, _MIN_BY, _MAX_BY = range(6)


cell_of_hash = njit(nogil=True)(base_routing.cell_of_hash)


@njit(nogil=True)
def key_hash(entries, base, keys, texts):
    """Return the hash of an entry's keys, whose cell decides its leader.

    Parameters
    ----------
    entries : ndarray of int64
    base : int
        Word at which the entry begins.
    keys : ndarray of int64, shape (k, 5)
        From :attr:`~.entry_layout.EntryLayout.key_table`.
    texts : ndarray of uint64
        The hash of each text, by code.
    """
    total = SEED
    for k in range(keys.shape[0]):
        first, flag = base + keys[k, KEY_OFFSET], keys[k, KEY_NULL_WORD]
        if flag >= 0 and entries[base + flag] & keys[k, KEY_NULL_MASK]:
            total = mix(total * SPREAD + NULL)
        elif keys[k, KEY_IS_TEXT]:
            total = mix(total * SPREAD + texts[entries[first]])
        else:
            total = mix(total * SPREAD + np.uint64(entries[first]))
            last = keys[k, KEY_WORDS] - 1
            # Words that only repeat the sign are left out, as a narrower type has none.
            while last > 0 and entries[first + last] == entries[first + last - 1] >> 63:
                last -= 1
            for word in range(1, last + 1):
                total = mix(total * SPREAD + np.uint64(entries[first + word]))
    return total


@njit(nogil=True)
def _entry_hash(entries, base, keys, second, texts):
    """Return an entry's hash in the index: of its keys, and of the time key among several."""
    total = key_hash(entries, base, keys, texts)
    if second >= 0:
        total += np.uint64(entries[base + second]) * SPREAD
    return total


@njit(nogil=True)
def _less(log, at, entries, base, words):
    """Whether the integer of so many words in ``entries`` is below the one in ``log``."""
    top = words - 1
    if entries[base + top] != log[at + top]:
        return entries[base + top] < log[at + top]
    for word in range(top - 1, -1, -1):
        if entries[base + word] != log[at + word]:
            return np.uint64(entries[base + word]) < np.uint64(log[at + word])
    return False


@njit(nogil=True)
def _equal(log, at, entries, base, words):
    same = True
    for word in range(words):
        same &= entries[base + word] == log[at + word]
    return same


@njit(nogil=True)
def _nearest(log, target, entries, base, folds, f):
    """Merge a fold ``min_by`` or ``max_by``: copy the entry's row if it is nearer."""
    at, words = folds[f, OFFSET], folds[f, WORDS]
    if _equal(log, target + at, entries, base + at, words):
        time, place = entries[base + at + words], entries[base + at + words + 1]
        held = log[target + at + words]
        nearer = time < held or (time == held and place < log[target + at + words + 1])
    else:
        nearer = _less(log, target + at, entries, base + at, words) == (folds[f, MERGE] == _MIN_BY)
    if nearer:
        for word in range(at, at + words + 2 + folds[f, VALUE_WORDS]):
            log[target + word] = entries[base + word]
        flag, mask = folds[f, NULL_WORD], folds[f, NULL_MASK]
        if flag >= 0:
            log[target + flag] = (log[target + flag] & ~mask) | (entries[base + flag] & mask)


@njit(nogil=True)
def merge_entry(log, target, entries, base, folds, flags):
    """Merge the entry at word ``base`` of ``entries`` into the log's at word ``target``."""
    for word in range(len(flags)):
        log[target + word] |= entries[base + word] & flags[word]
    for f in range(folds.shape[0]):
        merge, at, words = folds[f, MERGE], folds[f, OFFSET], folds[f, WORDS]
        if merge == _SUM:
            if words == 1:
                log[target + at] += entries[base + at]
                continue
            carry = np.uint64(0)
            for word in range(at, at + words):
                held, more = np.uint64(log[target + word]), np.uint64(entries[base + word])
                part = held + more
                total = part + carry
                carry = np.uint64(part < held) | np.uint64(total < part)
                log[target + word] = np.int64(total)
        elif merge == _FLOAT_SUM:
            total = float_of(log[target + at]) + float_of(entries[base + at])
            log[target + at] = word_of(total)
        elif merge == _MIN:
            if _less(log, target + at, entries, base + at, words):
                for word in range(at, at + words):
                    log[target + word] = entries[base + word]
        elif merge == _MAX:
            if _less(entries, base + at, log, target + at, words):
                for word in range(at, at + words):
                    log[target + word] = entries[base + word]
        else:
            _nearest(log, target, entries, base, folds, f)


@kept(entry_layout, hashing, machine, splitmix)
def merge_all(entries, first, last, log, count, words, index, epoch, masks, flags, keys, second,
              folds, texts):  # fmt: skip
    """Merge entries into a log; returns how many entries the log then has.

    Parameters
    ----------
    entries : ndarray of int64
    first, last : int
        Numbers of the entries to merge.
    log : ndarray of int64
        Has room for all of them.
    count, words : int
        Entries in the log, and words of each.
    index : ndarray of uint64
        Its length is a power of two, more than the entries that the log may have afterwards.
    epoch : int
    masks, flags, keys, second, folds
        From :class:`~.entry_layout.EntryLayout`.
    texts : ndarray of uint64
        The hash of each text, by code.
    """
    hashes = np.empty(AHEAD, np.uint64)
    mask = np.uint64(len(index) - 1)
    stamp = np.uint64(epoch)
    compared = len(masks)
    for block in range(first, last, AHEAD):
        some = min(AHEAD, last - block)
        for k in range(some):
            hashed = _entry_hash(entries, (block + k) * words, keys, second, texts)
            hashes[k] = hashed
            prefetch(index, np.int64(hashed & mask))
        for k in range(some):
            # The entry of the first slot, which is the right one for most.
            slot = index[np.int64(hashes[k] & mask)]
            if slot >> TAG == stamp:
                prefetch(log, np.int64(slot & ENTRY) * words)
        for k in range(some):
            base, hashed = (block + k) * words, hashes[k]
            place, tag = hashed & mask, (stamp << np.uint64(16)) | (hashed >> TAG)
            while True:
                slot = index[np.int64(place)]
                if slot >> TAG != stamp:
                    index[np.int64(place)] = (tag << np.uint64(32)) | np.uint64(count)
                    target = count * words
                    for word in range(words):
                        log[target + word] = entries[base + word]
                    count += 1
                    break
                if slot >> np.uint64(32) == tag:
                    target = np.int64(slot & ENTRY) * words
                    same = True
                    for word in range(compared):
                        if (log[target + word] ^ entries[base + word]) & masks[word]:
                            same = False
                            break
                    if same:
                        merge_entry(log, target, entries, base, folds, flags)
                        break
                place = (place + ONE) & mask
    return count


@kept(entry_layout, hashing, machine, splitmix)
def index_all(log, count, words, index, epoch, keys, second, texts):
    """Index the first ``count`` entries of a log, all different, in an empty index."""
    mask = np.uint64(len(index) - 1)
    stamp = np.uint64(epoch)
    hashes = np.empty(AHEAD, np.uint64)
    for block in range(0, count, AHEAD):
        some = min(AHEAD, count - block)
        for k in range(some):
            hashes[k] = _entry_hash(log, (block + k) * words, keys, second, texts)
            prefetch(index, np.int64(hashes[k] & mask))
        for k in range(some):
            place = hashes[k] & mask
            tag = (stamp << np.uint64(16)) | (hashes[k] >> TAG)
            while index[np.int64(place)] >> TAG == stamp:
                place = (place + ONE) & mask
            index[np.int64(place)] = (tag << np.uint64(32)) | np.uint64(block + k)


@kept(base_routing, entry_layout, hashing, splitmix)
def leaders(entries, last, words, keys, texts, homes, ranks):
    """Write the rank of the leader of each of the first entries: the home of its key's cell."""
    for e in range(last):
        hashed = key_hash(entries, e * words, keys, texts)
        ranks[e] = homes[np.int64(cell_of_hash(hashed, WORKER_CELLS))]


@kept()
def scatter(entries, last, words, ranks, ends, out):
    """Copy the first entries so that the entries of each rank lie together.

    Parameters
    ----------
    ends : ndarray of int64, shape (size,)
        Where each rank's entries begin in ``out``; afterwards, where they end.
    """
    for e in range(last):
        target = ends[ranks[e]]
        ends[ranks[e]] = target + 1
        for word in range(words):
            out[target * words + word] = entries[e * words + word]
