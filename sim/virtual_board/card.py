"""A virtual Alveo card: PYNQ's device in this process, with Verilated kernels behind it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from pynq.buffer import PynqBuffer  # pyright: ignore
from pynq.pl_server.device import Device  # pyright: ignore
from pynq.pl_server.xclbin_parser import XclBin  # pyright: ignore

from penstock.constraints.boards import board

from ..verilated.board import MemoryModel
from .machine import Machine
from .xclbin import read_xclbin


class _CardBuffer(PynqBuffer):
    """A buffer that gives its memory back to the card, not to XRT."""

    owner: VirtualCard | None = None

    def freebuffer(self) -> None:
        """Give the memory back; a second time does nothing."""
        if self.owner is not None:
            self.owner.release(self.bo)
            self.owner = None


class VirtualCard(Device):
    """A card.

    Parameters
    ----------
    name : str
        Tag of the device.
    machine : Machine
        Its kernels and memory.
    """

    _probe_priority_ = 900

    @classmethod
    def _probe_(cls) -> list[Device]:
        return []

    def __init__(self, name: str, machine: Machine) -> None:
        super().__init__(name)
        self.name = name
        self._machine = machine
        self._hosts: dict[str, np.ndarray] = {}
        self.capabilities = {"REGISTER_RW": True, "CALLABLE": True}

    def get_bitfile_metadata(self, name: Any, partial: bool = False) -> Any:
        """PYNQ's metadata of an overlay."""
        return XclBin(str(name))

    def download(self, bitstream: Any, parser: Any = None) -> None:
        """Load an overlay."""
        self._machine.configure(read_xclbin(Path(bitstream.bitfile_name).read_bytes()))
        if parser is not None:
            self.mem_dict, self.ip_dict = parser.mem_dict, parser.ip_dict

    def open_context(self, description: Any, shared: bool = True) -> int:
        """Reserve a kernel; gives its number."""
        return description["cu_index"]

    def read_registers(self, address: int, length: int) -> bytes:
        """Words at an address."""
        words = [self._machine.read(address + at) for at in range(0, length, 4)]
        return np.array(words, "<u4").tobytes()

    def write_registers(self, address: int, data: Any) -> None:
        """Write words to an address."""
        for number, word in enumerate(np.frombuffer(bytes(data), "<u4").tolist()):
            self._machine.write(address + 4 * number, word)

    def allocate(self, shape: Any, dtype: Any, **options: Any) -> PynqBuffer:
        """A buffer of this process, with memory of the card behind it."""
        count = int(np.prod(shape))
        size = count * np.dtype(dtype).itemsize
        name = self._machine.allocate(size)
        host = np.zeros(size, np.uint8)
        buffer = _CardBuffer(
            shape,
            dtype,
            buffer=host,
            device=self,
            device_address=self._machine.buffer(name).address,
            bo=name,
        )
        buffer.owner = self
        self._hosts[name] = host
        return buffer

    def release(self, bo: str) -> None:
        """Free a buffer's memory."""
        self._hosts.pop(bo, None)
        self._machine.free(bo)

    def flush(self, bo: str, offset: int, address: Any, size: int) -> None:
        """Copy a part of a buffer to the card."""
        part = slice(offset, offset + size)
        self._machine.buffer(bo).data[part] = self._hosts[bo][part]

    def invalidate(self, bo: str, offset: int, address: Any, size: int) -> None:
        """Copy a part of a buffer from the card."""
        part = slice(offset, offset + size)
        self._hosts[bo][part] = self._machine.buffer(bo).data[part]


def plug(name: str, *, memory_bytes: int = 1 << 30, model: MemoryModel | None = None) -> None:
    """Add a virtual card to the devices of PYNQ in this process.

    It is the last of ``pynq.Device.devices``, and stays until the process ends.

    Parameters
    ----------
    name : str
        An Alveo card of the table.
    memory_bytes : int
        Memory that can be allocated.
    model : MemoryModel, optional
        How that memory behaves for the kernels.
    """
    machine = Machine(board(name), memory_bytes, model or MemoryModel())
    with warnings.catch_warnings():
        # There is no other device, and no XRT.
        warnings.simplefilter("ignore", UserWarning)
        devices = Device.devices
    devices.append(VirtualCard(f"virtual {name} {len(devices)}", machine))
