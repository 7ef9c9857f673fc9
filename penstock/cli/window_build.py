"""What ``export --operator window`` builds."""

from __future__ import annotations

from pathlib import Path

from penstock.cli import build
from penstock.errors import UsageError

#: What a build has unless options say otherwise.
DEPTH, BANKS = 1 << 12, 8


def write(
    board: str,
    out: Path,
    *,
    kernels: int,
    tests: int | None,
    key_bits: int | None,
    depth: int | None,
    banks: int | None,
    streams: bool,
) -> tuple[list[Path], str]:
    """Write a window kernel; its files, and what it is in a line.

    Raises
    ------
    UsageError
        There is no such build, or no such board.
    MissingToolError
        The packages that hardware is generated with are not installed.
    FileError
        The folder cannot be written.
    """
    try:
        from penstock.hw.window.config import WindowConfig
        from penstock.hw.window.kernel.config import WindowKernelConfig
        from penstock.hw.window.kernel.export import export_window_kernel
    except ModuleNotFoundError as error:
        raise build.missing(error) from None
    try:
        window = WindowConfig(
            depth=DEPTH if depth is None else depth,
            banks=BANKS if banks is None else banks,
            tests=build.TESTS if tests is None else tests,
            key_bits=build.KEY_BITS if key_bits is None else key_bits,
        )
        config = window if streams else WindowKernelConfig(window=window)
        files = export_window_kernel(config, board, out, kernels=kernels)
    except ValueError as error:
        raise UsageError(str(error)) from None
    test = "equality" if not window.is_band else "1 band test"
    if window.tests > 1:
        test = f"{window.tests} band tests"
    fed = "from stream ports" if streams else "from memory"
    kind = (
        f"window join of up to {window.depth} ROWS, {window.banks} banks, {test} of "
        f"{window.key_bits} bits, fed {fed}"
    )
    return files, kind
