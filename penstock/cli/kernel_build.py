"""Options of ``export``, ``board package`` and ``board build`` that describe a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.host.device.operator import Operator

from ..errors import UsageError
from . import build
from .options import group, option
from .terminal import many

if TYPE_CHECKING:
    from penstock.constraints.boards import Board
    from penstock.hw.join.kernel.config import KernelConfig
    from penstock.hw.window.config import WindowConfig
    from penstock.hw.window.kernel.config import WindowKernelConfig

#: Default sizes of a window kernel.
DEPTH, BANKS = 1 << 12, 8

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")]


@group
class KernelArguments:
    """Operator of a kernel, and the size of a window kernel."""

    operator: Operator = option(
        "What the kernel does: range joins, or ROWS window joins.", default=Operator.RANGE
    )
    rows_depth: int | None = option("Window kernel: largest ROWS, a power of two.")
    banks: int | None = option("Window kernel: queue tuples tested per cycle and side.")
    pipelines: int = option("Pipelines that share the memory ports.", default=1)
    pipeline: build.PipelineArguments

    def config(
        self, units: int, query: build.BuildQuery, board: Board
    ) -> KernelConfig | WindowKernelConfig:
        """Describe the kernel for a board.

        Raises
        ------
        UsageError
            The options contradict each other, or there is no such build.
        MissingToolError, QueryError, SchemaError, DataError, FileError, DeviceError
            See :meth:`build.PipelineArguments.config`.
        """
        if self.operator is Operator.WINDOW:
            if query.sql is not None or self.pipeline.modes is not None:
                raise UsageError(
                    "--sql and --modes are for range joins; a window kernel gives pairs"
                )
            if self.pipelines != 1:
                raise UsageError("--pipelines is for range joins; a window kernel has --banks")
            tests, key_bits = self.pipeline.band, self.pipeline.key_bits
            return window_config(board, tests, key_bits, self.rows_depth, self.banks)
        if self.banks is not None or self.rows_depth is not None:
            raise UsageError("--rows-depth and --banks are for --operator window: add it")
        join = self.pipeline.config(units, query)
        from penstock.hw.join.kernel.config import KernelConfig

        with build.building():
            return KernelConfig.fit(join, self.pipelines, board.port_bits)


def window_config(
    board: Board,
    tests: int | None = None,
    key_bits: int | None = None,
    depth: int | None = None,
    banks: int | None = None,
) -> WindowKernelConfig:
    """Describe a window kernel for a board; see :meth:`KernelArguments.config`."""
    with build.building():
        from penstock.hw.window.config import WindowConfig
        from penstock.hw.window.kernel.config import WindowKernelConfig
        from penstock.hw.window.memories import placed

        window = WindowConfig(
            depth=DEPTH if depth is None else depth,
            banks=BANKS if banks is None else banks,
            tests=build.TESTS if tests is None else tests,
            key_bits=build.KEY_BITS if key_bits is None else key_bits,
        )
        return WindowKernelConfig(window=placed(window, board), word_bits=board.port_bits)


def describe_window(window: WindowConfig) -> str:
    """Describe a window-join operator in a line."""
    test = many(window.tests, "band test") if window.is_band else "equality"
    return (
        f"window join of up to {window.depth} ROWS, {window.banks} banks, {test} of "
        f"{window.key_bits} bits"
    )
