"""The general kernel: compiled from the program's DAG, or interpreted.

A program is interpreted if it cannot be compiled, or if that would take longer than the join.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.program import GeneralProgram, Mode

from ...device.base import PAIRS, Folds, Result, Task
from ...device.search import SearchTask
from .codegen import generate, load_source
from .folding import FoldState
from .interpreted import InterpretedKernel
from .kernel import Columns, CpuKernel, CpuResources, PairOutput, folded
from .operations import NotCompilable
from .resident_window import CpuWindow
from .searching import FoundPairs, walk_of
from .templates import FoldKind
from .vector import GRANULE

#: Stream tuples per block.
BLOCK_ROWS = 256
#: Window keys per tile in bytes: half of a 32 KiB first-level data cache.
TILE_BYTES = 16 * 1024
#: Outcomes that are computed at a time, one byte each.
FLAGS = 8 * GRANULE


def general_kernel(
    program: GeneralProgram, resources: CpuResources, modes: frozenset[Mode] = PAIRS
) -> CpuKernel:
    """The fastest kernel that computes the program exactly."""
    try:
        return CompiledKernel(program, resources, modes)
    except NotCompilable:
        return InterpretedKernel(program, resources, modes)


class CompiledKernel(CpuKernel):
    """A general program compiled by Numba.

    Raises
    ------
    NotCompilable
        The program needs more than machine integers, or has too many steps.
    """

    here_evaluations = 1 << 18  # less than a millisecond
    program: GeneralProgram

    def __init__(
        self, program: GeneralProgram, resources: CpuResources, modes: frozenset[Mode] = PAIRS
    ) -> None:
        super().__init__(program, resources, modes)
        forms = {self._folded(mode) for mode in modes}
        self._modules = {form: load_source(generate(program, form)) for form in forms}
        row_bytes = sum(dtype.itemsize for dtype in self._window)
        self._tile = max(TILE_BYTES // max(row_bytes, 1), FLAGS) & ~(GRANULE - 1)
        code = " ".join(module.name for module in self._modules.values())
        self._compile(code, lambda: InterpretedKernel(program, resources, modes))

    def _folded(self, mode: Mode) -> FoldKind | None:
        if mode is Mode.PAIRS:
            return None
        if not mode.needs_value:
            return FoldKind.NONE
        assert self.program.value is not None
        if not self.program.value.type.is_float:
            return FoldKind.INTEGER
        return FoldKind.FLOAT if mode is Mode.SUM else FoldKind.ORDER

    def _run(self, window: CpuWindow, task: Task) -> Result:
        output = PairOutput(task, BLOCK_ROWS, self._tile, self._resources.memory)
        self._loop(window.columns, task, output, output.i, output.j)
        return output.result()

    def _fold(self, window: CpuWindow, task: Task) -> Folds:
        value = self.program.value if task.mode.needs_value else None
        fold = FoldState(task, BLOCK_ROWS, self._tile, None if value is None else value.type)
        values = None if value is None else np.empty(FLAGS, fold.value.dtype)
        self._loop(window.columns, task, fold, values, *fold.state)
        return fold.folds()

    def _search(self, task: SearchTask) -> Result:
        walk = walk_of(task).state
        stream = tuple(map(np.array, task.stream, self._stream))
        keys = stream, tuple(task.ordered.columns), np.empty(FLAGS, np.uint8)
        search = self._modules[self._folded(task.mode)].search
        if task.mode is Mode.PAIRS:
            pairs = FoundPairs(task, self._resources.memory)
            search(*keys, walk, *pairs.state)
            return pairs.result()
        value = self.program.value if task.mode.needs_value else None
        fold = FoldState(task, 0, 0, None if value is None else value.type)
        values = None if value is None else np.empty(FLAGS, fold.value.dtype)
        evaluations = search(*keys, values, walk, *fold.state)
        return folded(fold.folds(), evaluations)

    def _loop(
        self, window: Columns, task: Task, walked: PairOutput | FoldState, *outcome: Any
    ) -> None:
        """Run the compiled loop of the task's mode, which writes ``outcome``."""
        stream = tuple(map(np.array, task.stream, self._stream))
        flags = np.empty(FLAGS, np.uint8)
        run = self._modules[self._folded(task.mode)].run
        run(stream, window, walked.start, walked.end, walked.walk, flags, *outcome)
