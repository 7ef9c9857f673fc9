"""Frames on a socket: lengths, a header in JSON, and bytes of columns.

The lengths come first, so that whoever receives can refuse before anything is allocated.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import numpy as np

from penstock.errors import DeviceError, OverloadError

from ..device.fields import Header, MalformedError
from .message import (
    HEADER_WEIGHT,
    MOST_BODY_BYTES,
    MOST_HEADER_BYTES,
    MOST_WELCOME_BYTES,
    parse_header,
)

#: Start of a frame: magic, bytes of the header, bytes of the columns.
PREFIX = struct.Struct("<4sIQ")
MAGIC = b"PSTK"
#: Seconds for which a frame that has begun may make no progress, either way.
STALL_S = 15.0
#: Bytes that are read at a time of a frame that is skipped.
_SKIPPED = 1 << 16
#: Buffers of one system call, at most; Linux takes 1024.
_MOST_BUFFERS = 512


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


class Frames:
    """One end of a connection. Several threads may send; one receives.

    Parameters
    ----------
    connection : socket
        Closed with it.
    stall_s : float
        Seconds without progress within a frame after which the other side counts as gone.
    """

    def __init__(self, connection: socket.socket, stall_s: float = STALL_S) -> None:
        self.connection = connection
        self._sending = threading.Lock()
        self._over = False
        #: Context to enter while waiting for the other side.
        self.waiting: Callable[[], AbstractContextManager[object]] = nullcontext
        #: Most bytes of a message that is received; greetings are short.
        self.most_header, self.most_body = MOST_WELCOME_BYTES, 0
        connection.settimeout(None)
        seconds, rest = divmod(stall_s, 1)
        patience = struct.pack("ll", int(seconds), int(rest * 1e6))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def open_up(self) -> None:
        """Receive messages of any size from now on."""
        self.most_header, self.most_body = MOST_HEADER_BYTES, MOST_BODY_BYTES

    def send(self, header: Mapping[str, Any], parts: Sequence[np.ndarray] = ()) -> None:
        """Send a message.

        Parameters
        ----------
        parts : sequence of ndarray of uint8

        Raises
        ------
        GoneError
        DeviceError
            The header is too large for a message; nothing was sent.
        """
        text = json.dumps(header).encode()
        if len(text) > MOST_HEADER_BYTES:
            raise DeviceError(
                f"a header of {len(text)} bytes is above the {MOST_HEADER_BYTES} of a message to "
                "or from a server of devices; use a shorter predicate"
            )
        size = sum(len(part) for part in parts)
        buffers = [memoryview(PREFIX.pack(MAGIC, len(text), size) + text)]
        buffers += [part.data for part in parts if len(part)]
        with self._sending:
            try:
                self._send_all(buffers)
            except OSError as cause:
                # Half a frame may be out, and nothing that follows would be understood.
                self.cancel()
                raise GoneError(_reason(cause)) from cause

    def say(self, header: Mapping[str, Any]) -> None:
        """Send a short message if that is possible without waiting; otherwise send nothing."""
        text = json.dumps(header).encode()
        frame = PREFIX.pack(MAGIC, len(text), 0) + text
        if not self._sending.acquire(blocking=False):
            return
        try:
            if self.connection.send(frame, socket.MSG_DONTWAIT) < len(frame):
                # Half a frame is out, and nothing that follows would be understood.
                self.cancel()
        except OSError:
            return
        finally:
            self._sending.release()

    def _send_all(self, buffers: list[memoryview]) -> None:
        while buffers:
            some = buffers[:_MOST_BUFFERS]
            try:
                sent = self.connection.sendmsg(some, (), socket.MSG_DONTWAIT)
            except BlockingIOError:
                with self.waiting():
                    sent = self.connection.sendmsg(some)
            while buffers and sent >= len(buffers[0]):
                sent -= len(buffers.pop(0))
            if sent:
                buffers[0] = buffers[0][sent:]

    def receive(
        self, reserve: Callable[[int], None] = lambda size: None
    ) -> tuple[Header, np.ndarray | None]:
        """Wait for a message; returns its header, and the bytes of its columns, if any.

        Parameters
        ----------
        reserve : callable
            Takes the bytes that the message needs before they are allocated. If it raises
            OverloadError, the message is skipped.

        Raises
        ------
        GoneError
        FrameError
            The other side sends something else; it cannot be understood any more.
        MalformedError, OverloadError
            The message is wrong or too much; the next one can be received.
        """
        prefix = bytearray(PREFIX.size)
        self._fill(memoryview(prefix), patient=True)
        magic, header_size, body_size = PREFIX.unpack(prefix)
        if magic != MAGIC:
            raise FrameError(
                f"a message of Penstock begins with {MAGIC!r}, not {magic!r}", bytes(prefix)
            )
        if header_size > self.most_header or body_size > self.most_body:
            raise FrameError(
                f"a message of {header_size} and {body_size} bytes is above the limits of "
                f"{self.most_header} and {self.most_body}"
            )
        try:
            reserve(HEADER_WEIGHT * header_size + body_size)
        except OverloadError:
            self._skip(header_size + body_size)
            raise
        text = bytearray(header_size)
        self._fill(memoryview(text))
        body = None
        if body_size:
            # Not cleared, so pages are allocated only as bytes arrive.
            body = np.empty(body_size, np.uint8)
            self._fill(body.data)
        return parse_header(text), body

    def _fill(self, memory: memoryview, patient: bool = False) -> None:
        """Fill memory with arriving bytes; if ``patient``, the first byte may take for ever."""
        while len(memory):
            if patient and self._over:
                raise GoneError("the connection was ended")
            try:
                count = self._receive_some(memory, patient)
            except BlockingIOError as cause:
                if patient:
                    continue
                raise GoneError("it stopped within a message") from cause
            except OSError as cause:
                raise GoneError(_reason(cause)) from cause
            if not count:
                raise GoneError("the connection was closed")
            memory, patient = memory[count:], False

    def _receive_some(self, memory: memoryview, patient: bool) -> int:
        if not patient:
            with suppress(BlockingIOError):
                return self.connection.recv_into(memory, 0, socket.MSG_DONTWAIT)
        with self.waiting():
            return self.connection.recv_into(memory)

    def _skip(self, size: int) -> None:
        scratch = memoryview(bytearray(min(size, _SKIPPED)))
        while size:
            self._fill(scratch[: min(size, _SKIPPED)])
            size -= min(size, _SKIPPED)

    def end(self) -> None:
        """Stop receiving; a message being sent is still sent. Any thread may call this."""
        self._over = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)

    def cancel(self) -> None:
        """Make calls that send or receive fail. Any thread may call this."""
        self._over = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, which nobody may be using."""
        self.cancel()
        self.connection.close()


def _reason(error: OSError) -> str:
    if isinstance(error, BlockingIOError):
        return "it takes nothing"
    return error.strerror or type(error).__name__
