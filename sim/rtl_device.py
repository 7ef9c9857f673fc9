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
from penstock.host.device.base import PAIRS, Kernel, Result, Task, WindowBuffer
from penstock.host.devices.kernel.driver import JoinKernelTask, KernelDriver
from penstock.host.devices.kernel.packing import Packing
from penstock.host.devices.kernel.pipeline_task import (
    PipelineKernel,
    PipelineTask,
    PipelineWindow,
    TaskOutcome,
)
from penstock.host.devices.kernel.window_driver import operator_refusal
from penstock.host.devices.narrow.kernel import narrow_refusal, open_narrow, units_of
from penstock.hw.checks import check_range
from penstock.hw.export import kernel_verilog
from penstock.hw.hls.compare import SIMULATION
from penstock.hw.join.config import MAX_VALUE_BITS
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import KERNEL, PORTS, table
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.program import AnyProgram, BandProgram, Mode, Program, WindowProgram

from .pipeline_device import ANY_PROGRAM, PipelineDevice, value_bits
from .verilated.compile_kernel import Tools, board_library, cache_folder
from .verilated.verilated_board import Board, MemoryModel
from .window.kernel import RtlWindowKernel

#: Addresses of a task's memory, far apart: one that runs over hits no other memory.
_ADDRESSES = {"passes": 1 << 40, "tuples": 2 << 40, "window": 3 << 40, "results": 4 << 40}

#: Result words that each task in flight gets, 16 MiB, beyond the fewest that the kernel takes. A
#: task that needs more pauses.
_RESULT_WORDS = 1 << 18

#: Numbers of band tests that kernels are built with. A kernel runs programs with fewer, too.
_BUILDS = (1, 2, 4, 8)

#: Widths of values that band kernels are built with; only the narrow ones can be summed.
_VALUE_BITS = (32, MAX_VALUE_BITS)

#: Cycles per flit, pass and so on after which a task counts as hung; slow memory is allowed more.
_PATIENCE, _PATIENCE_CYCLES = 200, 1_000_000


@lru_cache(maxsize=32)
def _built(config: KernelConfig, fast: bool) -> Path:
    platform = SIMULATION if fast else None
    verilog = kernel_verilog(config, cache=cache_folder(), platform=platform)
    return board_library(verilog, KERNEL, PORTS, config.word_bytes)


class RtlWindow(PipelineWindow):
    """Window keys in the layout of the kernel's memory."""

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
        described = table(config)
        self._driver = KernelDriver(described, program, _RESULT_WORDS)
        path = _built(config, device.fast)
        boards = [Board(path, described, device.memory_of(lane)) for lane in range(device.lanes)]
        self._boards: SimpleQueue[Board] = SimpleQueue()
        for board in boards:
            self._boards.put(board)
        self._open = len(boards)
        # The window port of each kernel has a bank of its own (penstock.hw.kernel.link), which the
        # memory's switch lets the other kernels reach.
        self.banks = device.lanes

    def allocate(self, capacity: int) -> RtlWindow:
        return RtlWindow(capacity, self._driver.packing)

    def allocate_in(self, bank: int, capacity: int) -> RtlWindow:
        if not 0 <= bank < self.banks:
            raise DeviceError(f"there is no memory bank {bank}; banks are 0 to {self.banks - 1}")
        return self.allocate(capacity)

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        return self._device.start(self._run, window, task)

    def close(self) -> None:
        """Wait for the kernel's tasks and free their simulations."""
        while self._open:
            self._boards.get().close()
            self._open -= 1

    def _execute(self, window: WindowBuffer, work: PipelineTask) -> TaskOutcome:
        if not isinstance(window, RtlWindow) or window.memory is None:
            raise DeviceError("the window is not one of this kernel's, or was freed")
        if not self._open:
            raise DeviceError("the kernel was closed; open the program again")
        job = self._driver.job(work, window.capacity)
        results = self._simulate(job, window.memory)
        return self._driver.outcome(job, results)

    def _simulate(self, job: JoinKernelTask, window: np.ndarray) -> np.ndarray:
        """Run a task on a free kernel; gives the memory with its results."""
        results = np.empty(job.result_bytes, np.uint8)
        memory = {**job.images, "window": window, "results": results}
        board = self._boards.get()
        try:
            for name, part in memory.items():
                board.map(_ADDRESSES[name], part)
            board.run({**_ADDRESSES, **job.arguments}, self._device.patience(job.steps))
        finally:
            board.unmap()
            self._boards.put(board)
        return results


