"""Probes of a step: tuples of one side against a run of the other side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.expr.columns import Columns
from penstock.plan.plan import fold_name
from penstock.plan.query import other

from ..rows.sides import Arrival
from ..rows.stretches import WindowPart
from .run import Snapshot, WindowRun

#: Per side, the time below which no later row comes.
Watermarks = Mapping[str, int]


@dataclass(frozen=True)
class Evaluated:
    """The part of a probe that devices evaluate: a range of a run per tuple.

    Parameters
    ----------
    columns : mapping of (side, name) to Vector
        Columns of the tuples.
    start, end : ndarray of int64, shape (tuples,)
        Logical positions ``[start, end)`` of the run; both non-decreasing.
    """

    window: Snapshot
    columns: Columns
    start: np.ndarray
    end: np.ndarray

    def columns_between(self, low: int, high: int) -> Columns:
        """Return the columns of tuples ``[low, high)``, with the bounds of all tuples."""
        if high - low == len(self.start):
            return self.columns
        return {key: v.between(low, high) for key, v in self.columns.items()}


@dataclass(frozen=True)
class ProbePart:
    """Some tuples of a probe against a run that is part of its window.

    Parameters
    ----------
    first : int
        Index in the probe of the part's first tuple; the part is contiguous.
    window : WindowPart
        Positions of the run's rows in the probe's window.
    """

    evaluated: Evaluated
    first: int
    window: WindowPart


@dataclass(frozen=True)
class Probe:
    """New tuples of one side against a run of the other.

    Parameters
    ----------
    start, end : ndarray of int64, shape (len(stream.rows),)
        Logical positions ``[start, end)`` of the run, per tuple; both non-decreasing.
    fold : int, optional
        Number of the plan's fold to compute; None to evaluate the predicate's form.
    part : ProbePart, optional
        The part to evaluate; the whole probe by default.
    """

    stream: Arrival
    window: Snapshot
    start: np.ndarray
    end: np.ndarray
    fold: int | None = None
    part: ProbePart | None = None

    @property
    def window_side(self) -> str:
        return other(self.stream.side)

    @property
    def form(self) -> str:
        """Key of the plan's evaluation."""
        return self.window_side if self.fold is None else fold_name(self.fold)

    @cached_property
    def evaluated(self) -> Evaluated:
        if self.part is not None:
            return self.part.evaluated
        return Evaluated(self.window, self.stream.rows.columns, self.start, self.end)

    @cached_property
    def pairs(self) -> int:
        """Number of pairs that the window admits."""
        return int(self.evaluated.end.sum() - self.evaluated.start.sum())

    def tuples(self, rows: np.ndarray) -> np.ndarray:
        """Map indices of evaluated tuples to tuples of the probe."""
        return rows if self.part is None else rows.astype(np.int64) + self.part.first

    def positions(self, positions: np.ndarray) -> np.ndarray:
        """Map logical positions of the evaluated run to positions of the probe's window."""
        return positions if self.part is None else self.part.window.places(positions)


@dataclass(frozen=True)
class WindowStep:
    """The result of new tuples, or of new watermarks.

    Parameters
    ----------
    probes : tuple of Probe
    entered : tuple of Arrival
        Tuples that entered a window, with their arrival numbers.
    probing : tuple of Arrival
        If rows are probed once, when their window closes: the rows probed now, at most one arrival.
    timeless : tuple of Arrival
        Tuples without a time, which enter no window.
    """

    probes: tuple[Probe, ...] = ()
    entered: tuple[Arrival, ...] = ()
    probing: tuple[Arrival, ...] = ()
    timeless: tuple[Arrival, ...] = ()


def make_probe(new: Arrival, run: WindowRun, start: np.ndarray, end: np.ndarray) -> list[Probe]:
    """Make a probe of ranges that count from the run's first row, unless they have no pair."""
    if not (end > start).any():
        return []
    if run.first:
        start, end = start + run.first, end + run.first
    return [Probe(new, run.snapshot(), start, end)]
