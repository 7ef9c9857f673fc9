"""Roll call: greets all nodes of a ring, to see which nodes answer."""

from __future__ import annotations

import queue
import socket
import threading
import time
from dataclasses import dataclass

from penstock.errors import FileError, OverloadError, UsageError, VersionError

from ...device.fields import MalformedError, count_field, field
from ...wire.address import Address
from ...wire.dialing import LateError, connect
from ...wire.handshake import TokenError
from ...wire.transport import GoneError
from .peers import Caller
from .ring import Node, Ring

#: Why a node does not answer, in a word, by the class of the error; the first that fits.
_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (VersionError, "another version of Penstock"),
    (TokenError, "token"),
    (MalformedError, "no node"),
    (OverloadError, "full"),
    (FileError, "another relation"),
    (UsageError, "another user"),
    (LateError, "timed out"),
    (GoneError, "closed"),
    (ConnectionRefusedError, "refused"),
    (FileNotFoundError, "no socket"),
    (socket.gaierror, "unknown host"),
    (TimeoutError, "timed out"),
)

#: For any other error.
_OTHER = "unreachable"

#: Seconds for the name of a host to be resolved, which has no limit of its own.
_RESOLVE_S = 1.0


@dataclass(frozen=True)
class NodeState:
    """Whether a node answers.

    Parameters
    ----------
    reason : str
        Why it does not, in a word; empty if it does.
    message : str
        The whole error.
    called : str
        Name that the node gives itself.
    ring : int or None
        Number of the ring that it goes by.
    """

    reason: str = ""
    message: str = ""
    called: str = ""
    ring: int | None = None

    @property
    def answers(self) -> bool:
        return not self.reason


def call_roll(caller: Caller, ring: Ring) -> list[NodeState]:
    """Greet all nodes at once, as a client does; their states, in the ring's order.

    It takes twice the caller's ``connect_s`` and a second, at most.
    """
    states: queue.SimpleQueue[tuple[int, NodeState]] = queue.SimpleQueue()
    deadline = time.monotonic() + 2 * caller.patience.connect_s + _RESOLVE_S

    def greet(place: int, node: Node) -> None:
        states.put((place, _state(caller, node)))

    for place, node in enumerate(ring.nodes):
        # A daemon: a resolver that hangs does not keep the process.
        threading.Thread(target=greet, args=(place, node), daemon=True).start()
    known: dict[int, NodeState] = {}
    while len(known) < len(ring.nodes):
        try:
            place, state = states.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        known[place] = state
    late = NodeState("timed out", "its address was not reached in time")
    return [known.get(place, late) for place in range(len(ring.nodes))]


def _state(caller: Caller, node: Node) -> NodeState:
    try:
        address = Address.parsed(node.address)
        frames, answer = connect(address, caller.token, caller.hello(), caller.patience.connect_s)
        frames.close()
        return NodeState(called=field(answer, "node", str), ring=count_field(answer, "ring"))
    except Exception as error:  # any error is a state of this node, and is shown
        reasons = (reason for kind, reason in _REASONS if isinstance(error, kind))
        return NodeState(next(reasons, _OTHER), str(error))
