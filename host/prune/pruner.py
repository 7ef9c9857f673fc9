"""Searches for probes in an order of their window, and gives their remaining ranges.

Where an order gains little it soon costs nothing: after a probe without one the next ones are left
as they are, twice as many each time. All decisions follow from counts, none from a clock.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from penstock.program import Mode

from ..device.cut import TASK_EVALUATIONS, Piece, whole
from ..keys.prepare import Layout
from ..windows.run import Snapshot
from .cell_search import Orderings
from .cells import Grid
from .choice import GridChoice, costs_of
from .chooser import Chooser, SearchKeys
from .costed import Costed
from .parts import OrderedRun, Part, PrunedRanges
from .sizes import Pruning
from .zones import ZoneOrder


class Pruner:
    """Plans the probes of one form.

    Parameters
    ----------
    pruning : Pruning or None
        None leaves every probe as it is.
    task_evaluations : int
        Evaluations of the device's tasks, from which its speed follows.
    growing : bool
        Whether windows grow.
    searches : bool
        Whether the devices run searches; others are given ranges.
    units : int
        Stream tuples that a lane holds at a time.
    threads : int
        For sorting.
    is_band : bool
        Whether the form is band tests.

    Attributes
    ----------
    costed : Costed
    """

    def __init__(
        self,
        pruning: Pruning | None,
        task_evaluations: int = TASK_EVALUATIONS,
        *,
        growing: bool = True,
        searches: bool = False,
        units: int = 1,
        threads: int = 1,
        is_band: bool = True,
    ) -> None:
        self.pruning = pruning
        self.threads = threads
        self._may_search = searches and pruning is not None
        self._growing = growing
        self._chooser: Chooser | None = None
        if pruning is not None:
            speed = min(task_evaluations / TASK_EVALUATIONS, 1.0)
            costs = costs_of(searches=searches, units=units, speed=speed, is_band=is_band)
            self._chooser = Chooser(pruning, costs, growing=growing, speed=speed)
        self.costed = Costed() if self._chooser is None else self._chooser.costed
        self._runs: dict[int, Orderings] = {}

    def parts(
        self,
        window: Snapshot,
        layout: Layout,
        by: SearchKeys,
        start: np.ndarray,
        end: np.ndarray,
        mode: Mode,
    ) -> list[Part]:
        """The ranges of a probe that a device has to evaluate.

        Parameters
        ----------
        window : Snapshot
        layout : Layout
        by : SearchKeys
            Of n stream tuples.
        start, end : ndarray of int64, shape (n,)
            Their ranges.
        mode : Mode
            What becomes of matches.
        """
        everything = whole(start, end)
        if not len(everything.rows):
            return []
        unpruned: list[Part] = [PrunedRanges(window, (everything,))]
        chooser = self._chooser
        if chooser is None or not chooser.considers(layout.program, mode, everything):
            return unpruned
        if window.run not in self._runs:
            self._runs[window.run] = Orderings(chooser, self.threads)
        orderings = self._runs[window.run]
        if orderings.skip:
            orderings.skip -= 1
            return unpruned
        while orderings.prepare(window, layout, by, everything):
            parts = orderings.parts(window, by, everything)
            if orderings.levels:
                return parts
        if not orderings.levels:
            orderings.missed()
        return unpruned

    def late(
        self,
        window: Snapshot,
        layout: Layout,
        by: SearchKeys,
        ranges: Piece,
        sample: Piece,
        mode: Mode,
    ) -> tuple[OrderedRun, Grid | ZoneOrder, GridChoice] | None:
        """The order in which to search for a probe whose tuples have no keys yet.

        None if it needs them. Arguments as for :meth:`.cell_search.Orderings.covering`; the run
        :meth:`is_ordered`.
        """
        orderings = self._runs[window.run]
        if not orderings.chooser.considers(layout.program, mode, ranges):
            return None
        return orderings.covering(window, layout, by, ranges, sample)

    def is_ordered(self, run: int) -> bool:
        """Whether a run may have an order now: not before its first probe, which needs keys."""
        return run in self._runs and not self._runs[run].skip

    @property
    def may_be_late(self) -> bool:
        """Whether probes may be searched for before their tuples have keys."""
        return self._may_search and not self._growing

    @property
    def may_search(self) -> bool:
        """Whether later probes may be searched for, as windows grow."""
        return self._may_search and self._growing

    @property
    def least_pairs(self) -> float:
        """Fewest pairs of a probe to look for an order."""
        return 0 if self._chooser is None else self._chooser.least_pairs

    def keep(self, runs: Collection[int]) -> set[int]:
        """Forget all other runs; returns the numbers of runs to keep in device memory."""
        for run in [run for run in self._runs if run not in runs]:
            del self._runs[run]
        return {number for held in self._runs.values() for number in held.numbers}

    @property
    def nbytes(self) -> int:
        """Bytes of main memory, about."""
        return sum(held.nbytes for held in self._runs.values())
