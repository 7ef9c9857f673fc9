"""The exported Verilog, compiled by Verilator, as a device."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Result, Task, WindowBuffer
from penstock.host.device.window_join import WindowKernel
from penstock.hw.checks import check_range
from penstock.hw.export import kernel_verilog
from penstock.hw.hls.compare import SIMULATION
from penstock.hw.join.config import MAX_VALUE_BITS
from penstock.hw.join.passes import Pass, recover
from penstock.hw.kernel.config import KernelConfig
from penstock.hw.kernel.describe import table
from penstock.hw.kernel.kernel import KERNEL, PORTS
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.program import BandProgram, GeneralProgram, Mode, Program, WindowProgram
from penstock.sim.folds import read_folds
from penstock.sim.pipeline_device import (
    ANY_PROGRAM,
    Outcome,
    PipelineDevice,
    PipelineKernel,
    PipelineWindow,
    Stop,
    Work,
    value_bits,
    window_keys,
)
from penstock.sim.verilated.board import Board, MemoryModel
from penstock.sim.verilated.build import Tools, board_library, cache_folder
from penstock.sim.verilated.packing import Packing
from penstock.sim.window.kernel import RtlWindowKernel

#: Where a task's memory is, far apart so that an address that runs away meets nothing.
_PASSES, _TUPLES, _WINDOW, _RESULTS = (part << 40 for part in (1, 2, 3, 4))

#: Most result words of a task beyond what the kernel insists on, 16 MiB: what is given to the
#: kernel for each task in flight. A task that needs more pauses.
_RESULT_WORDS = 1 << 18

#: Numbers of band tests that kernels are built with. A kernel runs programs with fewer, too.
_BUILDS = (1, 2, 4, 8)

#: Widths of values that band kernels are built with; only the narrow ones can be summed.
_VALUE_BITS = (32, MAX_VALUE_BITS)

#: Cycles that a task may take for each flit, pass and so on, before it counts as hung; slow memory
#: takes the more.
_PATIENCE, _PATIENCE_CYCLES = 200, 1_000_000

#: Counters of the header that a result carries.
_COUNTERS = ("cycles", "window_flits", "admission_stalls", "memory_waits", "records", "passes")


@lru_cache(maxsize=32)
def _built(config: KernelConfig, fast: bool) -> Path:
    platform = SIMULATION if fast else None
    verilog = kernel_verilog(config, cache=cache_folder(), platform=platform)
    return board_library(verilog, KERNEL, PORTS)


class RtlWindow(PipelineWindow):
    """Window keys as they lie in the kernel's memory."""

    def __init__(self, capacity: int, packing: Packing) -> None:
        super().__init__(capacity, packing.window_keys + packing.window_values)
        self._packing = packing
        self.memory: np.ndarray | None = np.zeros(packing.window_bytes(capacity), np.uint8)

    @property
    def freed(self) -> bool:
        return self.memory is None

    def _store(self, offset: int, count: int, columns: Sequence[np.ndarray]) -> None:
        rows = self._packing.window(columns)
        size = rows.shape[1]
        if self.memory is not None:
            self.memory[offset * size : (offset + count) * size] = rows.reshape(-1)

    def free(self) -> None:
        self.memory = None


