"""The join pipeline in Amaranth's simulator, as a device."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Kernel, Result, Task, WindowBuffer
from penstock.host.devices.kernel.pipeline_task import (
    PipelineKernel,
    PipelineTask,
    PipelineWindow,
    Stop,
    TaskOutcome,
    read_folds,
)
from penstock.host.devices.narrow.kernel import open_narrow, units_of
from penstock.hw.join.config import JoinConfig
from penstock.program import AnyProgram, BandProgram, Mode, Program, WindowProgram

from ._pipeline import Cycle, PipelineSimulator, Run
from .pipeline_device import PipelineDevice, value_bits


@lru_cache(maxsize=16)
def _shared_simulator(config: JoinConfig) -> PipelineSimulator:
    """A simulator that writes no file. Equal builds share one: it has no state between tasks."""
    return PipelineSimulator(config)


def _widths(program: Program, config: JoinConfig) -> tuple[list[int], list[int]]:
    """Bits of each stream key and of each window column, in the order of the pipeline.

    A value that no mode of the build folds has no bits.
    """
    if isinstance(program, BandProgram):
        value = [] if program.payload is None else [config.value_bits]
        stream = [program.key_bits] * (2 * program.tests)
        return stream, [program.key_bits] * program.tests + value
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


class AmaranthWindow(PipelineWindow):
    """Window keys as the pipeline reads them: one integer per tuple."""

    def __init__(self, capacity: int, widths: Sequence[int]) -> None:
        super().__init__(capacity, len(widths))
        self._widths = widths
        self.rows: list[int] | None = [0] * capacity

    @property
    def freed(self) -> bool:
        return self.rows is None

    def _store(self, offset: int, count: int, columns: Sequence[np.ndarray]) -> None:
        if self.rows is not None:
            self.rows[offset : offset + count] = _pack(columns, self._widths)

    def free(self) -> None:
        self.rows = None


class AmaranthKernel(PipelineKernel):
    """A program on a simulated pipeline."""

    def __init__(
        self,
        device: AmaranthDevice,
        program: Program,
        modes: frozenset[Mode],
        simulator: PipelineSimulator,
    ) -> None:
        config = simulator.config
        super().__init__(program, modes, config.units, config.tests, device.count)
        self._device = device
        self._simulator = simulator
        self._stream_widths, self._window_widths = _widths(program, config)

    def allocate(self, capacity: int) -> AmaranthWindow:
        return AmaranthWindow(capacity, self._window_widths)

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(self._run(window, task))
        except DeviceError as error:
            future.set_exception(error)
        return future

    def _execute(self, window: WindowBuffer, work: PipelineTask) -> TaskOutcome:
        if not isinstance(window, AmaranthWindow) or window.rows is None:
            raise DeviceError("the window is not one of this kernel's, or was freed")
        rows = len(work.start)
        run = self._simulator.run(
            tuples=_pack(work.columns, self._stream_widths) or [0] * rows,
            start=work.start,
            end=work.end,
            window=window.rows,
            table=self.program.table if isinstance(self.program, BandProgram) else 0,
            room=work.room if work.mode is Mode.PAIRS else None,
            mode=work.mode,
        )
        self._device.trace = run.trace
        stop = folds = None
        if run.complete < rows:
            stop = Stop(run.complete, run.loaded, run.position)
        if (folding := self._simulator.config.folding) and work.mode is not Mode.PAIRS:
            folds = read_folds(
                folding.fields, folding.operand_bits, work.mode, run.values, work.start
            )
        return TaskOutcome(run.i, run.j, stop, _counters(run), folds)


def _counters(run: Run) -> dict[str, int]:
    return {
        "cycles": run.cycles,
        "window_flits": run.window_flits,
        "passes": run.passes,
        "admission_stalls": run.admission_stalls,
    }


class AmaranthDevice(PipelineDevice):
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
    key_bits : int, optional
        Widest codes of the units; programs of wider ones run on them for pairs.
    """

    name = "amaranth"
    lanes = 1
    key_widths = (8, 16, 24, 32, 48, 64)
    #: Some seconds at a thousand cycles per second.
    task_evaluations = 1 << 15

    def __init__(
        self,
        units: int = 8,
        vcd: Path | str | None = None,
        *,
        trace: bool = False,
        key_bits: int | None = None,
    ) -> None:
        super().__init__(units, key_bits=key_bits)
        self._vcd = None if vcd is None else Path(vcd)
        self._trace = trace
        self.trace: list[Cycle] = []
        self._private: list[PipelineSimulator] = []

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        self._check_program(program, modes)
        assert not isinstance(program, WindowProgram)
        if isinstance(program, BandProgram) and (bits := units_of(program, modes, self._key_bits)):
            return open_narrow(program, bits, self.open, self.count)
        build = {"modes": modes | PAIRS, "value_bits": value_bits(program, modes)}
        if isinstance(program, BandProgram):
            config = self._join_config(tests=program.tests, key_bits=program.key_bits, **build)
        else:
            config = self._join_config(program=program, **build)
        return AmaranthKernel(self, program, modes, self._simulator(config))

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

    def close(self) -> None:
        for simulator in self._private:
            simulator.close()
        self._private.clear()
