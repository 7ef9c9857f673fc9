"""A server of devices: its sessions and their leases.

A client holds one session stream for as long as it lives; its end, however it comes, ends the
session. Calls come on streams of their own, one at a time on each.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from importlib.metadata import version
from typing import Any

from penstock.errors import DeviceError, OverloadError, PenstockError
from penstock.host.server.calls import GONE, Stream, serve_calls
from penstock.host.server.limits import Limits
from penstock.host.server.listening import listening
from penstock.host.server.owner import Owner
from penstock.host.server.session import ClientSession, SessionOverError
from penstock.host.wire.address import Address
from penstock.host.wire.errors import error_header
from penstock.host.wire.message import PROTOCOL, Header, field, received


class Reason(Enum):
    """Why a session ended."""

    LEFT = "the client went away"
    LEASE = "the client gave no sign of life for the length of its lease"
    MALFORMED = "the client sent what no client sends"
    STOPPED = "the server was stopped"


#: How often leases are looked at, per lease.
_LOOKS_PER_LEASE = 4


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
        self.owners = dict(owners)
        self.limits = limits or Limits()
        #: Sessions that ended, by reason.
        self.ended: Counter[Reason] = Counter()
        self._lock = threading.Lock()
        self._sessions: dict[str, ClientSession] = {}
        self._streams: dict[str, Stream] = {}
        self._stopping = threading.Event()
        self._service = listening(self, address, token)
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
            with suppress(*GONE):
                stream.push({"over": Reason.STOPPED.value})
        for session in self.sessions():
            self._end(session, Reason.STOPPED)
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
        stream = Stream(writer)
        try:
            header, _ = received(reader.read_chunk())
            session = self._begun(header)
        except PenstockError as error:
            stream.push({"error": error_header(error)})
            return
        reason = Reason.LEFT
        try:
            with self._lock:
                self._streams[session.key] = stream
            stream.push(self._welcome(session))
            while True:
                received(reader.read_chunk())
                session.renew()
                stream.push({"alive": True})
        except SessionOverError as over:
            with suppress(*GONE):
                stream.push({"over": str(over)})
        except PenstockError as error:
            with suppress(*GONE):
                stream.push({"error": error_header(error)})
            reason = Reason.MALFORMED
        except GONE:
            pass
        finally:
            stream.end()
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

    def _end(self, session: ClientSession, reason: Reason) -> None:
        with self._lock:
            if self._sessions.pop(session.key, None) is None:
                return
            self._streams.pop(session.key, None)
            self.ended[reason] += 1
        session.end(reason.value)

    def _watch(self) -> None:
        """End sessions whose clients have given no sign of life for the length of a lease."""
        lease = self.limits.lease_s
        while not self._stopping.wait(lease / _LOOKS_PER_LEASE):
            now = time.monotonic()
            for owner in self.owners.values():
                owner.residents.expire(now - self.limits.resident_s)
            for session in self.sessions():
                if now - session.seen > lease:
                    self._end(session, Reason.LEASE)

    # -- calls ------------------------------------------------------------------------------------

    def serve_calls(self, key: str, reader: Any, writer: Any) -> None:
        """Serve a stream of calls of a session to its end."""
        with self._lock:
            session = self._sessions.get(key)
        serve_calls(session, reader, writer)
