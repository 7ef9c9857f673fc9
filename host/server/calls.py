"""The streams of one client: answers to its calls, one at a time on each stream."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.host.server.session import ClientSession, SessionOverError
from penstock.host.wire.bodies import Bodies
from penstock.host.wire.columns import columns_of
from penstock.host.wire.errors import error_header
from penstock.host.wire.message import BODY_SCHEMA, Header, received, send
from penstock.host.wire.segment import Segment

_log = logging.getLogger("penstock.server")

#: What a stream raises when its client has gone, whichever way.
GONE = (pa.ArrowException, OSError, StopIteration)


class Stream:
    """The writing side of a stream, for several threads.

    It is to be ended before the call of Flight that gave the writer returns: what is written to
    then lies no longer in memory.
    """

    def __init__(self, writer: Any) -> None:
        self._writer: Any | None = writer
        self._lock = threading.Lock()
        writer.begin(BODY_SCHEMA)

    def push(self, header: Header, body: pa.Buffer | None = None) -> None:
        """Write a message, unless the stream was ended."""
        with self._lock:
            if self._writer is not None:
                send(self._writer, header, body)

    def end(self) -> None:
        """Write nothing any more."""
        with self._lock:
            self._writer = None


def serve_calls(session: ClientSession | None, reader: Any, writer: Any) -> None:
    """Serve a stream of calls to its end; without a session each call is told so."""
    stream, bodies = Stream(writer), Bodies()
    try:
        while True:
            chunk = reader.read_chunk()
            stream.push(*_answer(session, bodies, chunk))
    except GONE:
        pass
    finally:
        bodies.close()


def _answer(
    session: ClientSession | None, bodies: Bodies, chunk: Any
) -> tuple[Header, pa.Buffer | None]:
    try:
        if session is None:
            raise SessionOverError("it is not known here")
        header, body = received(chunk)
        if header.get("call") == "share":
            return _share(session, bodies, header), None
        batch, _ = bodies.unpack(header, body)
        reply, out = session.call(header, [] if batch is None else columns_of(batch))
        where, inline = bodies.pack(out)
        return {**reply, **where}, inline
    except SessionOverError as over:
        return {"over": str(over)}, None
    except Exception as error:  # the client is told, and the stream goes on
        if not isinstance(error, PenstockError):
            _log.exception("a call of client %s failed", session.name if session else "unknown")
        return {"error": error_header(error)}, None


def _share(session: ClientSession, bodies: Bodies, header: Header) -> Header:
    """Map the memory that a client offers for requests or for replies."""
    segment = Segment.found(header.get("segment"), session.key)
    if header.get("direction") == "requests":
        old, bodies.arriving = bodies.arriving, segment
    else:
        old, bodies.leaving = bodies.leaving, segment
    if old is not None:
        old.close()
    return {}
