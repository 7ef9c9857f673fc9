"""Memory of a virtual board: buffers in banks, each at an address of its own."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import DeviceError

PAGE_BYTES = 4096


@dataclass(frozen=True)
class Bank:
    """Addresses of a bank, and the bytes of them that buffers may take."""

    addresses: range
    size: int


@dataclass
class Buffer:
    """Contiguous memory shared by the processor and the kernels."""

    address: int
    data: np.ndarray
    bank: int

    @property
    def end(self) -> int:
        return self.address + len(self.data)


class Memory:
    """All buffers of a board.

    Parameters
    ----------
    banks : sequence of Bank
    """

    def __init__(self, banks: Sequence[Bank]) -> None:
        self._banks = banks
        self._buffers: dict[str, Buffer] = {}
        self._names: Iterator[int] = itertools.count(1)
        self._lock = threading.Lock()

    def allocate(self, size: int, bank: int = 0) -> str:
        """Allocate a buffer in whole pages; gives its name.

        Raises
        ------
        DeviceError
            There is no such bank, or it has no room.
        """
        if not 0 <= bank < len(self._banks):
            raise DeviceError(f"there is no memory bank {bank}, only {len(self._banks)}")
        taken = -(-max(size, 1) // PAGE_BYTES) * PAGE_BYTES
        with self._lock:
            others = sorted(
                (buffer for buffer in self._buffers.values() if buffer.bank == bank),
                key=lambda buffer: buffer.address,
            )
            free = self._banks[bank].size - sum(len(buffer.data) for buffer in others)
            address = self._gap(self._banks[bank].addresses, others, taken)
            if taken > free or address is None:
                raise DeviceError(f"a buffer of {size} bytes does not fit: {free} bytes are free")
            name = str(next(self._names))
            self._buffers[name] = Buffer(address, np.zeros(taken, np.uint8), bank)
        return name

    @staticmethod
    def _gap(addresses: range, others: Sequence[Buffer], taken: int) -> int | None:
        """The first address with room; an unused page before each but the first buffer makes it an
        error to run over the one before."""
        at = addresses.start
        for other in others:
            if at + taken + PAGE_BYTES <= other.address:
                break
            at = other.end + PAGE_BYTES
        return at if at + taken <= addresses.stop else None

    def buffer(self, name: str) -> Buffer:
        """A buffer by its name.

        Raises
        ------
        DeviceError
            There is none.
        """
        with self._lock:
            if name not in self._buffers:
                raise DeviceError(f"there is no buffer {name}; it was freed, or never allocated")
            return self._buffers[name]

    def buffers(self) -> list[Buffer]:
        """All buffers."""
        with self._lock:
            return list(self._buffers.values())

    def free(self, name: str) -> None:
        """Give a buffer back."""
        with self._lock:
            self._buffers.pop(name, None)
