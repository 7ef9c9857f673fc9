"""The CPU as a join device."""

from __future__ import annotations

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from penstock.errors import DeviceError, UsageError
from penstock.program import AnyProgram, BandProgram, Mode, WindowProgram

from ...device.base import PAIRS, Device, Kernel, Result
from ...execute import promptness
from .band_kernel import BandKernel
from .general import general_kernel
from .kernel import CpuResources, ResultMemory
from .window_join import WindowJoinKernel

#: Threads that a device takes, at most.
MOST_THREADS = 1 << 12


class CpuDevice(Device):
    """Runs every program on the cores of this machine, one task per thread.

    It runs any program in any of the program's modes: band keys are stored in the next of 16, 32
    and 64 bits, and general programs beyond machine integers are interpreted.

    Parameters
    ----------
    threads : int, optional
        Tasks that run at the same time; default: the cores this process may use.
    interprets : bool
        Whether kernels test their first 10 million pairs on columns, and load or compile machine
        code when more pairs come. Compiling takes seconds.

    Raises
    ------
    UsageError
        ``threads`` is below 1, or more than any machine has cores.
    """

    name = "cpu"
    is_even = True
    searches = True
    runs_here = True

    def __init__(self, threads: int | None = None, *, interprets: bool = False) -> None:
        if threads is None:
            threads = len(os.sched_getaffinity(0))
        if threads < 1:
            raise UsageError(f"device cpu needs at least one thread, not {threads!r}")
        if threads > MOST_THREADS:
            raise UsageError(f"device cpu takes at most {MOST_THREADS} threads, not {threads!r}")
        self.lanes = threads
        pool = ThreadPoolExecutor(threads, "penstock-cpu", promptness.only_computes)
        memory = ResultMemory(kept=4 * threads)
        self._resources = CpuResources(pool, self._count, memory, interprets)
        self._lock = threading.Lock()
        self._sums: Counter[str] = Counter(tasks=0, evaluations=0, pairs=0)

    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        lacking = sorted(mode.value for mode in modes - program.modes)
        if lacking:
            return f"the program has nothing to fold for {', '.join(lacking)}"
        if isinstance(program, WindowProgram):
            return self.refuses(program.a) or self.refuses(program.b)
        return None

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        if reason := self.refuses(program, modes):
            raise DeviceError(f"the {self.name} device cannot run this program: {reason}")
        if isinstance(program, WindowProgram):
            return WindowJoinKernel(self, program)
        if isinstance(program, BandProgram):
            return BandKernel(program, self._resources, modes)
        return general_kernel(program, self._resources, modes)

    def counters(self) -> dict[str, int]:
        with self._lock:
            return dict(self._sums)

    def close(self) -> None:
        self._resources.pool.shutdown(wait=True)

    def _count(self, result: Result) -> None:
        with self._lock:
            self._sums.update(result.counters)
            self._sums.update(tasks=1, pairs=len(result.i))
