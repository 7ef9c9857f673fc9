"""Cycles of the window kernel, computed from its operator's rounds (docs/window-operator.md).

The constants were fitted to the counted cycles of the Verilated kernel with memory that answers at
once; ``tests/host/model`` compares them.
"""

from __future__ import annotations

#: Cycles of a round besides its reads.
ROUND_CYCLES = 2
#: Cycles of a task besides its rounds: start, truth tables, first words from memory, header.
TASK_CYCLES = 20


def round_cycles(rows: int, banks: int) -> int:
    """Cycles from one tuple of a side to the next while results have room to leave."""
    return -(-rows // banks) + ROUND_CYCLES


def window_task_cycles(
    tuples: int, history: int, rows: int, banks: int, tuple_words: float = 1
) -> float:
    """Cycles of a task whose tuples come from both sides in turn, with few results.

    Each round takes a tuple of each side. The first tuple goes alone, each later one of its side
    with the other side's tuple before it: one round more than tuples per side.

    Parameters
    ----------
    tuples : int
        Tuples that are matched.
    history : int
        Tuples that fill the windows first, as fast as memory gives them.
    rows : int
        Size of both windows.
    banks : int
        Queue tuples that the operator tests per cycle and side.
    tuple_words : float, optional
        Words of the memory port that a tuple takes; the operator takes one tuple a cycle at most.
    """
    fill = history * max(tuple_words, 1)
    return fill + (tuples // 2 + 1) * round_cycles(rows, banks) + TASK_CYCLES
