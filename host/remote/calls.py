"""One stream of calls to a server: a request, its answer, and where their bodies lie."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.errors import DeviceError
from penstock.host.wire.address import Address
from penstock.host.wire.bodies import Bodies
from penstock.host.wire.columns import batch_of, columns_of, encoded_size
from penstock.host.wire.errors import error_from
from penstock.host.wire.message import BODY_SCHEMA, Header, received, send
from penstock.host.wire.segment import Segment

#: What a stream raises when the other side has gone, whichever way.
GONE = (pa.ArrowException, OSError, StopIteration)


class SessionOverError(Exception):
    """The server has ended the session."""


class Session(Protocol):
    """What a stream of calls needs to know of its session."""

    address: Address
    session: str
    shared: bool | None


class CallStream:
    """A stream on which one call runs at a time.

    Parameters
    ----------
    stream : (writer, reader)
        Of Flight's DoExchange.
    session : Session
        Whether bodies are shared is noted there when it turns out that they cannot be.
    """

    def __init__(self, stream: tuple[Any, Any], session: Session) -> None:
        self._writer, self._reader = stream
        self._session = session
        self._bodies = Bodies()
        self._deadline: float | None = None
        self._writer.begin(BODY_SCHEMA)

    def call(
        self,
        header: Header,
        columns: Sequence[np.ndarray] | pa.RecordBatch | None,
        deadline: float,
    ) -> tuple[Header, list[np.ndarray]]:
        """Ask, and wait; the columns of the answer are the caller's own."""
        batch = batch_of(columns) if isinstance(columns, Sequence) else columns
        self._deadline = deadline
        try:
            if batch is not None:
                self._share("requests", encoded_size(batch))
            where, body = self._bodies.pack(batch)
            answer, body = self._exchanged({**header, **where}, body)
            got, passing = self._bodies.unpack(answer, body)
            if got is not None and body is not None:
                # The next answer of this size finds room.
                self._share("replies", body.size)
        finally:
            self._deadline = None
        found = [] if got is None else columns_of(got)
        return answer, [c.copy() for c in found] if passing else found

    def late(self, now: float) -> bool:
        """Whether a call has waited beyond its deadline (monotonic seconds)."""
        deadline = self._deadline
        return deadline is not None and now > deadline

    def cancel(self) -> None:
        """Let the call that waits fail; any thread may do so."""
        with suppress(*GONE):
            self._reader.cancel()

    def close(self) -> None:
        """End the stream; no call may be waiting, since Flight would read in two threads then."""
        self.cancel()
        with suppress(*GONE):
            self._writer.close()
        self._bodies.close()

    def _exchanged(self, header: Header, body: pa.Buffer | None) -> tuple[Header, pa.Buffer | None]:
        send(self._writer, header, body)
        answer, body = received(self._reader.read_chunk())
        if "over" in answer:
            raise SessionOverError(str(answer["over"]))
        if "error" in answer:
            raise error_from(answer["error"], str(self._session.address))
        return answer, body

    def _share(self, direction: str, size: int) -> None:
        """See that bodies of this size can go through shared memory, unless they should not."""
        session, bodies = self._session, self._bodies
        if session.shared is False:
            return
        requests = direction == "requests"
        old = bodies.leaving if requests else bodies.arriving
        if old is not None and size <= old.size:
            return
        try:
            made = Segment.made(size, session.session)
            header = {"call": "share", "direction": direction, "segment": made.header()}
            try:
                self._exchanged(header, None)
            except BaseException:
                made.close()
                raise
        except DeviceError:
            if session.shared:
                raise
            session.shared = False
            return
        if requests:
            bodies.leaving = made
        else:
            bodies.arriving = made
        if old is not None:
            old.close()
