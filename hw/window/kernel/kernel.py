"""The memory-fed window kernel: what Vitis packages and PYNQ drives."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring

from ...kernel.axi import MemoryPort, memory_members
from ...kernel.frame import Frame
from .config import WindowKernelConfig
from .registers import MEMORY_REGISTERS, register_map
from .shell import WindowShell

#: Name of the module, and of the kernel.
KERNEL = "penstock_window_kernel"

#: Memory ports and what they carry.
PORTS = {"m_axi_gmem0": "tuples of both sides", "m_axi_gmem1": "results"}


class WindowKernel(Frame):
    """A shell and its register file behind the ports that tools expect.

    Parameters
    ----------
    config : WindowKernelConfig
        The build.

    Members
    -------
    m_axi_gmem0_..., m_axi_gmem1_... : AXI4
        Memory ports, 512 bits wide (:data:`PORTS`). Others are those of
        :class:`penstock.hw.kernel.frame.Frame`.
    """

    def __init__(self, config: WindowKernelConfig) -> None:
        self.config = config
        members: dict[str, wiring.Member] = {}
        for port in PORTS:
            members |= memory_members(port)
        super().__init__(register_map(config.window, MEMORY_REGISTERS), members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shell = WindowShell(self.config)
        registers = self.frame(m, shell)
        m.d.comb += [
            registers.status("status").eq(shell.o_status),
            registers.status("state").eq(shell.o_state),
        ]
        MemoryPort(m, self, "m_axi_gmem0").read(shell.o_tuple_port)
        MemoryPort(m, self, "m_axi_gmem1").write(shell.o_result_port)
        return m
