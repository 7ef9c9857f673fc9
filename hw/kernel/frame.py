"""Ports that every kernel has: clock, reset, interrupt, and those of the register file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetSignal, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .control import LITE, RegisterFile
from .description import CONTROL
from .registers import RegisterMap


class Framed(Protocol):
    """What a register file starts and watches."""

    i_arguments: data.View
    i_start: Signal
    o_done: Signal
    o_idle: Signal

    def elaborate(self, platform: object) -> Module: ...


class Frame(wiring.Component):
    """A kernel's ports besides those of its data.

    Parameters
    ----------
    registers : RegisterMap
        The build's registers.
    members : mapping of str to Member
        Ports for data.

    Members
    -------
    ap_clk, ap_rst_n : In(1)
        Clock, and reset, active low.
    interrupt : Out(1)
        Interrupt line.
    s_axi_control_... : AXI4-Lite
        Registers (:mod:`penstock.hw.kernel.registers`).
    """

    ap_clk: Signal
    ap_rst_n: Signal
    interrupt: Signal

    def __init__(self, registers: RegisterMap, members: Mapping[str, wiring.Member]) -> None:
        self.registers = registers
        super().__init__(
            {
                "ap_clk": In(1),
                "ap_rst_n": In(1),
                "interrupt": Out(1),
                **{f"{CONTROL}_{name}": member for name, member in LITE.items()},
                **members,
            }
        )

    def frame(self, m: Module, shell: Framed) -> RegisterFile:
        """Add clock, reset, register file and shell; status registers are left to connect."""
        m.domains.sync = ClockDomain("sync")
        m.d.comb += [ClockSignal().eq(self.ap_clk), ResetSignal().eq(~self.ap_rst_n)]
        m.submodules.registers = registers = RegisterFile(self.registers)
        m.submodules.shell = shell
        for name, member in LITE.items():
            outer, inner = getattr(self, f"{CONTROL}_{name}"), getattr(registers.bus, name)
            m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)
        m.d.comb += [
            shell.i_arguments.eq(registers.o_arguments),
            shell.i_start.eq(registers.o_start),
            registers.i_done.eq(shell.o_done),
            registers.i_idle.eq(shell.o_idle),
            self.interrupt.eq(registers.o_interrupt),
        ]
        return registers
