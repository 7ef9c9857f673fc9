"""Count the cells of a pipeline: ``python -m penstock.hw.cells --tests 2 --units 64``.

Yosys maps to UltraScale+ cells; no vendor tool is needed, and none would agree to the last LUT.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import PenstockError
from penstock.hw.export import TOP, add_band_arguments, band_config, export
from penstock.hw.join.config import JoinConfig
from penstock.hw.verilog import run_yosys

#: LUTs that a distributed memory cell takes in a slice that can hold memories.
_MEMORY_LUTS = {"RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8, "RAM64X1D": 2, "RAM32X1D": 2}
_MEMORY_LUTS |= {"RAM128X1D": 4, "RAM256X1D": 8, "RAM256X1S": 4, "RAM64X1S": 1, "RAM32X1S": 1}


@dataclass(frozen=True)
class Cells:
    """Cells of a design: LUTs (memories in LUTs included), flip-flops, block RAMs, DSPs."""

    lut: int
    ff: int
    bram: int
    dsp: int = 0


def count_cells(config: JoinConfig) -> Cells:
    """Synthesise a pipeline and count its cells."""
    return synthesise(export(config), TOP)


def synthesise(text: str, top: str) -> Cells:
    """Synthesise Verilog and count its cells."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "in.v").write_text(text)
        script = [
            "read_verilog in.v",
            f"synth_xilinx -family xcup -abc9 -flatten -top {top}",
            "tee -q -o stat.txt stat",
        ]
        run_yosys(script, folder)
        return _cells((folder / "stat.txt").read_text())


def _cells(report: str) -> Cells:
    counts: Counter[str] = Counter()
    for number, name in re.findall(r"^\s*(\d+)\s+(?:[\d.]+\s+|-\s+)?([A-Z]\w+)\s*$", report, re.M):
        counts[name] += int(number)
    luts = sum(n for name, n in counts.items() if re.fullmatch(r"LUT\d|INV|SRL\w+", name))
    luts += sum(n * _MEMORY_LUTS[name] for name, n in counts.items() if name in _MEMORY_LUTS)
    return Cells(
        lut=luts,
        ff=sum(n for name, n in counts.items() if name.startswith("FD")),
        bram=sum(n for name, n in counts.items() if name.startswith("RAMB")),
        dsp=sum(n for name, n in counts.items() if name.startswith("DSP")),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m penstock.hw.cells", description=__doc__)
    add_band_arguments(parser)
    options = parser.parse_args(arguments)
    try:
        config = band_config(options)
    except ValueError as error:
        parser.error(str(error))
    try:
        cells = count_cells(config)
    except PenstockError as error:
        parser.exit(error.exit_code, f"{error}\n")
    sys.stdout.write(
        f"{config.units} units: {cells.lut} LUT, {cells.ff} FF, {cells.bram} block RAM; per unit "
        f"{cells.lut / config.units:.1f} LUT, {cells.ff / config.units:.1f} FF\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
