"""Cells of a design, as Yosys maps it to UltraScale+.

It needs no vendor tool; those give slightly other numbers.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .export import TOP, export
from .join.config import JoinConfig
from .verilog import run_yosys

#: UltraScale+.
FAMILY = "xcup"

#: LUTs of each distributed memory cell, in a slice that can hold memories.
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


def synthesise(text: str, top: str, family: str = FAMILY) -> Cells:
    """Synthesise Verilog and count its cells.

    Parameters
    ----------
    text, top : str
        Verilog, and its top module.
    family : str
        Of parts, as Yosys' ``synth_xilinx`` names them.
    """
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "in.v").write_text(text)
        run_yosys([*_mapping(top, family), "tee -q -o stat.txt stat"], folder)
        return _cells((folder / "stat.txt").read_text())


def _mapping(top: str, family: str) -> list[str]:
    name = f"\\{top}" if "." in top else top
    return ["read_verilog in.v", f"synth_xilinx -family {family} -abc9 -flatten -top {name}"]


def _cells(report: str) -> Cells:
    counts: Counter[str] = Counter()
    for number, name in re.findall(r"^\s*(\d+)\s+(?:[\d.]+\s+|-\s+)?([A-Z]\w+)\s*$", report, re.M):
        counts[name] += int(number)
    luts = sum(n for name, n in counts.items() if re.fullmatch(r"LUT\d|INV|SRL\w+", name))
    luts += sum(n * _MEMORY_LUTS[name] for name, n in counts.items() if name in _MEMORY_LUTS)
    halves = sum(
        n * (1 if name.startswith("RAMB18") else 2)
        for name, n in counts.items()
        if name.startswith("RAMB")
    )
    return Cells(
        lut=luts,
        ff=sum(n for name, n in counts.items() if name.startswith("FD")),
        bram=-(-halves // 2),
        dsp=sum(n for name, n in counts.items() if name.startswith("DSP")),
    )
