"""Joules: an estimate from counts of cells, since no board was at hand to measure.

``power = base + clock * (toggles * (lut * LUT + ff * FF) + ff * CLOCK + bram * enabled * RAM)``

Everything here is an assumption that the table's heading repeats. A toggle is counted as the
vendor's power estimator does (UG440): at 100 % a net changes at every edge of the clock. The
energies are what the estimator's default settings give for designs of this kind, rounded: about
0.5 pJ per change of a LUT's or flip-flop's output with its routing at 28 nm and 1.0 V, and half of
that at 16 nm and 0.85 V, as capacitance and the square of the voltage fall. Base power is what a
board takes whatever its kernels do: leakage, the processing system or the card's shell, memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.constraints.boards import Board
from penstock.hw.cells import Cells

#: Share of clock edges at which a net changes. The estimator's default is 12.5 %; window tuples
#: differ in most of the lower half of their bits.
TOGGLES = 0.25
#: Share of cycles in which a block RAM reads or writes.
ENABLED = 0.5


@dataclass(frozen=True)
class Energy:
    """Picojoules of a process.

    Parameters
    ----------
    lut, ff : float
        A change of an output, with its routing.
    clock : float
        An edge of the clock at a flip-flop.
    ram : float
        An access to a block RAM of 36 kbit.
    """

    lut: float
    ff: float
    clock: float
    ram: float


#: By the process of the part: 7 series at 28 nm, UltraScale+ at 16 nm.
ENERGY = {
    28: Energy(lut=0.5, ff=0.3, clock=0.03, ram=12.0),
    16: Energy(lut=0.25, ff=0.15, clock=0.015, ram=6.0),
}

#: Watts that a board takes while its kernels rest.
BASE_W = {
    "u50": 20.0,
    "u200": 27.0,
    "u250": 30.0,
    "u280": 30.0,
    "pynq-z2": 2.0,
    "zcu104": 6.0,
    "kv260": 5.0,
    "ultra96v2": 4.0,
}


def dynamic_w(cells: Cells, board: Board, clock_mhz: float) -> float:
    """Watts that cells take beside the board's base power, at a clock."""
    energy = ENERGY[28 if board.part.startswith("xc7") else 16]
    switched = TOGGLES * (cells.lut * energy.lut + cells.ff * energy.ff)
    cycle_pj = switched + cells.ff * energy.clock + cells.bram * ENABLED * energy.ram
    return cycle_pj * clock_mhz * 1e-6
