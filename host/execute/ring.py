"""Maps logical positions of a run to offsets in a device buffer: arithmetic, no memory.

Position p lies at offset p mod capacity. A task leases the positions that it reads; no position
becomes resident that would overwrite a leased one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class RingSpan:
    """Logical positions ``[low, high)`` at consecutive offsets of a buffer from ``offset`` on."""

    offset: int
    low: int
    high: int
    #: Which of the ring's buffers.
    buffer: int = 0


class BufferRing:
    """Residency of one run in one buffer, or in several of equal size.

    Parameters
    ----------
    each : int
        Positions of a buffer.
    buffers : int
    """

    def __init__(self, each: int, buffers: int = 1) -> None:
        self.each = each
        self.capacity = each * buffers
        self.low = self.high = 0
        self._leases: Counter[tuple[int, int]] = Counter()

    def fits(self, low: int, high: int) -> bool:
        """Whether ``[low, high)`` can become resident beside everything that is leased."""
        return high - low <= self.capacity and all(
            leased_high - self.capacity <= low and high - self.capacity <= leased_low
            for leased_low, leased_high in self._leases
        )

    def make_resident(self, low: int, high: int) -> list[RingSpan]:
        """Make ``[low, high)``, which must fit, resident; return the spans to be written.

        Resident positions stay so as far as the capacity allows. The spans must be written before
        they are read.
        """
        if low > self.high or high < self.low or self.low == self.high:
            self.low, self.high = low, high
            return self.spans(low, high)
        new_low, new_high = min(low, self.low), max(high, self.high)
        # Old positions give way on the side that the request does not reach.
        if high > self.high:
            new_low = max(new_low, new_high - self.capacity)
        else:
            new_high = min(new_high, new_low + self.capacity)
        written = []
        if new_low < self.low:
            written += self.spans(new_low, min(self.low, new_high))
        if new_high > self.high:
            written += self.spans(max(self.high, new_low), new_high)
        self.low, self.high = new_low, new_high
        return written

    def spans(self, low: int, high: int) -> list[RingSpan]:
        """Cut ``[low, high)``, at most the capacity, where a buffer ends."""
        spans = []
        while low < high:
            end = min(high, (low // self.each + 1) * self.each)
            spans.append(RingSpan(low % self.each, low, end, low % self.capacity // self.each))
            low = end
        return spans

    def lease(self, low: int, high: int) -> None:
        """Keep resident positions ``[low, high)`` until they are released."""
        self._leases[low, high] += 1

    def release(self, low: int, high: int) -> None:
        self._leases[low, high] -= 1
        if not self._leases[low, high]:
            del self._leases[low, high]
