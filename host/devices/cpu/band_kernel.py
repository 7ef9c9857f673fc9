"""The band kernel: one compiled loop per key width and number of tests, for every band program."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.program import BandProgram, Mode, empty_code
from penstock.types import Type

from ...device.base import PAIRS, Folds, Result, Task
from ...device.search import SearchTask
from ...device.storage import key_dtype
from ...keys.narrow import NarrowCodes
from .fold_loops import run_band
from .folding import FoldState, limbs
from .interpreted import InterpretedKernel
from .kernel import Columns, CpuKernel, CpuResources, PairOutput, folded
from .loops import EVALUATIONS, run_pairs
from .masks import BLOCK_ROWS
from .resident_window import DEFAULT_LIMITS, CpuWindow, NarrowColumns, NarrowLimits
from .searching import FoundPairs, search_folds, search_pairs, walk_of
from .vector import GRANULE

#: Bytes of window keys per tile, over all tests: a first-level data cache. Tiles of half and of
#: twice the size are within 3 % of its speed, since two tuples share each load.
TILE_BYTES = 32 * 1024


class BandKernel(CpuKernel):
    """A band program on the CPU.

    Bounds and cubes are arguments of the compiled loop, so opening a second program of the same
    key width and number of tests compiles nothing.
    """

    here_evaluations = 1 << 21  # a tenth of a millisecond
    program: BandProgram
    #: When windows that are allocated from here on use narrow codes; tests set other limits.
    limits: NarrowLimits = DEFAULT_LIMITS

    def __init__(
        self, program: BandProgram, resources: CpuResources, modes: frozenset[Mode] = PAIRS
    ) -> None:
        super().__init__(program, resources, modes)
        self._key = key_dtype(program.key_bits)
        if program.payload is not None:
            self._window = *self._window[:-1], _payload_dtype(self._window[-1])
        cubes = program.cubes
        # Tests that no cube needs are not run. A single cube is then the AND of all tests.
        needed = int(np.bitwise_or.reduce(np.array(cubes, np.int64), initial=0))
        self._tests = tuple(d for d in range(program.tests) if needed >> d & 1)
        packed = [sum(1 << k for k, d in enumerate(self._tests) if c >> d & 1) for c in cubes]
        if not self._tests:
            # Always true: one test is run, and the only cube ignores it.
            self._tests = (0,)
        elif len(packed) == 1:
            packed = []
        #: Cubes over the tests in ``_tests``; None: all tests must hold.
        self._cubes = np.array(packed, np.int64) if packed else None
        folded = sorted(mode.value for mode in modes)
        code = f"{self._key} {len(self._tests)} {self._cubes is None} {folded}"
        self._compile(code, lambda: InterpretedBand(program, resources, modes))

    def _call_loops(self) -> None:
        none = np.zeros(0, self._key)
        NarrowCodes.fit(none, self.program.key_bits, 2).encode(none)
        super()._call_loops()

    def allocate(self, capacity: int) -> CpuWindow:
        return CpuWindow(capacity, self._window, self._narrow if self._cubes is None else None)

    def _narrow(self, capacity: int) -> NarrowColumns:
        return NarrowColumns(capacity, len(self._tests), self.program.key_bits, self.limits)

    def _run(self, window: CpuWindow, task: Task) -> Result:
        output = PairOutput(task, BLOCK_ROWS, self._tile(), self._resources.memory)
        if self.program.table:
            tests = self._task_arguments(window, task, output.start, output.end)
            run_pairs(*tests, output.walk, output.i, output.j)
        else:
            output.walk[EVALUATIONS] = (task.end - task.start).sum()
        return output.result()

    def _search(self, task: SearchTask) -> Result:
        walk, columns = walk_of(task).state, tuple(task.ordered.columns)
        keys, *tests = self._arguments(columns, task)
        if task.mode is Mode.PAIRS:
            pairs = FoundPairs(task, self._resources.memory)
            if self.program.table:
                search_pairs(keys, *tests, walk, *pairs.state)
            return pairs.result()
        payload = columns[-1] if task.mode.needs_value else None
        fold, evaluations = FoldState(task, 0, 0, self.program.payload), 0
        if self.program.table:
            evaluations = search_folds(keys, payload, *tests, walk, *fold.state)
        return folded(fold.folds(), evaluations)

    def _fold(self, window: CpuWindow, task: Task) -> Folds:
        payload = window.columns[-1] if task.mode.needs_value else None
        if payload is None or payload.dtype.kind == "i":
            return self._pass(window, payload, task, self.program.payload)
        return self._fold_beyond(window, payload, task)

    def _fold_beyond(self, window: CpuWindow, payload: np.ndarray, task: Task) -> Folds:
        """Fold payloads beyond int64: by their ranks, or 32 bits at a time."""
        low, high = (int(task.start[0]), int(task.end[-1])) if task.rows else (0, 0)
        column = np.zeros(len(payload), np.int64)
        part = payload[low:high].astype(object)
        if task.mode is Mode.SUM:
            total, matched = np.zeros(task.rows, object), np.zeros(task.rows, bool)
            for shift, limb in limbs(part):
                column[low:high] = limb
                fold = self._pass(window, column, task)
                total += fold.value.astype(object) << shift
                matched = fold.found
            return Folds(matched, total)
        distinct, ranks = np.unique(part, return_inverse=True)
        column[low:high] = ranks
        fold = self._pass(window, column, task)
        value = np.zeros(task.rows, object)
        value[fold.found] = distinct[fold.value[fold.found]]
        return Folds(fold.found, value)

    def _pass(
        self, window: CpuWindow, payload: np.ndarray | None, task: Task, value: Type | None = None
    ) -> Folds:
        """Fold a payload in machine integers; ``value`` is its type, where known."""
        tile = self._tile(0 if payload is None else payload.itemsize)
        fold = FoldState(task, BLOCK_ROWS, tile, value)
        if self.program.table:
            keys, *tests = self._task_arguments(window, task, fold.start, fold.end)
            run_band(keys, payload, *tests, fold.walk, *fold.state)
        return fold.folds()

    def _tile(self, payload_bytes: int = 0) -> int:
        """Window positions of a tile."""
        row_bytes = len(self._tests) * self._key.itemsize + payload_bytes
        return max(TILE_BYTES // row_bytes, GRANULE) & ~(GRANULE - 1)

    def _task_arguments(
        self, window: CpuWindow, task: Task, start: np.ndarray, end: np.ndarray
    ) -> tuple[Any, ...]:
        """First arguments of both loops: keys, tests, narrow codes and ranges."""
        keys, cubes, low, span = self._arguments(window.columns, task)
        narrow = None
        if window.narrow is not None:
            once = task.mode is Mode.EXISTS
            narrow = window.narrow.arguments(keys, low, span, start, end, once)
        return keys, cubes, low, span, narrow, start, end

    def _arguments(self, window: Columns, task: Task | SearchTask) -> tuple[Any, ...]:
        """Keys, cubes, lower bounds and spans of the tests that are run."""
        low, span = zip(*(self._bounds(task, d) for d in self._tests), strict=True)
        return tuple(window[d] for d in self._tests), self._cubes, low, span

    def _bounds(self, task: Task | SearchTask, test: int) -> tuple[np.ndarray, np.ndarray]:
        """Lower bound and span of a test: one subtraction and one comparison per key.

        This is sound only if the upper bound is not below the lower one, so every other empty
        range becomes the canonical one.
        """
        low = np.require(task.stream[2 * test], self._key, ["C", "W"])
        high = np.asarray(task.stream[2 * test + 1], self._key)
        empty = low > high
        if empty.any():
            code = self._key.type(empty_code(self.program.key_bits))
            low, high = np.where(empty, code, low), np.where(empty, code, high)
        return low, high - low


class InterpretedBand(InterpretedKernel):
    """A band program on NumPy columns."""

    def _hits(
        self, window: Columns, task: Task | SearchTask, i: np.ndarray, j: np.ndarray
    ) -> np.ndarray:
        program: Any = self.program  # a BandProgram
        tests: dict[int, np.ndarray] = {}
        hit = np.zeros(len(i), bool)
        for cube in program.cubes:
            every = np.ones(len(i), bool)
            for d in (d for d in range(program.tests) if cube >> d & 1):
                if d not in tests:
                    low, high = (np.asarray(task.stream[2 * d + end])[i] for end in (0, 1))
                    key = np.asarray(window[d])[j]
                    tests[d] = (low <= key) & (key <= high)
                every &= tests[d]
            hit |= every
        return hit

    def _values(
        self, window: Columns, task: Task | SearchTask, i: np.ndarray, j: np.ndarray
    ) -> np.ndarray:
        return np.asarray(window[-1])[j]

    @property
    def _folds_floats(self) -> bool:
        return False


def _payload_dtype(stored: np.dtype) -> np.dtype:
    """Dtype of a payload in memory: int32 if narrow, so that fewer loops are compiled."""
    return np.dtype(np.int32) if stored.kind == "i" and stored.itemsize < 4 else stored
