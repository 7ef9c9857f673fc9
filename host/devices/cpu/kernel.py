"""Common parts of the CPU device's kernels: checks, result memory, counters and threads."""

from __future__ import annotations

import time
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import DeviceError
from penstock.kept_code import PLAIN
from penstock.program import Mode, Program
from penstock.types import Type

from ...device.base import PAIRS, Folds, Kernel, Pause, Result, Task, WindowBuffer
from ...device.checks import Column, check_search_task, check_task, stream_columns, window_columns
from ...device.search import AnySearch, LateSearch, SearchTask, empty_search
from ...device.storage import storage_dtype
from .loops import COUNT, EVALUATIONS, I0, I1, PAUSED, POSITION, SLACK, new_walk
from .resident_window import CpuWindow

#: Window columns in the form of the compiled loops.
Columns = tuple[np.ndarray, ...]
#: Bytes of the largest block that is kept for later tasks.
LARGEST_KEPT_BYTES = 64 << 20

#: Code, stream and window columns of the loops that this process has loaded.
_LOADED: set[tuple[str, tuple[np.dtype, ...], tuple[np.dtype, ...]]] = set()
#: Tests of pairs that take as long as folding a match on columns does, and as running a task of no
#: pairs does there.
_OF_A_FOLD, _OF_A_TASK = 16, 1 << 17


class ResultMemory:
    """Blocks of uint32, each lent until its last view is gone.

    The system clears each page of fresh memory: from a percent of matching pairs on, that costs
    more than the kernel's own work. So a task reuses the memory of an earlier one.

    Parameters
    ----------
    kept : int
        Most free blocks to keep.
    """

    def __init__(self, kept: int) -> None:
        # Blocks come back from finalizers, which may run inside any call of any thread: a deque
        # needs no lock for that, and drops the oldest block by itself.
        self._free: deque[np.ndarray] = deque(maxlen=kept)

    def lend(self, entries: int) -> np.ndarray:
        """Uninitialised uint32 array of at least ``entries``."""
        block = self._find(entries)
        if block is None:
            block = np.empty(entries, np.uint32)
        if block.nbytes > LARGEST_KEPT_BYTES:
            return block
        # NumPy makes views of a view refer to the owner, unless a foreign object lies between.
        lent = np.frombuffer(block.data, np.uint32)
        weakref.finalize(lent, self._free.append, block).atexit = False
        return lent

    def _find(self, entries: int) -> np.ndarray | None:
        for _ in range(len(self._free)):
            try:
                block = self._free.popleft()
            except IndexError:  # another thread was faster
                return None
            if entries <= len(block) <= 4 * entries:
                return block
            self._free.append(block)
        return None


@dataclass(frozen=True)
class CpuResources:
    """Parts of the CPU device that its kernels use.

    Parameters
    ----------
    pool : ThreadPoolExecutor
        The device's threads.
    count : callable
        Takes the result of each finished task, for the device's counters.
    memory : ResultMemory
    interprets : bool
        Whether to run few pairs on columns rather than to compile.
    """

    pool: ThreadPoolExecutor
    count: Callable[[Result], None]
    memory: ResultMemory
    interprets: bool = False


