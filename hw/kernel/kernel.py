"""A kernel: a shell and its register file behind the ports that tools expect."""

from __future__ import annotations

from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .axi import MemoryPort, memory_members
from .control import LITE, RegisterFile
from .description import CONTROL
from .engine import Engine
from .registers import STATUS
from .shell import Shell


class PackagedKernel(wiring.Component):
    """What Vitis packages and PYNQ drives.

    Parameters
    ----------
    engine : Engine
        What it runs.

    Members
    -------
    ap_clk, ap_rst_n : In(1)
        Clock, and reset, active low.
    interrupt : Out(1)
        Interrupt line.
    s_axi_control_... : AXI4-Lite
        Registers (:mod:`penstock.hw.kernel.registers`).
    m_axi_..._... : AXI4
        The description's memory ports.
    """

    ap_clk: Signal
    ap_rst_n: Signal
    interrupt: Signal

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        members: dict[str, wiring.Member] = {}
        for port in engine.description.ports:
            members |= memory_members(port, engine.description.sizes.word_bits)
        super().__init__(
            {
                "ap_clk": In(1),
                "ap_rst_n": In(1),
                "interrupt": Out(1),
                **{f"{CONTROL}_{name}": member for name, member in LITE.items()},
                **members,
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        description = self.engine.description
        m.domains.sync = ClockDomain("sync")
        # Two registers: the reset of so many starts from one nearby, and leaves all together.
        resets = Signal(2, init=3)
        m.domains.outer = ClockDomain("outer", reset_less=True)
        m.d.comb += [
            ClockSignal("outer").eq(self.ap_clk),
            ClockSignal().eq(self.ap_clk),
            ResetSignal().eq(resets[1]),
        ]
        m.d.outer += resets.eq(resets << 1 | ~self.ap_rst_n)
        m.submodules.registers = registers = RegisterFile(description.registers)
        m.submodules.shell = shell = Shell(self.engine)
        for name, member in LITE.items():
            outer, inner = getattr(self, f"{CONTROL}_{name}"), getattr(registers.bus, name)
            m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)
        m.d.comb += [
            shell.i_arguments.eq(registers.o_arguments),
            shell.i_start.eq(registers.o_start),
            registers.i_done.eq(shell.o_done),
            registers.i_idle.eq(shell.o_idle),
            self.interrupt.eq(registers.o_interrupt),
            registers.status(STATUS.name).eq(shell.o_status),
        ]
        for name in description.watched:
            m.d.comb += registers.status(name).eq(getattr(shell, f"o_{name}"))
        for name, port in description.ports.items():
            outside = MemoryPort(m, self, name, description.sizes.word_bits)
            if port.writes:
                outside.write(shell.o_result_port)
            else:
                outside.read(getattr(shell, f"o_{name}"))
        return m
