"""Answers to the calls of clients, one at a time on each connection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....device.fields import Header
from ....wire.errors import error_header
from ....wire.frames import FrameError, Frames, GoneError
from ..wire.bodies import Bodies
from ..wire.columns import pack
from ..wire.segment import Segment
from .holdings import SessionOverError
from .session import ClientSession
from .traffic import Hold

Answer = tuple[Header, Sequence[np.ndarray]]


def serve_calls(session: ClientSession, frames: Frames) -> None:
    """Serve a connection for calls until it ends, in the peer's place (see :mod:`.place`)."""
    bodies, going_on = Bodies(), True
    try:
        with session.place.serving(frames):
            while going_on:
                # The memory of a call is counted until its answer has left.
                with Hold(session.traffic, session.key) as hold:
                    answer, parts, going_on = _answer(session, frames, bodies, hold)
                    frames.send(answer, parts)
                    del parts
    except GoneError:
        pass
    finally:
        bodies.close()


def _answer(
    session: ClientSession, frames: Frames, bodies: Bodies, hold: Hold
) -> tuple[Header, Sequence[np.ndarray], bool]:
    """Answer the next call; returns the answer, and whether another call can be received."""
    try:
        header, body = frames.receive(hold.more)
        if header.get("call") == "share":
            return _share(session, bodies, header), (), True
        columns = bodies.unpack(header, body, hold.more)
        reply, out = session.call(header, columns, hold)
        where, parts = bodies.pack(None if out is None else pack(out))
        return {**reply, **where}, parts, True
    except GoneError:
        raise
    except SessionOverError as over:
        return {"over": str(over)}, (), True
    except Exception as error:  # the client is told, and the connection goes on
        return {"error": error_header(error)}, (), not isinstance(error, FrameError)


def _share(session: ClientSession, bodies: Bodies, header: Header) -> Header:
    """Map the memory that a client offers for requests or for replies."""
    segment = Segment.open(header.get("segment"), session.key)
    if header.get("direction") == "requests":
        old, bodies.arriving = bodies.arriving, segment
    else:
        old, bodies.leaving = bodies.leaving, segment
    if old is not None:
        old.close()
    return {}
