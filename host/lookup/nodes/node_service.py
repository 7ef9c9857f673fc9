"""A lookup node: answers for keys of a relation until it is closed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from penstock.errors import FileError, OverloadError, PenstockError, UsageError

from ...device.fields import MalformedError, field
from ...relation.folder.folder_relation import FolderRelation
from ...store.file_store import FileStore
from ...wire.address import Address, check_listen
from ...wire.errors import error_header
from ...wire.frames import Frames
from ...wire.handshake import welcome
from ...wire.listening import Connection, Listener
from ...wire.message import MOST_BODY_BYTES
from ...wire.transport import FrameError, GoneError
from ..cache import KeyGroups
from .answering import KEY_BYTES, KeyAnswers
from .forwarding import Forwarding
from .key_groups import rows_for
from .known_ring import KnownRing
from .messages import (
    HASH_BYTES,
    MOST_KEYS,
    MOST_REQUEST_HEADER,
    STREAM,
    KeyRequest,
    KeyRows,
)
from .peers import Caller, Patience

_log = logging.getLogger("penstock.node")

#: Memory of a node, if none is given.
MEMORY_BYTES = 128 << 20
#: Connections at a time: each takes a thread.
_CONNECTIONS = 256


class RequestRoom:
    """Memory that requests share: one that finds no room waits, and is not read further.

    Parameters
    ----------
    most : int
        Bytes; a request that needs more is answered by itself.
    wait_s : float
        Seconds after which a request is refused.
    """

    def __init__(self, most: int, wait_s: float) -> None:
        self.most, self._wait_s = most, wait_s
        self.used = self.waiting = 0
        self._free = threading.Condition()

    @contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """Reserve bytes for a request, for as long as the ``with`` block lasts.

        Raises
        ------
        OverloadError
            There was no room in time.
        """
        deadline = time.monotonic() + self._wait_s
        size = min(size, self.most)
        with self._free:
            self.waiting += 1
            try:
                while self.used and self.used + size > self.most:
                    left = deadline - time.monotonic()
                    if left <= 0 or not self._free.wait(left):
                        raise OverloadError(
                            f"the node had no room for {size:,} bytes within {self._wait_s:g} s: "
                            f"requests hold {self.used:,} of {self.most:,}; add nodes, or serve "
                            "with more --memory"
                        )
            finally:
                self.waiting -= 1
            self.used += size
        try:
            yield
        finally:
            with self._free:
                self.used -= size
                self._free.notify_all()


@dataclass
class RequestCounts:
    """Requests that came to a node.

    Parameters
    ----------
    entered, forwarded_in : int
        From clients, and from other nodes.
    keys_in : int
        Keys that other nodes have forwarded.
    failed : int
        Answered with an error.
    refused : int
        Connections of another release, relation or token.
    """

    entered: int = 0
    forwarded_in: int = 0
    keys_in: int = 0
    failed: int = 0
    refused: int = 0


class LookupNode:
    """Answers lookups in a relation, for the keys that it owns and for any other.

    It writes nothing, and its answers depend on no clock.

    Parameters
    ----------
    relation : FolderRelation
        Found by its key. Closed with the node.
    files : FileStore
        Files of the relation.
    name : str
        Its name in the ring.
    address : Address
    token : str, optional
        Shown by clients and other nodes. Needed unless the address is a Unix socket.
    memory_bytes : int
        Memory for kept rows, the relation's index, pages and requests.
    patience : Patience, optional
        Time limits for other nodes.

    Raises
    ------
    UsageError
        The relation is clustered, the memory too small, or the address taken.
    FileError
        The relation cannot be read.
    """

    def __init__(
        self,
        relation: FolderRelation,
        files: FileStore,
        name: str,
        address: Address,
        *,
        token: str | None = None,
        memory_bytes: int = MEMORY_BYTES,
        patience: Patience | None = None,
    ) -> None:
        if not relation.found_by:
            raise UsageError(
                f"{relation.name} is clustered, so no row of it is looked up by its key; serve a "
                "relation that is built with --key alone"
            )
        check_listen(address, token, "show the relation's rows to")
        self.name, self.relation, self._token = name, relation, token
        patience = patience or Patience()
        caller = Caller(
            f"node {name}", relation.id, relation.name, relation.schema, True, token, patience
        )
        self.answers = KeyAnswers(relation, memory_bytes)
        self.known_ring = KnownRing(files)
        self.forwarding = Forwarding(name, caller, self.known_ring.ring)
        self.counts = RequestCounts()
        # Forwarded requests wait for no other node, so with room of their own they always go on.
        half = max(KEY_BYTES * MOST_KEYS, self.answers.split.rows // 2)
        wait_s = patience.answer_s / 2
        self.rooms = {False: RequestRoom(half, wait_s), True: RequestRoom(half, wait_s)}
        self._stopping = threading.Event()
        self._listener = Listener(self._serve, address, _CONNECTIONS)
        self.address = self._listener.address

    def connections(self) -> int:
        """Connections now."""
        return self._listener.count()

    def close(self, timeout_s: float = 10.0) -> bool:
        """Answer the requests that run, and stop; returns whether all connections ended in time."""
        self._stopping.set()
        over = self._listener.close(timeout_s)
        self.forwarding.close()
        self.relation.close()
        return over

    # -- connections ------------------------------------------------------------------------------

    def _serve(self, connection: Connection) -> None:
        frames = connection.frames
        try:
            is_node = self._welcome(frames)
            connection.greeted = True
            while not self._stopping.is_set():
                self._answer_next(frames, is_node)
        except PenstockError as error:
            self.counts.refused += not connection.greeted
            with suppress(GoneError):
                frames.send({"error": error_header(error)})
        except GoneError:
            pass

    def _welcome(self, frames: Frames) -> bool:
        """Greet a connection; returns whether another node forwards requests on it.

        Raises
        ------
        PenstockError
            The connection is not meant for this node.
        GoneError
        """
        frames.most_header = MOST_REQUEST_HEADER
        wants = welcome(frames, self._token)
        if wants.get("stream") != STREAM:
            raise MalformedError(
                f"this is node {self.name}, which answers lookups in {self.relation.name}; it has "
                f"no stream {wants.get('stream')!r:.80}, and no device"
            )
        if wants.get("relation") != self.relation.id:
            raise FileError(
                f"node {self.name} serves the relation at {self.relation.name} (id "
                f"{self.relation.id}), and {field(wants, 'name', str):.80} has opened "
                f"{field(wants, 'shown', str):.500} (id {field(wants, 'relation', str):.80}); if "
                "the relation was built anew, start again what is older, or else name the nodes "
                "of this relation"
            )
        is_node = field(wants, "is_node", bool)
        frames.most_body = HASH_BYTES * MOST_KEYS
        frames.send({"node": self.name, "ring": self.known_ring.number})
        return is_node

    def _answer_next(self, frames: Frames, is_node: bool) -> None:
        """Answer the next request; its memory is counted until the answer has left.

        Raises
        ------
        FrameError, GoneError
            There is no next request.
        """
        with ExitStack() as held:

            def reserve(size: int) -> None:
                weight = self.answers.weight(size // HASH_BYTES)
                held.enter_context(self.rooms[is_node].reserved(weight))

            parts: list[np.ndarray] = []
            try:
                request = KeyRequest.parsed(*frames.receive(reserve))
                answer, parts = self._rows(request, is_node).message(self.known_ring.number)
                _check_size(sum(map(len, parts)), len(request.hashes))
            except (FrameError, GoneError):
                raise
            except Exception as error:  # the other side is told, and the connection goes on
                self.counts.failed += 1
                answer, parts = {"error": error_header(error)}, []
            frames.send(answer, parts)

    def _rows(self, request: KeyRequest, is_node: bool) -> KeyRows:
        def answer(hashes: np.ndarray) -> KeyGroups:
            return self.answers.groups(request.version, request.columns, hashes)

        if is_node:
            self.counts.forwarded_in += 1
            self.counts.keys_in += len(request.hashes)
            self.known_ring.ring(request.ring)
            parts = [answer(request.hashes)]
        else:
            self.counts.entered += 1
            parts = self.forwarding.groups(request, answer)
        return rows_for(request.hashes, parts)


def _check_size(size: int, keys: int) -> None:
    if size > MOST_BODY_BYTES:
        raise OverloadError(
            f"the rows of {keys:,} keys have {size:,} bytes, above the {MOST_BODY_BYTES:,} of an "
            "answer"
        )
