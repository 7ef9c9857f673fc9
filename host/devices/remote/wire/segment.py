"""Memory that a client makes and its server also maps, without a name to remove.

It is a sealed memfd. The kernel frees it when both processes have released it or died. It cannot
shrink, which would kill a reader. The server opens it by the client's process and descriptor, so
both must be processes of one user on one machine.
"""

from __future__ import annotations

import os
from typing import Any

from penstock.errors import DeviceError

from ....device.fields import Header, MalformedError, field
from ....wire.message import MOST_BODY_BYTES
from ....wire.sealed import can_seal, create_sealed, map_memory, sealed_size

#: Bytes of the smallest segment: most tasks fit, and none is made twice.
LEAST_BYTES = 1 << 20


class Segment:
    """Memory that two processes see.

    Parameters
    ----------
    file : int
        Descriptor of the memory.
    size : int
        Bytes.
    """

    def __init__(self, file: int, size: int) -> None:
        self.size = size
        self._file = -1
        #: All of it as uint8; unmapped when its last view is gone.
        self.memory = map_memory(file, size)

    @staticmethod
    def possible() -> bool:
        """Whether this system has sealed memfds."""
        return can_seal()

    @classmethod
    def create(cls, least: int, session: str) -> Segment:
        """Make a segment of at least ``least`` bytes for a client's session.

        Raises
        ------
        DeviceError
            There is no memory for it.
        """
        size = max(LEAST_BYTES, 1 << max(least - 1, 0).bit_length())
        try:
            file = create_sealed(_name(session), size)
        except OSError as cause:
            raise DeviceError(
                f"no shared memory of {size} bytes: {cause.strerror}; use transport socket"
            ) from cause
        try:
            segment = cls(file, size)
        except (OSError, ValueError) as cause:
            os.close(file)
            raise DeviceError(
                f"no shared memory of {size} bytes: {cause}; use transport socket"
            ) from cause
        # The other side opens the memory by this descriptor.
        segment._file = file
        return segment

    def header(self) -> Header:
        """Where the other process finds it."""
        return {"process": os.getpid(), "file": self._file, "bytes": self.size}

    @classmethod
    def open(cls, header: Any, session: str) -> Segment:
        """Open the segment that a client of this session offers.

        Raises
        ------
        DeviceError
            It cannot be opened from here.
        MalformedError
            It is something else, or could shrink.
        """
        if not isinstance(header, dict) or not cls.possible():
            raise MalformedError("a segment is given by process, file and bytes")
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
            if not LEAST_BYTES <= size <= 2 * MOST_BODY_BYTES:
                raise MalformedError(f"the shared memory offered has a wrong size, {size} bytes")
            return cls(file, size)
        except (OSError, ValueError) as cause:
            raise DeviceError(f"the client's memory cannot be shared: {cause}") from cause
        finally:
            # The mapping stays without the descriptor, and descriptors are few.
            os.close(file)

    def close(self) -> None:
        """Release the memory; arrays that look into it stay valid."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


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
