"""Cut a task into passes of the pipeline, and read its records.

A pass moves the window forward once. A unit holds one stream tuple at a time, and tuple k of a
pass lives in unit ``k % units``; where that unit would still be busy, a new pass begins, for which
the window is rewound to the tuple's start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Pass:
    """One flow of window positions ``[begin, end)`` past stream tuples ``[first, stop)``."""

    first: int
    stop: int
    begin: int
    end: int


def plan(start: np.ndarray, end: np.ndarray, units: int) -> list[Pass]:
    """Cut tuples with ranges ``[start, end)`` into the fewest passes.

    Starts and ends do not fall, and no range is empty.

    A new pass begins where the unit is busy, and where no tuple is active: skipping the gap costs
    less than the window tuples in it.
    """
    passes: list[Pass] = []
    first = 0
    for i in range(1, len(start) + 1):
        done = i == len(start)
        busy = not done and i - first >= units and end[i - units] > start[i]
        if done or busy or start[i] > end[i - 1]:
            passes.append(Pass(first, i, int(start[first]), int(end[i - 1])))
            first = i
    return passes


def plan_batches(start: np.ndarray, end: np.ndarray, units: int) -> list[Pass]:
    """Cut for a pipeline that loads all tuples, lets the window flow, and clears all units.

    At most ``units`` tuples a pass. The window flows over a gap where no tuple is active, unless
    it is longer than the pipeline: draining and clearing costs more than shorter ones.
    """
    passes: list[Pass] = []
    first = 0
    for i in range(1, len(start) + 1):
        if i == len(start) or i - first == units or start[i] - end[i - 1] > units:
            passes.append(Pass(first, i, int(start[first]), int(end[i - 1])))
            first = i
    return passes


def recover(
    passes: Sequence[Pass], start: np.ndarray, units: int, unit: np.ndarray, ordinal: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find the stream index and window position of matches, from the unit and the ordinal.

    The ordinal counts the task's window flits, so it names the pass and the position. A tuple
    that was loaded into a unit before position p has ``start <= p``, and the last such tuple is
    the one that was in the unit: an older one was retired before it came. So no lap is needed.

    Parameters
    ----------
    passes : sequence of Pass
        The task's passes.
    start : ndarray
        Starts of its stream tuples.
    units : int
        Units of the pipeline.
    unit, ordinal : ndarray of int64
        One element per match.
    """
    begins = np.array([p.begin for p in passes], dtype=np.int64)
    firsts = np.array([p.first for p in passes], dtype=np.int64)
    stops = np.array([p.stop for p in passes], dtype=np.int64)
    lengths = np.array([p.end - p.begin for p in passes], dtype=np.int64)
    before = np.cumsum(lengths) - lengths
    number = np.searchsorted(before, ordinal, side="right") - 1
    position = begins[number] + ordinal - before[number]
    loaded = np.minimum(np.searchsorted(start, position, side="right"), stops[number])
    newest = loaded - firsts[number] - 1
    index = firsts[number] + newest - (newest - unit) % units
    return index, position
