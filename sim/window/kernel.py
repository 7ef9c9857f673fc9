"""The memory-fed window kernel, compiled by Verilator, behind the device contract."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import Result
from penstock.host.device.window_join import WindowTask
from penstock.host.devices.kernel.window_driver import (
    DrivenWindowKernel,
    WindowDriver,
    WindowKernelTask,
)
from penstock.hw.hls.compare import SIMULATION
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.hw.window.kernel.describe import KERNEL, PORTS, table
from penstock.hw.window.kernel.export import window_kernel_verilog
from penstock.program import WindowProgram

from ..verilated.compile_kernel import board_library, cache_folder
from ..verilated.verilated_board import Board, MemoryModel

#: Addresses of a task's memory, far apart: one that runs over hits no other memory.
_ADDRESSES = {"tuples": 1 << 40, "results": 2 << 40}

#: Results that each task in flight gets room for, 16 MiB, beyond the fewest that the kernel takes.
#: A task that needs more pauses.
_RESULTS_OF_A_TASK = 1 << 21

#: Cycles that a task takes besides its rounds and results: tables, latencies, the header.
_FIXED_CYCLES = 4096


class Lender(Protocol):
    """The part of the rtl device that its kernels use."""

    lanes: int
    fast: bool

    def start(self, run: Callable, *arguments: Any) -> Future:
        """Run a task in a thread of the device."""
        ...

    def memory_of(self, lane: int) -> MemoryModel:
        """The memory of a lane."""
        ...

    def slowed(self, cycles: int) -> int:
        """Upper bound of a number of cycles with this memory."""
        ...

    def count(self, counters: dict[str, int]) -> None:
        """Add a task's counters to the device's."""
        ...


@lru_cache(maxsize=32)
def _built(config: WindowKernelConfig, fast: bool) -> Path:
    platform = SIMULATION if fast else None
    verilog = window_kernel_verilog(config, cache=cache_folder(), platform=platform)
    return board_library(verilog, KERNEL, PORTS, config.word_bytes)


class RtlWindowKernel(DrivenWindowKernel):
    """A window program on Verilated kernels, one per lane."""

    def __init__(self, device: Lender, program: WindowProgram, config: WindowKernelConfig) -> None:
        described = table(config)
        super().__init__(
            WindowDriver(described, program, _RESULTS_OF_A_TASK), program, device.count
        )
        self._device = device
        self._config = config
        path = _built(config, device.fast)
        self._boards: SimpleQueue[Board] = SimpleQueue()
        for lane in range(device.lanes):
            self._boards.put(Board(path, described, device.memory_of(lane)))
        self._open = device.lanes

    def submit(self, window: None, task: WindowTask) -> Future[Result]:
        return self._device.start(self._run, task)

    def close(self) -> None:
        """Wait for the kernel's tasks and free their simulations."""
        while self._open:
            self._boards.get().close()
            self._open -= 1

    def _execute(self, job: WindowKernelTask) -> np.ndarray:
        """Run a task on a kernel that is free."""
        if not self._open:
            raise DeviceError("the kernel was closed; open the program again")
        results = np.empty(job.result_bytes, np.uint8)
        board = self._boards.get()
        try:
            for name, part in {**job.images, "results": results}.items():
                board.map(_ADDRESSES[name], part)
            patience = self._device.slowed(self.cycle_bound(job.task))
            board.run({**_ADDRESSES, **job.arguments}, patience)
        finally:
            board.unmap()
            self._boards.put(board)
        return results

    def cycle_bound(self, task: WindowTask) -> int:
        """Cycles within which a task ends in front of ideal memory.

        Each tuple may need a round of its own, each pair may be a result, and each of these may
        have to wait for a burst.
        """
        window, rows = self._config.window, self.program.rows
        rounds = task.history * window.round_cycles(0, 0)
        rounds += (task.rows - task.history) * window.round_cycles(*rows)
        return 4 * (rounds + task.evaluations(rows) + task.rows) + _FIXED_CYCLES
