"""A server of devices: its sessions and their leases.

A client holds one connection for its session; when that connection ends, the session ends. Calls
come on connections of their own, one at a time on each.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version

import numpy as np

from penstock.errors import DeviceError, OverloadError, PenstockError

from ....device.fields import Header, MalformedError, field
from ....wire.address import Address, check_listen
from ....wire.errors import error_header
from ....wire.frames import Frames
from ....wire.handshake import welcome
from ....wire.listening import Connection, Listener
from ....wire.transport import FrameError, GoneError, SocketTransport, Transport
from ..wire.channel import ChannelTransport
from ..wire.column_bytes import body_of, columns_of, pack
from ..wire.rings import Rings
from ..wire.welcome import Welcome
from .holdings import SessionOverError
from .limits import Hold, ServerLimits, Traffic
from .owner import DeviceOwner
from .place import PeerPlace, PeerPlaces
from .session import ClientSession


class Reason(Enum):
    """Why a session ended."""

    LEFT = "the client went away"
    LEASE = "the client gave no sign of life for the length of its lease"
    MALFORMED = "the client sent what no client sends"
    STOPPED = "the server was stopped"
    ROOM = "the client was idle, and the server needed its place for another one"


#: Checks of leases, per lease.
_LOOKS_PER_LEASE = 4
#: Most seconds between two checks of leases and silent connections.
_LOOK_S = 2.0


class DeviceServer:
    """Serves devices until it is closed.

    Parameters
    ----------
    owners : mapping of str to DeviceOwner
        Devices by name, at least one; clients that name none get the first. Closed with the server.
    address : Address
    token : str, optional
        What every client must show. Needed unless the address is a Unix socket.
    limits : ServerLimits

    Raises
    ------
    UsageError
        The address is taken, or must not be listened on without a token.
    """

    def __init__(
        self,
        owners: Mapping[str, DeviceOwner],
        address: Address,
        *,
        token: str | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        self.owners = dict(owners)
        self.limits = limits or ServerLimits()
        #: Sessions that ended, by reason.
        self.ended: Counter[Reason] = Counter()
        self.traffic = Traffic(self.limits.all_traffic, self.limits.client_traffic)
        self._token = token
        self._lock = threading.Lock()
        self._sessions: dict[str, ClientSession] = {}
        self._places = PeerPlaces()
        self._stopping = threading.Event()
        check_listen(address, token)
        self._listener = Listener(self._serve, address, self.limits.connections)
        self.address = self._listener.address
        self._leases = threading.Thread(target=self._watch, name="penstock-leases", daemon=True)
        self._leases.start()

    def sessions(self) -> list[ClientSession]:
        """Number of sessions now."""
        with self._lock:
            return list(self._sessions.values())

    def close(self, timeout_s: float = 10.0) -> bool:
        """Let running tasks end, free everything, and stop listening.

        Parameters
        ----------
        timeout_s : float
            Seconds to wait for tasks, and again for connections.

        Returns
        -------
        bool
            Whether all connections have ended; those of clients that hang are cut.
        """
        self._stopping.set()
        for owner in self.owners.values():
            owner.quiet(timeout_s)
        for session in self.sessions():
            self._end(session, Reason.STOPPED)
        over = self._listener.close(timeout_s)
        self._leases.join(timeout_s)
        for owner in self.owners.values():
            owner.stop()
        return over

    # -- sessions ---------------------------------------------------------------------------------

    def _serve(self, connection: Connection) -> None:
        """Serve a connection until it ends."""
        frames = connection.frames
        try:
            place = self._places.place(connection.peer)
            with place.serving(frames):
                wants = welcome(frames, self._token)
                connection.greeted = True
            if wants.get("stream") == "session":
                self._hold(self._begin_session(wants, connection.peer, place), frames)
            elif wants.get("stream") == "calls":
                self._serve_calls(field(wants, "session", str), frames)
            else:
                raise MalformedError(f"there is no stream {wants.get('stream')!r:.80}")
        except PenstockError as error:
            with suppress(GoneError):
                frames.send({"error": error_header(error)})
        except GoneError:
            pass

    def _hold(self, session: ClientSession, frames: Frames) -> None:
        """Serve the connection of a session until it ends."""
        reason = Reason.LEFT
        try:
            with self._lock:
                session.frames = frames
            frames.send(self._welcome(session))
            while True:
                frames.receive()  # as short as a hello
                session.renew()
                frames.send({"alive": True})
        except SessionOverError as over:
            with suppress(GoneError):
                frames.send({"over": str(over)})
        except PenstockError:
            reason = Reason.MALFORMED
            raise
        except GoneError:
            pass
        finally:
            self._end(session, reason)

    def _begin_session(self, hello: Header, peer: str, place: PeerPlace) -> ClientSession:
        names = list(self.owners)
        wanted = hello.get("device") or names[0]
        if not isinstance(wanted, str) or wanted not in self.owners:
            raise DeviceError(f"the server has no device {wanted!r:.80}; it has {', '.join(names)}")
        if self._stopping.is_set():
            raise DeviceError("the server is being stopped; start another one")
        key = secrets.token_hex(16)
        name, owner = field(hello, "name", str)[:80], self.owners[wanted]
        session = ClientSession(key, name, owner, self.traffic, peer, place)
        while True:
            with self._lock:
                everybody, most = list(self._sessions.values()), self.limits.clients
                of_peer = sum(one.peer == peer for one in everybody)
                if len(everybody) < most and of_peer < max(most // 2, 1):
                    self._sessions[key] = session
                    return session
            idle = [one for one in everybody if one.idle_s > self.limits.idle_s]
            if len(everybody) < most:
                # One peer takes no more than half, so that others find a place.
                idle = [one for one in idle if one.peer == peer]
            if not idle:
                raise OverloadError(
                    f"the server has {len(everybody)} clients, {of_peer} of them in {peer}, which "
                    "is the most; try again when one has ended"
                )
            self._end(max(idle, key=lambda one: one.idle_s), Reason.ROOM)

    def _welcome(self, session: ClientSession) -> Header:
        device = session.owner.device
        return Welcome(
            session=session.key,
            version=version("penstock"),
            device=device.name,
            lanes=device.lanes,
            key_widths=tuple(device.key_widths),
            narrow_widths=tuple(device.narrow_widths),
            task_evaluations=device.task_evaluations,
            depth=self.limits.depth,
            lease_s=self.limits.lease_s,
            devices=[
                {
                    "name": name,
                    "lanes": owner.device.lanes,
                    "key_widths": list(owner.device.key_widths),
                    "what": (type(owner.device).__doc__ or "").partition("\n")[0],
                }
                for name, owner in self.owners.items()
            ],
        ).header()

    def _end(self, session: ClientSession, reason: Reason) -> None:
        with self._lock:
            if self._sessions.pop(session.key, None) is None:
                return
            frames, calling = session.frames, list(session.calling)
            self.ended[reason] += 1
        session.end(reason.value)
        # The client is told why before its calls fail.
        if frames is not None:
            frames.say({"over": reason.value})
            frames.end()
        for one in calling:
            one.end()

    def _watch(self) -> None:
        """End sessions without a sign of life for the length of a lease."""
        lease = self.limits.lease_s
        while not self._stopping.wait(min(lease / _LOOKS_PER_LEASE, _LOOK_S)):
            now = time.monotonic()
            for owner in self.owners.values():
                owner.residents.expire(now - self.limits.resident_s)
            for session in self.sessions():
                if now - session.seen > lease:
                    self._end(session, Reason.LEASE)

    # -- calls ------------------------------------------------------------------------------------

    def _serve_calls(self, key: str, frames: Frames) -> None:
        """Serve a connection for calls of a session until it ends."""
        with self._lock:
            session = self._sessions.get(key)
            known = len(session.calling) if session is not None else 0
            most = self.limits.client_connections
            if session is not None and known < most:
                session.calling.add(frames)
        if session is None:
            frames.send({"over": "it is not known here"})
            return
        if known >= most:
            raise OverloadError(
                f"this client has {known} connections for calls, which is the most; make fewer "
                "calls at a time"
            )
        try:
            frames.open_up()
            frames.send({"ready": True})
            serve_calls(session, frames)
        finally:
            with self._lock:
                session.calling.discard(frames)


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
