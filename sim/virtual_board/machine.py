"""Programmable logic, memory and registers of the virtual board."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from penstock.constraints.boards import Board as BoardEntry
from penstock.errors import DeviceError
from penstock.hw.board.placement import STRIDE_BYTES, system_of

from ..verilated.board import Board as Kernel
from ..verilated.board import MemoryModel
from ..verilated.build import board_library
from .bitfile import Image
from .gpio import Leds

#: First address of buffers; below lies the memory of Linux.
_MEMORY_BASE = 0x1000_0000
_PAGE_BYTES = 4096
#: Cycles that a kernel runs between two looks at its registers by the processor.
_SLICE_CYCLES = 20_000
_CTRL, _START = 0, 1

#: Clock registers, from which clients compute clocks: PLLs, then dividers of the logic's clocks.
_REGISTERS = {
    "zynq_ultra_ps_e": {
        **dict.fromkeys((0xFF5E0020, 0xFF5E0030, 0xFD1A0020, 0xFD1A002C, 0xFD1A0038), 45 << 8),
        **dict.fromkeys((0xFF5E00C0, 0xFF5E00C4, 0xFF5E00C8, 0xFF5E00CC), 0x0101_0F00),
        0xFD1A0060: 0x0300_0100,
    },
    "processing_system7": {
        # ARM, DDR and IO: multiples of 50 MHz.
        0xF8000100: 26 << 12,
        0xF8000104: 21 << 12,
        0xF8000108: 20 << 12,
        **dict.fromkeys((0xF8000170, 0xF8000180, 0xF8000190, 0xF80001A0), 0x0010_0A00),
        0xF8000120: 0x1F00_0200,
    },
}


@dataclass
class Buffer:
    """Contiguous memory shared by the processor and the kernels."""

    address: int
    data: np.ndarray


class Copy:
    """One kernel of a bitstream; once started it runs by itself.

    Parameters
    ----------
    kernel : Kernel
    machine : Machine
        The kernel reaches its memory.
    """

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self._kernel = kernel
        self._machine = machine
        self._wake = threading.Condition()
        self._running = self._closed = False
        self._asking, self._asking_lock = 0, threading.Lock()
        self._buffers: list[Buffer] = []
        self._thread = threading.Thread(target=self._run, name="penstock-pl", daemon=True)
        self._thread.start()

    def write(self, offset: int, value: int) -> None:
        """Write a register; a start lets the clock run."""
        with self._turn():
            if offset == _CTRL and value & _START and not self._running:
                self._kernel.unmap()
                self._buffers = self._machine.buffers()
                for buffer in self._buffers:
                    self._kernel.map(buffer.address, buffer.data)
                self._running = True
            self._kernel.write_word(offset, value)

    def read(self, offset: int) -> int:
        """Read a register."""
        with self._turn():
            return self._kernel.read_word(offset)

    @property
    def running(self) -> bool:
        """Whether a task runs."""
        return self._running

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the kernel before its clock goes on; a lock alone would not ensure a turn."""
        with self._asking_lock:
            self._asking += 1
        with self._wake:
            try:
                yield
            finally:
                with self._asking_lock:
                    self._asking -= 1
                self._wake.notify_all()

    def close(self) -> None:
        """Stop the clock."""
        with self._turn():
            self._closed = True
        self._thread.join()
        self._kernel.close()

    def _may_go_on(self) -> bool:
        return self._closed or (self._running and not self._asking)

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(self._may_go_on)
                if self._closed:
                    return
                try:
                    self._running = not self._kernel.step(_SLICE_CYCLES)
                except DeviceError as error:
                    # As on a board: the bus is stuck, and who waits for the kernel times out.
                    self._running = False
                    self._machine.report(str(error))


class Machine:
    """A board of the table, with one bitstream at a time.

    Parameters
    ----------
    entry : Board
        The board.
    memory_bytes : int
        Memory that can be allocated.
    memory : MemoryModel
        How it behaves for the kernels.
    """

    def __init__(self, entry: BoardEntry, memory_bytes: int, memory: MemoryModel) -> None:
        self.entry = entry
        self.model = memory
        self._free_bytes = memory_bytes
        self._buffers: dict[str, Buffer] = {}
        self._next_address = _MEMORY_BASE
        self._copies: dict[int, Copy | Leds] = {}
        self._registers = dict(_REGISTERS[system_of(entry).name])
        self._names: Iterator[int] = itertools.count(1)
        self._lock = threading.Lock()
        #: Faults of the kernels and the logic, oldest first.
        self.reports: list[str] = []

    def report(self, text: str) -> None:
        """Note a fault of which no caller can be told."""
        self.reports.append(text)

    # -- programmable logic -----------------------------------------------------------------------

    def configure(self, image: Image) -> None:
        """Load an overlay in place of the one before.

        Raises
        ------
        DeviceError
            It is for another part.
        """
        if image.part != self.entry.part:
            raise DeviceError(f"the overlay is for {image.part}, this is {self.entry.part}")
        path = board_library(image.verilog, image.top, image.table["ports"])
        self.unload()
        self._copies = {
            base: Copy(Kernel(path, image.table, self.model), self) for base in image.bases
        }
        if image.leds is not None:
            self._copies[image.leds] = Leds()

    def unload(self) -> None:
        """Take the bitstream away."""
        copies, self._copies = self._copies, {}
        for copy in copies.values():
            copy.close()

    @property
    def running(self) -> bool:
        """Whether any kernel runs a task."""
        return any(copy.running for copy in self._copies.values() if isinstance(copy, Copy))

    # -- registers --------------------------------------------------------------------------------

    def read(self, address: int) -> int:
        """32 bits at a physical address."""
        if (found := self._copy(address)) is not None:
            copy, offset = found
            return copy.read(offset)
        return self._registers.get(address, 0)

    def write(self, address: int, value: int) -> None:
        """Write 32 bits to a physical address."""
        if (found := self._copy(address)) is not None:
            copy, offset = found
            copy.write(offset, value)
        else:
            self._registers[address] = value

    def _copy(self, address: int) -> tuple[Copy | Leds, int] | None:
        base = address - address % STRIDE_BYTES
        if base in self._copies:
            return self._copies[base], address - base
        first = system_of(self.entry).base
        if first <= address < first + 0x1000_0000:
            raise DeviceError(f"no kernel answers at 0x{address:08X}; a board would hang here")
        return None

    # -- memory -----------------------------------------------------------------------------------

    def allocate(self, size: int) -> str:
        """Allocate a buffer; gives its name.

        Raises
        ------
        DeviceError
            The memory is full.
        """
        taken = -(-max(size, 1) // _PAGE_BYTES) * _PAGE_BYTES
        with self._lock:
            if taken > self._free_bytes:
                raise DeviceError(
                    f"a buffer of {size} bytes does not fit: {self._free_bytes} bytes are free"
                )
            self._free_bytes -= taken
            name, address = str(next(self._names)), self._next_address
            # An unused page lies behind each buffer, so that running over is an error.
            self._next_address += taken + _PAGE_BYTES
            self._buffers[name] = Buffer(address, np.zeros(taken, np.uint8))
        return name

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
            gone = self._buffers.pop(name, None)
            if gone is not None:
                self._free_bytes += len(gone.data)
