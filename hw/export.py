"""Writes hardware as files: the kernel with its descriptions, or the pipeline alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from penstock.constraints.boards import ToolFlow
from penstock.constraints.boards import board as find_board
from penstock.errors import FileError, UsageError

from .board.placement import MOST_KERNELS as MOST_ON_ZYNQ
from .join.config import JoinConfig
from .join.kernel.config import KernelConfig
from .join.kernel.describe import KERNEL, describe
from .join.kernel.engine import JoinEngine
from .join.pipeline import Pipeline
from .kernel.description import Description
from .kernel.kernel import PackagedKernel
from .kernel.link import LINK, link_config
from .verilog import verilog

#: Module name of the pipeline unless the caller has another.
TOP = "penstock_join"

#: Warnings of a linter that are wrong for a kernel: it does not need all signals of AXI, memory
#: slots have padding, and Vitis wants a port named interrupt.
KERNEL_WAIVERS = "/* verilator lint_off UNUSEDSIGNAL */\n/* verilator lint_off SYMRSVDWORD */\n"


def export(config: JoinConfig, name: str = TOP) -> str:
    """Verilog of a pipeline, band or general; the same text for the same arguments."""
    return verilog(Pipeline(config), name)


def kernel_verilog(
    config: KernelConfig, *, cache: Path | None = None, platform: str | None = None
) -> str:
    """Verilog of a kernel; the same text for the same configuration.

    Parameters
    ----------
    config : KernelConfig
    cache, platform
        See :func:`penstock.hw.verilog.verilog`.
    """
    text = verilog(PackagedKernel(JoinEngine(config)), KERNEL, cache=cache, platform=platform)
    return KERNEL_WAIVERS + text


#: Kernels of a board, at most; 60 is what v++ links into one bitstream.
MOST_KERNELS = {ToolFlow.VITIS: 60, ToolFlow.VIVADO: MOST_ON_ZYNQ}


def export_kernel(config: KernelConfig, board: str, out: Path, *, kernels: int = 1) -> list[Path]:
    """Write the files of a join kernel for packaging and host software.

    Arguments and errors are those of :func:`write_package`.
    """
    return write_package(
        describe(config), lambda: kernel_verilog(config), board, out, kernels=kernels
    )


def write_package(
    description: Description,
    verilog: Callable[[], str],
    board: str,
    out: Path,
    *,
    kernels: int = 1,
) -> list[Path]:
    """Write a kernel with its descriptions.

    Parameters
    ----------
    description : Description
    verilog : callable
        Gives the kernel's Verilog.
    board : str
        Name of the board.
    out : Path
        Folder; made if it is not there.
    kernels : int
        Kernels on the board. For a card, ``link.cfg`` places and connects them; for a Zynq board,
        the script of its block design does (:mod:`penstock.hw.board.scripts`).

    Returns
    -------
    list of Path
        Verilog, register table as JSON, C header and Markdown, ``kernel.xml``, and for a card
        ``link.cfg``. The same bytes for the same arguments.

    Raises
    ------
    UsageError
        There is no such board, or it takes fewer kernels.
    FileError
        The folder cannot be written.
    """
    entry = find_board(board)
    most = MOST_KERNELS[entry.flow]
    if not 1 <= kernels <= most:
        raise UsageError(f"{board} takes 1 to {most} kernels, not {kernels}")
    link = {}
    if entry.flow is ToolFlow.VITIS:
        link[LINK] = link_config(description, entry, kernels)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{out} cannot be made: {error.strerror}") from None
    described = {"board": board, **description.table()}
    texts = {
        f"{description.kernel}.v": verilog(),
        f"{description.kernel}.json": json.dumps(described, indent=2) + "\n",
        f"{description.kernel}.h": description.c_header(),
        "registers.md": description.documentation(),
        "kernel.xml": description.kernel_xml(),
        **link,
    }
    for name, text in texts.items():
        _write(out / name, text)
    return [out / name for name in texts]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}") from None