class RtlKernel(PipelineKernel):
    """A program on Verilated kernels, one per lane."""

    def __init__(
        self,
        device: RtlDevice,
        program: Program,
        modes: frozenset[Mode],
        config: KernelConfig,
    ) -> None:
        super().__init__(program, modes, config.units, config.join.tests, device.count)
        self._device = device
        self._config = config
        self._most_flits = 1 << config.join.ordinal_bits
        described = table(config)
        self._least_words = described["geometry"]["least_result_words"]
        self._status = {value: name for name, value in described["status"].items()}
        self._modes = described["modes"]
        self._table = _table_arguments(program, config)
        columns, values = window_keys(program), 0
        if isinstance(program, BandProgram):
            values = columns - program.tests
        self.packing = Packing(described, window_keys=columns - values, window_values=values)
        path = _built(config, device.fast)
        boards = [Board(path, described, device.memory_of(lane)) for lane in range(device.lanes)]
        self._boards: SimpleQueue[Board] = SimpleQueue()
        for board in boards:
            self._boards.put(board)
        self._open = len(boards)

    def allocate(self, capacity: int) -> RtlWindow:
        return RtlWindow(capacity, self.packing)

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        return self._device.start(self._run, window, task)

    def close(self) -> None:
        """Wait for the kernel's tasks and free their simulations."""
        while self._open:
            self._boards.get().close()
            self._open -= 1

    def _execute(self, window: WindowBuffer, work: Work) -> Outcome:
        if not isinstance(window, RtlWindow) or window.memory is None:
            raise DeviceError("the window is not one of this kernel's, or was freed")
        if not self._open:
            raise DeviceError("the kernel was closed; open the program again")
        passes = self._config.plan(work.start, work.end)
        flits = sum(part.end - part.begin for part in passes)
        if flits > self._most_flits:
            raise DeviceError(
                f"the task takes {flits} window flits, more than {self._most_flits}; cut it"
            )
        header, words = self._simulate(window.memory, window.capacity, work, passes)
        counters = {name: header[name] for name in _COUNTERS}
        counters |= {"result_words": header["words"]}
        if work.mode is not Mode.PAIRS:
            folding = self._config.join.folding
            assert folding is not None
            given = self.packing.values(words, len(work.start))
            none = np.array([], np.int64)
            folds = read_folds(folding, work.mode, given, work.start)
            return Outcome(none, none, None, counters, folds)
        records = self.packing.records(words)
        paused = header["status"] == self._status_code("PAUSED")
        several = self._config.pipelines > 1
        seen = header["position"] if paused and several else flits
        keep, cut = _fit(records.ordinal, seen, work.room)
        stop = None if cut == flits else _stop(cut, work, passes)
        if stop is None and paused and not several:
            stop = Stop(header["complete"], header["loaded"], header["position"])
        i, j = recover(passes, work.start, self._units, records.unit[keep], records.ordinal[keep])
        return Outcome(i, j, stop, counters)

    def _simulate(
        self,
        window: np.ndarray,
        capacity: int,
        work: Work,
        passes: Sequence[Pass],
    ) -> tuple[dict[str, int], np.ndarray]:
        """Run a task on a kernel that is free; its header, and the words of its results."""
        packing = self.packing
        size = packing.word_bytes
        begin, end = (np.array([getattr(p, name) for p in passes]) for name in ("begin", "end"))
        counts = np.array([part.stop - part.first for part in passes])
        if work.mode is Mode.PAIRS:
            room = self._least_words + min(work.room, _RESULT_WORDS)
        else:
            room = -(-len(work.start) // packing.values_per_word)
        results = np.empty((room + 1) * size, np.uint8)
        memory = {
            _PASSES: packing.passes(counts, begin, end),
            _TUPLES: packing.tuples(work.columns, work.start, work.end),
            _WINDOW: window,
            _RESULTS: results,
        }
        arguments = {
            "passes": _PASSES,
            "tuples": _TUPLES,
            "window": _WINDOW,
            "results": _RESULTS,
            "pass_count": len(passes),
            "tuple_count": len(work.start),
            "window_count": capacity,
            "result_words": room,
            "mode": self._modes[work.mode.value],
            **self._table,
        }
        steps = int((end - begin).sum()) + len(work.start) + len(passes)
        board = self._boards.get()
        try:
            for address, part in memory.items():
                board.map(address, part)
            board.run(arguments, self._device.patience(steps))
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


def _fit(ordinal: np.ndarray, seen: int, room: int) -> tuple[np.ndarray, int]:
    """Which matches count, and the ordinal up to which they are all there.

    Matches below ``seen`` are there; where there are more than the room, the kernel having counted
    words and the contract counting pairs, what is too much is cut off at a window tuple.
    """
    keep = ordinal < seen
    there = ordinal[keep]
    if len(there) <= room:
        return keep, seen
    # The first ordinal whose matches do not all fit; those before it do.
    cut = int(np.partition(there, room)[room])
    return ordinal < cut, cut


def _stop(cut: int, work: Work, passes: Sequence[Pass]) -> Stop:
    """Where a task stops whose matches below an ordinal count."""
    upto = np.cumsum([part.end - part.begin for part in passes])
    number = int(np.searchsorted(upto, cut, side="right"))
    part = passes[number]
    position = part.end - int(upto[number]) + cut
    loaded = part.first + int(np.searchsorted(work.start[part.first : part.stop], position))
    complete = part.first + int(
        np.searchsorted(work.end[part.first : loaded], position, side="right")
    )
    return Stop(complete, loaded, position)


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


def _band_modes(program: BandProgram, modes: frozenset[Mode]) -> dict[str, Any]:
    """Modes of the build that serves a band program: few sets, so that programs share builds."""
    if modes <= PAIRS:
        return {}
    needed = value_bits(program, modes)
    if not needed:
        return {"modes": PAIRS | {Mode.COUNT, Mode.EXISTS}}
    width = next(bits for bits in _VALUE_BITS if bits >= needed)
    folding = frozenset(Mode) - {Mode.NEAREST}
    if width > _VALUE_BITS[0]:
        folding -= {Mode.SUM}
    return {"modes": folding, "value_bits": width}


class RtlDevice(PipelineDevice):
    """The kernel's Verilog, compiled by Verilator, with a model of its memory.

    The first program of a kind takes Verilator and a C++ compiler some ten seconds or more; what
    they make is kept on disk. A band kernel serves all programs with as many tests or fewer.

    Parameters
    ----------
    units : int
        Join units of a pipeline, in two blocks (more if a block would have more than 32).
    pipelines : int
        Pipelines of a kernel, each with so many units.
    lanes : int
        Kernels that run at the same time, each on a core.
    rows_depth : int
        Slots of each queue of the window-join operator, a power of two: the largest ROWS.
    banks : int
        Queue tuples that the window-join operator tests per cycle and side.
    fast : bool
        Leave the comparisons and sums of predicates to the simulator. The kernel is then not the
        exported Verilog to the letter, but its carry chains are proved to be comparisons
        (:mod:`penstock.hw.formal.compare`), and it is compiled and run several times as fast.
    latency_cycles, bandwidth, stalls, seed
        The memory, see :class:`penstock.sim.verilated.board.MemoryModel`.
    """

    name = "rtl"
    key_widths = (32, 64)
    #: About a second at half a million cycles per second, where sixteen units are well used.
    task_evaluations = 1 << 22

    def __init__(
        self,
        units: int = 16,
        *,
        pipelines: int = 1,
        lanes: int = 1,
        rows_depth: int = 1 << 16,
        banks: int = 8,
        fast: bool = False,
        latency_cycles: int = 0,
        bandwidth: float = 1.0,
        stalls: float = 0.0,
        seed: int = 0,
    ) -> None:
        check_range("lanes", lanes, 1, 64)
        super().__init__(units, pipelines)
        KernelConfig.fit(self._join_config(program=ANY_PROGRAM), pipelines)  # says what is wrong
        WindowConfig(depth=rows_depth, banks=banks)  # the same
        self._depth = rows_depth
        self._banks = banks
        self.lanes = lanes
        self.fast = fast
        self._memory = MemoryModel(
            latency_cycles=latency_cycles, bandwidth=bandwidth, stalls=stalls, seed=seed
        )
        Tools.find()
        self._threads = ThreadPoolExecutor(lanes, thread_name_prefix="penstock-rtl")
        self._kernels: list[RtlKernel | RtlWindowKernel] = []

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> RtlKernel:
        self._check_program(program, modes)
        if isinstance(program, BandProgram):
            join = self._join_config(
                tests=next(tests for tests in _BUILDS if tests >= program.tests),
                key_bits=next(bits for bits in self.key_widths if bits >= program.key_bits),
                **_band_modes(program, modes),
            )
        else:
            join = self._join_config(program=program, modes=modes | PAIRS)
        kernel = RtlKernel(self, program, modes, KernelConfig.fit(join, self._pipelines))
        with self._lock:
            self._kernels.append(kernel)
        return kernel

    def refuses_window_join(self, program: WindowProgram, rows: tuple[int, int]) -> str | None:
        for part in (program.a, program.b):
            if isinstance(part, GeneralProgram):
                return (
                    "the window-join operator has band tests only, and this predicate is in "
                    "general form; use the range operator"
                )
            if reason := self.refuses(part):
                return reason
        if max(rows) > self._depth:
            return (
                f"its queues hold {self._depth} rows, fewer than {max(rows)}; open it with a "
                "larger rows_depth (--rows-depth)"
            )
        return None

    def open_window_join(self, program: WindowProgram, rows: tuple[int, int]) -> WindowKernel:
        if reason := self.refuses_window_join(program, rows):
            raise DeviceError(f"the {self.name} device cannot do this window join: {reason}")
        parts = [part for part in (program.a, program.b) if isinstance(part, BandProgram)]
        tests, bits = (max(getattr(part, name) for part in parts) for name in ("tests", "key_bits"))
        window = WindowConfig(
            depth=self._depth,
            banks=self._banks,
            tests=next(number for number in _BUILDS if number >= tests),
            key_bits=next(width for width in self.key_widths if width >= bits),
        )
        kernel = RtlWindowKernel(self, program, WindowKernelConfig(window=window))
        with self._lock:
            self._kernels.append(kernel)
        return kernel

    def start(self, run: Any, *arguments: Any) -> Future[Any]:
        """Run a task in a thread of the device."""
        return self._threads.submit(run, *arguments)

    def memory_of(self, lane: int) -> MemoryModel:
        """The memory of a lane; random stalls differ from lane to lane."""
        return replace(self._memory, seed=(self._memory.seed + lane) % (1 << 32))

    def patience(self, flits: int) -> int:
        """Cycles after which a task with so many flits counts as hung."""
        return self.slowed(_PATIENCE_CYCLES + _PATIENCE * flits)

    def slowed(self, cycles: int) -> int:
        """Cycles that so many may become because of the memory."""
        memory = self._memory
        slowness = (1 + memory.latency_cycles) / memory.bandwidth / (1 - memory.stalls)
        return int(cycles * max(slowness, 1.0))

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        for kernel in self._kernels:
            kernel.close()
        self._kernels.clear()
