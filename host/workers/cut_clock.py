"""Timing of the parent's cuts: for checkpoints, or to know that groups have been given."""

from __future__ import annotations

import time

from ..execute.budget import RESULTS_SHARE
from .checkpoint import Checkpoint
from .protocol.parent import Parent
from .results import Tally

#: Share of the budget that batches not covered by a record may take before a checkpoint is forced.
_FORCED = 0.25
#: Share of the latency target between two cuts.
_CUT = 0.25


class CutClock:
    """Clock that says when the next cut is due, in monotonic seconds.

    Parameters
    ----------
    parent : Parent
    tally : Tally
        Counts output rows that wait.
    checkpoint : Checkpoint or None
        Says how many seconds lie between two cuts.
    latency_s : float
        Without a checkpoint a cut is due a part of this after watermarks completed groups.
    limit : int
        Bytes of batches and output rows; near it a checkpoint is due early, as it frees them.
    """

    def __init__(
        self,
        parent: Parent,
        tally: Tally,
        checkpoint: Checkpoint | None,
        latency_s: float,
        limit: int,
    ) -> None:
        self._parent, self._tally = parent, tally
        self._checkpoint, self._latency_s, self._limit = checkpoint, latency_s, limit
        self._ended = time.monotonic()
        self._is_wanted = self._has_raised = self._has_changed = False
        #: Number of the cut that covers the last promise that completes groups.
        self.covering = 0

    @property
    def next_number(self) -> int:
        """Number of the next cut that can begin."""
        return self._parent.committed + (1 if self._parent.may_cut else 2)

    def changed(self) -> None:
        """Note that something was pushed or promised."""
        self._has_changed = True

    def raised(self) -> int:
        """Note a promise that completes groups; returns the number of the cut that covers it."""
        self._has_raised = self._has_changed = True
        self.covering = self.next_number
        return self.covering

    def want(self) -> int:
        """Ask for a cut at once; returns the number of the cut that covers all so far."""
        self._is_wanted = True
        return self.next_number

    def began(self) -> None:
        """Note that a cut has begun, which covers all so far."""
        self._is_wanted = self._has_raised = self._has_changed = False

    def ended(self) -> None:
        """Note that a cut is over."""
        self._ended = time.monotonic()

    @property
    def due(self) -> float | None:
        """Time of the next cut; None if there is no need, or a cut is under way."""
        if not self._parent.may_cut:
            return None
        if self._is_wanted:
            return 0.0
        if self._checkpoint is None:
            return self._ended + _CUT * self._latency_s if self._has_raised else None
        if not self._has_changed:
            return None
        uncovered = self._tally.nbytes() - self._tally.nbytes(self._parent.committed)
        is_full = (
            self._parent.held_bytes > _FORCED * self._limit
            or uncovered > RESULTS_SHARE * self._limit / 2
        )
        return 0.0 if is_full else self._ended + self._checkpoint.every_s
