"""Connections to nodes, each open for many requests, and their failures."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import DeviceError, FileError, OverloadError, PenstockError

from ...device.fields import Header, MalformedError, count_field
from ...wire.address import Address
from ...wire.dialing import connect
from ...wire.errors import error_from
from ...wire.frames import Frames
from ...wire.message import MOST_BODY_BYTES
from ...wire.transport import GoneError
from .messages import MOST_REQUEST_HEADER, STREAM, KeyRequest, KeyRows
from .ring import Node


@dataclass(frozen=True)
class Patience:
    """Time limits for other nodes, in seconds.

    Parameters
    ----------
    connect_s : float
        Limit for a connection to be made, and for a greeting.
    answer_s : float
        Limit for an answer.
    rest_s, most_rest_s : float
        Time for which a failed node is left alone; doubled after each failure, up to the most.
    """

    connect_s: float = 2.0
    answer_s: float = 10.0
    rest_s: float = 0.25
    most_rest_s: float = 8.0


class UnreachableError(DeviceError):
    """A node does not answer."""


class RefusedError(FileError):
    """A node answers, and refuses this side: another release, relation or token."""


@dataclass(frozen=True)
class Caller:
    """Identity of a client or node when it connects to a node.

    Parameters
    ----------
    name : str
        Name of this side in messages.
    relation : str
        Id of the relation that it has opened.
    shown : str
        Location of the relation, for messages.
    schema : Schema
    is_node : bool
        Whether it is a node that forwards requests; these are not forwarded again.
    token : str or None
    patience : Patience
    """

    name: str
    relation: str
    shown: str
    schema: pa.Schema
    is_node: bool = False
    token: str | None = None
    patience: Patience = Patience()

    def hello(self) -> Header:
        """Header that states the purpose of its connections."""
        return {
            "stream": STREAM,
            "name": self.name,
            "relation": self.relation,
            "shown": self.shown,
            "is_node": self.is_node,
        }


class Peer:
    """A node, and the open connections to it; for use by any thread.

    Parameters
    ----------
    caller : Caller
    name, address : str
    """

    def __init__(self, caller: Caller, name: str, address: str) -> None:
        self.name, self.address = name, Address.parsed(address)
        self.caller = caller
        #: The node's last refusal; None if it has answered since.
        self.refusal: RefusedError | None = None
        self._lock = threading.Lock()
        self._idle: list[Frames] = []
        self._closed = False
        self._rest_s, self._until = 0.0, 0.0

    def is_resting(self) -> bool:
        """Whether the node has failed so lately that it is left alone."""
        return time.monotonic() < self._until

    def begin(self, request: KeyRequest) -> Question:
        """Send a request.

        Raises
        ------
        UnreachableError, RefusedError
        """
        return Question(self, request)

    def close(self) -> None:
        """Close the free connections; connections in use are closed afterwards."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for frames in idle:
            frames.close()

    # -- for questions ----------------------------------------------------------------------------

    def idle(self) -> Frames | None:
        """Take a connection that was used before and is free."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def connected(self) -> Frames:
        """A new connection.

        Raises
        ------
        UnreachableError, RefusedError
        """
        caller = self.caller
        try:
            frames, _ = connect(
                self.address, caller.token, caller.hello(), caller.patience.connect_s
            )
        except (GoneError, OverloadError) as cause:
            raise self.failed(cause) from cause
        except PenstockError as cause:
            raise self.refused(cause) from cause
        except OSError as cause:
            raise self.failed(cause) from cause
        frames.most_header, frames.most_body = MOST_REQUEST_HEADER, MOST_BODY_BYTES
        return frames

    def keep(self, frames: Frames) -> None:
        """Take back a connection whose question was answered."""
        with self._lock:
            self._rest_s, self._until, self.refusal = 0.0, 0.0, None
            if not self._closed:
                self._idle.append(frames)
                return
        frames.close()

    def failed(self, cause: BaseException) -> UnreachableError:
        """Note that the node does not answer; returns the error to raise."""
        self._leave_alone()
        return UnreachableError(f"node {self.name} at {self.address} does not answer: {cause}")

    def refused(self, cause: BaseException) -> RefusedError:
        """Note that the node refuses this side; returns the error to raise."""
        self._leave_alone()
        self.refusal = RefusedError(f"node {self.name} at {self.address} refuses: {cause}")
        return self.refusal

    def _leave_alone(self) -> None:
        with self._lock:
            patience = self.caller.patience
            self._rest_s = min(max(2 * self._rest_s, patience.rest_s), patience.most_rest_s)
            self._until = time.monotonic() + self._rest_s


class Peers:
    """The nodes of a ring, each with its connections; for use by any thread.

    Parameters
    ----------
    caller : Caller
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._lock = threading.Lock()
        self._known: dict[Node, Peer] = {}

    def for_nodes(self, nodes: Sequence[Node]) -> list[Peer]:
        """Peers for these nodes, in their order; connections to other nodes are closed."""
        with self._lock:
            for old in self._known.keys() - set(nodes):
                self._known.pop(old).close()
            for node in nodes:
                if node not in self._known:
                    self._known[node] = Peer(self._caller, node.name, node.address)
            return [self._known[node] for node in nodes]

    def close(self) -> None:
        """Close the connections."""
        self.for_nodes(())


