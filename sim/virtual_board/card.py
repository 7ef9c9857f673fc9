"""Virtual Alveo cards: PYNQ's own device, above XRT's functions with Verilated kernels behind them.

PYNQ calls XRT's library through ctypes. Here that library is an object of this process, so that
all of PYNQ's code for cards runs: its choice of a memory bank, buffers, registers, xclbin.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pynq._3rdparty import xrt  # pyright: ignore
from pynq.pl_server.device import Device  # pyright: ignore
from pynq.pl_server.xclbin_parser import XclBin  # pyright: ignore
from pynq.pl_server.xrt_device import XrtDevice  # pyright: ignore

from penstock.constraints.boards import board
from penstock.errors import DeviceError

from ..verilated.verilated_board import MemoryModel
from .bitfile import Image
from .board_memory import Bank
from .machine import Machine
from .xclbin import read_xclbin

#: What XRT returns where it allocates nothing.
_NO_BUFFER = 0xFFFF_FFFF
_EPERM, _EBUSY, _EINVAL = -1, -16, -22
_PROTECTION, _ANONYMOUS = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

_libc = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]


@dataclass
class _Card:
    """A card that is open, and where its buffers are mapped in this process."""

    name: str
    machine: Machine
    mapped: dict[int, int] = field(default_factory=dict)


class _Function:
    """A function as ctypes has it: PYNQ sets its types before each call."""

    def __init__(self, act: Callable[..., Any]) -> None:
        self._act = act
        self.restype: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return self._act(*arguments)


def _reach(parsed: XclBin, image: Image) -> dict[int, dict[str, set[int]]]:
    """Banks that each port of each kernel reaches, by the kernel's address."""
    ports = {entry["name"]: entry["port"] for entry in image.table["registers"] if "port" in entry}
    found = {}
    for kernel in parsed.ip_dict.values():
        own: dict[str, set[int]] = {port: set() for port in image.table["ports"]}
        for name, port in ports.items():
            register = kernel["registers"][name]
            tags = register.get("MBG") or [register["memory"]]
            own[port].update(parsed.mem_dict[tag]["idx"] for tag in tags)
        found[kernel["phys_addr"]] = own
    return found


class VirtualXrt:
    """XRT's library, as far as PYNQ calls it without XRT's scheduler."""

    def __init__(self) -> None:
        self._cards: dict[int, _Card] = {}
        self._handles = itertools.count(1)
        for name in [name for name in dir(type(self)) if name.startswith("_xcl")]:
            setattr(self, name[1:], _Function(getattr(self, name)))

    def add(self, machine: Machine) -> int:
        """Plug a card in; gives its index."""
        index = next(self._handles)
        self._cards[index] = _Card(f"virtual {machine.entry.platform}", machine)
        return index

    # -- the card ---------------------------------------------------------------------------------

    def _xclOpen(self, index: int, log: Any, level: int) -> int:
        return index

    def _xclClose(self, handle: int) -> None:
        pass

    def _xclGetDeviceInfo2(self, handle: int, info: Any) -> int:
        card = self._cards[handle]
        info.mName = card.name.encode()
        info.mOCLFrequency[0] = card.machine.entry.clock_mhz
        return 0

    def _xclLockDevice(self, handle: int) -> int:
        return 0

    _xclUnlockDevice = _xclLockDevice

    def _xclLoadXclBin(self, handle: int, data: bytes) -> int:
        machine = self._cards[handle].machine
        if machine.memory.buffers():
            return _EPERM
        if machine.running:
            return _EBUSY
        parsed = XclBin(xclbin_data=bytearray(data))
        banks = [
            Bank(range(start := entry["base_address"], start + entry["size"]), entry["size"])
            for entry in sorted(parsed.mem_dict.values(), key=lambda entry: entry["idx"])
        ]
        image = read_xclbin(data)
        try:
            machine.configure(image, banks, _reach(parsed, image))
        except DeviceError as error:
            machine.report(str(error))
            return _EINVAL
        return 0

    def _xclOpenContext(self, handle: int, uuid: Any, index: int, shared: bool) -> int:
        return 0

    def _xclCloseContext(self, handle: int, uuid: Any, index: int) -> int:
        return 0

    # -- registers --------------------------------------------------------------------------------

    def _xclRead(self, handle: int, space: int, offset: int, data: Any, size: int) -> int:
        machine = self._cards[handle].machine
        words = [machine.read(offset + at) for at in range(0, size, 4)]
        ctypes.memmove(data, np.array(words, "<u4").tobytes(), size)
        return size

    def _xclWrite(self, handle: int, space: int, offset: int, data: Any, size: int) -> int:
        for number, word in enumerate(np.frombuffer(bytes(data)[:size], "<u4").tolist()):
            self._cards[handle].machine.write(offset + 4 * number, word)
        return size

    # -- buffers ----------------------------------------------------------------------------------

    def _xclAllocBO(self, handle: int, size: int, kind: int, flags: int) -> int:
        try:
            return int(self._cards[handle].machine.memory.allocate(size, flags & 0xFFFF))
        except DeviceError:
            return _NO_BUFFER

    def _xclFreeBO(self, handle: int, bo: int) -> None:
        card = self._cards[handle]
        card.mapped.pop(bo, None)
        card.machine.memory.free(str(bo))

    def _xclGetBOProperties(self, handle: int, bo: int, properties: Any) -> int:
        buffer = self._cards[handle].machine.memory.buffer(str(bo))
        properties.handle, properties.flags = bo, buffer.bank
        properties.size, properties.paddr = len(buffer.data), buffer.address
        return 0

    def _xclMapBO(self, handle: int, bo: int, write: bool) -> Any:
        card = self._cards[handle]
        size = len(card.machine.memory.buffer(str(bo)).data)
        # PYNQ unmaps it with the C library.
        card.mapped[bo] = _libc.mmap(None, size, _PROTECTION, _ANONYMOUS, -1, 0)
        return ctypes.cast(card.mapped[bo], ctypes.POINTER(ctypes.c_char * size))

    def _xclSyncBO(self, handle: int, bo: int, direction: int, size: int, offset: int) -> int:
        card = self._cards[handle]
        data = card.machine.memory.buffer(str(bo)).data[offset : offset + size]
        mapped = (ctypes.c_uint8 * len(data)).from_address(card.mapped[bo] + offset)
        host = np.ctypeslib.as_array(mapped)
        if direction == xrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE:
            data[:] = host
        else:
            host[:] = data
        return 0


#: XRT's library of this process.
_XRT = VirtualXrt()


def virtual_card(machine: Machine) -> XrtDevice:
    """PYNQ's device of a card.

    Parameters
    ----------
    machine : Machine
        Its kernels and memory.
    """
    xrt.libc = _XRT
    with warnings.catch_warnings():
        # PYNQ asks for an event loop, which only XRT's scheduler needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        return XrtDevice(_XRT.add(machine), tag=f"virtual {machine.entry.part} {{}}")


def plug(name: str, *, model: MemoryModel | None = None) -> None:
    """Add a virtual card to the devices of PYNQ in this process.

    It is the last of ``pynq.Device.devices``, and stays until the process ends.

    Parameters
    ----------
    name : str
        An Alveo card of the table.
    model : MemoryModel, optional
        How its memory behaves for the kernels.
    """
    with warnings.catch_warnings():
        # There is no other device, and no XRT.
        warnings.simplefilter("ignore", UserWarning)
        devices = Device.devices
    devices.append(virtual_card(Machine(board(name), model or MemoryModel())))
