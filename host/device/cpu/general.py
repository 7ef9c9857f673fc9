"""The general kernel: compiled from the program's DAG, or interpreted where that is impossible."""

from __future__ import annotations

import numpy as np

from penstock.expr.columns import Vector, evaluate_columns, int_vector
from penstock.host.device.base import Result, Task
from penstock.host.device.cpu.codegen import NotCompilable, generate
from penstock.host.device.cpu.kernel import CpuKernel, Host, Output
from penstock.host.device.cpu.loops import COUNT, EDGE, FIRST, LAST, POSITION, next_tile
from penstock.host.device.cpu.source_cache import load_source
from penstock.host.device.cpu.vector import GRANULE
from penstock.host.device.storage import storage_dtype
from penstock.program import GeneralProgram
from penstock.types import Type

#: Stream tuples per block.
BLOCK_ROWS = 256
#: Window keys per tile in bytes: half of a 32 KiB first-level data cache.
TILE_BYTES = 16 * 1024
#: Outcomes that are computed before they are looked at, one byte each.
FLAGS = 8 * GRANULE
#: Interpreted tiles are held in memory whole: about 100,000 pairs, a few megabytes per step.
INTERPRETED_ROWS, INTERPRETED_TILE = 64, 1024


def general_kernel(program: GeneralProgram, host: Host) -> CpuKernel:
    """The fastest kernel that computes the program exactly."""
    try:
        return CompiledKernel(program, host)
    except NotCompilable:
        return InterpretedKernel(program, host)


class CompiledKernel(CpuKernel):
    """A general program compiled by Numba.

    Raises
    ------
    NotCompilable
        The program needs more than machine integers.
    """

    program: GeneralProgram

    def __init__(self, program: GeneralProgram, host: Host) -> None:
        stream = [storage_dtype(dtype) for dtype in program.stream]
        window = [storage_dtype(dtype) for dtype in program.window]
        super().__init__(program, host, stream, window)
        self._module = load_source(generate(program))
        row_bytes = sum(dtype.itemsize for dtype in window)
        self._tile = max(TILE_BYTES // max(row_bytes, 1), FLAGS)
        none = np.zeros(0, np.int64)
        # Compile now, or load what an earlier process compiled; not in the first task.
        self._run(
            tuple(np.zeros(0, dtype) for dtype in window),
            Task([np.zeros(0, dtype) for dtype in stream], none, none, room=1),
        )

    def _run(self, window: tuple[np.ndarray, ...], task: Task) -> Result:
        output = Output(task, BLOCK_ROWS, self._tile, self._host.memory)
        self._module.run(
            tuple(map(np.array, task.stream, self._stream)),
            window,
            output.start,
            output.end,
            output.room,
            output.walk,
            np.empty(FLAGS, np.uint8),
            output.i,
            output.j,
        )
        return output.result()


class InterpretedKernel(CpuKernel):
    """A general program on NumPy columns of Python integers: exact for any bounds, and slow."""

    program: GeneralProgram

    def __init__(self, program: GeneralProgram, host: Host) -> None:
        stream = [storage_dtype(dtype) for dtype in program.stream]
        window = [storage_dtype(dtype) for dtype in program.window]
        super().__init__(program, host, stream, window)

    def _run(self, window: tuple[np.ndarray, ...], task: Task) -> Result:
        output = Output(task, INTERPRETED_ROWS, INTERPRETED_TILE, self._host.memory)
        walk, count = output.walk, 0
        while next_tile(walk, output.start, output.end, count):
            count = int(walk[COUNT])
            i, j = self._pairs(output)
            hit = self._evaluate(window, task, i, j)
            total = count + int(np.count_nonzero(hit))
            if total > output.room:
                count = -1
                continue
            output.i[count:total], output.j[count:total] = i[hit], j[hit]
            count = total
        return output.result()

    def _pairs(self, output: Output) -> tuple[np.ndarray, np.ndarray]:
        """All (i, j) of the walk's tile."""
        rows = np.arange(output.walk[FIRST], output.walk[LAST])
        low = np.maximum(output.start[rows], output.walk[POSITION])
        length = np.maximum(np.minimum(output.end[rows], output.walk[EDGE]) - low, 0)
        i = np.repeat(rows, length)
        before = np.cumsum(length) - length
        j = np.arange(len(i)) + np.repeat(low - before, length)
        return i, j

    def _evaluate(
        self, window: tuple[np.ndarray, ...], task: Task, i: np.ndarray, j: np.ndarray
    ) -> np.ndarray:
        keys = {
            (side, k): key_vector(np.asarray(column)[rows], dtype)
            for side, columns, types, rows in (
                ("s", task.stream, self.program.stream, i),
                ("w", window, self.program.window, j),
            )
            for k, (column, dtype) in enumerate(zip(columns, types, strict=True))
        }
        outcome = evaluate_columns(self.program.predicate, keys, len(i))
        return outcome.values if outcome.valid is None else outcome.values & outcome.valid


def key_vector(values: np.ndarray, dtype: Type) -> Vector:
    """A stored key column as expressions take it."""
    if not dtype.is_integral:
        return Vector(values)
    return int_vector(values.astype(np.int64 if values.dtype.kind == "i" else object))
