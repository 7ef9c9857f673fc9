"""The kernel: what Vitis packages and PYNQ drives."""

from __future__ import annotations

from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from penstock.hw.kernel.axi import MemoryPort, memory_members
from penstock.hw.kernel.config import KernelConfig, register_map
from penstock.hw.kernel.control import LITE, RegisterFile
from penstock.hw.kernel.description import CONTROL
from penstock.hw.kernel.shell import Shell

#: Name of the module, and of the kernel.
KERNEL = "penstock_kernel"

#: Memory ports and what they carry.
PORTS = {
    "m_axi_gmem0": "passes and stream tuples",
    "m_axi_gmem1": "window",
    "m_axi_gmem2": "results",
}


class Kernel(wiring.Component):
    """A shell and its register file behind the ports that tools expect.

    Parameters
    ----------
    config : KernelConfig
        The build.

    Members
    -------
    ap_clk, ap_rst_n : In(1)
        Clock, and reset, active low.
    interrupt : Out(1)
        Interrupt line.
    s_axi_control_... : AXI4-Lite
        Registers (:mod:`penstock.hw.kernel.registers`).
    m_axi_gmem0_..., m_axi_gmem1_..., m_axi_gmem2_... : AXI4
        Memory ports, 512 bits wide (:data:`PORTS`).
    """

    ap_clk: Signal
    ap_rst_n: Signal
    interrupt: Signal

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        members: dict[str, wiring.Member] = {"ap_clk": In(1), "ap_rst_n": In(1)}
        members["interrupt"] = Out(1)
        members |= {f"{CONTROL}_{name}": member for name, member in LITE.items()}
        for port in PORTS:
            members |= memory_members(port)
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = ClockDomain("sync")
        m.d.comb += [ClockSignal().eq(self.ap_clk), ResetSignal().eq(~self.ap_rst_n)]
        m.submodules.registers = registers = RegisterFile(register_map(self.config))
        m.submodules.shell = shell = Shell(self.config)
        for name, member in LITE.items():
            outer, inner = getattr(self, f"{CONTROL}_{name}"), getattr(registers.bus, name)
            m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)
        m.d.comb += [
            shell.i_arguments.eq(registers.o_arguments),
            shell.i_start.eq(registers.o_start),
            registers.i_done.eq(shell.o_done),
            registers.i_idle.eq(shell.o_idle),
            registers.status("status").eq(shell.o_status),
            self.interrupt.eq(registers.o_interrupt),
        ]
        MemoryPort(m, self, "m_axi_gmem0").read(shell.o_task_port)
        MemoryPort(m, self, "m_axi_gmem1").read(shell.o_window_port)
        MemoryPort(m, self, "m_axi_gmem2").write(shell.o_result_port)
        return m
