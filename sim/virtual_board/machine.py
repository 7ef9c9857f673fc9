"""Programmable logic, memory and registers of the virtual board."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from penstock.constraints.boards import Board as BoardEntry
from penstock.errors import DeviceError
from penstock.hw.board.gpio import DATA, TRI, WIDTH
from penstock.hw.board.placement import STRIDE_BYTES, system_of

from ..verilated.compile_kernel import board_library
from ..verilated.verilated_board import Board as Kernel
from ..verilated.verilated_board import MemoryModel
from .bitfile import Image
from .board_memory import Bank, Buffer, Memory

#: Addresses of buffers of a processing system; below them lies the memory of Linux.
_ADDRESSES = range(0x1000_0000, 1 << 40)
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


class Leds:
    """Output wires behind registers, as the vendor's IP has them (PG144).

    Every channel has a word of wires, and a word that says which of them are inputs. Nothing else
    drives the wires, so a read gives the value that was written.
    """

    def __init__(self) -> None:
        self._words = {DATA: 0, TRI: 0}

    def read(self, offset: int) -> int:
        """A register's value; those that the IP was configured without read as 0."""
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Write a register; bits beyond the wires are not kept."""
        if offset in self._words:
            self._words[offset] = value & ((1 << WIDTH) - 1)

    def close(self) -> None:
        """Nothing runs that could be stopped."""


class Copy:
    """One kernel of a bitstream; once started it runs by itself.

    Parameters
    ----------
    kernel : Kernel
    machine : Machine
        The kernel reaches its memory.
    reach : mapping of str to collection of int, optional
        Banks that each of its memory ports reaches; by default every port reaches all.
    """

    def __init__(
        self, kernel: Kernel, machine: Machine, reach: Mapping[str, Collection[int]] | None
    ) -> None:
        self._reach = reach
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
                self._buffers = self._machine.memory.buffers()
                for buffer in self._buffers:
                    self._kernel.map(buffer.address, buffer.data, self._ports(buffer))
                self._running = True
            self._kernel.write_word(offset, value)

    def read(self, offset: int) -> int:
        """Read a register."""
        with self._turn():
            return self._kernel.read_word(offset)

    def _ports(self, buffer: Buffer) -> list[str] | None:
        if self._reach is None:
            return None
        return [port for port, banks in self._reach.items() if buffer.bank in banks]

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
    model : MemoryModel
        How its memory behaves for the kernels.
    memory_bytes : int
        Memory of a processing system that can be allocated; a card has its banks.

    Attributes
    ----------
    memory : Memory
    """

    def __init__(self, entry: BoardEntry, model: MemoryModel, memory_bytes: int = 0) -> None:
        self.entry = entry
        self.model = model
        self.memory = Memory([Bank(_ADDRESSES, memory_bytes)])
        self._copies: dict[int, Copy | Leds] = {}
        self._registers = dict(_REGISTERS[system_of(entry).name])
        #: Faults of the kernels and the logic, oldest first.
        self.reports: list[str] = []

    def report(self, text: str) -> None:
        """Note a fault of which no caller can be told."""
        self.reports.append(text)

    # -- programmable logic -----------------------------------------------------------------------

    def configure(
        self,
        image: Image,
        banks: Sequence[Bank] | None = None,
        reach: Mapping[int, Mapping[str, Collection[int]]] | None = None,
    ) -> None:
        """Load an overlay in place of the one before.

        Parameters
        ----------
        image : Image
        banks : sequence of Bank, optional
            Memory of a card; no buffer may be left in that of before.
        reach : mapping, optional
            Banks that each port reaches, of each kernel by its address.

        Raises
        ------
        DeviceError
            It is for another part.
        """
        if image.part != self.entry.part:
            raise DeviceError(f"the overlay is for {image.part}, this is {self.entry.part}")
        path = board_library(
            image.verilog, image.top, image.table["ports"], image.table["geometry"]["word_bytes"]
        )
        self.unload()
        if banks is not None:
            self.memory = Memory(banks)
        self._copies = {
            base: Copy(Kernel(path, image.table, self.model), self, reach[base] if reach else None)
            for base in image.bases
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
