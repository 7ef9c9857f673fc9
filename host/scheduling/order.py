"""A task on its way to a lane: everything that any lane needs to run it, or to run it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.host.completeness.engine import Probe
from penstock.host.device.base import Pause
from penstock.host.device.cut import Piece, cut, whole
from penstock.host.prepare import Layout
from penstock.program import Mode


@dataclass(frozen=True, eq=False)
class Bound:
    """A probe with its program and its stream keys.

    Parameters
    ----------
    probe : Probe
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
    layout: Layout
    arrays: Sequence[np.ndarray]
    kept: np.ndarray
    mode: Mode = Mode.PAIRS
    modes: frozenset[Mode] = frozenset({Mode.PAIRS})


@dataclass(frozen=True, eq=False)
class Order:
    """Part of a probe, small enough for one task.

    Parameters
    ----------
    batch : int
        Batch whose tuples probe.
    bound : Bound
    piece : Piece
        ``rows`` index ``bound.arrays``; ranges are logical positions of the run.
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
        return int(self.piece.start[0])

    @property
    def high(self) -> int:
        """Logical position after the last one that it reads."""
        return int(self.piece.end.max())

    def rest(self, pause: Pause) -> list[Order]:
        """What is left to do after a pause, as orders of their own."""
        return [Order(self.batch, self.bound, piece) for piece in reversed(self.piece.rest(pause))]


def orders_of(batch: int, bound: Bound, lanes: int, most: int) -> Iterator[Order]:
    """A bound probe in tasks of at most ``most`` evaluations, enough of them for all lanes."""
    kept = bound.kept
    pieces = cut(whole(bound.probe.start[kept], bound.probe.end[kept]), lanes, most)
    for piece in pieces:
        if len(piece.rows):
            yield Order(batch, bound, piece)
