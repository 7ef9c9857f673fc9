"""A task on its way to a lane: everything that any lane needs to run it, or to run it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.program import Mode

from ..device.cut import Piece, cut
from ..keys.prepare import Layout
from ..prune.plan import PrunedRanges
from ..windows.engine import Probe

#: Tasks per lane and probe of a batch. Two are in flight; more would only cost the host time, since
#: the next batch follows before they are done.
TASKS_PER_LANE = 2
#: Evaluations below which a task of a stream is not cut further: two milliseconds of a core. The
#: host takes half a millisecond of the interpreter's time to start it and to take its results; with
#: tasks a quarter as long a stream with a target of 20 ms kept it at half the rate only.
LEAST_EVALUATIONS = 1 << 26


@dataclass(frozen=True, eq=False)
class Bound:
    """A probe with its program and its stream keys, against the window in one order.

    Parameters
    ----------
    probe : Probe
    ranges : PrunedRanges
        What is read: ranges of the probe's window, or of its rows rearranged.
    layout : Layout
    arrays : sequence of ndarray
        Device arrays of the tuples that can match at all.
    kept : ndarray of int64
        Which tuples of the probe those are.
    mode : Mode
    modes : frozenset of Mode
        All that the probe's form is asked for; a kernel serves them together.
    """

    probe: Probe
    ranges: PrunedRanges
    layout: Layout
    arrays: Sequence[np.ndarray]
    kept: np.ndarray
    mode: Mode = Mode.PAIRS
    modes: frozenset[Mode] = frozenset({Mode.PAIRS})

    def pairs(self, rows: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Matches as tuples of the probe and logical positions of its window.

        Parameters
        ----------
        rows, places : ndarray of int, shape (m,)
            Tuples of the probe, and where in ``ranges.source`` they matched.
        """
        return self.ranges.matches(rows, places, self.probe.start, self.probe.end)


@dataclass(frozen=True, eq=False)
class Order:
    """Part of a probe, small enough for one task.

    Parameters
    ----------
    batch : int
        Batch whose tuples probe.
    bound : Bound
    piece : Piece
        ``rows`` index ``bound.arrays``; ranges are positions of ``bound.ranges.source``.
    """

    batch: int
    bound: Bound
    piece: Piece
    evaluations: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "evaluations", self.piece.evaluations)

    @property
    def low(self) -> int:
        """First logical position that it reads."""
        return self.piece.low

    @property
    def high(self) -> int:
        """Logical position after the last one that it reads."""
        return self.piece.high


def orders_of(batch: int, bound: Bound, lanes: int, most: int, units: int = 1) -> Iterator[Order]:
    """A part of a bound probe in tasks of at most ``most`` evaluations, enough for all lanes.

    ``units`` is what a lane holds at a time, see :func:`penstock.host.device.cut.cut`.
    """
    for whole in bound.ranges.pieces:
        for piece in cut(
            whole,
            lanes,
            most,
            units=units,
            tasks_per_lane=TASKS_PER_LANE,
            least=LEAST_EVALUATIONS,
        ):
            if len(piece.rows):
                yield Order(batch, bound, piece)
