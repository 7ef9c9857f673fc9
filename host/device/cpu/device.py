"""The CPU as a join device."""

from __future__ import annotations

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from penstock.errors import DeviceError, UsageError
from penstock.host.device.base import Device, Kernel, Result
from penstock.host.device.cpu.band import BandKernel
from penstock.program import BandProgram, Program


class CpuDevice(Device):
    """Runs every program on the cores of this machine, one task per thread.

    Parameters
    ----------
    threads : int, optional
        Tasks that run at the same time; default: the cores this process may use.

    Raises
    ------
    UsageError
        ``threads`` is below 1.
    """

    name = "cpu"

    def __init__(self, threads: int | None = None) -> None:
        if threads is None:
            threads = len(os.sched_getaffinity(0))
        if threads < 1:
            raise UsageError(f"device cpu needs at least one thread, not {threads!r}")
        self.lanes = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="penstock-cpu")
        self._lock = threading.Lock()
        self._sums: Counter[str] = Counter(tasks=0, evaluations=0, pairs=0)

    def refuses(self, program: Program) -> str | None:
        if isinstance(program, BandProgram) and program.key_bits not in self.key_widths:
            widths = ", ".join(map(str, self.key_widths))
            return f"device cpu has no band keys of {program.key_bits} bits; it offers {widths}"
        return None

    def open(self, program: Program) -> Kernel:
        refusal = self.refuses(program)
        if refusal is not None:
            raise DeviceError(refusal)
        if isinstance(program, BandProgram):
            return BandKernel(program, self._pool, self._count)
        raise DeviceError("device cpu has no general kernel")

    def counters(self) -> dict[str, int]:
        with self._lock:
            return dict(self._sums)

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def _count(self, result: Result) -> None:
        with self._lock:
            self._sums.update(result.counters)
            self._sums.update(tasks=1, pairs=len(result.i))
