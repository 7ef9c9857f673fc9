"""Addresses and clocks of the kernels of a Zynq board, as its processing system sees them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.constraints.boards import Board, ToolFlow

from ..kernel.registers import RANGE_BYTES

#: Bytes from one kernel's registers to the next one's.
STRIDE_BYTES = 0x1_0000
#: Kernels beside a processing system, at most: the interrupts of pl_ps_irq0 on UltraScale+.
MOST_KERNELS = 8


@dataclass(frozen=True)
class System:
    """A processing system, as block designs and PYNQ name it.

    Parameters
    ----------
    name : str
        Module type.
    version : str
        Of the IP.
    manager : str
        The port that reaches the kernels' registers.
    memory : tuple of str
        Ports by which kernels reach the memory.
    base : int
        Address of the first kernel's registers.
    pll_mhz : int
        Frequency of the PLL from which the logic's clocks are divided.
    """

    name: str
    version: str
    manager: str
    memory: tuple[str, ...]
    base: int
    pll_mhz: int

    def divisor(self, clock_mhz: float) -> int:
        """Least divisor of the PLL that gives a clock no faster than this."""
        return math.ceil(self.pll_mhz / clock_mhz)

    @property
    def instance(self) -> str:
        """Its name in a block design."""
        return f"{self.name}_0"


ZYNQ = System(
    name="processing_system7",
    version="5.5",
    manager="M_AXI_GP0",
    memory=tuple(f"S_AXI_HP{port}" for port in range(4)),
    base=0x43C0_0000,
    pll_mhz=1000,
)
ULTRASCALE = System(
    name="zynq_ultra_ps_e",
    version="3.5",
    manager="M_AXI_HPM0_FPD",
    memory=tuple(f"S_AXI_HP{port}_FPD" for port in range(4)),
    base=0xA000_0000,
    pll_mhz=1500,
)


def system_of(board: Board) -> System:
    """The processing system of a Zynq board's part."""
    return ZYNQ if board.part.startswith("xc7z") else ULTRASCALE


def clock_of(board: Board) -> float:
    """Clock of the kernels in MHz; on a Zynq board, one to which its PLL can be divided."""
    if board.flow is ToolFlow.VITIS:
        return board.clock_mhz
    system = system_of(board)
    return system.pll_mhz / system.divisor(board.clock_mhz)


def register_range(board: Board, number: int) -> range:
    """Addresses of the registers of kernel ``number``, counted from 0."""
    base = system_of(board).base + number * STRIDE_BYTES
    return range(base, base + RANGE_BYTES)


def shared_ports(board: Board, instances: Sequence[str], ports: Sequence[str]) -> list[list[str]]:
    """Kernels' memory ports, as ``kernel/port``, for each memory port that they share."""
    managers = [f"{name}/{port}" for name in instances for port in ports]
    count = min(len(managers), len(system_of(board).memory))
    return [managers[number::count] for number in range(count)]
