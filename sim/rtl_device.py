"""The exported Verilog, compiled by Verilator, as a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Device, Kernel, Pause, Result, Task, WindowBuffer
from penstock.hw.export import kernel_verilog
from penstock.hw.hls.check import refusal
from penstock.hw.join.config import MAX_UNITS_PER_BLOCK, JoinConfig
from penstock.hw.join.passes import Pass, plan, recover
from penstock.hw.kernel.config import KernelConfig
from penstock.hw.kernel.describe import table
from penstock.hw.kernel.kernel import KERNEL
from penstock.program import MAX_BAND_TESTS, BandProgram, GeneralProgram, Mode, Program
from penstock.sim.verilated.board import Board, MemoryModel
from penstock.sim.verilated.build import Tools, cache_folder, library
from penstock.sim.verilated.packing import Packing

#: Where a task's memory is, far apart so that an address that runs away meets nothing.
_PASSES, _TUPLES, _WINDOW, _RESULTS = (part << 40 for part in (1, 2, 3, 4))

#: Most result words of a task beyond what the kernel insists on, 16 MiB: what is given to the
#: kernel for each task in flight. A task that needs more pauses.
_RESULT_WORDS = 1 << 18

#: Numbers of band tests that kernels are built with. A kernel runs programs with fewer, too.
_BUILDS = (1, 2, 4, 8)

#: Cycles that a task may take for each flit, pass and so on, before it counts as hung; slow memory
#: takes the more.
_PATIENCE, _PATIENCE_CYCLES = 200, 1_000_000

#: Counters of the header that a result carries.
_COUNTERS = ("cycles", "window_flits", "admission_stalls", "memory_waits", "records", "passes")


@lru_cache(maxsize=32)
def _built(config: KernelConfig) -> Path:
    return library(kernel_verilog(config, cache=cache_folder()), KERNEL)


@dataclass(frozen=True)
class _Stop:
    """Where a task stopped: tuples below ``complete`` are complete, below ``loaded`` up to p."""

    complete: int
    loaded: int
    position: int


class RtlWindow(WindowBuffer):
    """Window keys as they lie in the kernel's memory."""

    def __init__(self, capacity: int, packing: Packing) -> None:
        if not 0 <= capacity < 1 << 32:
            raise DeviceError(f"a window cannot have room for {capacity} tuples")
        super().__init__(capacity)
        self._packing = packing
        self.memory: np.ndarray | None = np.zeros(packing.window_bytes(capacity), np.uint8)

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        if self.memory is None:
            raise DeviceError("the window was freed; allocate another one")
        keys = self._packing.window_keys
        if len(columns) != keys:
            raise DeviceError(f"the program has {keys} window keys, not {len(columns)}")
        count = len(columns[0]) if columns else 0
        if any(len(column) != count for column in columns):
            raise DeviceError("window keys must have equal lengths")
        if not 0 <= offset <= offset + count <= self.capacity:
            raise DeviceError(
                f"{count} tuples at position {offset} do not fit a window of {self.capacity}"
            )
        rows = self._packing.window(columns)
        size = rows.shape[1]
        self.memory[offset * size : (offset + count) * size] = rows.reshape(-1)

    def free(self) -> None:
        self.memory = None


