"""Writes the window kernels: Verilog, and the files for packaging and host software."""

from __future__ import annotations

from pathlib import Path

from ...export import KERNEL_WAIVERS, write_package
from ...verilog import verilog
from ..config import WindowConfig
from .config import WindowKernelConfig
from .describe import describe
from .kernel import KERNEL, WindowKernel
from .stream_kernel import STREAM_KERNEL, StreamKernel, describe_stream


def window_kernel_verilog(
    config: WindowKernelConfig | WindowConfig,
    *,
    cache: Path | None = None,
    platform: str | None = None,
) -> str:
    """Verilog of a kernel; the same text for the same configuration.

    Parameters
    ----------
    config : WindowKernelConfig or WindowConfig
        Of the memory-fed kernel, or of the one with stream ports.
    cache, platform
        See :func:`penstock.hw.verilog.verilog`.
    """
    if isinstance(config, WindowConfig):
        made, name = StreamKernel(config), STREAM_KERNEL
    else:
        made, name = WindowKernel(config), KERNEL
    return KERNEL_WAIVERS + verilog(made, name, cache=cache, platform=platform)


def export_window_kernel(
    config: WindowKernelConfig | WindowConfig, board: str, out: Path, *, kernels: int = 1
) -> list[Path]:
    """Write a kernel with all that describes it; see :func:`penstock.hw.export.write_package`."""
    made = describe_stream(config) if isinstance(config, WindowConfig) else describe(config)
    return write_package(made, lambda: window_kernel_verilog(config), board, out, kernels=kernels)
