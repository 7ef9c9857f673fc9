"""The Flight service: streams of sessions and of calls, and the leases of sessions.

A client holds one session stream for as long as it lives; its end, however it comes, ends the
session. Calls come on streams of their own, one at a time on each.
"""

from __future__ import annotations

import hmac
import os
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from penstock.errors import DeviceError, OverloadError, PenstockError
from penstock.host.server.limits import Limits
from penstock.host.server.owner import Owner
from penstock.host.server.session import ClientSession
from penstock.host.wire.address import Address, check_listen, clear_stale
from penstock.host.wire.bodies import Bodies
from penstock.host.wire.columns import columns_of
from penstock.host.wire.errors import error_header
from penstock.host.wire.message import (
    BODY_SCHEMA,
    PROTOCOL,
    Header,
    MalformedError,
    field,
    parsed,
    received,
    send,
)
from penstock.host.wire.segment import Segment

#: Only the user who runs the server may connect to its socket.
_SOCKET_MASK = 0o177
#: How often leases are looked at, per lease.
_LOOKS_PER_LEASE = 4
#: What a stream raises when its client has gone, whichever way.
_GONE = (pa.ArrowException, OSError, StopIteration)


class DeviceServer:
    """Serves devices until it is closed.

    Parameters
    ----------
    owners : mapping of str to Owner
        Devices by name, at least one; the first is what clients get who name none. Closed with the
        server.
    address : Address
    token : str, optional
        What every client must show. Needed unless the address is a Unix socket.
    limits : Limits

    Raises
    ------
    UsageError
        The address is taken, or must not be listened on without a token.
    """

    def __init__(
        self,
        owners: Mapping[str, Owner],
        address: Address,
        *,
        token: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        check_listen(address, token)
        self.owners = dict(owners)
        self.limits = limits or Limits()
        self.ended: dict[str, int] = {}
        self._lock = threading.Lock()
        self._sessions: dict[str, ClientSession] = {}
        self._streams: dict[str, _Stream] = {}
        self._stopping = threading.Event()
        self._service = _listening(self, address, token)
        port = self._service.port
        self.address = address if address.path else Address(host=address.host, port=port)
        self._inode = None if address.path is None else address.path.stat().st_ino
        self._leases = threading.Thread(target=self._watch, name="penstock-leases", daemon=True)
        self._leases.start()

    def sessions(self) -> list[ClientSession]:
        """Sessions of this moment."""
        with self._lock:
            return list(self._sessions.values())

    def close(self, timeout_s: float = 10.0) -> bool:
        """Let running tasks end, free everything, and stop listening.

        Parameters
        ----------
        timeout_s : float
            Seconds to wait for tasks, and again for streams.

        Returns
        -------
        bool
            Whether all streams have ended; a client that hangs may keep one.
        """
        self._stopping.set()
        for owner in self.owners.values():
            owner.quiet(timeout_s)
        with self._lock:
            streams = list(self._streams.values())
        for stream in streams:
            with suppress(*_GONE):
                stream.push({"over": "the server was stopped"})
        for session in self.sessions():
            self._end(session, "the server was stopped")
        down = threading.Thread(target=self._service.shutdown, name="penstock-stop", daemon=True)
        down.start()
        down.join(timeout_s)
        self._leases.join(timeout_s)
        path = self.address.path
        if path is not None and path.exists() and path.stat().st_ino == self._inode:
            path.unlink(missing_ok=True)
        for owner in self.owners.values():
            owner.stop()
        return not down.is_alive()

    # -- sessions ---------------------------------------------------------------------------------

    def hold_session(self, reader: Any, writer: Any) -> None:
        """Serve a session stream to its end."""
        stream = _Stream(writer)
        try:
            header, _ = received(reader.read_chunk())
            session = self._begun(header)
        except PenstockError as error:
            stream.push({"error": error_header(error)})
            return
        reason = "the client went away"
        try:
            with self._lock:
                self._streams[session.key] = stream
            stream.push(self._welcome(session))
            while True:
                received(reader.read_chunk())
                session.renew()
                stream.push({"alive": True})
        except StopIteration:
            reason = "the client left"
        except PenstockError as error:
            stream.push({"error": error_header(error)})
            reason = str(error)
        except _GONE:
            pass
        finally:
            self._end(session, reason)

    def _begun(self, hello: Header) -> ClientSession:
        spoken = hello.get("protocol")
        if spoken != PROTOCOL:
            raise DeviceError(
                f"the server speaks protocol {PROTOCOL} (penstock {version('penstock')}), and this "
                f"client {spoken!r:.20} (penstock {hello.get('version')!r:.40}); install the same "
                "version of penstock on both sides"
            )
        names = list(self.owners)
        wanted = hello.get("device") or names[0]
        if wanted not in self.owners:
            raise DeviceError(f"the server has no device {wanted!r:.80}; it has {', '.join(names)}")
        if self._stopping.is_set():
            raise DeviceError("the server is being stopped; start another one")
        key = secrets.token_hex(16)
        session = ClientSession(key, field(hello, "name", str)[:80], self.owners[wanted])
        with self._lock:
            if len(self._sessions) >= self.limits.clients:
                raise OverloadError(
                    f"the server has {len(self._sessions)} clients, which is the most; try again "
                    "when one has ended"
                )
            self._sessions[key] = session
        return session

    def _welcome(self, session: ClientSession) -> Header:
        device = session.owner.device
        return {
            "session": session.key,
            "version": version("penstock"),
            "device": device.name,
            "lanes": device.lanes,
            "key_widths": list(device.key_widths),
            "task_evaluations": device.task_evaluations,
            "depth": self.limits.depth,
            "lease_s": self.limits.lease_s,
            "devices": [
                {
                    "name": name,
                    "lanes": owner.device.lanes,
                    "key_widths": list(owner.device.key_widths),
                    "what": (type(owner.device).__doc__ or "").partition("\n")[0],
                }
                for name, owner in self.owners.items()
            ],
        }

    def _end(self, session: ClientSession, reason: str) -> None:
        with self._lock:
            if self._sessions.pop(session.key, None) is None:
                return
            self._streams.pop(session.key, None)
            self.ended[reason] = self.ended.get(reason, 0) + 1
        session.end(reason)

    def _watch(self) -> None:
        """End sessions whose clients have given no sign of life for the length of a lease."""
        lease = self.limits.lease_s
        while not self._stopping.wait(lease / _LOOKS_PER_LEASE):
            now = time.monotonic()
            for session in self.sessions():
                if now - session.seen > lease:
                    self._end(session, f"the client gave no sign of life for {lease:g} s")

    # -- calls ------------------------------------------------------------------------------------

    def serve_calls(self, key: str, reader: Any, writer: Any) -> None:
        """Serve a stream of calls to its end."""
        with self._lock:
            session = self._sessions.get(key)
        stream, bodies = _Stream(writer), Bodies()
        try:
            while True:
                chunk = reader.read_chunk()
                stream.push(*self._answered(session, bodies, chunk))
        except _GONE:
            pass
        finally:
            bodies.close()

    def _answered(
        self, session: ClientSession | None, bodies: Bodies, chunk: Any
    ) -> tuple[Header, pa.Buffer | None]:
        try:
            if session is None:
                raise DeviceError("the session is over; connect again, and write windows anew")
            header, body = received(chunk)
            if header.get("call") == "share":
                return _share(session, bodies, header), None
            batch, _ = bodies.unpack(header, body)
            reply, out = session.call(header, [] if batch is None else columns_of(batch))
            where, inline = bodies.pack(out)
            return {**reply, **where}, inline
        except Exception as error:  # the client is told, and the stream goes on
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


class _Stream:
    """The writing side of a stream, for several threads."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        writer.begin(BODY_SCHEMA)

    def push(self, header: Header, body: pa.Buffer | None = None) -> None:
        with self._lock:
            send(self._writer, header, body)


class _Tokens(flight.ServerMiddlewareFactory):
    """Lets only those in who show the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._wanted = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: Mapping[str, list[Any]]) -> None:
        shown = [v.encode() if isinstance(v, str) else v for v in headers.get("authorization", ())]
        if not any(hmac.compare_digest(value, self._wanted) for value in shown):
            raise flight.FlightUnauthenticatedError("the token is missing or wrong")


class _Service(flight.FlightServerBase):
    """Passes Flight's streams on to the server."""

    def __init__(self, server: DeviceServer, location: str, token: str | None) -> None:
        self._server = server
        super().__init__(location, middleware=None if token is None else {"token": _Tokens(token)})

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        try:
            command = parsed(descriptor.command)
            if command.get("stream") == "session":
                self._server.hold_session(reader, writer)
            elif command.get("stream") == "calls":
                self._server.serve_calls(field(command, "session", str), reader, writer)
            else:
                raise MalformedError(f"there is no stream {command.get('stream')!r:.80}")
        except MalformedError as error:
            raise flight.FlightServerError(str(error)) from error


def _listening(server: DeviceServer, address: Address, token: str | None) -> _Service:
    before = os.umask(_SOCKET_MASK)
    try:
        if address.path is not None:
            clear_stale(address.path)
        return _Service(server, address.location, token)
    except (pa.ArrowException, OSError) as cause:
        if isinstance(cause, PenstockError):
            raise
        raise DeviceError(f"cannot listen on {address}: {cause}; choose another address") from cause
    finally:
        os.umask(before)
