"""Raw connections to a server, for what no client sends."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from penstock.host.device.fields import Header
from penstock.host.devices.remote.client.device import TRANSPORTS
from penstock.host.devices.remote.wire.channel import ChannelTransport
from penstock.host.devices.remote.wire.rings import Rings
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


@contextmanager
def calling(address: Address, session: str) -> Iterator[Frames]:
    """A raw connection for calls of a session, by the transport that clients take."""
    with raw(address, {"stream": "calls", "session": session}) as (frames, answer):
        assert answer == {"ready": True}, answer
        if TRANSPORTS["auto"]:
            go_over(frames, session)
        yield frames


def go_over(frames: Frames, session: str) -> Rings:
    """Let a connection for calls go on through a channel; the memory of both sides."""
    rings = Rings.create(session)
    frames.send({"call": "channel", "rings": rings.header()})
    answer, _ = frames.receive()
    assert answer == {}, answer
    rings.close()
    frames.go_over(ChannelTransport(frames.connection, rings, is_server=False, spin_s=lambda: 0.0))
    return rings


def put(frames: Frames, sent: bytes) -> None:
    """Send bytes, whatever they are."""
    frames.transport.send([memoryview(sent)], nullcontext)


def exchanged(frames: Frames, text: bytes, body: bytes = b"") -> Header:
    """The answer to a message whose header is this text."""
    put(frames, PREFIX.pack(MAGIC, len(text), len(body)) + text + body)
    return frames.receive()[0]
