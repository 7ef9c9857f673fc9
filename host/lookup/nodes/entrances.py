"""Asks the nodes of a relation: any of them answers any key, so one after the other is asked."""

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

#: Keys for which another node is asked at the same time, at least.
_PART_KEYS = 4096


@dataclass
class AskCounts:
    """What was asked of nodes.

    Parameters
    ----------
    requests : int
        That nodes have answered.
    keys, rows : Counter
        By the name of the node that was asked.
    retries : int
        Requests that another node was asked, since one failed.
    alone : int
        Requests that no node answered, so that the folder was read.
    """

    requests: int = 0
    keys: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    alone: int = 0


class Entrances:
    """The nodes of a relation, for one who asks.

    Parameters
    ----------
    caller : Caller
    ring : callable
        Gives the ring to go by, told of the number that somebody else knows; None for no nodes.
    deadline_s : float
        For all nodes together.
    """

    def __init__(
        self, caller: Caller, ring: Callable[[int], Ring | None], deadline_s: float = 20.0
    ) -> None:
        self._ring, self._deadline_s = ring, deadline_s
        self.counts = AskCounts()
        self._peers = Peers(caller)
        self._turn = count(1)

    def ask(self, request: KeyRequest) -> list[tuple[np.ndarray, KeyRows | None]]:
        """Keys in parts, one behind the other, with their rows; None where no node answers.

        Raises
        ------
        RefusedError
            Every node that can be reached refuses.
        """
        order = self._in_turn(self._ring(0))
        parts = self._parts(request, order)
        asked = [(part, rotated, self._begin(part, rotated)) for part, rotated in parts]
        return [(part.hashes, self._answer(part, rotated, begun)) for part, rotated, begun in asked]

    def close(self) -> None:
        """Close the connections."""
        self._peers.close()

    def _parts(
        self, request: KeyRequest, order: Sequence[Peer]
    ) -> list[tuple[KeyRequest, list[Peer]]]:
        """A request in as many parts as are worth it, and the nodes to ask for each in turn."""
        ready = sum(not peer.is_resting() for peer in order)
        parts = max(1, min(ready, len(request.hashes) // _PART_KEYS))
        size = -(-len(request.hashes) // parts)
        return [
            (request.part(slice(k * size, (k + 1) * size), request.ring), [*order[k:], *order[:k]])
            for k in range(parts)
        ]

    def _in_turn(self, ring: Ring | None) -> list[Peer]:
        """All nodes in the order in which they are asked: those of this machine first."""
        peers = self._peers.of(() if ring is None else ring.nodes)
        turn = next(self._turn)
        near = [peer for peer in peers if is_here(peer)]
        far = [peer for peer in peers if not is_here(peer)]
        found = [peer for some in (near, far) for peer in _rotated(some, turn)]
        return [p for p in found if not p.is_resting()] + [p for p in found if p.is_resting()]

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
    """Whether a node runs on this machine, as far as its address tells."""
    return peer.address.loopback or peer.address.host == socket.gethostname()
