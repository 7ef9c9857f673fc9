"""Size of the paper's pipeline, measured and as the paper has it."""

from __future__ import annotations

from ...cells import Cells, synthesise
from ...verilog import verilog
from .config import FJoinConfig
from .pipeline import FJoinPipeline
from .predicates import manhattan

#: Table 4 of the paper: cells of one pipeline by its units, kernel around it included, by Vivado.
#: Its tuples have 128 bits, and its predicate is the same distance in three stages.
PAPER_CELLS = {
    256: Cells(lut=105_000, ff=225_000, bram=23),
    512: Cells(lut=209_000, ff=450_000, bram=37),
}


#: Module name of the pipeline.
FJOIN_TOP = "fjoin"


def fjoin_verilog(units: int, key_bits: int = 32) -> str:
    """Verilog of units, state machine and outlet, for the Manhattan distance.

    Raises
    ------
    ValueError
        There is no such build.
    """
    config = FJoinConfig(program=manhattan(key_bits, limit=500), units=units)
    return verilog(FJoinPipeline(config), FJOIN_TOP)


def count_fjoin(units: int, key_bits: int = 32) -> Cells:
    """Cells of units, state machine and outlet, by Manhattan distance; without a kernel.

    Raises
    ------
    ValueError
        There is no such build.
    MissingToolError
        Yosys is not installed.
    """
    return synthesise(fjoin_verilog(units, key_bits), FJOIN_TOP)
