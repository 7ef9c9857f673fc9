"""Packages whose overlays the virtual board loads."""

from __future__ import annotations

from pathlib import Path

from penstock.constraints.boards import ToolFlow
from penstock.constraints.boards import board as find_board
from penstock.host.devices.board.package import Package
from penstock.hw.board.hwh import handoff
from penstock.hw.board.placement import register_range
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.kernel.link import compute_units, link_config
from penstock.hw.window.kernel.config import WindowKernelConfig

from ..builds import build_of
from ..deploy import write_package
from ..verilated.compile_kernel import cache_folder
from .bitfile import Image, write_bit


def virtual_package(
    config: KernelConfig | WindowKernelConfig,
    board: str,
    out: Path,
    *,
    kernels: int = 1,
    leds: bool = False,
    verilog: str | None = None,
) -> Package:
    """Write a package for the virtual board.

    Parameters
    ----------
    config : KernelConfig or WindowKernelConfig
        The kernel.
    board : str
        The overlay of an Alveo card is made with PYNQ.
    out : Path
        Made if it is not there.
    kernels : int
        Copies of the kernel.
    leds : bool
        Whether a Zynq board's overlay also has an AXI GPIO (:mod:`penstock.hw.board.gpio`).
    verilog : str, optional
        Verilog instead of the exported one, to test with a broken kernel.
    """
    entry = find_board(board)
    build = build_of(config)
    description, kernel = build.description, build.description.kernel
    bases = [register_range(entry, number).start for number in range(kernels)]
    text = build.verilog(cache=cache_folder()) if verilog is None else verilog
    behind = register_range(entry, kernels).start if leds else None
    image = Image(entry.part, kernel, text, description.table(), bases, behind)
    names = compute_units(kernels, kernel)
    if entry.flow is ToolFlow.VITIS:
        # PYNQ has the structures of the file.
        from .xclbin import write_xclbin

        link = link_config(description, entry, kernels)
        files = {".xclbin": write_xclbin(description, entry, image, names, link)}
    else:
        files = {
            ".bit": write_bit(image, kernel),
            ".hwh": handoff(description, entry, names, leds=leds).encode(),
        }
    return write_package(build, board, out, files, kernels=kernels)
