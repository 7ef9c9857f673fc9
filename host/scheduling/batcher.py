"""When waiting tuples become a batch (paper 1, section 4).

A batch takes 60 % of what waits at once; then half the latency target passes before the next, so
that batches stay large under load and a tuple that comes alone is not kept waiting. What a batch
left behind is part of the next one for certain. Time is an argument: nothing here looks at a clock.
"""

from __future__ import annotations

import math

#: Part of the waiting tuples that a batch takes.
AT_ONCE = 0.6
#: Part of the latency target between two batches.
WAIT = 0.5


class Batcher:
    """Counts what waits, and says when to cut how much.

    Parameters
    ----------
    target_s : float
        Latency target in seconds; 0 makes a batch of all that waits whenever something does.
    """

    def __init__(self, target_s: float) -> None:
        self.target_s = target_s
        self.waiting = 0
        self._left = 0
        self._next = -math.inf

    def arrived(self, count: int) -> None:
        """Tuples came."""
        self.waiting += count

    def due(self) -> float | None:
        """From when on the next batch can be cut; None if nothing waits."""
        return self._next if self.waiting else None

    def cut(self, now: float, *, everything: bool = False) -> int:
        """How many of the oldest waiting tuples the batch that is cut now has.

        Parameters
        ----------
        now : float
            Seconds, on the clock of all other calls.
        everything : bool
            Whether none may be left, as at the end of a stream.
        """
        count = self.waiting
        if self.target_s > 0 and not everything:
            count = max(math.ceil(AT_ONCE * self.waiting), self._left)
        self.waiting -= count
        self._left = self.waiting
        self._next = now + WAIT * self.target_s
        return count
