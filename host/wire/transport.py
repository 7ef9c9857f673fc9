"""Transports carry the bytes of frames: a socket, and the contract of any other transport."""

from __future__ import annotations

import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from ..device.fields import MalformedError

#: Seconds for which a frame that has begun may make no progress, either way.
STALL_S = 15.0
#: Buffers of one system call, at most; Linux takes 1024.
_MOST_BUFFERS = 512

#: Makes a context to be in while waiting for the other side.
Waiting = Callable[[], AbstractContextManager[object]]


class GoneError(Exception):
    """The other side has closed the connection, or it broke."""


class FrameError(MalformedError):
    """Bytes arrived that are no frame, so nothing after them can be understood.

    Parameters
    ----------
    message : str
    begun : bytes
        The bytes that arrived.
    """

    def __init__(self, message: str, begun: bytes = b"") -> None:
        super().__init__(message)
        self.begun = begun


def be_patient(connection: socket.socket, stall_s: float) -> None:
    """Set a connection's timeouts to ``stall_s``, and let it send without delay."""
    connection.settimeout(None)
    seconds, fraction = divmod(stall_s, 1)
    patience = struct.pack("ll", int(seconds), int(fraction * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Transport(ABC):
    """One end of two streams of bytes, one each way, that end with a connection.

    Parameters
    ----------
    connection : socket
        Closed with it.
    stall_s : float
        Seconds without progress within a frame after which the other side counts as gone.
    """

    def __init__(self, connection: socket.socket, stall_s: float = STALL_S) -> None:
        self.connection = connection
        self.stall_s = stall_s
        #: Whether nothing more shall be received, and whether nothing can be sent, either.
        self.over = self.cut = False

    @abstractmethod
    def begin(self) -> None:
        """Take the connection, which another transport may have had."""

    @abstractmethod
    def send(self, buffers: list[memoryview], waiting: Waiting) -> None:
        """Send bytes.

        Parameters
        ----------
        buffers : list of memoryview of uint8
            Changed.
        waiting : callable

        Raises
        ------
        GoneError
            Some of them may be out.
        """

    @abstractmethod
    def offer(self, data: bytes) -> None:
        """Send a few bytes if that needs no waiting; otherwise send nothing.

        Raises
        ------
        GoneError
            Some of them are out.
        """

    @abstractmethod
    def fill(self, memory: memoryview, waiting: Waiting, *, patient: bool = False) -> None:
        """Fill memory with bytes as they arrive.

        Parameters
        ----------
        memory : memoryview of uint8
        waiting : callable
        patient : bool
            Whether the first byte may take for ever.

        Raises
        ------
        GoneError
        FrameError
        """

    def end(self) -> None:
        """Stop receiving; bytes being sent are still sent. Any thread may call this."""
        self.over = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)

    def cancel(self) -> None:
        """Make calls that send or receive fail. Any thread may call this."""
        self.over = self.cut = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, which nobody may be using."""
        self.cancel()
        self.connection.close()


class SocketTransport(Transport):
    """Bytes go through the connection itself."""

    def begin(self) -> None:
        be_patient(self.connection, self.stall_s)

    def send(self, buffers: list[memoryview], waiting: Waiting) -> None:
        try:
            while buffers:
                some = buffers[:_MOST_BUFFERS]
                try:
                    sent = self.connection.sendmsg(some, (), socket.MSG_DONTWAIT)
                except BlockingIOError:
                    with waiting():
                        sent = self.connection.sendmsg(some)
                while buffers and sent >= len(buffers[0]):
                    sent -= len(buffers.pop(0))
                if sent:
                    buffers[0] = buffers[0][sent:]
        except OSError as cause:
            raise GoneError(_reason(cause)) from cause

    def offer(self, data: bytes) -> None:
        with suppress(OSError):
            if self.connection.send(data, socket.MSG_DONTWAIT) < len(data):
                raise GoneError("it takes nothing")

    def fill(self, memory: memoryview, waiting: Waiting, *, patient: bool = False) -> None:
        while len(memory):
            if patient and self.over:
                raise GoneError("the connection was ended")
            try:
                count = self._receive_some(memory, waiting, patient)
            except BlockingIOError as cause:
                if patient:
                    continue
                raise GoneError("it stopped within a message") from cause
            except OSError as cause:
                raise GoneError(_reason(cause)) from cause
            if not count:
                raise GoneError("the connection was closed")
            memory, patient = memory[count:], False

    def _receive_some(self, memory: memoryview, waiting: Waiting, patient: bool) -> int:
        if not patient:
            with suppress(BlockingIOError):
                return self.connection.recv_into(memory, 0, socket.MSG_DONTWAIT)
        with waiting():
            return self.connection.recv_into(memory)


def _reason(error: OSError) -> str:
    if isinstance(error, BlockingIOError):
        return "it takes nothing"
    return error.strerror or type(error).__name__
