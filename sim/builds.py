"""Kernels for boards, of both operators: from them packages, scripts and images are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.errors import UsageError
from penstock.host.device.operator import Operator
from penstock.hw.export import kernel_verilog
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import describe
from penstock.hw.kernel.description import Description
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.hw.window.kernel.describe import describe as describe_window
from penstock.hw.window.kernel.export import window_kernel_verilog
from penstock.program import Program


@dataclass(frozen=True)
class Build:
    """A kernel for a board.

    Parameters
    ----------
    description : Description
    operator : Operator
        The operator that it runs.
    program : Program or None
        The built-in program; None if programs are loaded at run time.
    verilog : callable
        Gives the Verilog; its argument ``cache`` is a folder to keep it in.
    """

    description: Description
    operator: Operator
    program: Program | None
    verilog: Callable[..., str]


def build_of(config: KernelConfig | WindowKernelConfig) -> Build:
    """The kernel of a configuration.

    Raises
    ------
    UsageError
        The host does not drive such a kernel.
    """
    if isinstance(config, KernelConfig):
        program = config.join.program
        verilog = partial(kernel_verilog, config)
        return Build(describe(config), Operator.RANGE, program, verilog)
    if not config.window.is_band:
        raise UsageError(
            "the board device drives window-join operators with band tests, and this one is for "
            "equality; give it --band 1, which tests equality as well"
        )
    verilog = partial(window_kernel_verilog, config)
    return Build(describe_window(config), Operator.WINDOW, None, verilog)
