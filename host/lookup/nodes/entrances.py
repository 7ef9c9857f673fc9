"""Entrance nodes: a client asks any node for any key, and the next one if it does not answer."""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from penstock.errors import PenstockError

from .messages import KeyRequest, KeyRows
from .peers import Caller, Peer, Peers, Question, RefusedError, UnreachableError
from .ring import Ring

_log = logging.getLogger("penstock.relation.nodes")

#: Least number of keys for which a request is split between several nodes.
_PART_KEYS = 4096


@dataclass
class AskCounts:
    """Counts of requests to nodes.

    Parameters
    ----------
    requests : int
        Answered by nodes.
    keys, rows : Counter
        Answered by each node, by its name.
    retries : int
        Requests that were sent to another node, since one failed.
    alone : int
        Requests that no node answered: the folder was read instead.
    """

    requests: int = 0
    keys: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    alone: int = 0


class Entrances:
    """The nodes of a relation as one client asks them.

    Parameters
    ----------
    caller : Caller
    ring : callable
        Called with a ring's number that another process knows; returns the ring, or None.
    deadline_s : float
        Time limit for all nodes together.
    """

    def __init__(
        self, caller: Caller, ring: Callable[[int], Ring | None], deadline_s: float = 20.0
    ) -> None:
        self._ring, self._deadline_s = ring, deadline_s
        self.counts = AskCounts()
        self._peers = Peers(caller)
        self._turn = count(1)

    def ask(self, request: KeyRequest) -> list[tuple[np.ndarray, KeyRows | None]]:
        """Ask for keys; returns them in parts, in order, with their rows; None if no node answers.

        Raises
        ------
        RefusedError
            Every node that can be reached refuses.
        """
        order = self._in_turn(self._ring(0))
        parts = self._parts(request, order)
        sent = [(part, rotated, self._begin(part, rotated)) for part, rotated in parts]
        return [(part.hashes, self._answer(part, rotated, begun)) for part, rotated, begun in sent]

    def close(self) -> None:
        """Close the connections."""
        self._peers.close()

    def _parts(
        self, request: KeyRequest, order: Sequence[Peer]
    ) -> list[tuple[KeyRequest, list[Peer]]]:
        """Split a request into parts for several nodes; each with the nodes to ask in turn."""
        ready = sum(not peer.is_resting() for peer in order)
        parts = max(1, min(ready, len(request.hashes) // _PART_KEYS))
        size = -(-len(request.hashes) // parts)
        return [
            (request.part(slice(k * size, (k + 1) * size), request.ring), [*order[k:], *order[:k]])
            for k in range(parts)
        ]

    def _in_turn(self, ring: Ring | None) -> list[Peer]:
        """All nodes in the order in which to ask them, nodes of this machine first."""
        peers = self._peers.for_nodes(() if ring is None else ring.nodes)
        turn = next(self._turn)
        near = [peer for peer in peers if is_here(peer)]
        far = [peer for peer in peers if not is_here(peer)]
        ordered = [peer for some in (near, far) for peer in _rotated(some, turn)]
        return [p for p in ordered if not p.is_resting()] + [p for p in ordered if p.is_resting()]

    def _begin(self, request: KeyRequest, order: Sequence[Peer]) -> Question | None:
        """Send a request to the first node that takes it, without waiting for its answer."""
        first = order[0] if order else None
        if first is None or first.is_resting():
            return None
        try:
            return first.begin(request)
        except (UnreachableError, RefusedError) as error:
            _log.warning("%s", error)
            return None

    def _answer(
        self, request: KeyRequest, order: Sequence[Peer], begun: Question | None
    ) -> KeyRows | None:
        deadline = time.monotonic() + self._deadline_s
        for k, peer in enumerate(order):
            if k or begun is None:
                if peer.is_resting() or time.monotonic() > deadline:
                    continue
                self.counts.retries += bool(k)
            try:
                question = begun if k == 0 and begun is not None else peer.begin(request)
                rows, ring = question.answer()
            except PenstockError as error:
                _log.warning("%s", error)
                continue
            self._ring(ring)
            self.counts.requests += 1
            self.counts.keys[peer.name] += len(request.hashes)
            self.counts.rows[peer.name] += rows.batch.num_rows
            return rows
        refusals = [peer.refusal for peer in order]
        if order and all(refusals):
            raise RefusedError(str(refusals[0])) from refusals[0]
        self.counts.alone += 1
        return None


def _rotated(peers: Sequence[Peer], turn: int) -> list[Peer]:
    by = turn % max(1, len(peers))
    return [*peers[by:], *peers[:by]]


def is_here(peer: Peer) -> bool:
    """Whether a node runs on this machine, by its address."""
    return peer.address.loopback or peer.address.host == socket.gethostname()
