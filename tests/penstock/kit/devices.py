"""A CPU device for tests with many predicates."""

from __future__ import annotations

from penstock.host.device.base import PAIRS, Kernel
from penstock.host.devices.cpu import CpuDevice
from penstock.host.devices.cpu.interpreted import InterpretedKernel
from penstock.program import GeneralProgram, Mode, Program


class InterpretingCpu(CpuDevice):
    """Interprets general programs: compiling takes about a second, a small task a millisecond.

    Parameters
    ----------
    threads : int, optional
    here : bool
        Whether small tasks run in the thread that asks. Otherwise all go through the lanes.
    """

    def __init__(self, threads: int | None = None, *, here: bool = False) -> None:
        super().__init__(threads)
        self.runs_here = here

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> Kernel:
        if not isinstance(program, GeneralProgram):
            return super().open(program, modes)
        kernel = InterpretedKernel(program, self._resources, modes)
        kernel.here_evaluations = 1 << 16
        return kernel
