"""A device whose memory has banks of limited size."""

from __future__ import annotations

from collections import Counter

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Device, Kernel, WindowBuffer
from penstock.host.device.wrapped import WrappedBuffer, WrappedDevice, WrappedKernel
from penstock.program import Mode, Program


class Banked(WrappedDevice):
    """A device with some banks of memory, each for so many positions.

    Parameters
    ----------
    inner : Device
    rooms : list of int
        Positions of each bank.
    most : int, optional
        Positions of the largest window.
    """

    def __init__(self, inner: Device, rooms: list[int], most: int | None = None) -> None:
        super().__init__(inner)
        self.searches = False
        self.rooms = rooms
        self.most = most
        self.used: Counter[int] = Counter()

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return _Kernel(self, self.inner.open(program, modes))


class _Kernel(WrappedKernel):
    def __init__(self, device: Banked, inner: Kernel) -> None:
        super().__init__(inner)
        self.device = device
        self.banks = len(device.rooms)
        self.most_positions = device.most

    def allocate(self, capacity: int) -> WindowBuffer:
        return self.allocate_in(0, capacity)

    def allocate_in(self, bank: int, capacity: int) -> WindowBuffer:
        if self.device.most is not None and capacity > self.device.most:
            raise DeviceError(f"{capacity} positions are more than a bank has")
        if self.device.used[bank] + capacity > self.device.rooms[bank]:
            raise DeviceError(f"bank {bank} is full")
        self.device.used[bank] += capacity
        return BankedBuffer(self.device, bank, self.inner.allocate(capacity))


class BankedBuffer(WrappedBuffer):
    def __init__(self, device: Banked, bank: int, inner: WindowBuffer) -> None:
        super().__init__(inner)
        self.device, self.bank = device, bank

    def free(self) -> None:
        self.device.used[self.bank] -= self.capacity
        super().free()
