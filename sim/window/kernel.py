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
from penstock.host.device.window_join import WindowKernel, WindowResult, WindowTask
from penstock.host.device.window_ranges import check_task
from penstock.hw.hls.compare import SIMULATION
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.hw.window.kernel.describe import table
from penstock.hw.window.kernel.export import window_kernel_verilog
from penstock.hw.window.kernel.kernel import KERNEL, PORTS
from penstock.hw.window.kernel.tables import table_words
from penstock.program import BandProgram, WindowProgram
from penstock.sim.verilated.board import Board, MemoryModel
from penstock.sim.verilated.build import board_library, cache_folder
from penstock.sim.window.packing import WindowPacking

#: Where a task's memory is, far apart so that an address that runs away meets nothing.
_TUPLES, _RESULTS = (part << 40 for part in (1, 2))

#: Most results of a task beyond what the kernel insists on, 16 MiB: what is given to the kernel for
#: each task in flight. A task that needs more pauses.
_RESULTS_OF_A_TASK = 1 << 21

#: Cycles that a task takes besides its rounds and results: tables, latencies, the header.
_FIXED_CYCLES = 4096

#: Counters of the header that a result carries.
_COUNTERS = ("cycles", "results", "output_waits", "memory_waits")


class Lender(Protocol):
    """What the rtl device lends to its kernels."""

    lanes: int
    fast: bool

    def start(self, run: Callable, *arguments: Any) -> Future:
        """Run a task in a thread of the device."""
        ...

    def memory_of(self, lane: int) -> MemoryModel:
        """The memory of a lane."""
        ...

    def slowed(self, cycles: int) -> int:
        """Cycles that so many may become because of the memory."""
        ...

    def count(self, counters: dict[str, int]) -> None:
        """Add a task's counters to the device's."""
        ...


@lru_cache(maxsize=32)
def _built(config: WindowKernelConfig, fast: bool) -> Path:
    platform = SIMULATION if fast else None
    verilog = window_kernel_verilog(config, cache=cache_folder(), platform=platform)
    return board_library(verilog, KERNEL, PORTS)


class RtlWindowKernel(WindowKernel):
    """A window program on Verilated kernels, one per lane."""

    def __init__(self, device: Lender, program: WindowProgram, config: WindowKernelConfig) -> None:
        super().__init__(program)
        self._device = device
        self._config = config
        described = table(config)
        self._packing = WindowPacking(described)
        self._status = {value: name for name, value in described["status"].items()}
        self._tables = _table_arguments(program, config)
        path = _built(config, device.fast)
        self._boards: SimpleQueue[Board] = SimpleQueue()
        for lane in range(device.lanes):
            self._boards.put(Board(path, described, device.memory_of(lane)))
        self._open = device.lanes

    def min_room(self, rows: tuple[int, int]) -> int:
        return self._packing.least_room(rows)

    def submit(self, task: WindowTask) -> Future[WindowResult]:
        return self._device.start(self._run, task)

    def close(self) -> None:
        """Wait for the kernel's tasks and free their simulations."""
        while self._open:
            self._boards.get().close()
            self._open -= 1

    def _run(self, task: WindowTask) -> WindowResult:
        check_task(task)
        if not self._open:
            raise DeviceError("the kernel was closed; open the program again")
        if task.room < self.min_room(task.rows):
            raise DeviceError(
                f"a task needs room for {self.min_room(task.rows)} pairs, not {task.room}"
            )
        tuples, window = task.tuples, self._config.window
        start, end = tuples.met(task.rows)
        end[: task.history] = start[: task.history]
        facts = {
            "banks": window.banks,
            "depth": window.depth,
            "rows_a": task.rows[0],
            "rows_b": task.rows[1],
        }
        if not len(tuples):
            none = np.zeros(0, np.uint32)
            return WindowResult(none, none, 0, {"evaluations": 0, **facts})
        header, words = self._simulate(task)
        done = header["tuples"]
        numbers = self._packing.results(words, header["results"])
        a, b = (tuples.number[numbers[side]].astype(np.uint32) for side in (0, 1))
        counters = {"evaluations": int((end - start)[:done].sum())}
        counters |= {name: header[name] for name in _COUNTERS}
        counters |= {"tuples": max(done - task.history, 0), "history": min(done, task.history)}
        self._device.count(counters)
        return WindowResult(a, b, done, {**counters, **facts})

    def _simulate(self, task: WindowTask) -> tuple[dict[str, int], np.ndarray]:
        """Run a task on a kernel that is free; its header, and the words of its results."""
        packing = self._packing
        size = packing.word_bytes
        room = packing.words(min(task.room, self.min_room(task.rows) + _RESULTS_OF_A_TASK))
        results = np.empty((room + 1) * size, np.uint8)
        arguments = {
            "tuples": _TUPLES,
            "results": _RESULTS,
            "tuple_count": len(task.tuples),
            "history_count": task.history,
            "result_words": room,
            "rows_a": task.rows[0],
            "rows_b": task.rows[1],
            **self._tables,
        }
        board = self._boards.get()
        try:
            board.map(_TUPLES, packing.tuples(task.tuples))
            board.map(_RESULTS, results)
            board.run(arguments, self._device.slowed(self.cycle_bound(task)))
        finally:
            board.unmap()
            self._boards.put(board)
        header = packing.header(results[:size])
        status = self._status.get(header["status"], str(header["status"]))
        if status not in ("OK", "PAUSED"):
            raise DeviceError(f"the kernel ended the task with status {status}")
        return header, results[size : (header["words"] + 1) * size]

    def cycle_bound(self, task: WindowTask) -> int:
        """Cycles within which a task ends in front of ideal memory.

        Each tuple may need a round of its own, each pair may be a result, and each of both may
        have to wait for a burst.
        """
        window, history = self._config.window, task.history
        start, end = task.tuples.met(task.rows)
        rounds = history * window.round_cycles(0, 0)
        rounds += (len(task.tuples) - history) * window.round_cycles(*task.rows)
        pairs = int((end - start)[history:].sum())
        return 4 * (rounds + pairs + len(task.tuples)) + _FIXED_CYCLES


def _table_arguments(program: WindowProgram, config: WindowKernelConfig) -> dict[str, int]:
    """Registers of the truth tables. Tests that a program lacks do not matter."""
    arguments = {}
    for side, part in (("a", program.a), ("b", program.b)):
        assert isinstance(part, BandProgram)
        own = (1 << part.tests) - 1
        entries = sum(
            (part.table >> (index & own) & 1) << index for index in range(1 << config.window.tests)
        )
        for word in range(table_words(config.window)):
            arguments[f"table_{side}_{word}"] = entries >> 32 * word & 0xFFFFFFFF
    return arguments
