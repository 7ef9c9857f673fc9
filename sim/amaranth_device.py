"""The join pipeline in Amaranth's simulator, as a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Device, Kernel, Pause, Result, Task, WindowBuffer
from penstock.hw.hls.check import refusal
from penstock.hw.join.config import MAX_UNITS_PER_BLOCK, JoinConfig
from penstock.program import MAX_BAND_TESTS, BandProgram, GeneralProgram, Mode, Program
from penstock.sim._pipeline import Cycle, PipelineSimulator, Run


@lru_cache(maxsize=16)
def _shared_simulator(config: JoinConfig) -> PipelineSimulator:
    """Simulators without files hold no task between tasks, so equal builds share one."""
    return PipelineSimulator(config)


def _widths(program: Program) -> tuple[list[int], list[int]]:
    """Bits of each stream key and of each window key, in the order of the pipeline."""
    if isinstance(program, BandProgram):
        return [program.key_bits] * (2 * program.tests), [program.key_bits] * program.tests
    return [t.bits for t in program.stream], [t.bits for t in program.window]


def _pack(columns: Sequence[np.ndarray], widths: Sequence[int]) -> list[int]:
    """One integer per row, the first column lowest."""
    rows = [0] * (len(columns[0]) if columns else 0)
    offset = 0
    for column, bits in zip(columns, widths, strict=True):
        mask = (1 << bits) - 1
        rows = [
            row | (int(value) & mask) << offset
            for row, value in zip(rows, column.tolist(), strict=True)
        ]
        offset += bits
    return rows


class AmaranthWindow(WindowBuffer):
    """Window keys as the pipeline reads them: one integer per tuple."""

    def __init__(self, capacity: int, widths: Sequence[int]) -> None:
        if capacity < 0:
            raise DeviceError(f"a window cannot have room for {capacity} tuples")
        super().__init__(capacity)
        self._widths = widths
        self.rows: list[int] | None = [0] * capacity

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        if self.rows is None:
            raise DeviceError("the window was freed; allocate another one")
        if len(columns) != len(self._widths):
            raise DeviceError(
                f"the program has {len(self._widths)} window keys, not {len(columns)}"
            )
        count = len(columns[0]) if columns else 0
        if any(len(column) != count for column in columns):
            raise DeviceError("window keys must have equal lengths")
        if not 0 <= offset <= offset + count <= self.capacity:
            raise DeviceError(
                f"{count} tuples at position {offset} do not fit a window of {self.capacity}"
            )
        self.rows[offset : offset + count] = _pack(columns, self._widths)

    def free(self) -> None:
        self.rows = None


class AmaranthKernel(Kernel):
    """A program on a simulated pipeline."""

    def __init__(
        self, device: AmaranthDevice, program: Program, simulator: PipelineSimulator
    ) -> None:
        super().__init__(program)
        self._device = device
        self._simulator = simulator
        self._stream_widths, self._window_widths = _widths(program)
        #: Room for the matches of one window tuple, the smallest step that can be paused.
        self.min_room = simulator.config.units

    def allocate(self, capacity: int) -> AmaranthWindow:
        return AmaranthWindow(capacity, self._window_widths)

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(self._run(window, task))
        except DeviceError as error:
            future.set_exception(error)
        return future

    def _run(self, window: WindowBuffer, task: Task) -> Result:
        if not isinstance(window, AmaranthWindow) or window.rows is None:
            raise DeviceError("the window is not one of this kernel's, or was freed")
        self._check(window, task)
        start = np.asarray(task.start, dtype=np.int64)
        end = np.asarray(task.end, dtype=np.int64)
        kept = np.flatnonzero(start < end)
        if len(kept) == 0:
            return self._result(np.array([], int), np.array([], int), None, {"evaluations": 0})
        run = self._simulator.run(
            tuples=_pack([column[kept] for column in self._in_order(task)], self._stream_widths)
            or [0] * len(kept),
            start=start[kept],
            end=end[kept],
            window=window.rows,
            table=self.program.table if isinstance(self.program, BandProgram) else 0,
            room=task.room,
        )
        self._device.trace = run.trace
        pause = None
        until = end.copy()
        if run.complete < len(kept):
            rows = np.append(kept, task.rows)
            pause = Pause(int(rows[run.complete]), int(rows[run.loaded]), run.position)
            until[pause.i0 : pause.i1] = np.minimum(end[pause.i0 : pause.i1], pause.p)
            until[pause.i1 :] = 0
        evaluations = int(np.maximum(until - start, 0).sum())
        return self._result(kept[run.i], run.j, pause, _counters(run, evaluations))

    def _result(
        self, i: np.ndarray, j: np.ndarray, pause: Pause | None, counters: dict[str, int]
    ) -> Result:
        self._device.count(counters)
        units = {"units": self._simulator.config.units}
        return Result(i.astype(np.uint32), j.astype(np.uint32), pause, counters | units)

    def _in_order(self, task: Task) -> Sequence[np.ndarray]:
        """All low bounds before all high bounds, as the pipeline loads them."""
        if isinstance(self.program, BandProgram):
            return [*task.stream[::2], *task.stream[1::2]]
        return task.stream

    def _check(self, window: AmaranthWindow, task: Task) -> None:
        if len(task.stream) != len(self._stream_widths):
            raise DeviceError(
                f"the program has {len(self._stream_widths)} stream columns, not {len(task.stream)}"
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


def _counters(run: Run, evaluations: int) -> dict[str, int]:
    return {
        "evaluations": evaluations,
        "cycles": run.cycles,
        "window_flits": run.window_flits,
        "passes": run.passes,
        "admission_stalls": run.admission_stalls,
    }


class AmaranthDevice(Device):
    """Cycle-accurate simulation of the join pipeline, with waveforms on request.

    Slow: some thousand cycles per second. Tasks run one after another, in the thread that
    submits them.

    Parameters
    ----------
    units : int
        Join units, in two blocks (more if a block would have more than 32).
    vcd : path, optional
        Waveforms of the first program opened; further ones go to files numbered from 2.
    trace : bool
        Whether ``device.trace`` keeps the cycles of the latest task: the flit at the head and the
        number of active units.
    """

    name = "amaranth"
    lanes = 1
    key_widths = (8, 16, 24, 32, 48, 64)

    def __init__(
        self, units: int = 8, vcd: Path | str | None = None, *, trace: bool = False
    ) -> None:
        self._units = units
        self._vcd = None if vcd is None else Path(vcd)
        self._trace = trace
        self.trace: list[Cycle] = []
        self._private: list[PipelineSimulator] = []
        self._sums: Counter[str] = Counter()
        self._lock = Lock()
        self._config(tests=1)  # says now what is wrong with the number of units

    def _config(self, **program: Any) -> JoinConfig:
        half = -(-self._units // 2) if isinstance(self._units, int) else MAX_UNITS_PER_BLOCK
        return JoinConfig(
            units=self._units,
            units_per_block=min(max(half, 1), MAX_UNITS_PER_BLOCK),
            **program,
        )

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

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> AmaranthKernel:
        if reason := self.refuses(program, modes):
            raise DeviceError(f"the {self.name} device cannot run this program: {reason}")
        if isinstance(program, BandProgram):
            config = self._config(tests=program.tests, key_bits=program.key_bits)
        else:
            config = self._config(program=program)
        return AmaranthKernel(self, program, self._simulator(config))

    def _simulator(self, config: JoinConfig) -> PipelineSimulator:
        if self._vcd is None and not self._trace:
            return _shared_simulator(config)
        with self._lock:
            for simulator in self._private:
                if simulator.config == config:
                    return simulator
            path = self._vcd
            if path is not None and self._private:
                path = path.with_stem(f"{path.stem}-{len(self._private) + 1}")
            simulator = PipelineSimulator(config, vcd=path, trace=self._trace)
            self._private.append(simulator)
            return simulator

    def count(self, counters: dict[str, int]) -> None:
        """Add a task's counters to the device's."""
        with self._lock:
            self._sums.update(counters)

    def counters(self) -> dict[str, int]:
        with self._lock:
            return {**self._sums, "units": self._units}

    def close(self) -> None:
        for simulator in self._private:
            simulator.close()
        self._private.clear()
