"""Connections for calls to a server, and the memory of the calls' columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import DeviceError

from ....device.fields import Header
from ....wire.errors import error_from
from ....wire.frames import Frames
from ..wire.bodies import BODY, Bodies
from ..wire.columns import ColumnLayout, pack
from ..wire.segment import Segment

if TYPE_CHECKING:
    from .session import RemoteSession

#: Most characters to show of a server's reason for ending a session.
MOST_REASON = 500


class EndedSessionError(Exception):
    """The server has ended the session."""


class CallStream:
    """A connection on which one call runs at a time.

    Parameters
    ----------
    frames : Frames
        After the greeting for calls; closed with the stream.
    session : RemoteSession
        Told if columns turn out not to be shareable.
    """

    def __init__(self, frames: Frames, session: RemoteSession) -> None:
        self._frames = frames
        self._session = session
        self._bodies = Bodies()
        self._deadline: float | None = None

    def call(
        self, header: Header, columns: Sequence[np.ndarray] | None, deadline: float
    ) -> tuple[Header, list[np.ndarray]]:
        """Send a request and wait for its answer, whose columns are the caller's own."""
        packed = None if columns is None else pack(columns)
        self._deadline = deadline
        try:
            if packed is not None:
                self._share("requests", packed.layout.size)
            where, parts = self._bodies.pack(packed)
            answer, body = self._exchange({**header, **where}, parts)
            found = self._bodies.unpack(answer, body)
            if body is not None:
                # Makes room for the next answer of this size.
                self._share("replies", ColumnLayout.parsed(answer[BODY]).size)
        finally:
            self._deadline = None
        return answer, found

    def late(self, now: float) -> bool:
        """Whether a call has waited beyond its deadline (monotonic seconds)."""
        deadline = self._deadline
        return deadline is not None and now > deadline

    def cancel(self) -> None:
        """Make the waiting call fail. Any thread may call this."""
        self._frames.cancel()

    def close(self) -> None:
        """Close the connection; no call may be waiting."""
        self._frames.close()
        self._bodies.close()

    def _exchange(
        self, header: Header, parts: Sequence[np.ndarray]
    ) -> tuple[Header, np.ndarray | None]:
        self._frames.send(header, parts)
        answer, body = self._frames.receive()
        if "over" in answer:
            raise EndedSessionError(str(answer["over"])[:MOST_REASON])
        if "error" in answer:
            raise error_from(answer["error"], f"the server at {self._session.address}")
        return answer, body

    def _share(self, direction: str, size: int) -> None:
        """Make shared memory for columns of this size, if allowed and not there yet."""
        session, bodies = self._session, self._bodies
        if session.shared is False:
            return
        requests = direction == "requests"
        old = bodies.leaving if requests else bodies.arriving
        if old is not None and size <= old.size:
            return
        try:
            made = Segment.create(size, session.key)
            header = {"call": "share", "direction": direction, "segment": made.header()}
            try:
                self._exchange(header, ())
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
