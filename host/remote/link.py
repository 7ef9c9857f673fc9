"""A session with a server: held while both live, and told to all who wait when one dies."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight

from penstock.errors import PenstockError
from penstock.host.remote.calls import GONE, CallStream, SessionOverError
from penstock.host.remote.failures import LostError, first_line, unwelcome
from penstock.host.wire.address import Address
from penstock.host.wire.errors import error_from
from penstock.host.wire.message import BODY_SCHEMA, PROTOCOL, Header, field, received, send

#: Signs of life per lease: two may be lost on the way.
_BEATS_PER_LEASE = 3


class Link:
    """A session.

    Parameters
    ----------
    address : Address
    device : str, optional
        One of the server's devices; by default its first.
    token : str, optional
    shared : bool or None
        Whether bodies go through shared memory; None if they do where that is possible.
    connect_s : float
        Seconds to wait for the server's welcome.
    answer_s : float
        Seconds to wait for the answer of a call.

    Raises
    ------
    AbsentError
        No server answers.
    DeviceError
        The server does not want this client, or is no server of Penstock.
    """

    def __init__(
        self,
        address: Address,
        *,
        device: str | None,
        token: str | None,
        shared: bool | None,
        connect_s: float,
        answer_s: float,
    ) -> None:
        self.address = address
        self.answer_s = answer_s
        self.shared = shared
        self.lost: LostError | None = None
        self._lock = threading.Lock()
        self._busy: set[CallStream] = set()
        self._idle: list[CallStream] = []
        self._heard = threading.Event()
        self._over = threading.Event()
        self._writing = threading.Lock()
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._options = flight.FlightCallOptions(headers=headers)
        patience_ms = max(round(connect_s * 1000), 1)
        self._client = flight.FlightClient(
            address.location,
            generic_options=[
                # Else a server that comes back would be looked for only after gRPC's back-off,
                # which all connections of a process to one address share.
                ("grpc.use_local_subchannel_pool", 1),
                # What gRPC waits for a connection is never less than what it backs off.
                ("grpc.min_reconnect_backoff_ms", patience_ms),
                ("grpc.initial_reconnect_backoff_ms", patience_ms),
                ("grpc.max_reconnect_backoff_ms", patience_ms),
            ],
        )
        self.welcome = self._greeted(device, connect_s)
        self.session: str = field(self.welcome, "session", str)
        self._lease_s = float(self.welcome["lease_s"])
        self._threads = [
            threading.Thread(target=self._listen, name="penstock-remote-listen", daemon=True),
            threading.Thread(target=self._beat, name="penstock-remote-beat", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    # -- calls ------------------------------------------------------------------------------------

    def call(
        self, header: Header, columns: Sequence[np.ndarray] | pa.RecordBatch | None = None
    ) -> tuple[Header, list[np.ndarray]]:
        """Ask the server, and wait for its answer.

        Raises
        ------
        LostError
            The session ended.
        PenstockError
            What the server says is wrong.
        """
        with self._stream() as stream:
            try:
                return stream.call(header, columns, time.monotonic() + self.answer_s)
            except SessionOverError as cause:
                self.lose(str(cause))
                raise self._lost() from cause
            except PenstockError:
                raise  # some are OSErrors, too
            except GONE as cause:
                self.lose(f"it went away ({first_line(cause)})")
                raise self._lost() from cause

    @contextmanager
    def _stream(self) -> Iterator[CallStream]:
        """A stream of calls that nobody else uses."""
        with self._lock:
            if self.lost is not None:
                raise self._lost()
            stream = self._idle.pop() if self._idle else None
            if stream is not None:
                self._busy.add(stream)
        if stream is None:
            stream = self._opened()
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

    def _opened(self) -> CallStream:
        try:
            stream = CallStream(self._exchange({"stream": "calls", "session": self.session}), self)
        except GONE as cause:
            self.lose(f"it went away ({first_line(cause)})")
            raise self._lost() from cause
        with self._lock:
            self._busy.add(stream)
            if self.lost is not None:
                stream.cancel()  # it came too late to be told with the others
        return stream

    def _lost(self) -> LostError:
        """The reason anew: an error that several threads raise would mix their tracebacks."""
        assert self.lost is not None
        return LostError(str(self.lost))

    # -- the session stream -----------------------------------------------------------------------

    def _exchange(self, command: Header) -> tuple[Any, Any]:
        return self._client.do_exchange(
            flight.FlightDescriptor.for_command(json.dumps(command)), self._options
        )

    def _greeted(self, device: str | None, connect_s: float) -> Header:
        hello = {
            "protocol": PROTOCOL,
            "version": version("penstock"),
            "name": f"process {os.getpid()}",
            "device": device,
        }
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._reader.cancel()

        try:
            self._writer, self._reader = self._exchange({"stream": "session"})
        except GONE as cause:
            raise unwelcome(self.address, cause, False, connect_s) from cause
        try:
            timer = threading.Timer(connect_s, give_up)
            timer.start()
            try:
                with suppress(*GONE):  # what is wrong is said where the answer should be
                    self._writer.begin(BODY_SCHEMA)
                    send(self._writer, hello)
                header, _ = received(self._reader.read_chunk())
            finally:
                timer.cancel()
        except PenstockError:
            self._hang_up()
            raise
        except GONE as cause:
            self._hang_up()
            raise unwelcome(self.address, cause, late.is_set(), connect_s) from cause
        if "error" in header:
            self._hang_up()
            raise error_from(header["error"], str(self.address))
        return header

    def _listen(self) -> None:
        """Hear what the server says, to the end of the session."""
        why = ""
        try:
            while not why:
                header, _ = received(self._reader.read_chunk())
                self._heard.set()
                if "over" in header:
                    why = str(header["over"])
                elif "error" in header:
                    why = str(error_from(header["error"], str(self.address)))
        except PenstockError as cause:
            why = str(cause)
        except GONE as cause:
            why = f"it went away ({first_line(cause)})"
        self.lose(why)
        self._hang_up()

    def _beat(self) -> None:
        """Give signs of life, and see that the server and its calls give some."""
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
                with self._writing:
                    if self._over.is_set():
                        return None
                    send(self._writer, {"call": "alive"})
            except GONE as cause:
                return self.lose(f"it went away ({first_line(cause)})")
        return None

    # -- ends -------------------------------------------------------------------------------------

    def lose(self, why: str) -> None:
        """The session is over: whoever waits is told."""
        with self._lock:
            if self._over.is_set():
                return
            self._over.set()
            self.lost = LostError(
                f"the session with the server at {self.address} ended: {why}. If no server "
                f"is left, start one with: penstock serve --listen {self.address}; then run this "
                "again, windows are written anew"
            )
            idle, self._idle = self._idle, []
            for stream in self._busy:
                stream.cancel()  # whoever waits for it closes it
        for stream in idle:
            stream.close()
        self._reader.cancel()  # which ends the thread that listens

    def close(self) -> None:
        """End the session; calls must be over."""
        self.lose("this client closed it")
        for thread in self._threads:
            thread.join(self._lease_s)

    def _hang_up(self) -> None:
        """End the session stream, which nobody may be reading."""
        with self._writing:
            with suppress(*GONE):
                self._reader.cancel()
            with suppress(*GONE):
                self._writer.close()
