"""The formulas of the window-join paper, and what it printed (Miyoshi et al., 2011)."""

from __future__ import annotations

#: Slices and block RAMs by ROWS, tuples of 100 bits, XC6VLX240T (Table 2). The last did not fit.
PAPER_TABLE_2 = {
    1 << 10: (43, 12),
    1 << 12: (49, 24),
    1 << 14: (410, 92),
    1 << 16: (793, 356),
    1 << 17: None,
}

#: Tuple width of that table, in bits.
PAPER_TUPLE_BITS = 100

#: Clock at which the paper states its rates, in Hz.
PAPER_CLOCK_HZ = 100e6


def input_rate(clock_hz: float, rows: int) -> float:
    """Tuples per second and side, formula (1)."""
    return clock_hz / (rows + 2)


def output_rate(clock_hz: float, selectivity: float) -> float:
    """Results per second where the port takes two per cycle, formula (3)."""
    return 2 * selectivity * clock_hz


def output_cycles_as_printed(rows: int, selectivity: float, outputs: int) -> float:
    """Cycles of a tuple by formula (5) as it is printed: results of one side, the smaller value."""
    return min(rows * selectivity / outputs, rows + 2)


def output_cycles(rows: int, selectivity: float, outputs: int, banks: int = 1) -> float:
    """Cycles of a tuple and side as the paper's text has them, with banks.

    Results of both sides leave through one port, and matching takes its time in any case: the
    larger value counts (docs/decisions).

    Parameters
    ----------
    rows : int
        Tuples of each window.
    selectivity : float
        Share of the pairs that are joined.
    outputs : int
        Results that leave per cycle.
    banks : int
        Queue tuples that are read per cycle and side.
    """
    return max(2 * rows * selectivity / outputs, -(-rows // banks) + 2)


def processing_rate(interval: float, cycles: float) -> float:
    """Share of the tuples that are admitted, formula (4).

    Parameters
    ----------
    interval : float
        Cycles from one tuple of a side to the next.
    cycles : float
        What a tuple takes, of formula (5).
    """
    return interval / cycles if interval < cycles else 1.0
