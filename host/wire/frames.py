"""Frames: lengths, a header in JSON, and bytes of columns.

The lengths come first, so that whoever receives can refuse before anything is allocated.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from penstock.errors import DeviceError, OverloadError

from ..device.fields import Header
from .message import (
    HEADER_WEIGHT,
    MOST_BODY_BYTES,
    MOST_HEADER_BYTES,
    MOST_WELCOME_BYTES,
    parse_header,
)
from .transport import STALL_S, FrameError, GoneError, SocketTransport, Transport, Waiting

#: Start of a frame: magic, bytes of the header, bytes of the columns.
PREFIX = struct.Struct("<4sIQ")
MAGIC = b"PSTK"
#: Bytes that are read at a time of a frame that is skipped.
_SKIPPED = 1 << 16


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
        self.transport: Transport = SocketTransport(connection, stall_s)
        self.transport.begin()
        self._sending = threading.Lock()
        #: Makes a context to be in while waiting for the other side.
        self.waiting: Waiting = nullcontext
        #: Most bytes of a message that is received; greetings are short.
        self.most_header, self.most_body = MOST_WELCOME_BYTES, 0

    @property
    def connection(self) -> socket.socket:
        """The connection, which only a socket's frames go through."""
        return self.transport.connection

    def go_over(self, transport: Transport) -> None:
        """Use another transport from now on; nothing may be under way."""
        transport.begin()
        old, self.transport = self.transport, transport
        # Whoever ended the connection meanwhile meant this one.
        transport.over, transport.cut = transport.over or old.over, transport.cut or old.cut

    def open_up(self) -> None:
        """Accept messages of any size from now on."""
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
                self.transport.send(buffers, self.waiting)
            except GoneError:
                # Half a frame may be out, and nothing that follows would be understood.
                self.cancel()
                raise

    def say(self, header: Mapping[str, Any]) -> None:
        """Send a short message if it need not wait; otherwise send nothing."""
        text = json.dumps(header).encode()
        frame = PREFIX.pack(MAGIC, len(text), 0) + text
        if not self._sending.acquire(blocking=False):
            return
        try:
            self.transport.offer(frame)
        except GoneError:
            # Half a frame is out, and nothing that follows would be understood.
            self.cancel()
        finally:
            self._sending.release()

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

    def _skip(self, size: int) -> None:
        scratch = memoryview(bytearray(min(size, _SKIPPED)))
        while size:
            self._fill(scratch[: min(size, _SKIPPED)])
            size -= min(size, _SKIPPED)

    def _fill(self, memory: memoryview, *, patient: bool = False) -> None:
        self.transport.fill(memory, self.waiting, patient=patient)

    def end(self) -> None:
        """Stop receiving; a message being sent is still sent. Any thread may call this."""
        self.transport.end()

    def cancel(self) -> None:
        """Make calls that send or receive fail. Any thread may call this."""
        self.transport.cancel()

    def close(self) -> None:
        """Close the connection, which nobody may be using."""
        self.transport.close()
