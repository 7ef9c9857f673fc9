"""Decides which probes to prune, and gives their remaining ranges.

Where pruning gains little it soon costs nothing: after a probe with little gain the next ones are
not pruned, twice as many each time. All decisions follow from counts, none from a clock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from penstock.program import BandProgram, Mode, Program

from ..device.cut import TASK_EVALUATIONS, whole
from ..keys.prepare import Layout
from ..windows.run import Snapshot
from .plan import Plan, PrunedRanges
from .sizes import Pruning
from .slabs import RunSlabs

#: Share of a probe's pairs to prune if the next probe is to be tried, too.
LEAST_GAIN = 0.2
#: Most probes without an attempt before the next one.
MOST_SKIPPED = 64


class Pruner:
    """Plans the probes of one form.

    Parameters
    ----------
    pruning : Pruning or None
        None leaves every probe as it is.
    task_evaluations : int
        Evaluations of the device's tasks, from which its speed follows.
    """

    def __init__(self, pruning: Pruning | None, task_evaluations: int = TASK_EVALUATIONS) -> None:
        self.pruning = pruning
        self.speed = min(task_evaluations / TASK_EVALUATIONS, 1.0)
        self._runs: dict[tuple[int, bool], RunSlabs] = {}

    def parts(
        self,
        window: Snapshot,
        layout: Layout,
        stream: Sequence[np.ndarray],
        start: np.ndarray,
        end: np.ndarray,
        mode: Mode,
    ) -> list[PrunedRanges]:
        """The ranges of a probe that a device has to evaluate.

        Parameters
        ----------
        window : Snapshot
        layout : Layout
        stream : sequence of ndarray, each of shape (n,)
            Keys of the stream tuples.
        start, end : ndarray of int64, shape (n,)
            Their ranges.
        mode : Mode
            What becomes of matches. A match in PAIRS may lie outside the range of its tuple: see
            :meth:`~penstock.host.prune.plan.PrunedRanges.matches`.
        """
        everything = whole(start, end)
        if not len(everything.rows):
            return []
        unpruned = [PrunedRanges(window, (everything,))]
        sizes = self.pruning
        pairs = everything.evaluations
        if sizes is None or not _may_prune(layout.program, mode):
            return unpruned
        # Of equally near matches the lowest position counts, so rows keep their order.
        clustered = mode is not Mode.NEAREST
        key = (window.run, clustered)
        if key not in self._runs:
            self._runs[key] = RunSlabs(sizes.slab_rows, sizes.block_rows, clustered=clustered)
        slabs = self._runs[key]
        slabs.pairs += pairs
        if pairs < sizes.least_pairs * self.speed:
            return unpruned
        if slabs.skip:
            slabs.skip -= 1
            return unpruned
        rows = slabs.rows + len(everything.rows) + slabs.growth(window)
        if slabs.pairs < sizes.pairs_per_row * self.speed * (rows - sizes.free_rows):
            return unpruned
        slabs.rows = rows
        parts = unpruned
        if slabs.extend(window, layout, stream):
            planned = Plan(sizes, slabs, window, stream, everything, mode).parts()
            if pairs - sum(part.evaluations for part in planned) >= LEAST_GAIN * pairs:
                parts = planned
        slabs.misses = slabs.misses + 1 if parts is unpruned else 0
        slabs.skip = min((1 << slabs.misses) - 1, MOST_SKIPPED)
        return parts

    def keep(self, runs: Collection[int]) -> set[int]:
        """Forget all other runs; returns the numbers of runs to keep in device memory."""
        for key in [key for key in self._runs if key[0] not in runs]:
            del self._runs[key]
        return {level.number for slabs in self._runs.values() for level in slabs.levels}

    @property
    def nbytes(self) -> int:
        """Bytes of main memory, about."""
        return sum(slabs.nbytes for slabs in self._runs.values())


def _may_prune(program: Program, mode: Mode) -> bool:
    """Whether a mode allows pruning, which reorders rows: sums of floats depend on the order."""
    if mode is not Mode.SUM or isinstance(program, BandProgram):
        return True
    return program.value is not None and not program.value.type.is_float
