"""Accepts connections: a thread for each, and limits on their number."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from penstock.errors import DeviceError, OverloadError, PenstockError

from .address import Address, clear_stale, credentials
from .errors import error_header
from .frames import Frames
from .message import MOST_HELLO_BYTES

_log = logging.getLogger("penstock.server")

#: Only the user who runs the server may connect to its socket.
_SOCKET_MASK = 0o177
#: Connections that the system holds until they are accepted.
_BACKLOG = 128
#: Seconds to wait when the process has no free descriptor or thread.
_PAUSE_S = 0.1
#: Seconds for a thread to see that its connection was cut.
_CUT_S = 1.0
#: Seconds between looks for connections that have not stated their purpose.
_LOOK_S = 2.0
#: Seconds in which a connection must state its purpose.
GREETING_S = 10.0


@dataclass(eq=False)
class Connection:
    """A connection.

    Parameters
    ----------
    frames : Frames
    peer : str
        The other end: a process of this machine, or an address.
    began : float
        Monotonic seconds.
    thread : Thread
        Serves it.
    greeted : bool
        Whether the client has stated the connection's purpose.
    """

    frames: Frames
    peer: str
    began: float
    thread: threading.Thread
    greeted: bool = False


class Listener:
    """Accepts connections until it is closed.

    Parameters
    ----------
    serve : callable
        Serves a connection to its end, in a thread of its own.
    address : Address
    most : int
        Connections at a time; one peer has half of them at most.

    Raises
    ------
    DeviceError
        The address cannot be listened on.
    """

    def __init__(self, serve: Callable[[Connection], None], address: Address, most: int) -> None:
        self._serve, self._most = serve, most
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._stopping = threading.Event()
        self._socket = _listen(address)
        self._socket.settimeout(_LOOK_S)
        self.address = address
        self._inode = None if address.path is None else address.path.stat().st_ino
        if address.path is None:
            self.address = Address(host=address.host, port=self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="penstock-accept", daemon=True)
        self._thread.start()

    def _hurry(self) -> None:
        """End connections that have not stated their purpose within :data:`GREETING_S`."""
        late = time.monotonic() - GREETING_S
        with self._lock:
            silent = [c for c in self._connections if not c.greeted and c.began < late]
        for connection in silent:
            connection.frames.cancel()

    def count(self) -> int:
        """Number of connections now."""
        with self._lock:
            return len(self._connections)

    def close(self, timeout_s: float) -> bool:
        """Stop accepting and end all connections; returns whether they ended in time.

        A Unix socket is removed, unless another one has taken its place.
        """
        deadline = time.monotonic() + timeout_s
        self._stopping.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout_s)
        self._socket.close()
        with self._lock:
            left = list(self._connections)
        for connection in left:
            connection.frames.end()
        for connection in left:
            connection.thread.join(max(deadline - time.monotonic(), 0.0))
        hanging = [connection for connection in left if connection.thread.is_alive()]
        for connection in hanging:
            connection.frames.cancel()
        for connection in hanging:
            connection.thread.join(_CUT_S)
        path = self.address.path
        if path is not None and path.exists() and path.stat().st_ino == self._inode:
            path.unlink(missing_ok=True)
        return not hanging

    def _accept(self) -> None:
        while not self._stopping.is_set():
            self._hurry()
            try:
                accepted, _ = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                # The client has gone already, or descriptors are all in use.
                self._stopping.wait(_PAUSE_S)
                continue
            try:
                self._begin(accepted)
            except Exception:  # the next connection is another client's
                _log.exception("a connection could not be begun")
                accepted.close()

    def _begin(self, accepted: socket.socket) -> None:
        frames = Frames(accepted)
        frames.most_header = MOST_HELLO_BYTES
        connection = Connection(
            frames, _peer(accepted), time.monotonic(), threading.current_thread()
        )
        connection.thread = threading.Thread(
            target=self._run, args=(connection,), name="penstock-serve", daemon=True
        )
        with self._lock:
            of_peer = Counter(c.peer for c in self._connections)[connection.peer]
            everybody = len(self._connections)
            full = everybody >= self._most or of_peer >= max(self._most // 2, 1)
            if not full:
                self._connections.add(connection)
        if full:
            _refuse(frames, f"{everybody} connections, {of_peer} of them from {connection.peer}")
            return
        try:
            connection.thread.start()
        except RuntimeError:
            with self._lock:
                self._connections.discard(connection)
            _refuse(frames, "no thread left")

    def _run(self, connection: Connection) -> None:
        try:
            self._serve(connection)
        except Exception:  # others go on
            _log.exception("a connection from %s failed", connection.peer)
        finally:
            connection.frames.close()
            with self._lock:
                self._connections.discard(connection)


def _listen(address: Address) -> socket.socket:
    before = os.umask(_SOCKET_MASK)
    try:
        if address.path is not None:
            clear_stale(address.path)
            listening = socket.socket(socket.AF_UNIX)
            try:
                listening.bind(os.fspath(address.path))
                listening.listen(_BACKLOG)
            except OSError:
                listening.close()
                raise
            return listening
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        return socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except PenstockError:
        raise  # some are OSErrors, too
    except OSError as cause:
        raise DeviceError(f"cannot listen on {address}: {cause}; choose another address") from cause
    finally:
        os.umask(before)


def _peer(accepted: socket.socket) -> str:
    if accepted.family != socket.AF_UNIX:
        return str(accepted.getpeername()[0])
    known = credentials(accepted)
    return "this machine" if known is None else f"process {known[0]}"


def _refuse(frames: Frames, why: str) -> None:
    """Tell a client that there is no room; it may not be listening."""
    error = OverloadError(
        f"the server takes no more connections ({why}); close some, or try again later"
    )
    frames.say({"error": error_header(error)})
    with suppress(OSError):
        # Otherwise a client that is about to write would not read the refusal.
        frames.connection.shutdown(socket.SHUT_WR)
    frames.connection.close()
