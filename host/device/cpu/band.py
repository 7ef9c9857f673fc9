"""The band kernel: one compiled loop per key width and number of tests, for every band program."""

from __future__ import annotations

import numpy as np

from penstock.host.device.base import Result, Task
from penstock.host.device.cpu.kernel import CpuKernel, Host, Output
from penstock.host.device.cpu.loops import EVALUATIONS, run_all, run_cubes
from penstock.host.device.storage import key_dtype
from penstock.program import BandProgram, empty_code

#: Stream tuples per block: enough to reuse a tile of the window many times.
BLOCK_ROWS = 256
#: Window keys per tile in bytes, over all tests: what a first-level data cache holds. Tiles of half
#: and of twice the size are within 3 % of it, since two tuples share each load.
TILE_BYTES = 32 * 1024


class BandKernel(CpuKernel):
    """A band program on the CPU.

    Bounds and cubes are arguments of the compiled loop, so opening a second program of the same
    key width and number of tests compiles nothing.
    """

    program: BandProgram

    def __init__(self, program: BandProgram, host: Host) -> None:
        key = key_dtype(program.key_bits)
        super().__init__(program, host, [key] * 2 * program.tests, [key] * program.tests)
        self._key = key
        cubes = program.cubes
        # Tests that no cube needs are not run; a single cube then is the AND of all tests.
        needed = int(np.bitwise_or.reduce(np.array(cubes, np.int64), initial=0))
        self._tests = tuple(d for d in range(program.tests) if needed >> d & 1)
        packed = [sum(1 << k for k, d in enumerate(self._tests) if c >> d & 1) for c in cubes]
        if not self._tests:
            # Always true: one test, whose outcome the only cube does not look at.
            self._tests = (0,)
        elif len(packed) == 1:
            packed = []
        self._cubes = np.array(packed, np.int64)
        self._tile = TILE_BYTES // (len(self._tests) * key.itemsize)
        self._compile()

    def _compile(self) -> None:
        """Compile now, or load what an earlier process compiled; not in the first task."""
        keys = tuple(np.zeros(0, self._key) for _ in range(self.program.tests))
        bounds = tuple(column for column in keys for _ in range(2))
        none = np.zeros(0, np.int64)
        self._run(keys, Task(bounds, none, none, room=1))

    def _run(self, window: tuple[np.ndarray, ...], task: Task) -> Result:
        output = Output(task, BLOCK_ROWS, self._tile, self._host.memory)
        if not self.program.table:
            output.walk[EVALUATIONS] = (task.end - task.start).sum()
            return output.result()
        bounds = [self._bounds(task, d) for d in self._tests]
        arguments = (
            tuple(window[d] for d in self._tests),
            tuple(low for low, _ in bounds),
            tuple(span for _, span in bounds),
        )
        walked = (output.start, output.end, output.room, output.walk, output.i, output.j)
        if len(self._cubes):
            run_cubes(*arguments, self._cubes, *walked)
        else:
            run_all(*arguments, *walked)
        return output.result()

    def _bounds(self, task: Task, test: int) -> tuple[np.ndarray, np.ndarray]:
        """Lower bound and span of a test: one subtraction and one comparison per key.

        That is sound only without wrap from the lower to the upper bound, so any other empty range
        becomes the canonical one here.
        """
        low = np.array(task.stream[2 * test], self._key)
        high = np.asarray(task.stream[2 * test + 1], self._key)
        empty = low > high
        if empty.any():
            code = self._key.type(empty_code(self.program.key_bits))
            low, high = np.where(empty, code, low), np.where(empty, code, high)
        return low, high - low
