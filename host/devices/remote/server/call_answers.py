"""Answers to the calls of clients, one at a time on each connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....device.fields import Header, MalformedError
from ....wire.errors import error_header
from ....wire.frames import Frames
from ....wire.transport import FrameError, GoneError, SocketTransport, Transport
from ..wire.bodies import body_of, columns_of
from ..wire.channel import ChannelTransport
from ..wire.column_bytes import pack
from ..wire.rings import Rings
from .holdings import SessionOverError
from .session import ClientSession
from .traffic import Hold


@dataclass(frozen=True)
class CallAnswer:
    """Answer to a call.

    Parameters
    ----------
    header : Header
    parts : sequence of ndarray of uint8
    is_last : bool
        Whether no other call can be received.
    transport : Transport, optional
        Carries what follows.
    """

    header: Header
    parts: Sequence[np.ndarray] = ()
    is_last: bool = False
    transport: Transport | None = None


def serve_calls(session: ClientSession, frames: Frames) -> None:
    """Serve a connection for calls until it ends, in the peer's place (see :mod:`.place`)."""
    going_on = True
    try:
        with session.place.serving(frames):
            while going_on:
                # The memory of a call is counted until its answer has left.
                with Hold(session.traffic, session.key) as hold:
                    answer = answer_next(session, frames, hold)
                    frames.send(answer.header, answer.parts)
                if answer.transport is not None:
                    frames.go_over(answer.transport)
                going_on = not answer.is_last
                del answer
    except GoneError:
        pass


def answer_next(session: ClientSession, frames: Frames, hold: Hold) -> CallAnswer:
    """Receive the next call and carry it out.

    Raises
    ------
    GoneError
    """
    try:
        header, body = frames.receive(hold.more)
        if header.get("call") == "channel":
            return CallAnswer({}, transport=_channel(session, frames, header))
        columns = columns_of(header, body, hold.more)
        reply, out = session.call(header, columns, hold)
        described, parts = body_of(None if out is None else pack(out))
        return CallAnswer({**reply, **described}, parts)
    except GoneError:
        raise
    except SessionOverError as over:
        return CallAnswer({"over": str(over)})
    except Exception as error:  # the client is told, and the connection goes on
        return CallAnswer({"error": error_header(error)}, is_last=isinstance(error, FrameError))


def _channel(session: ClientSession, frames: Frames, header: Header) -> Transport:
    """The server's end of the channel that a client offers for the rest of the connection."""
    if not isinstance(frames.transport, SocketTransport):
        raise MalformedError("this connection has a channel already")
    rings = Rings.open(header.get("rings"), session.key)
    return ChannelTransport(frames.connection, rings, is_server=True, spin_s=session.place.spin_s)
