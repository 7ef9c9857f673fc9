"""Raw connections to a server, for what no client sends."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.host.device.fields import Header
from penstock.host.wire.address import Address
from penstock.host.wire.frames import MAGIC, PREFIX, Frames
from penstock.host.wire.handshake import greet

#: Seconds that a test waits for an answer.
TIMEOUT_S = 30.0


def dialled(address: Address) -> socket.socket:
    """A connection on which nothing was said yet."""
    if address.path is None:
        return socket.create_connection((address.host, address.port), TIMEOUT_S)
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(TIMEOUT_S)
    made.connect(os.fspath(address.path))
    return made


@contextmanager
def raw(
    address: Address, wants: Header | None = None, token: str | None = None
) -> Iterator[tuple[Frames, Header]]:
    """A connection for what a client wants, or not yet greeted, and the server's answer."""
    frames = Frames(dialled(address))
    try:
        answer = {} if wants is None else greet(frames, token, wants)
        frames.open_up()
        yield frames, answer
    finally:
        frames.close()


def exchanged(frames: Frames, text: bytes, body: bytes = b"") -> Header:
    """The answer to a message whose header is this text."""
    frames.connection.sendall(PREFIX.pack(MAGIC, len(text), len(body)) + text + body)
    return frames.receive()[0]
