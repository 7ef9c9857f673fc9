"""Window buffers of a device: free lists by memory bank, and the choice of a bank."""

from __future__ import annotations

from collections import Counter, defaultdict

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
