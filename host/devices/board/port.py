"""One kernel of a board as PYNQ shows it: registers by name, memory, and the end of a task.

Traps of PYNQ that this module avoids:

- A slice of a remote board's buffer would be copied to the start of its parent, so buffers are
  synchronised whole.
- Some versions read registers as signed, and refuse NumPy's integers: values are masked to 32 bits
  and passed as ``int``.
- Reading CTRL clears ap_done, so CTRL is written once and polled.
- Buffers stay below 2 GiB.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.errors import DeviceError

_MASK = 0xFFFFFFFF
#: Most bytes of a buffer: PYNQ passes sizes as signed 32-bit numbers.
MAX_BUFFER_BYTES = (1 << 31) - 1
#: Seconds between two polls of a kernel: the first ones are the shortest.
_FIRST_POLL_S, _LAST_POLL_S = 20e-6, 2e-3


class BoardMemory:
    """A buffer in the board's memory.

    Parameters
    ----------
    target : object
        PYNQ's device, or one of its memory banks.
    size : int
        Bytes.
    """

    def __init__(self, target: Any, size: int) -> None:
        if size > MAX_BUFFER_BYTES:
            raise DeviceError(f"a buffer of {size} bytes does not fit; PYNQ allocates below 2 GiB")
        self.size = size
        self._buffer = target.allocate((size,), np.uint8)
        # A view without PYNQ's class, whose results some versions cannot compute with.
        self.array: np.ndarray = self._buffer.view(np.ndarray)
        self.address = int(self._buffer.device_address)

    def to_device(self) -> None:
        """Copy the host's writes to where the kernels read."""
        self._buffer.sync_to_device()

    def from_device(self) -> None:
        """Copy the kernels' writes to where the host reads."""
        self._buffer.sync_from_device()

    def free(self) -> None:
        """Free the memory."""
        self._buffer.freebuffer()


class CorePort:
    """A kernel.

    Parameters
    ----------
    core : object
        PYNQ's driver of the kernel, which reads and writes words of its registers.
    table : mapping
        The kernel's exported table.
    name : str
        Board and kernel, for messages.
    """

    def __init__(self, core: Any, table: Mapping[str, Any], name: str) -> None:
        self.name = name
        self._core = core
        self._registers = {entry["name"]: entry for entry in table["registers"]}

    def write(self, register: str, value: int) -> None:
        """Write a register, both words of a pointer."""
        entry = self._registers[register]
        for word in range(entry["bits"] // 32):
            self._core.write(entry["offset"] + 4 * word, int(value) >> 32 * word & _MASK)

    def read(self, register: str) -> int:
        """Read a register, both words of a pointer."""
        entry, value = self._registers[register], 0
        for word in range(entry["bits"] // 32):
            part = int(self._core.read(entry["offset"] + 4 * word)) & _MASK
            value |= part << 32 * word
        return value

    def run(self, arguments: Mapping[str, int], timeout_s: float) -> None:
        """Run a task to its end.

        Raises
        ------
        DeviceError
            The kernel was busy, or did not end in time.
        """
        fields = self._registers["CTRL"]["fields"]
        if not self.read("CTRL") >> fields["ap_idle"] & 1:
            raise DeviceError(f"{self.name} is busy with a task that nobody waits for; reset it")
        for name, value in arguments.items():
            self.write(name, value)
        self.write("CTRL", 1 << fields["ap_start"])
        deadline, pause = time.monotonic() + timeout_s, _FIRST_POLL_S
        while not self.read("CTRL") >> fields["ap_done"] & 1:
            if time.monotonic() > deadline:
                raise DeviceError(f"{self.name} did not end a task within {timeout_s:g} s")
            time.sleep(pause)
            pause = min(2 * pause, _LAST_POLL_S)
