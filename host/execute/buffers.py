"""Window buffers of a device: free lists by memory bank, and the places of a run in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from penstock.errors import DeviceError

from ..device.base import Kernel, WindowBuffer

#: Free buffers of one size, kernel and bank that are kept for the next window.
KEPT_FREE = 2

_Place = tuple[Kernel, int]  # kernel, bank


class Buffers:
    """Takes buffers from a device and keeps some unused ones. Its owner guards it by a lock.

    Windows are spread over the banks that their kernel reaches: the bank with the fewest positions
    in use comes first; if it is full, the next one.

    Parameters
    ----------
    device : str
        Name, for messages.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.positions = 0
        self.nbytes = 0
        self._place: dict[WindowBuffer, _Place] = {}
        self._in_use: Counter[int] = Counter()
        self._free: dict[tuple[Kernel, int, int], list[WindowBuffer]] = defaultdict(list)

    def take(self, kernel: Kernel, capacity: int) -> WindowBuffer | DeviceError:
        """Return a buffer of a kernel, or the reason why no bank has one."""
        banks = sorted(range(kernel.banks), key=lambda bank: (self._in_use[bank], bank))
        for bank in banks:
            free = self._free[kernel, bank, capacity]
            while free:
                buffer = free.pop()
                if not buffer.lost:
                    self._in_use[bank] += capacity
                    return buffer
                self._destroy(buffer)
        refusal = DeviceError(f"device {self.device} has no memory bank for windows")
        for bank in banks:
            try:
                several = kernel.banks > 1
                buffer = (
                    kernel.allocate_in(bank, capacity) if several else kernel.allocate(capacity)
                )
            except DeviceError as error:
                refusal = error
                continue
            self._place[buffer] = kernel, bank
            self.positions += capacity
            self.nbytes += buffer.nbytes
            self._in_use[bank] += capacity
            return buffer
        return refusal

    def give_back(self, buffer: WindowBuffer, *, again: bool) -> None:
        """Take back an unused buffer; ``again`` says whether another window may use it."""
        kernel, bank = self._place[buffer]
        self._in_use[bank] -= buffer.capacity
        free = self._free[kernel, bank, buffer.capacity]
        if again and not buffer.lost and len(free) < KEPT_FREE:
            free.append(buffer)
        else:
            self._destroy(buffer)

    def shed(self) -> bool:
        """Free one unused buffer; return whether there was one."""
        for free in self._free.values():
            if free:
                self._destroy(free.pop())
                return True
        return False

    def close(self) -> None:
        """Free all unused buffers."""
        while self.shed():
            pass
        self._free.clear()

    def _destroy(self, buffer: WindowBuffer) -> None:
        del self._place[buffer]
        self.positions -= buffer.capacity
        self.nbytes -= buffer.nbytes
        buffer.free()


@dataclass(frozen=True)
class RingSpan:
    """Logical positions ``[low, high)`` at consecutive offsets of a buffer from ``offset`` on."""

    offset: int
    low: int
    high: int
    #: Which of the ring's buffers.
    buffer: int = 0


class BufferRing:
    """Residency of one run in one buffer, or in several of equal size: arithmetic, no memory.

    Position p lies at offset p mod capacity. A task leases the positions that it reads; no
    position becomes resident that would overwrite a leased one.

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
