"""Window keys in main memory, and their narrow codes: made when they pay, kept while keys stay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import DeviceError

from ...device.base import WindowBuffer
from ...device.checks import check_capacity, check_write
from ...device.cut import spread
from ...device.storage import key_dtype
from ...keys.narrow import NarrowCodes
from . import masks
from .vector import GRANULE

#: Rows whose codes are made anew together.
SLAB_ROWS = 1 << 10
#: Rows and tuples whose pairs tell how many match.
SAMPLE_ROWS, SAMPLE_TUPLES = 1024, 64


@dataclass(frozen=True, kw_only=True)
class NarrowLimits:
    """Thresholds for the use of narrow codes; they change the speed, never a result.

    Parameters
    ----------
    pairs_per_row : int
        Pairs to test for each row whose codes are to be made: to make one takes as long as
        masks save in some hundred pairs.
    least_pairs : int
        Pairs to test before the keys are sampled, about a millisecond of work.
    tuples : int
        Tuples of a tile that a program of one test needs; one of D tests needs a D-th.
    width, ahead : int
        Window positions of a tile, and of a block for each narrow code.
    passing : int
        Pairs of 1024 that may pass, for each test of the program.
    """

    pairs_per_row: int = 512
    least_pairs: int = 1 << 25
    tuples: int = 128
    width: int = 512
    ahead: int = 4
    passing: int = 5


DEFAULT_LIMITS = NarrowLimits()
#: No narrow codes, whatever the task.
NEVER = NarrowLimits(tuples=1 << 60)


class NarrowColumns:
    """Narrow codes of a window's keys.

    Tasks that run at the same time share them: what is written again is what it was.

    Parameters
    ----------
    capacity : int
    tests : int
        Tests that are run, each of a key of ``key_bits`` bits.
    key_bits : int
    limits : NarrowLimits
    """

    def __init__(self, capacity: int, tests: int, key_bits: int, limits: NarrowLimits) -> None:
        self._tests = tests
        self._key_bits = key_bits
        self._bits = min(masks.BITS[tests - 1], key_bits)
        self._limits = limits
        self._lock = threading.Lock()
        self._columns = self._room(capacity + GRANULE)
        self._is_stale = np.ones(-(-capacity // SLAB_ROWS), bool)
        none = np.zeros(0, key_dtype(key_bits))
        self._maps = [NarrowCodes.fit(none, key_bits, self._bits)] * tests
        self._is_sampled, self._refusals = False, 0
        #: Pairs that were tested without codes, and rows coded since the keys were sampled.
        self._pairs = self._coded = 0

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns)

    def _room(self, rows: int) -> tuple[np.ndarray, ...]:
        return tuple(np.zeros(rows, np.uint16) for _ in range(self._tests))

    def wrote(self, offset: int, count: int) -> None:
        """Codes of these rows, whose keys have been written, are to be made anew."""
        with self._lock:
            self._is_stale[offset // SLAB_ROWS : -(-(offset + count) // SLAB_ROWS)] = True

    def arguments(
        self,
        keys: tuple[np.ndarray, ...],
        low: tuple[np.ndarray, ...],
        span: tuple[np.ndarray, ...],
        start: np.ndarray,
        end: np.ndarray,
        once: bool,
    ) -> tuple[Any, ...]:
        """Arguments of the compiled loops, see :func:`.loops.rules_out`.

        Parameters
        ----------
        keys, low, span : tuple of ndarray
            Window keys and tuples of the tests that are run.
        start, end : ndarray of int64
        once : bool
            Whether a tuple is done with its first match.
        """
        plan = np.zeros(masks.PLAN_FIELDS, np.int64)
        most = self._limits.passing * len(keys)
        least, entries = max(self._limits.tuples // len(keys), 1), 1 << self._bits
        with self._lock:
            is_coded = len(start) >= least and self._code(keys, low, span, start, end, once)
            columns, maps = self._columns, self._maps
        if is_coded:
            plan[masks.TUPLES], plan[masks.WIDTH] = least, self._limits.width
            plan[masks.AHEAD] = self._limits.ahead * entries
            plan[masks.PASSING] = most
        else:
            plan[masks.TUPLES], entries = np.iinfo(np.int64).max, 0
        block_masks = tuple(np.empty((entries + 1) * masks.WORDS, np.uint64) for _ in keys)
        return columns, block_masks, tuple(code_map.arguments for code_map in maps), plan

    def _code(
        self, keys: Any, low: Any, span: Any, start: np.ndarray, end: np.ndarray, once: bool
    ) -> bool:
        """Bring the codes of a task's rows up to date if that pays; whether they are."""
        first, last = int(start[0]), int(end[-1])
        slabs = np.arange(first // SLAB_ROWS, -(-last // SLAB_ROWS))
        stale = slabs[self._is_stale[slabs]]
        self._pairs += int((end - start).sum())
        if not self._pairs:
            return False
        # A window of other rows than were sampled may have other keys.
        is_new = not self._is_sampled or self._coded > 2 * len(slabs) * SLAB_ROWS
        if is_new and len(stale):
            stale = slabs
        if self._pairs < len(stale) * SLAB_ROWS * self._limits.pairs_per_row:
            return False
        if is_new and len(stale):
            if self._pairs < self._limits.least_pairs << self._refusals:
                return False
            share = self._share(keys, low, span, first, last)
            is_soon = once and share * (end - start).mean() > 1
            if is_soon or share * 1024 > self._limits.passing * len(keys):
                self._pairs, self._refusals = 0, self._refusals + 1
                return False
            self._sample(keys, first, last)
        for slab in stale.tolist():
            rows = slice(slab * SLAB_ROWS, (slab + 1) * SLAB_ROWS)
            # Not stale from here on: what is written meanwhile makes it so again.
            self._is_stale[slab] = False
            for code_map, narrow, key in zip(self._maps, self._columns, keys, strict=True):
                code_map.write(narrow[rows], key[rows])
        self._coded += len(stale) * SLAB_ROWS
        self._pairs = 0
        return True

    def _sample(self, keys: Any, first: int, last: int) -> None:
        """Choose other narrow codes, by keys of the rows ``[first, last)``."""
        at = spread(first, last, 4 << self._bits)
        self._maps = [NarrowCodes.fit(key[at], self._key_bits, self._bits) for key in keys]
        # Other tasks may still be reading the codes of before.
        self._columns = self._room(len(self._columns[0]))
        self._is_stale[:] = True
        self._is_sampled, self._refusals, self._coded = True, 0, 0

    def _share(self, keys: Any, low: Any, span: Any, first: int, last: int) -> float:
        """Share of a few pairs that match."""
        rows, tuples = spread(first, last, SAMPLE_ROWS), spread(0, len(low[0]), SAMPLE_TUPLES)
        tests = [
            key[rows][:, None] - a[tuples] <= b[tuples]
            for key, a, b in zip(keys, low, span, strict=True)
        ]
        return float(np.mean(np.logical_and.reduce(tests)))


class CpuWindow(WindowBuffer):
    """One contiguous array per window key.

    Parameters
    ----------
    capacity : int
        Window tuples that fit.
    dtypes : sequence of dtype
        One per window key.
    narrow : callable, optional
        Makes room for narrow codes of so many rows.
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Sequence[np.dtype],
        narrow: Callable[[int], NarrowColumns] | None = None,
    ) -> None:
        super().__init__(capacity)
        check_capacity(capacity)
        try:
            # Kernels read whole granules, so the last one may reach past the capacity.
            self._columns: tuple[np.ndarray, ...] | None = tuple(
                np.zeros(capacity + GRANULE, dtype) for dtype in dtypes
            )
            self.narrow = narrow(capacity) if narrow is not None else None
        except MemoryError as cause:
            raise DeviceError(
                f"no memory for a window of {capacity} tuples of {len(dtypes)} keys on device "
                "cpu; use smaller runs or free other windows"
            ) from cause

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The arrays, a granule longer than the capacity.

        Raises
        ------
        DeviceError
            The buffer was freed.
        """
        if self._columns is None:
            raise DeviceError(
                f"the window buffer of {self.capacity} tuples on device cpu was freed; allocate "
                "another one"
            )
        return self._columns

    @property
    def nbytes(self) -> int:
        narrow = self.narrow.nbytes if self.narrow is not None else 0
        return narrow + sum(column.nbytes for column in self._columns or ())

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        targets = self.columns
        count = check_write(self, [column.dtype for column in targets], offset, columns)
        for target, column in zip(targets, columns, strict=True):
            target[offset : offset + count] = column
        if self.narrow is not None:
            self.narrow.wrote(offset, count)

    def free(self) -> None:
        self._columns = self.narrow = None
