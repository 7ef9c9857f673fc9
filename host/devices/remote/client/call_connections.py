"""Connections for calls to a server; each carries one call at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import DeviceError

from ....channel import spin_seconds
from ....device.fields import Header
from ....wire.errors import error_from
from ....wire.frames import Frames
from ..wire.bodies import body_of, columns_of
from ..wire.channel import ChannelTransport
from ..wire.column_bytes import pack
from ..wire.rings import Rings

if TYPE_CHECKING:
    from .server_session import RemoteSession

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
        Told if no channel can be had.
    """

    def __init__(self, frames: Frames, session: RemoteSession) -> None:
        self._frames = frames
        self._session = session
        self._is_begun = False
        self._deadline: float | None = None

    def call(
        self, header: Header, columns: Sequence[np.ndarray] | None, deadline: float
    ) -> tuple[Header, list[np.ndarray]]:
        """Send a request and wait for its answer, whose columns are the caller's own."""
        packed = None if columns is None else pack(columns)
        self._deadline = deadline
        try:
            if not self._is_begun:
                self._begin()
            described, parts = body_of(packed)
            answer, body = self._exchange({**header, **described}, parts)
            return answer, columns_of(answer, body)
        finally:
            self._deadline = None

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

    def _begin(self) -> None:
        """Go over to a channel, if that is wanted and possible."""
        session = self._session
        self._is_begun = True
        if session.channel is False:
            return
        try:
            rings = Rings.create(session.key)
            try:
                transport = ChannelTransport(
                    self._frames.connection, rings, is_server=False, spin_s=_spin_s
                )
                self._exchange({"call": "channel", "rings": rings.header()}, ())
            finally:
                rings.close()
        except DeviceError:
            if session.channel:
                raise
            session.channel = False
        else:
            self._frames.go_over(transport)


def _spin_s() -> float:
    """A call waits for the server's process alone."""
    return spin_seconds(2)