class Question:
    """A request that was sent to a node; a connection lost meanwhile is renewed once.

    Parameters
    ----------
    peer : Peer
    request : KeyRequest

    Raises
    ------
    UnreachableError, RefusedError
    """

    def __init__(self, peer: Peer, request: KeyRequest) -> None:
        self._peer, self._request = peer, request
        self._deadline = time.monotonic() + peer.caller.patience.answer_s
        frames = peer.idle()
        self._renewable = frames is not None
        self._frames = frames or peer.connected()
        try:
            self._send()
        except GoneError as cause:
            self._renew(cause)

    def _send(self) -> None:
        try:
            self._frames.send(*self._request.message())
        except BaseException:
            self._frames.close()
            raise

    def _renew(self, cause: BaseException) -> None:
        """Ask again on another connection, if this one was used before."""
        if not self._renewable:
            raise self._peer.failed(cause) from cause
        self._renewable = False
        self._frames = self._peer.connected()
        try:
            self._send()
        except GoneError as again:
            raise self._peer.failed(again) from again

    def answer(self) -> tuple[KeyRows, int]:
        """Wait for the answer: rows, and the number of the ring that the node knows.

        Raises
        ------
        UnreachableError, RefusedError
        PenstockError
            The node's own error.
        """
        try:
            header, rows = self._received()
        except GoneError as cause:
            self._renew(cause)
            try:
                header, rows = self._received()
            except GoneError as again:
                raise self._peer.failed(again) from again
        if rows is None:
            raise error_from(header["error"], f"the server at {self._peer.address}")
        return rows, count_field(header, "ring")

    def _received(self) -> tuple[Header, KeyRows | None]:
        frames, peer = self._frames, self._peer
        try:
            self._await(frames)
            header, body = frames.receive()
            if "error" in header:
                rows = None
            else:
                rows = KeyRows.parsed(header, body, self._request, peer.caller.schema)
                count_field(header, "ring")
        except MalformedError as cause:
            frames.close()
            raise peer.failed(cause) from cause
        except BaseException:
            frames.close()  # what comes later is an answer to nobody
            raise
        peer.keep(frames)
        return header, rows

    def _await(self, frames: Frames) -> None:
        """Wait for the beginning of the answer."""
        left = self._deadline - time.monotonic()
        poll = select.poll()
        poll.register(frames.connection, select.POLLIN)
        if not poll.poll(max(0.0, left) * 1e3):
            answer_s = self._peer.caller.patience.answer_s
            raise self._peer.failed(TimeoutError(f"no answer within {answer_s:g} s"))
