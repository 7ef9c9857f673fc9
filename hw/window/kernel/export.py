"""Verilog of the memory-fed window kernel."""

from __future__ import annotations

from pathlib import Path

from penstock.hw.export import KERNEL_WAIVERS
from penstock.hw.verilog import verilog
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.hw.window.kernel.kernel import KERNEL, WindowKernel


def window_kernel_verilog(
    config: WindowKernelConfig, *, cache: Path | None = None, platform: str | None = None
) -> str:
    """Verilog of a kernel; the same text for the same configuration.

    Parameters
    ----------
    config : WindowKernelConfig
    cache, platform
        See :func:`penstock.hw.verilog.verilog`.
    """
    return KERNEL_WAIVERS + verilog(WindowKernel(config), KERNEL, cache=cache, platform=platform)
