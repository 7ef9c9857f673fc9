"""Write a window-join operator as Verilog, or count its cells.

``python -m penstock.hw.window.export --depth 65536``
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from penstock.errors import FileError, PenstockError

from ..cells import Cells, synthesise
from ..verilog import verilog
from .config import WindowConfig
from .operator import WindowJoin

#: Module name of the operator unless the caller has another.
TOP = "penstock_window"

_OPTIONS = {
    "depth": "slots of each queue, the most ROWS of a window",
    "banks": "queue tuples that are tested per cycle and side",
    "tests": "band tests per pair, 0 for equality",
    "key_bits": "width of the key, or of a band code",
    "time_bits": "width of the timestamp, 0 for none",
    "payload_a_bits": "width of the payload of side A",
    "payload_b_bits": "width of the payload of side B",
    "outputs": "results per cycle",
}


def export(config: WindowConfig, name: str = TOP, *, cache: Path | None = None) -> str:
    """Verilog of an operator; the same text for the same arguments.

    Parameters
    ----------
    config : WindowConfig
    name : str
        Name of the module.
    cache : Path, optional
        See :func:`penstock.hw.verilog.verilog`.
    """
    return verilog(WindowJoin(config), name, cache=cache)


def count_cells(config: WindowConfig) -> Cells:
    """Synthesise an operator and count its cells."""
    return synthesise(export(config), TOP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m penstock.hw.window.export", description=__doc__
    )
    defaults = {field.name: field.default for field in fields(WindowConfig)}
    for name, text in _OPTIONS.items():
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=int,
            default=defaults[name],
            metavar="N",
            help=f"{text} (default: {defaults[name]})",
        )
    parser.add_argument(
        "--sequential", action="store_true", help="one tuple at a time, as in paper 4, figure 3"
    )
    parser.add_argument("--cells", action="store_true", help="count cells instead")
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: the terminal)")
    options = parser.parse_args(arguments)
    try:
        config = WindowConfig(
            parallel=not options.sequential, **{name: getattr(options, name) for name in _OPTIONS}
        )
    except ValueError as error:
        parser.error(str(error))
    try:
        if options.cells:
            cells = count_cells(config)
            text = f"{cells.lut} LUT, {cells.ff} FF, {cells.bram} block RAM\n"
        else:
            text = export(config)
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
