"""Write hardware as files: the kernel with all that describes it, or the pipeline alone.

``python -m penstock.hw.export --tests 2 --units 64`` writes the pipeline's Verilog.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from penstock.constraints.boards import board as find_board
from penstock.errors import FileError, PenstockError
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.pipeline import Pipeline
from penstock.hw.kernel.config import KernelConfig
from penstock.hw.kernel.describe import c_header, documentation, kernel_xml, table
from penstock.hw.kernel.kernel import KERNEL, Kernel
from penstock.hw.verilog import verilog

#: Module name of the pipeline unless the caller has another.
TOP = "penstock_join"

#: AXI has signals that the kernel has no use for, memory slots have padding, and Vitis wants a
#: port named interrupt.
_KERNEL_WAIVERS = "/* verilator lint_off UNUSEDSIGNAL */\n/* verilator lint_off SYMRSVDWORD */\n"

_DEFAULTS = {field.name: field.default for field in fields(JoinConfig)}


def export(config: JoinConfig, name: str = TOP) -> str:
    """Verilog of a pipeline, band or general; the same text for the same arguments."""
    return verilog(Pipeline(config), name)


def kernel_verilog(config: KernelConfig, *, cache: Path | None = None) -> str:
    """Verilog of a kernel; the same text for the same configuration.

    Parameters
    ----------
    config : KernelConfig
    cache : Path, optional
        See :func:`penstock.hw.verilog.verilog`.
    """
    return _KERNEL_WAIVERS + verilog(Kernel(config), KERNEL, cache=cache)


def export_kernel(config: KernelConfig, board: str, out: Path) -> list[Path]:
    """Write all of a kernel that packaging and host software need.

    Parameters
    ----------
    config : KernelConfig
        The build.
    board : str
        Name of the board.
    out : Path
        Folder; made if it is not there.

    Returns
    -------
    list of Path
        Verilog, register table as JSON, C header and Markdown, and ``kernel.xml``. The same bytes
        for the same arguments.

    Raises
    ------
    UsageError
        There is no such board.
    FileError
        The folder cannot be written.
    """
    find_board(board)
    described = {"board": board, **table(config)}
    texts = {
        f"{KERNEL}.v": kernel_verilog(config),
        f"{KERNEL}.json": json.dumps(described, indent=2) + "\n",
        f"{KERNEL}.h": c_header(config),
        "registers.md": documentation(),
        "kernel.xml": kernel_xml(config),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{out} cannot be made: {error.strerror}") from None
    for name, text in texts.items():
        _write(out / name, text)
    return [out / name for name in texts]


def add_band_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that describe a band build."""
    for option, default, text in (
        ("--tests", 2, "band tests per predicate, 1 to 8"),
        ("--key-bits", _DEFAULTS["key_bits"], "width of a band code, 2 to 64"),
        ("--units", _DEFAULTS["units"], "join units"),
        ("--units-per-block", _DEFAULTS["units_per_block"], "join units per result FIFO"),
        ("--spare-records", _DEFAULTS["spare_records"], "FIFO records beyond the reserve"),
    ):
        parser.add_argument(
            option, type=int, default=default, metavar="N", help=f"{text} (default: {default})"
        )


def band_config(options: argparse.Namespace) -> JoinConfig:
    """The build that the options describe."""
    return JoinConfig(
        tests=options.tests,
        key_bits=options.key_bits,
        units=options.units,
        units_per_block=options.units_per_block,
        spare_records=options.spare_records,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m penstock.hw.export", description=__doc__)
    add_band_arguments(parser)
    parser.add_argument("--name", default=TOP, help=f"name of the module (default: {TOP})")
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: the terminal)")
    options = parser.parse_args(arguments)
    try:
        config = band_config(options)
    except ValueError as error:
        parser.error(str(error))
    try:
        text = export(config, options.name)
        if options.output is None:
            sys.stdout.write(text)
        else:
            _write(options.output, text)
    except PenstockError as error:
        parser.exit(error.exit_code, f"{error}\n")
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
