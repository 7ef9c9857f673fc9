"""Write the join pipeline as Verilog: ``python -m penstock.hw.export --tests 2 --units 64``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from penstock.errors import FileError, PenstockError
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.pipeline import Pipeline
from penstock.hw.verilog import verilog

#: Module name of the pipeline unless the caller has another.
TOP = "penstock_join"

_DEFAULTS = {field.name: field.default for field in fields(JoinConfig)}


def export(config: JoinConfig, name: str = TOP) -> str:
    """Verilog of a pipeline, band or general; the same text for the same arguments."""
    return verilog(Pipeline(config), name)


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