class CpuKernel(Kernel):
    """A program ready to run on the device's threads.

    Parameters
    ----------
    program : Program
    resources : CpuResources
    modes : frozenset of Mode
        Modes of its tasks.
    """

    def __init__(
        self, program: Program, resources: CpuResources, modes: frozenset[Mode] = PAIRS
    ) -> None:
        super().__init__(program, modes)
        self._resources = resources
        self._stream = tuple(map(_stored, stream_columns(program)))
        self._window = tuple(map(_stored, window_columns(program)))
        self._is_search_ready = False
        #: Runs tasks until they are so many that compiling pays; None from then on.
        self._plain: CpuKernel | None = None
        self._code = ""

    def allocate(self, capacity: int) -> CpuWindow:
        return CpuWindow(capacity, self._window)

    def submit(self, window: WindowBuffer | None, task: AnySearch | Task) -> Future[Result]:
        try:
            return self._resources.pool.submit(self._execute, window, task)
        except RuntimeError as cause:
            raise DeviceError("device cpu is closed; open it again to run tasks") from cause

    def run(self, window: WindowBuffer | None, task: AnySearch | Task) -> Result:
        return self._execute(window, task)

    def _execute(self, window: WindowBuffer | None, task: AnySearch | Task) -> Result:
        began = time.monotonic()
        if isinstance(task, LateSearch):
            task = task.made()
        if isinstance(task, SearchTask):
            check_search_task(self, self._stream, self._window, task)
            result = self._runner(task)._search(task)
        else:
            result = self._runner(task)._dispatch(self._check(window, task), task)
        result = replace(result, ran=(began, time.monotonic()))
        self._resources.count(result)
        return result

    def _runner(self, task: SearchTask | Task) -> CpuKernel:
        """The kernel that runs a task: this one, or while tasks are few one on columns."""
        plain = self._plain  # which another lane may let go
        if plain is not None:
            # A search may test as many. A match that is folded takes longer than many tests.
            pairs = int((task.end - task.start).sum())
            steps = pairs * (_OF_A_FOLD if task.mode.needs_value else 1)
            if self._is_plain(max(steps, _OF_A_TASK)):
                return plain
            self._plain = None
        return self

    def _is_plain(self, pairs: int = 0) -> bool:
        return PLAIN.takes_pairs(self._code, pairs)

    def _compile(self, code: str, interpreted: Callable[[], CpuKernel]) -> None:
        """Compile now rather than in the first task, or load an earlier process's machine code.

        A device that interprets loads the loops that tasks need, when they need them.

        Parameters
        ----------
        code : str
            Name of the machine code.
        interpreted : callable
            Makes a kernel with the same results that needs no machine code.
        """
        self._code = code
        if not self._resources.interprets:
            loaded = code, self._stream, self._window
            if loaded not in _LOADED:
                self._call_loops()
                _LOADED.add(loaded)
        elif self._is_plain():
            self._plain = interpreted()

    def _call_loops(self) -> None:
        window, stream = self.allocate(0), [np.zeros(0, dtype) for dtype in self._stream]
        none = np.zeros(0, np.int64)
        for mode in self.modes:
            self._dispatch(window, Task(stream, none, none, room=1, mode=mode))

    def prepare_search(self) -> None:
        if not self._is_search_ready and not self._resources.interprets:
            for mode in self.modes:
                self._search(empty_search(self._stream, self._window, mode))
            self._is_search_ready = True

    def _dispatch(self, window: CpuWindow, task: Task) -> Result:
        if task.mode is Mode.PAIRS:
            return self._run(window, task)
        return folded(self._fold(window, task), int((task.end - task.start).sum()))

    @abstractmethod
    def _run(self, window: CpuWindow, task: Task) -> Result:
        """Run a checked task for pairs."""

    @abstractmethod
    def _search(self, task: SearchTask) -> Result:
        """Run a checked search."""

    @abstractmethod
    def _fold(self, window: CpuWindow, task: Task) -> Folds:
        """Run a checked task for aggregates."""

    def _check(self, window: WindowBuffer | None, task: Task) -> CpuWindow:
        """Refuse a task that the loops cannot run; returns the window."""
        if not isinstance(window, CpuWindow):
            raise DeviceError(
                f"a {type(window).__name__} was passed to device cpu; use the window buffer that "
                "this kernel allocated"
            )
        if tuple(column.dtype for column in window.columns) != self._window:
            raise DeviceError(
                "the window buffer was allocated by a kernel of another layout on device cpu; use "
                "one that this kernel allocated"
            )
        check_task(self, window.capacity, self._stream, task)
        return window


def folded(folds: Folds, evaluations: int) -> Result:
    """The result of a task for aggregates."""
    none = np.zeros(0, np.uint32)
    return Result(none, none, None, {"evaluations": evaluations}, folds)


class PairOutput:
    """Walk and result memory of one task, in the layout of the compiled loops.

    Parameters
    ----------
    task : Task
    block, tile : int
        Most stream tuples and window positions of a tile.
    memory : ResultMemory
    """

    def __init__(self, task: Task, block: int, tile: int, memory: ResultMemory) -> None:
        # Read-only arrays are another type to Numba, which would compile twice.
        self.start, self.end = (np.require(a, np.int64, ["C", "W"]) for a in (task.start, task.end))
        self.walk = new_walk(block, tile, task.room)
        entries = task.room + SLACK
        block_of_both = memory.lend(2 * entries)
        self.i, self.j = block_of_both[:entries], block_of_both[entries : 2 * entries]

    def result(self) -> Result:
        """The result; a small one is copied, which frees the memory."""
        walk = self.walk
        count = int(walk[COUNT])
        i, j = self.i[:count], self.j[:count]
        if count < len(self.i) // 2:
            i, j = i.copy(), j.copy()
        pause = Pause(int(walk[I0]), int(walk[I1]), int(walk[POSITION])) if walk[PAUSED] else None
        return Result(i, j, pause, {"evaluations": int(walk[EVALUATIONS])})


def _stored(column: Column) -> np.dtype:
    """Dtype of a column in memory."""
    assert column is not None
    return storage_dtype(column) if isinstance(column, Type) else column