class RtlKernel(Kernel):
    """A program on Verilated kernels, one per lane."""

    def __init__(self, device: RtlDevice, program: Program, config: KernelConfig) -> None:
        super().__init__(program)
        self._device = device
        self._units = config.join.units
        self._most_flits = 1 << config.join.ordinal_bits
        described = table(config)
        self._least_words = described["geometry"]["least_result_words"]
        self._status = {value: name for name, value in described["status"].items()}
        self._stream_keys = _stream_keys(program)
        self._tests = config.join.tests
        self._table = _table_arguments(program, config)
        self.packing = Packing(described, window_keys=_window_keys(program))
        path = _built(config)
        boards = [Board(path, described, device.memory_of(lane)) for lane in range(device.lanes)]
        self._boards: SimpleQueue[Board] = SimpleQueue()
        for board in boards:
            self._boards.put(board)
        self._open = len(boards)
        #: Room for the matches of one window tuple, the smallest step that can be paused.
        self.min_room = self._units

    def allocate(self, capacity: int) -> RtlWindow:
        return RtlWindow(capacity, self.packing)

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        return self._device.start(self._run, window, task)

    def close(self) -> None:
        """Wait for the kernel's tasks and free their simulations."""
        while self._open:
            self._boards.get().close()
            self._open -= 1

    def _run(self, window: WindowBuffer, task: Task) -> Result:
        if not isinstance(window, RtlWindow) or window.memory is None:
            raise DeviceError("the window is not one of this kernel's, or was freed")
        if not self._open:
            raise DeviceError("the kernel was closed; open the program again")
        self._check(window, task)
        start = np.asarray(task.start, dtype=np.int64)
        end = np.asarray(task.end, dtype=np.int64)
        kept = np.flatnonzero(start < end)
        if len(kept) == 0:
            none = np.array([], np.int64)
            return self._result(none, none, None, {"evaluations": 0})
        columns = [np.asarray(column)[kept] for column in self._in_order(task)]
        passes = plan(start[kept], end[kept], self._units)
        flits = sum(part.end - part.begin for part in passes)
        if flits > self._most_flits:
            raise DeviceError(
                f"the task takes {flits} window flits, more than {self._most_flits}; cut it"
            )
        header, words = self._simulate(window.memory, window.capacity, task, columns, kept, passes)
        records = self.packing.records(words)
        keep, stop = self._fit(records.ordinal, task.room, passes, start[kept], end[kept])
        if stop is None and header["status"] == self._status_code("PAUSED"):
            stop = _Stop(header["complete"], header["loaded"], header["position"])
        i, j = recover(passes, start[kept], self._units, records.unit[keep], records.ordinal[keep])
        pause, until = None, end.copy()
        if stop is not None:
            rows = np.append(kept, task.rows)
            pause = Pause(int(rows[stop.complete]), int(rows[stop.loaded]), stop.position)
            until[pause.i0 : pause.i1] = np.minimum(end[pause.i0 : pause.i1], pause.p)
            until[pause.i1 :] = 0
        counters = {"evaluations": int(np.maximum(until - start, 0).sum())}
        counters |= {name: header[name] for name in _COUNTERS}
        return self._result(kept[i], j, pause, counters)

    def _simulate(
        self,
        window: np.ndarray,
        capacity: int,
        task: Task,
        columns: Sequence[np.ndarray],
        kept: np.ndarray,
        passes: Sequence[Pass],
    ) -> tuple[dict[str, int], np.ndarray]:
        """Run a task on a kernel that is free; its header, and the words of its results."""
        packing = self.packing
        size = packing.word_bytes
        begin, end = (np.array([getattr(p, name) for p in passes]) for name in ("begin", "end"))
        counts = np.array([part.stop - part.first for part in passes])
        room = self._least_words + min(task.room, _RESULT_WORDS)
        results = np.empty((room + 1) * size, np.uint8)
        memory = {
            _PASSES: packing.passes(counts, begin, end),
            _TUPLES: packing.tuples(
                columns, np.asarray(task.start)[kept], np.asarray(task.end)[kept]
            ),
            _WINDOW: window,
            _RESULTS: results,
        }
        arguments = {
            "passes": _PASSES,
            "tuples": _TUPLES,
            "window": _WINDOW,
            "results": _RESULTS,
            "pass_count": len(passes),
            "tuple_count": len(kept),
            "window_count": capacity,
            "result_words": room,
            **self._table,
        }
        work = int((end - begin).sum()) + len(kept) + len(passes)
        board = self._boards.get()
        try:
            for address, part in memory.items():
                board.map(address, part)
            board.run(arguments, self._device.patience(work))
        finally:
            board.unmap()
            self._boards.put(board)
        header = packing.header(results[:size])
        status = self._status.get(header["status"], str(header["status"]))
        if status not in ("OK", "PAUSED"):
            raise DeviceError(f"the kernel ended the task with status {status}")
        return header, results[size : (header["words"] + 1) * size]

    def _status_code(self, name: str) -> int:
        return next(value for value, known in self._status.items() if known == name)

    def _fit(
        self,
        ordinal: np.ndarray,
        room: int,
        passes: Sequence[Pass],
        start: np.ndarray,
        end: np.ndarray,
    ) -> tuple[np.ndarray | slice, _Stop | None]:
        """Matches that fit the room, and where the task stops for it.

        The kernel counts words, the contract counts pairs: what is too much is cut off at a
        window tuple.
        """
        if len(ordinal) <= room:
            return slice(None), None
        # The first ordinal whose matches do not all fit; those before it do.
        cut = int(np.partition(ordinal, room)[room])
        upto = np.cumsum([part.end - part.begin for part in passes])
        number = int(np.searchsorted(upto, cut, side="right"))
        part = passes[number]
        position = part.end - int(upto[number]) + cut
        loaded = part.first + int(np.searchsorted(start[part.first : part.stop], position))
        complete = part.first + int(
            np.searchsorted(end[part.first : loaded], position, side="right")
        )
        return ordinal < cut, _Stop(complete, loaded, position)

    def _result(
        self, i: np.ndarray, j: np.ndarray, pause: Pause | None, counters: dict[str, int]
    ) -> Result:
        self._device.count(counters)
        counters = counters | {"units": self._units}
        return Result(i.astype(np.uint32), j.astype(np.uint32), pause, counters)

    def _in_order(self, task: Task) -> Sequence[np.ndarray]:
        """All low bounds before all high bounds, as the pipeline loads them."""
        if not isinstance(self.program, BandProgram):
            return task.stream
        spare = [np.zeros(task.rows, np.uint8)] * (self._tests - self.program.tests)
        return [*task.stream[::2], *spare, *task.stream[1::2], *spare]

    def _check(self, window: RtlWindow, task: Task) -> None:
        if len(task.stream) != self._stream_keys:
            raise DeviceError(
                f"the program has {self._stream_keys} stream columns, not {len(task.stream)}"
            )
        if any(len(column) != task.rows for column in (*task.stream, task.end)):
            raise DeviceError("stream columns and ranges must have equal lengths")
        if task.room < self.min_room:
            raise DeviceError(f"a task needs room for {self.min_room} pairs, not {task.room}")
        start, end = np.asarray(task.start), np.asarray(task.end)
        if task.rows and (start.min() < 0 or end.max() > window.capacity or (start > end).any()):
            raise DeviceError(f"ranges must lie within the window of {window.capacity} tuples")
        if (np.diff(start) < 0).any() or (np.diff(end) < 0).any():
            raise DeviceError("starts and ends of ranges must not decrease")


