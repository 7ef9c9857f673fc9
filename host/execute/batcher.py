"""Decides when waiting tuples become a batch (paper 1, section 4).

A batch takes 60 % of the waiting tuples at once; then half the latency target passes before the
next, so that batches stay large under load and a tuple that comes alone is not kept waiting. Tuples
that one batch left behind are always part of the next. This holds while lanes are busy. If they are
idle, a batch takes all waiting tuples and the next one may follow soon: a longer pause would only
save the host the cost of a batch. Time is an argument: nothing here reads a clock.
"""

from __future__ import annotations

import math

#: Part of the waiting tuples that a batch takes.
AT_ONCE = 0.6
#: Pause between two batches, as a share of the latency target; the least one while lanes are idle.
WAIT, IDLE_WAIT = 0.5, 0.1
#: Length of the pause after a batch, in multiples of the time that letting it in took: a busy host
#: makes larger batches.
COSTS = 4.0


class Batcher:
    """Counts waiting tuples, and says when to cut a batch and how large.

    Parameters
    ----------
    target_s : float
        Latency target in seconds; 0 makes a batch of all that waits whenever something does.
    """

    def __init__(self, target_s: float) -> None:
        self.target_s = target_s
        self.waiting = 0
        self._left = 0
        self._last = -math.inf
        self._took_s = 0.0

    def arrived(self, count: int) -> None:
        """Count tuples that came."""
        self.waiting += count

    def due(self, *, idle: bool = False) -> float | None:
        """Return the time from which the next batch can be cut; None if nothing waits.

        ``idle`` says whether all batches before are complete.
        """
        if not self.waiting:
            return None
        pause_s = WAIT * self.target_s
        if idle:
            pause_s = min(pause_s, max(IDLE_WAIT * self.target_s, COSTS * self._took_s))
        return self._last + pause_s

    def took(self, seconds: float) -> None:
        """Note how long it took to let the last batch in."""
        self._took_s = seconds

    def cut(
        self,
        now: float,
        *,
        everything: bool = False,
        idle: bool = False,
        most: int | None = None,
    ) -> int:
        """Cut a batch of the oldest waiting tuples now; return its number of tuples.

        Parameters
        ----------
        now : float
            Seconds, on the clock of all other calls.
        everything : bool
            Whether to take all waiting tuples, as at the end of a stream.
        idle : bool
            Whether all batches before are complete.
        most : int, optional
            Most tuples of the batch; those above this limit are due at once.
        """
        count = self.waiting
        if self.target_s > 0 and not everything and not idle:
            count = max(math.ceil(AT_ONCE * self.waiting), self._left)
        self._last = now
        if most is not None and count > most:
            count, self._last = most, -math.inf
        self.waiting -= count
        self._left = self.waiting
        return count
