"""A program of wide codes on the kernel of a build of fewer bits, where that can run it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.errors import DeviceError
from penstock.program import AnyProgram, BandProgram, Mode, WindowProgram, empty_code

from ...device.base import PAIRS, Kernel, Result, Task, WindowBuffer, WindowName
from ...device.checks import check_task, check_write, stream_columns, window_columns
from ...device.storage import key_dtype
from ...device.wrapped import WrappedBuffer, WrappedKernel
from .maps import CodeMap, FullTest, fit_maps, narrowed

#: Widths of units that a device may build for programs of wider codes.
NARROW_WIDTHS = (16, 24)
#: One of so many pairs that were found may be false.
FALSE_ONE_OF = 10
#: Pairs that tell the share.
_LEAST_FOUND = 256
#: A window gets other maps when so large a part of its rows was written: 1 of 4.
_PATIENCE = 4


def narrow_refusal(program: AnyProgram, modes: frozenset[Mode], bits: int) -> str | None:
    """Why units of so many bits cannot run a program whatever its predicate; None if they can."""
    if isinstance(program, WindowProgram):
        parts = [part for part in (program.a, program.b) if isinstance(part, BandProgram)]
        widest = max((part.key_bits for part in parts), default=0)
        if widest > bits:
            return (
                f"its window operator has codes of {bits} bits, and these rows need {widest}; use "
                "the range operator"
            )
        return None
    if not isinstance(program, BandProgram) or program.key_bits <= bits or modes <= PAIRS:
        return None
    names = ", ".join(sorted(mode.value for mode in modes - PAIRS))
    return (
        f"its units have {bits} bits, and these keys need {program.key_bits}; folds ({names}) need "
        "exact codes, pairs do not"
    )


def units_of(program: BandProgram, modes: frozenset[Mode], bits: int | None) -> int | None:
    """Width of the units that run a program whose codes are wider; None where they are as wide.

    Parameters
    ----------
    bits : int or None
        Width that the device was told; None if programs say it.
    """
    if bits is None and modes <= PAIRS:
        bits = program.unit_bits
    return bits if bits is not None and bits < program.key_bits else None


def open_narrow(
    program: BandProgram,
    bits: int,
    open_exact: Callable[[BandProgram], Kernel],
    count: Callable[[Mapping[str, int]], None],
) -> Kernel:
    """A program for pairs on units of so many bits.

    Parameters
    ----------
    open_exact : callable
        Opens a program whose codes the units have.
    count : callable
        Takes the counters of tasks that the device does not know itself.
    """
    return NarrowKernel(open_exact(narrowed(program, bits)), program, count)


class NarrowKernel(WrappedKernel):
    """Runs a program on units that test narrow codes, and tests in full what they find.

    Parameters
    ----------
    inner : Kernel
        Of :func:`~.maps.narrowed` of the program.
    program : BandProgram
    count : callable
        Takes the counters that this adds to those of each task.
    """

    def __init__(
        self, inner: Kernel, program: BandProgram, count: Callable[[Mapping[str, int]], None]
    ) -> None:
        super().__init__(inner)
        self.program = program
        self.bits: int = inner.program.key_bits
        self._count = count
        self._test = FullTest(program)
        self._has_own_table = inner.program.table == program.table

    def wrap(self, buffer: WindowBuffer) -> NarrowBuffer:
        return NarrowBuffer(buffer, self)

    def resident(
        self, name: WindowName, capacity: int, columns: Callable[[], Sequence[np.ndarray]]
    ) -> None:
        """None: the maps of a window are known to this kernel alone."""

    def submit(self, window: Any, task: Task) -> Future[Result]:
        outer = _Tested()
        try:
            if not isinstance(window, NarrowBuffer):
                raise DeviceError("the window is not one of this kernel's")
            check_task(self, window.capacity, stream_columns(self.program), task)
            started = window.start(task, self.inner.submit)
        except DeviceError as error:
            outer.set_exception(error)
            return outer

        def tested(result: Result) -> Result:
            began, i, j = time.thread_time_ns(), result.i, result.j
            if not (started.is_exact and self._has_own_table):
                i, j = self._test(i, j, started.bounds, started.keys)
            counters = {
                "narrow_pairs": len(result.i),
                "false_pairs": len(result.i) - len(i),
                "narrow_test_us": (time.thread_time_ns() - began) // 1000,
            }
            self._count(counters)
            window.note(counters)
            counters = {**result.counters, **counters, "narrow_bits": self.bits}
            return replace(result, i=i, j=j, counters=counters)

        outer.follow(started.result, tested, window.ended)
        return outer


class _Tested(Future[Result]):
    """The result of a task after the full test; cancelled with the task."""

    def __init__(self) -> None:
        super().__init__()
        self._inner: Future[Result] | None = None

    def follow(
        self,
        inner: Future[Result],
        tested: Callable[[Result], Result],
        ended: Callable[[], None],
    ) -> None:
        """Take the result of the task when it is there, in the thread that gives it."""
        self._inner = inner

        def over(inner: Future[Result]) -> None:
            result, error = None, None
            try:
                if not inner.cancelled():
                    result = tested(inner.result())
            except Exception as raised:  # whatever it is, the caller waits for this future
                error = raised
            ended()
            if error is not None:
                self.set_exception(error)
            elif result is not None:
                self.set_result(result)
            else:
                super(_Tested, self).cancel()
                self.set_running_or_notify_cancel()

        inner.add_done_callback(over)

    def cancel(self) -> bool:
        return self._inner is not None and self._inner.cancel()

    def running(self) -> bool:
        return self._inner is not None and not self.done() and self._inner.running()


@dataclass(frozen=True)
class _Started:
    """A task on the device.

    Parameters
    ----------
    bounds, keys : ndarray
        Bounds of its tuples and keys of the window in full, a row each.
    is_exact : bool
        Whether the maps tell all keys of the window apart, so that a narrow test is the full one.
    result : Future
        What narrow units find.
    """

    bounds: np.ndarray
    keys: np.ndarray
    is_exact: bool
    result: Future[Result]


class NarrowBuffer(WrappedBuffer):
    """Window keys: in full in this process, and as narrow codes on the device.

    Its maps are fitted to the first keys that are written, and stay valid for later ones, which
    fall into the cells that there are. After many further rows, maps are fitted to all and the
    window is written anew, if it may hold more cells than before, or if more than one in ten of the
    pairs that were found was false. While a task reads the window, its maps stay as they are.
    """

    def __init__(self, inner: WindowBuffer, kernel: NarrowKernel) -> None:
        super().__init__(inner)
        program = kernel.program
        self._program, self._bits = program, kernel.bits
        self._wanted = window_columns(program)
        shape = self.capacity, program.tests
        self._keys: np.ndarray | None = np.zeros(shape, key_dtype(program.key_bits))
        #: The maps of its tests; none before keys are written.
        self.maps: Sequence[CodeMap] = ()
        #: Position after the last one that was written.
        self._extent = 0
        #: Rows that the maps are of, and rows written since.
        self._fitted = self._since = 0
        #: Pairs that were found by these maps, and how many of them were false.
        self._tested = self._false = 0
        #: Tasks that read it.
        self._running = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        return super().nbytes + (0 if self._keys is None else self._keys.nbytes)

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        with self._lock:
            if self._keys is None:
                raise DeviceError("the window was freed; allocate another one")
            count = check_write(self, self._wanted, offset, columns)
            end = offset + count
            for test in range(self._program.tests):
                self._keys[offset:end, test] = columns[test]
            self._extent = max(self._extent, end)
            self._since += count
            if not self.maps:
                self._fit(offset, end)
            elif self._wants_maps(end - offset == self._extent):
                offset, end = 0, self._extent
                self._fit(offset, end)
            keys = self._columns(offset, end)
            codes = [one.keys(key) for one, key in zip(self.maps, keys, strict=True)]
            self.inner.write(offset, codes)

    def _columns(self, low: int, high: int) -> list[np.ndarray]:
        assert self._keys is not None
        return [np.ascontiguousarray(key) for key in self._keys[low:high].T]

    def _fit(self, low: int, high: int) -> None:
        self.maps = fit_maps(self._columns(low, high), self._program.key_bits, self._bits)
        self._fitted = high - low
        self._since = self._tested = self._false = 0

    def _wants_maps(self, is_whole: bool) -> bool:
        """Whether other maps promise fewer false pairs, for as many rows as were written since.

        Parameters
        ----------
        is_whole : bool
            Whether all rows were written at once, as where another run gets the memory.
        """
        if self._running or self._since < self._fitted // _PATIENCE:
            return False
        if is_whole:
            return True
        if self._since >= self._fitted and not all(one.is_full for one in self.maps):
            return True
        return self._tested >= _LEAST_FOUND and self._false * FALSE_ONE_OF > self._tested

    def start(self, task: Task, submit: Callable[[WindowBuffer, Task], Future[Result]]) -> _Started:
        """Start a task on the device; :meth:`ended` ends it.

        Raises
        ------
        DeviceError
            The window was freed.
        """
        with self._lock:
            if self._keys is None:
                raise DeviceError("the window was freed; allocate another one")
            columns = [np.ascontiguousarray(column, self._keys.dtype) for column in task.stream]
            stream: list[np.ndarray] = []
            # Where nothing is written yet, a test without a map finds nothing.
            for one, lo, hi in zip(self.maps, columns[::2], columns[1::2], strict=False):
                stream += one.bounds(lo, hi)
            missing = len(columns) - len(stream)
            empty = np.full(task.rows, empty_code(self._bits), key_dtype(self._bits))
            narrow = replace(task, stream=[*stream, *[empty] * missing])
            bounds = np.stack(columns, axis=1)
            is_exact = all(one.is_exact for one in self.maps)
            started = _Started(bounds, self._keys, is_exact, submit(self.inner, narrow))
            self._running += 1
        return started

    def ended(self) -> None:
        """Note that a task no longer reads the window."""
        with self._lock:
            self._running -= 1

    def note(self, counters: Mapping[str, int]) -> None:
        """Count the pairs that a task found, and the false ones among them."""
        with self._lock:
            self._tested += counters["narrow_pairs"]
            self._false += counters["false_pairs"]

    def free(self) -> None:
        with self._lock:
            self._keys = None
        super().free()