def _stream_keys(program: Program) -> int:
    return 2 * program.tests if isinstance(program, BandProgram) else len(program.stream)


def _window_keys(program: Program) -> int:
    return program.tests if isinstance(program, BandProgram) else len(program.window)


def _table_arguments(program: Program, config: KernelConfig) -> dict[str, int]:
    """Registers of the truth table. Tests that the program lacks do not matter."""
    if not isinstance(program, BandProgram):
        return {}
    own = (1 << program.tests) - 1
    entries = sum(
        (program.table >> (index & own) & 1) << index for index in range(config.join.table_bits)
    )
    return {
        f"table_{word}": entries >> 32 * word & 0xFFFFFFFF for word in range(config.table_words)
    }


class RtlDevice(Device):
    """The kernel's Verilog, compiled by Verilator, with a model of its memory.

    The first program of a kind takes Verilator and a C++ compiler some ten seconds or more; what
    they make is kept on disk. A band kernel serves all programs with as many tests or fewer.

    Parameters
    ----------
    units : int
        Join units, in two blocks (more if a block would have more than 32).
    lanes : int
        Kernels that run at the same time, each on a core.
    latency_cycles, bandwidth, stalls, seed
        The memory, see :class:`penstock.sim.verilated.board.MemoryModel`.
    """

    name = "rtl"
    key_widths = (32, 64)

    def __init__(
        self,
        units: int = 16,
        *,
        lanes: int = 1,
        latency_cycles: int = 0,
        bandwidth: float = 1.0,
        stalls: float = 0.0,
        seed: int = 0,
    ) -> None:
        if not isinstance(lanes, int) or isinstance(lanes, bool):
            raise TypeError(f"lanes must be an integer, not {lanes!r}")
        if not 1 <= lanes <= 64:
            raise ValueError(f"lanes must be 1 to 64, not {lanes!r}")
        self._units = units
        self.lanes = lanes
        self._memory = MemoryModel(
            latency_cycles=latency_cycles, bandwidth=bandwidth, stalls=stalls, seed=seed
        )
        self._config(tests=1)  # says now what is wrong with the number of units
        Tools.find()
        self._threads = ThreadPoolExecutor(lanes, thread_name_prefix="penstock-rtl")
        self._kernels: list[RtlKernel] = []
        self._sums: Counter[str] = Counter()
        self._lock = Lock()

    def _config(self, **program: Any) -> KernelConfig:
        half = -(-self._units // 2) if isinstance(self._units, int) else MAX_UNITS_PER_BLOCK
        join = JoinConfig(
            units=self._units,
            units_per_block=min(max(half, 1), MAX_UNITS_PER_BLOCK),
            **program,
        )
        return KernelConfig.fit(join)

    def refuses(self, program: Program, modes: frozenset[Mode] = PAIRS) -> str | None:
        if modes != PAIRS:
            return "it emits pairs only"
        if isinstance(program, GeneralProgram):
            return refusal(program)
        if not 1 <= program.tests <= MAX_BAND_TESTS:
            return f"the program has {program.tests} band tests; at most {MAX_BAND_TESTS} fit"
        if not 2 <= program.key_bits <= max(self.key_widths):
            return f"the program's codes have {program.key_bits} bits, not 2 to 64"
        return None

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> RtlKernel:
        if reason := self.refuses(program, modes):
            raise DeviceError(f"the {self.name} device cannot run this program: {reason}")
        if isinstance(program, BandProgram):
            config = self._config(
                tests=next(tests for tests in _BUILDS if tests >= program.tests),
                key_bits=next(bits for bits in self.key_widths if bits >= program.key_bits),
            )
        else:
            config = self._config(program=program)
        kernel = RtlKernel(self, program, config)
        with self._lock:
            self._kernels.append(kernel)
        return kernel

    def start(self, run: Any, *arguments: Any) -> Future[Result]:
        """Run a task in a thread of the device."""
        return self._threads.submit(run, *arguments)

    def memory_of(self, lane: int) -> MemoryModel:
        """The memory of a lane; random stalls differ from lane to lane."""
        return replace(self._memory, seed=(self._memory.seed + lane) % (1 << 32))

    def patience(self, flits: int) -> int:
        """Cycles after which a task with so many flits counts as hung."""
        memory = self._memory
        slowness = (1 + memory.latency_cycles) / memory.bandwidth / (1 - memory.stalls)
        return int((_PATIENCE_CYCLES + _PATIENCE * flits) * max(slowness, 1.0))

    def count(self, counters: dict[str, int]) -> None:
        """Add a task's counters to the device's."""
        with self._lock:
            self._sums.update(counters)

    def counters(self) -> dict[str, int]:
        with self._lock:
            return {**self._sums, "units": self._units}

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        for kernel in self._kernels:
            kernel.close()
        self._kernels.clear()
