"""A session with a server, for as long as both live; its end makes waiting calls fail."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from penstock.errors import DeviceError, PenstockError

from ....channel import spin_seconds
from ....device.fields import Header
from ....wire.address import Address
from ....wire.dialing import LateError, connect
from ....wire.errors import error_from
from ....wire.frames import Frames
from ....wire.handshake import TokenError
from ....wire.transport import FrameError, GoneError
from ..wire.channel import ChannelTransport
from ..wire.column_bytes import body_of, columns_of, pack
from ..wire.rings import Rings
from ..wire.welcome import Welcome
from .failures import SessionLostError, unwelcome

#: Signs of life per lease: two may be lost on the way.
_BEATS_PER_LEASE = 3
#: Seconds to wait for the server's reason, which another thread receives, when sending fails.
_REASON_S = 1.0
#: Most characters to show of a server's reason for ending a session.
MOST_REASON = 500


class RemoteSession:
    """A session.

    Parameters
    ----------
    address : Address
    device : str, optional
        One of the server's devices; by default its first.
    token : str, optional
    channel : bool or None
        Whether calls go through a channel; None if they do where that is possible.
    connect_s : float
        Seconds to wait for the server's welcome.
    answer_s : float
        Seconds to wait for the answer of a call.

    Raises
    ------
    AbsentError
        No server answers.
    DeviceError
        The server refuses this client, or is no server of Penstock.
    """

    def __init__(
        self,
        address: Address,
        *,
        device: str | None,
        token: str | None,
        channel: bool | None,
        connect_s: float,
        answer_s: float,
    ) -> None:
        self.address = address
        self.answer_s = answer_s
        self.channel = channel
        self.lost: SessionLostError | None = None
        self._lock = threading.Lock()
        self._busy: set[CallStream] = set()
        self._idle: list[CallStream] = []
        self._heard = threading.Event()
        self._over = threading.Event()
        self._token, self._connect_s = token, connect_s
        hello = {"stream": "session", "name": f"process {os.getpid()}", "device": device}
        self._frames, answer = self._connect(hello)
        try:
            self.welcome = Welcome.parsed(answer)
        except PenstockError:
            self._frames.close()
            raise
        self.key = self.welcome.session
        self._lease_s = self.welcome.lease_s
        self._threads = [
            threading.Thread(target=self._listen, name="penstock-remote-listen", daemon=True),
            threading.Thread(target=self._beat, name="penstock-remote-beat", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    # -- calls ------------------------------------------------------------------------------------

    def call(
        self, header: Header, columns: Sequence[np.ndarray] | None = None
    ) -> tuple[Header, list[np.ndarray]]:
        """Ask the server, and wait for its answer.

        Raises
        ------
        SessionLostError
            The session ended.
        PenstockError
            The error that the server reported.
        """
        with self._stream() as stream:
            try:
                return stream.call(header, columns, time.monotonic() + self.answer_s)
            except EndedSessionError as cause:
                raise self._lose(str(cause)) from cause
            except FrameError as cause:
                raise self._lose(f"it is no server of Penstock any more ({cause})") from cause
            except GoneError as cause:
                self._over.wait(_REASON_S)
                raise self._lose(f"it went away ({cause})") from cause

    @contextmanager
    def _stream(self) -> Iterator[CallStream]:
        """A connection for calls that is free."""
        with self._lock:
            if self.lost is not None:
                raise SessionLostError(str(self.lost))
            stream = self._idle.pop() if self._idle else None
            if stream is not None:
                self._busy.add(stream)
        if stream is None:
            stream = self._open_stream()
        try:
            yield stream
        finally:
            with self._lock:
                over = self.lost is not None
                if not over:
                    self._busy.discard(stream)
                    self._idle.append(stream)
            if over:
                stream.close()

    def _open_stream(self) -> CallStream:
        try:
            frames, answer = self._connect({"stream": "calls", "session": self.key})
        except PenstockError as cause:
            raise self._lose(f"it takes no call ({cause})") from cause
        if "over" in answer:
            frames.close()
            raise self._lose(str(answer["over"])[:MOST_REASON])
        frames.open_up()
        stream = CallStream(frames, self)
        with self._lock:
            self._busy.add(stream)
            if self.lost is not None:
                stream.cancel()  # too late to be cancelled with the others
        return stream

    def _lose(self, why: str) -> SessionLostError:
        """End the session; returns the error for a call.

        The error is new each time: if several threads raised the same, tracebacks would mix.
        """
        self.lose(why)
        return SessionLostError(str(self.lost))

    # -- the session stream -----------------------------------------------------------------------

    def _connect(self, wants: Header) -> tuple[Frames, Header]:
        """Make a connection for a purpose; returns it with the server's answer.

        Raises
        ------
        DeviceError
            No connection could be made.
        """
        try:
            return connect(self.address, self._token, wants, self._connect_s)
        except (TokenError, FrameError, GoneError) as cause:
            late = isinstance(cause, LateError)
            raise unwelcome(self.address, cause, late, self._connect_s) from cause
        except PenstockError:
            raise  # some are OSErrors, too
        except OSError as cause:
            timed_out = isinstance(cause, TimeoutError)
            raise unwelcome(self.address, cause, timed_out, self._connect_s) from cause

    def _listen(self) -> None:
        """Receive the server's messages until the session ends."""
        why = ""
        try:
            while not why:
                header, _ = self._frames.receive()
                self._heard.set()
                if "over" in header:
                    why = str(header["over"])[:MOST_REASON]
                elif "error" in header:
                    why = str(error_from(header["error"], f"the server at {self.address}"))
        except PenstockError as cause:
            why = str(cause)
        except GoneError as cause:
            why = f"it went away ({cause})"
        self.lose(why)
        self._frames.close()

    def _beat(self) -> None:
        """Send signs of life; end the session if the server, or a call, is silent for too long."""
        pause = self._lease_s / _BEATS_PER_LEASE
        heard = time.monotonic()
        while not self._over.wait(pause):
            now = time.monotonic()
            if self._heard.is_set():
                self._heard.clear()
                heard = now
            elif now - heard > self._lease_s:
                return self.lose(f"it gave no sign of life for {self._lease_s:g} s")
            with self._lock:
                late = any(stream.late(now) for stream in self._busy)
            if late:
                return self.lose(f"a call was not answered within {self.answer_s:g} s")
            try:
                self._frames.send({"call": "alive"})
            except GoneError as cause:
                self._over.wait(_REASON_S)
                return self.lose(f"it went away ({cause})")
        return None

    # -- ends -------------------------------------------------------------------------------------

    def lose(self, why: str) -> None:
        """End the session, and make waiting calls fail."""
        with self._lock:
            if self._over.is_set():
                return
            self._over.set()
            self.lost = SessionLostError(
                f"the session with the server at {self.address} ended: {why}. If no server "
                f"is left, start one with: penstock serve --listen {self.address}; then run this "
                "again, windows are written anew"
            )
            idle, self._idle = self._idle, []
            for stream in self._busy:
                stream.cancel()  # the waiting caller closes it
        for stream in idle:
            stream.close()
        self._frames.cancel()  # which ends the thread that listens

    def close(self) -> None:
        """End the session; calls must be over."""
        self.lose("this client closed it")
        for thread in self._threads:
            thread.join(self._lease_s)


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