def _band_modes(program: BandProgram, modes: frozenset[Mode]) -> dict[str, Any]:
    """Modes of a band program's build: one of a few sets, so that programs share builds."""
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
    key_bits : int, optional
        Widest codes of the units; programs of wider ones run on them for pairs. By default the
        program says which units it asks for.
    word_bits : int
        Width of the kernel's memory ports: 64, 128, 256 or 512.
    fast : bool
        Leave the comparisons and sums of predicates to the simulator. The kernel is then not the
        exported Verilog to the letter, but its carry chains are proved to be comparisons
        (tests/hw/formal), and it is compiled and run several times as fast.
    latency_cycles, bandwidth, stalls, seed
        The memory, see :class:`penstock.sim.verilated.verilated_board.MemoryModel`.
    """

    name = "rtl"
    key_widths = (16, 24, 32, 64)
    #: About a second at half a million cycles per second, with sixteen units busy.
    task_evaluations = 1 << 22

    def __init__(
        self,
        units: int = 16,
        *,
        pipelines: int = 1,
        lanes: int = 1,
        rows_depth: int = 1 << 16,
        banks: int = 8,
        key_bits: int | None = None,
        word_bits: int = 512,
        fast: bool = False,
        latency_cycles: int = 0,
        bandwidth: float = 1.0,
        stalls: float = 0.0,
        seed: int = 0,
    ) -> None:
        check_range("lanes", lanes, 1, 64)
        super().__init__(units, pipelines, key_bits)
        self._word_bits = word_bits
        # These say what is wrong.
        KernelConfig.fit(self._join_config(program=ANY_PROGRAM), pipelines, word_bits)
        WindowConfig(depth=rows_depth, banks=banks)
        self._depth = rows_depth
        self._banks = banks
        self.lanes = lanes
        self.fast = fast
        self._memory = MemoryModel(
            latency_cycles=latency_cycles, bandwidth=bandwidth, stalls=stalls, seed=seed
        )
        Tools.find()
        self._threads = ThreadPoolExecutor(lanes, thread_name_prefix="penstock-rtl")
        self._kernels: list[Kernel] = []

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        self._check_program(program, modes)
        if isinstance(program, BandProgram) and (bits := units_of(program, modes, self._key_bits)):
            return open_narrow(program, bits, self.open, self.count)
        if isinstance(program, WindowProgram):
            kernel = RtlWindowKernel(self, program, self._window_build(program))
        else:
            kernel = RtlKernel(self, program, modes, self.build_for(program, modes))
        with self._lock:
            self._kernels.append(kernel)
        return kernel

    def build_for(self, program: Program, modes: frozenset[Mode] = PAIRS) -> KernelConfig:
        """The build that a program runs on.

        Raises
        ------
        DeviceError
            The device refuses the program.
        """
        self._check_program(program, modes)
        if isinstance(program, BandProgram):
            join = self._join_config(
                tests=next(tests for tests in _BUILDS if tests >= program.tests),
                key_bits=next(bits for bits in self.key_widths if bits >= program.key_bits),
                **_band_modes(program, modes),
            )
        else:
            join = self._join_config(program=program, modes=modes | PAIRS)
        return KernelConfig.fit(join, self._pipelines, self._word_bits)

    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        if not isinstance(program, WindowProgram):
            return super().refuses(program, modes)
        reason = (
            operator_refusal(program, modes)
            or (narrow_refusal(program, modes, self._key_bits) if self._key_bits else None)
            or self.refuses(program.a)
            or self.refuses(program.b)
        )
        if reason is None and max(program.rows) > self._depth:
            return (
                f"its queues hold {self._depth} rows, fewer than {max(program.rows)}; open it with "
                "a larger rows_depth (--rows-depth)"
            )
        return reason

    def _window_build(self, program: WindowProgram) -> WindowKernelConfig:
        parts = [part for part in (program.a, program.b) if isinstance(part, BandProgram)]
        tests, bits = (max(getattr(part, name) for part in parts) for name in ("tests", "key_bits"))
        window = WindowConfig(
            depth=self._depth,
            banks=self._banks,
            tests=next(number for number in _BUILDS if number >= tests),
            key_bits=next(width for width in self.key_widths if width >= bits),
        )
        return WindowKernelConfig(window=window, word_bits=self._word_bits)

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
        """Upper bound of a number of cycles with this memory."""
        memory = self._memory
        slowness = (1 + memory.latency_cycles) / memory.bandwidth / (1 - memory.stalls)
        return int(cycles * max(slowness, 1.0))

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        for kernel in self._kernels:
            kernel.close()
        self._kernels.clear()
