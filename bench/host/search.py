"""Band joins by a bucket index: the same pairs as brute force, at the pace of a thousand units.

A modelled lane of many units claims more evaluations per second than this machine can do, so its
results are looked up: window positions lie in chunks, each sorted into buckets by the keys of a few
tests without which the predicate cannot be true. Candidates are then tested exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

from penstock.host.devices.cpu.resident_window import CpuWindow
from penstock.program import BandProgram

#: Window positions of a chunk, and buckets that they are sorted into.
CHUNK, BUCKETS_LOG2 = 1 << 15, 13


@dataclass(frozen=True)
class Bucketed:
    """A chunk in the order of one test's keys, by bucket.

    Parameters
    ----------
    starts : ndarray of int64, shape (buckets + 1,)
        Where each bucket begins in ``places``.
    lowest : int
        Smallest key.
    shift : int
        By which keys above it become buckets.
    places : ndarray of int64, shape (chunk,)
        Positions within the chunk, bucket by bucket.
    keys : ndarray of uint32, shape (tests, chunk)
        Keys of all tests, in the same order.
    """

    starts: np.ndarray
    lowest: int
    shift: int
    places: np.ndarray
    keys: np.ndarray


class IndexedWindow(CpuWindow):
    """Window keys that know their index, made anew where keys were written since.

    Parameters
    ----------
    capacity, tests : int
    """

    def __init__(self, capacity: int, tests: int) -> None:
        super().__init__(capacity, [np.dtype(np.uint32)] * tests)
        self._lock = threading.Lock()
        self._written = np.zeros(capacity, np.bool_)
        self._known: dict[tuple[int, int], Bucketed] = {}

    @property
    def nbytes(self) -> int:
        """None: it stands for a board's memory."""
        return 0

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        super().write(offset, columns)
        if not columns or not len(columns[0]):
            return
        self._written[offset : offset + len(columns[0])] = True
        last = (offset + len(columns[0]) - 1) // CHUNK
        with self._lock:
            for key in [key for key in self._known if offset // CHUNK <= key[0] <= last]:
                del self._known[key]

    def chunk(self, number: int, test: int) -> Bucketed:
        """A chunk in the order of a test's keys, with all that was written before this call."""
        with self._lock:
            found = self._known.get((number, test))
            if found is None:
                low, high = number * CHUNK, min((number + 1) * CHUNK, self.capacity)
                # Positions that no caller may read yet can be written meanwhile: not into a copy.
                keys = np.stack([column[low:high] for column in self.columns])
                # What nobody has written would stretch the buckets.
                keys[:, ~self._written[low:high]] = keys[:, self._written[low:high].argmax(), None]
                found = self._known[number, test] = _bucketed(keys, test)
            return found


def deciding_tests(program: BandProgram) -> tuple[int, ...]:
    """Tests of which one is met wherever the predicate is true: one of each cube.

    The predicate is not constant.
    """
    found: list[int] = []
    for cube in program.cubes:
        if not any(cube >> test & 1 for test in found):
            found.append((cube & -cube).bit_length() - 1)
    return tuple(found)


def matches(
    window: IndexedWindow,
    program: BandProgram,
    stream: Sequence[np.ndarray],
    start: np.ndarray,
    end: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a range join, see :class:`penstock.host.device.base.Task` for the arguments.

    Returns
    -------
    i, j : ndarray of uint32, shape (m,)
    """
    none = np.zeros(0, np.uint32)
    if not len(start) or start[0] >= end[-1]:
        return none, none
    bounds = np.stack([np.ascontiguousarray(column, np.uint32) for column in stream])
    deciding = deciding_tests(program)
    start, end = (np.array(range_, np.int64) for range_ in (start, end))
    parts = [(none, none)]
    for number in range(int(start[0]) // CHUNK, (int(end[-1]) - 1) // CHUNK + 1):
        done = 0
        for test in deciding:
            own = window.chunk(number, test)
            parts.append(_found(own, program.table, bounds, test, done, start, end, number * CHUNK))
            done |= 1 << test
    return tuple(np.concatenate([part[side] for part in parts]) for side in (0, 1))  # type: ignore


def _bucketed(keys: np.ndarray, test: int) -> Bucketed:
    own = keys[test]
    lowest, highest = int(own.min()), int(own.max())
    shift = max(int(highest - lowest).bit_length() - BUCKETS_LOG2, 0)
    starts = np.zeros((1 << BUCKETS_LOG2) + 2, np.int64)
    places, sorted_keys = np.empty(len(own), np.int64), np.empty_like(keys)
    _sort(keys, own, lowest, shift, starts, places, sorted_keys)
    return Bucketed(starts, lowest, shift, places, sorted_keys)


def _found(
    own: Bucketed,
    table: int,
    bounds: np.ndarray,
    test: int,
    done: int,
    start: np.ndarray,
    end: np.ndarray,
    base: int,
) -> tuple[np.ndarray, np.ndarray]:
    room = 4 * len(start) + 64
    while True:
        i, j = np.empty(room, np.uint32), np.empty(room, np.uint32)
        count = _search(
            own.starts, own.lowest, own.shift, own.places, own.keys,
            table, bounds, test, done, start, end, base, i, j,
        )  # fmt: skip
        if count <= room:
            return i[:count], j[:count]
        room = count


@numba.njit(nogil=True, cache=True)
def _sort(keys, own, lowest, shift, starts, places, sorted_keys):  # pragma: no cover - compiled
    for k in range(len(own)):
        starts[((own[k] - lowest) >> shift) + 2] += 1
    for bucket in range(2, len(starts)):
        starts[bucket] += starts[bucket - 1]
    # From here on the entry after a bucket's own says where its next place goes.
    for k in range(len(own)):
        bucket = ((own[k] - lowest) >> shift) + 1
        at = starts[bucket]
        starts[bucket] += 1
        places[at] = k
        for d in range(keys.shape[0]):
            sorted_keys[d, at] = keys[d, k]


@numba.njit(nogil=True, cache=True)
def _search(
    starts, lowest, shift, places, keys, table, bounds, test, done, start, end, base, i, j
):  # pragma: no cover - compiled
    count = 0
    buckets = len(starts) - 2
    tests = keys.shape[0]
    for row in range(len(start)):
        first = np.int64(bounds[2 * test, row]) - lowest
        last = np.int64(bounds[2 * test + 1, row]) - lowest
        if last < 0 or first > last or start[row] >= base + len(places) or end[row] <= base:
            continue
        low = max(first, 0) >> shift
        if low >= buckets:
            continue
        high = min(last >> shift, buckets - 1)
        for at in range(starts[low], starts[high + 1]):
            place = base + places[at]
            if place < start[row] or place >= end[row]:
                continue
            met = 0
            for d in range(tests):
                if bounds[2 * d, row] <= keys[d, at] <= bounds[2 * d + 1, row]:
                    met |= 1 << d
            # A pair that an earlier deciding test finds is not found again.
            if met & done or not met >> test & 1 or not table >> met & 1:
                continue
            if count < len(i):
                i[count] = row
                j[count] = place
            count += 1
    return count
