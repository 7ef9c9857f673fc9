"""A CPU device for tests with many predicates."""

from __future__ import annotations

from penstock.host.device.base import PAIRS, Kernel
from penstock.host.device.cpu import CpuDevice
from penstock.host.device.cpu.interpreted import InterpretedKernel
from penstock.program import GeneralProgram, Mode, Program


class InterpretingCpu(CpuDevice):
    """Interprets general programs: compiling takes about a second, a small task a millisecond."""

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> Kernel:
        if isinstance(program, GeneralProgram):
            return InterpretedKernel(program, self._host, modes)
        return super().open(program, modes)
