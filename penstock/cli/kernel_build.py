"""What ``export``, ``board package`` and ``board build`` share: which kernel is to be built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import build
from penstock.errors import UsageError
from penstock.host.device.operator import Operator

if TYPE_CHECKING:
    from penstock.hw.kernel.config import KernelConfig
    from penstock.hw.window.config import WindowConfig
    from penstock.hw.window.kernel.config import WindowKernelConfig

#: What a window kernel has unless options say otherwise.
DEPTH, BANKS = 1 << 12, 8

OperatorOption = Annotated[
    Operator,
    typer.Option("--operator", help="What the kernel does: range joins, or ROWS window joins."),
]
Pipelines = Annotated[int, typer.Option(help="Pipelines that share the memory ports.")]
RowsDepth = Annotated[int | None, typer.Option(help="Window kernel: largest ROWS, a power of two.")]
Banks = Annotated[
    int | None, typer.Option(help="Window kernel: queue tuples tested per cycle and side.")
]


def kernel_config(
    operator: Operator,
    query: build.Query,
    *,
    units: int,
    pipelines: int,
    tests: int | None,
    key_bits: int | None,
    modes: str | None,
    depth: int | None,
    banks: int | None,
) -> KernelConfig | WindowKernelConfig:
    """The kernel that the options describe; a window kernel is fed from memory.

    Raises
    ------
    UsageError
        The options contradict each other, or there is no such build.
    MissingToolError
        The packages that hardware is generated with are not installed.
    QueryError, SchemaError, DataError, FileError
        The query or its files cannot be used.
    DeviceError
        The predicate cannot be built in hardware.
    """
    if operator is Operator.WINDOW:
        if query.sql is not None or modes is not None:
            raise UsageError("--sql and --modes are for range joins; a window kernel gives pairs")
        if pipelines != 1:
            raise UsageError("--pipelines is for range joins; a window kernel has --banks")
        return window_config(tests, key_bits, depth, banks)
    if banks is not None or depth is not None:
        raise UsageError("--rows-depth and --banks are for --operator window: add it")
    join = build.join_config(query, units=units, tests=tests, key_bits=key_bits, modes=modes)
    from penstock.hw.kernel.config import KernelConfig

    try:
        return KernelConfig.fit(join, pipelines)
    except ValueError as error:
        raise UsageError(str(error)) from None


def window_config(
    tests: int | None = None,
    key_bits: int | None = None,
    depth: int | None = None,
    banks: int | None = None,
) -> WindowKernelConfig:
    """A window kernel that is fed from memory; see :func:`kernel_config`."""
    try:
        from penstock.hw.window.config import WindowConfig
        from penstock.hw.window.kernel.config import WindowKernelConfig
    except ModuleNotFoundError as error:
        raise build.missing(error) from None
    try:
        window = WindowConfig(
            depth=DEPTH if depth is None else depth,
            banks=BANKS if banks is None else banks,
            tests=build.TESTS if tests is None else tests,
            key_bits=build.KEY_BITS if key_bits is None else key_bits,
        )
        return WindowKernelConfig(window=window)
    except ValueError as error:
        raise UsageError(str(error)) from None


def describe_window(window: WindowConfig) -> str:
    """What a window-join operator is, in a line."""
    test = "equality" if not window.is_band else "1 band test"
    if window.tests > 1:
        test = f"{window.tests} band tests"
    return (
        f"window join of up to {window.depth} ROWS, {window.banks} banks, {test} of "
        f"{window.key_bits} bits"
    )
