"""Memory that a client makes and its server maps too, without a name that anybody must remove.

It is a sealed memfd: the kernel frees it when both processes have let go of it or died, and it
cannot shrink, which would kill whoever reads it. The server opens it by the client's process and
descriptor, so both must be processes of one user on one machine.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Any

import pyarrow as pa

from penstock.errors import DeviceError
from penstock.host.wire.message import MOST_BODY_BYTES, Header, MalformedError, field

#: Bytes of the smallest segment: most tasks fit, and none is made twice.
LEAST_BYTES = 1 << 20


class Segment:
    """Bytes that two processes see.

    Parameters
    ----------
    file : int
        Descriptor of the memory; owned by the segment until it is closed.
    size : int
        Bytes.
    """

    def __init__(self, file: int, size: int) -> None:
        self.size = size
        self._file = file
        # Unmapped when the last buffer that looks into it is gone.
        self.buffer = pa.py_buffer(mmap.mmap(file, size))

    @staticmethod
    def possible() -> bool:
        """Whether this system has what segments are made of."""
        return hasattr(os, "memfd_create") and hasattr(fcntl, "F_ADD_SEALS")

    @classmethod
    def made(cls, least: int, session: str) -> Segment:
        """A new one of at least so many bytes, for a client's session.

        Raises
        ------
        DeviceError
            There is no memory for it.
        """
        size = max(LEAST_BYTES, 1 << max(least - 1, 0).bit_length())
        try:
            file = os.memfd_create(_name(session), os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError as cause:
            raise DeviceError(
                f"no shared memory: {cause.strerror}; use transport flight"
            ) from cause
        try:
            os.ftruncate(file, size)
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, _seals())
            return cls(file, size)
        except (OSError, ValueError) as cause:
            os.close(file)
            raise DeviceError(
                f"no shared memory of {size} bytes: {cause}; use transport flight"
            ) from cause

    def header(self) -> Header:
        """Where the other process finds it."""
        return {"process": os.getpid(), "file": self._file, "bytes": self.size}

    @classmethod
    def found(cls, header: Any, session: str) -> Segment:
        """The one that a client of this session offers.

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
        path = f"/proc/{process}/fd/{number}"
        try:
            # The name holds the session's secret, so it is this client's and nobody else's.
            if os.readlink(path) != f"/memfd:{_name(session)} (deleted)":
                raise MalformedError("the shared memory offered is not of this session")
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as cause:
            raise DeviceError(
                f"the client's memory cannot be shared ({cause.strerror}): it runs as another "
                "user, or in another container"
            ) from cause
        try:
            size = os.fstat(file).st_size
            sealed = fcntl.fcntl(file, fcntl.F_GET_SEALS)
            if not sealed & fcntl.F_SEAL_SHRINK or not 0 < size <= 2 * MOST_BODY_BYTES:
                raise MalformedError("the shared memory offered is not sealed, or of a wrong size")
            return cls(file, size)
        except BaseException:
            os.close(file)
            raise

    def close(self) -> None:
        """Let go of it; what still looks into it stays valid."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _name(session: str) -> str:
    return f"penstock-{session}"


def _seals() -> int:
    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
