"""The kernel: what Vitis packages and PYNQ drives."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring

from .axi import MemoryPort, memory_members
from .config import KernelConfig, register_map
from .frame import Frame
from .shell import Shell

#: Name of the module, and of the kernel.
KERNEL = "penstock_kernel"

#: Memory ports and what they carry.
PORTS = {
    "m_axi_gmem0": "passes and stream tuples",
    "m_axi_gmem1": "window",
    "m_axi_gmem2": "results",
}
#: Those whose buffers all kernels of a card read: a window is brought to the card once.
SHARED = ("m_axi_gmem1",)


class Kernel(Frame):
    """A shell and its register file behind the ports that tools expect.

    Parameters
    ----------
    config : KernelConfig
        The build.

    Members
    -------
    m_axi_gmem0_..., m_axi_gmem1_..., m_axi_gmem2_... : AXI4
        Memory ports, 512 bits wide (:data:`PORTS`). Others are those of
        :class:`penstock.hw.kernel.frame.Frame`.
    """

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        members: dict[str, wiring.Member] = {}
        for port in PORTS:
            members |= memory_members(port)
        super().__init__(register_map(config), members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shell = Shell(self.config)
        registers = self.frame(m, shell)
        m.d.comb += registers.status("status").eq(shell.o_status)
        MemoryPort(m, self, "m_axi_gmem0").read(shell.o_task_port)
        MemoryPort(m, self, "m_axi_gmem1").read(shell.o_window_port)
        MemoryPort(m, self, "m_axi_gmem2").write(shell.o_result_port)
        return m
