"""A ring each way between a client and its server, in memory that both map, without a name.

The client makes it, a sealed memfd. The kernel frees it when both processes have released it or
died. It cannot shrink, which would kill a reader. The server opens it by the client's process and
descriptor, so both must be processes of one user on one machine.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from penstock.errors import DeviceError

from ....channel.ring_memory import ShmMemory, ring_bytes, write_head
from ....channel.shm import SLOT_BYTES, SLOTS
from ....device.fields import Header, MalformedError, field
from ....wire.sealed import can_seal, create_sealed, map_memory, sealed_size

#: Bytes of each doorbell's words: a page, so that nothing else is in it. Behind both lie the rings.
_BELL_BYTES = mmap.PAGESIZE
_RING_BYTES = ring_bytes(SLOTS, SLOT_BYTES)
_BYTES = 2 * _BELL_BYTES + 2 * _RING_BYTES


class Rings:
    """Memory of two channels and of their two doorbells.

    Attributes
    ----------
    memory : array of uint8
        All of it; unmapped when its last view is gone.

    Parameters
    ----------
    file : int
        Descriptor of the memory.
    """

    def __init__(self, file: int) -> None:
        self.memory = map_memory(file, _BYTES)
        self._file = -1

    @staticmethod
    def possible() -> bool:
        """Whether this system has sealed memfds."""
        return can_seal()

    @classmethod
    def create(cls, session: str) -> Rings:
        """Make rings for a client's session.

        Raises
        ------
        DeviceError
            There is no memory for them, or the system is not Linux.
        """
        if not cls.possible():
            raise DeviceError("channels need Linux; use transport socket")
        try:
            file = create_sealed(_name(session), _BYTES)
        except OSError as cause:
            raise _no_memory(cause.strerror) from cause
        try:
            rings = cls(file)
        except (OSError, ValueError) as cause:
            os.close(file)
            raise _no_memory(cause) from cause
        # The other side opens the memory by this descriptor.
        rings._file = file
        for side in (0, 1):
            write_head(rings._ring(side), SLOTS, SLOT_BYTES, has_crc=False, channel=side)
        return rings

    def header(self) -> Header:
        """Fields by which the other process opens the memory."""
        return {"process": os.getpid(), "file": self._file}

    @classmethod
    def open(cls, header: Any, session: str) -> Rings:
        """Open the rings that a client of this session offers.

        Raises
        ------
        DeviceError
            They cannot be opened from here.
        MalformedError
            They are something else, or could shrink.
        """
        if not isinstance(header, dict) or not cls.possible():
            raise MalformedError("rings are given by process and file")
        process, number = field(header, "process", int), field(header, "file", int)
        try:
            file = _open_file(f"/proc/{process}/fd/{number}", f"/memfd:{_name(session)} (deleted)")
        except OSError as cause:
            raise DeviceError(
                f"the client's memory cannot be shared ({cause.strerror}): it runs as another "
                "user, or in another container"
            ) from cause
        try:
            size = sealed_size(file)
            if size != _BYTES:
                raise MalformedError(f"the rings offered have a wrong size, {size} bytes")
            return cls(file)
        except (OSError, ValueError) as cause:
            raise DeviceError(f"the client's memory cannot be shared: {cause}") from cause
        finally:
            # The mapping stays without the descriptor, and descriptors are few.
            os.close(file)

    def bell(self, side: int) -> np.ndarray:
        """Words of a side's doorbell: 0 for the client's, 1 for the server's."""
        return self.memory[side * _BELL_BYTES : (side + 1) * _BELL_BYTES].view(np.uint64)

    def ring(self, side: int) -> ShmMemory:
        """The ring that a side reads.

        Raises
        ------
        MalformedError
            The client has not made it one of these.
        """
        # Compiled code does not spin: the other side may sleep until it is rung.
        ring = ShmMemory(self._ring(side), spins=False)
        if (ring.slots, ring.slot_bytes) != (SLOTS, SLOT_BYTES):
            raise MalformedError(f"a ring has {SLOTS} slots of {SLOT_BYTES} bytes")
        return ring

    def _ring(self, side: int) -> np.ndarray:
        start = 2 * _BELL_BYTES + side * _RING_BYTES
        return self.memory[start : start + _RING_BYTES]

    def close(self) -> None:
        """Close the descriptor, once the other side has mapped the memory or has not."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _no_memory(cause: object) -> DeviceError:
    return DeviceError(f"no shared memory of {_BYTES} bytes: {cause}; use transport socket")


def _name(session: str) -> str:
    return f"penstock-{session}"


def _open_file(path: str, wanted: str) -> int:
    """Open the memory of a descriptor of another process, if it has the name wanted.

    Raises
    ------
    OSError
    MalformedError
    """
    # The name holds the session's secret, so the memory is this client's and nobody else's. It is
    # looked at before anything is opened, and again, since the client may have put another file
    # there meanwhile.
    if os.readlink(path) == wanted:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        if os.readlink(f"/proc/self/fd/{file}") == wanted:
            return file
        os.close(file)
    raise MalformedError("the shared memory offered is not of this session")
