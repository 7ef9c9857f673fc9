"""Writes the window kernel: Verilog, and the files for packaging and host software."""

from __future__ import annotations

from pathlib import Path

from ...export import KERNEL_WAIVERS, write_package
from ...kernel.kernel import PackagedKernel
from ...verilog import verilog
from .config import WindowKernelConfig
from .describe import KERNEL, describe
from .engine import WindowTaskEngine


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
    made = PackagedKernel(WindowTaskEngine(config))
    return KERNEL_WAIVERS + verilog(made, KERNEL, cache=cache, platform=platform)


def export_window_kernel(
    config: WindowKernelConfig, board: str, out: Path, *, kernels: int = 1
) -> list[Path]:
    """Write a kernel with all that describes it; see :func:`penstock.hw.export.write_package`."""
    return write_package(
        describe(config), lambda: window_kernel_verilog(config), board, out, kernels=kernels
    )
