"""Receive and forward (paper 5): keys go to their owners with their hashes, or stay here."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.errors import PenstockError

from ..cache import KeyGroups
from ..hot import HotKeys
from .key_groups import groups_from
from .messages import KeyRequest
from .peers import Caller, Peers, Question
from .ring import Ring

_log = logging.getLogger("penstock.node")


@dataclass
class ForwardCounts:
    """Counts of keys that a node was asked for, by how they were answered.

    Parameters
    ----------
    owned : int
        Keys that it owns.
    hot : int
        Keys of others that are answered here, since they come so often.
    forwarded : int
        Keys that their owner, or the next one, has answered.
    instead : int
        Keys of others that were answered here, since nobody else could be reached.
    retries : int
        Requests that had to go elsewhere.
    """

    owned: int = 0
    hot: int = 0
    forwarded: int = 0
    instead: int = 0
    retries: int = 0


class Forwarding:
    """Sends keys to the nodes that own them. Any thread may ask.

    Parameters
    ----------
    name : str
        This node's; it may be missing in a ring.
    caller : Caller
    ring : callable
        Called with a ring's number that another process knows; returns the ring, or None.
    """

    def __init__(self, name: str, caller: Caller, ring: Callable[[int], Ring | None]) -> None:
        self._name, self._ring = name, ring
        self.counts = ForwardCounts()
        self._hot = HotKeys()
        self._lock = threading.Lock()
        self._peers = Peers(caller)

    def groups(
        self, request: KeyRequest, answer: Callable[[np.ndarray], KeyGroups]
    ) -> list[KeyGroups]:
        """The rows of all keys of a request, in parts.

        Parameters
        ----------
        request : KeyRequest
        answer : callable
            Gives the rows of keys here.
        """
        ring, hashes = self._ring(request.ring), request.hashes
        peers = [] if ring is None else [node for node in ring.nodes if node.name != self._name]
        if ring is None or not peers:
            self.counts.owned += len(hashes)
            return [answer(hashes)]
        me = next((k for k, node in enumerate(ring.nodes) if node.name == self._name), -1)
        owners = ring.owner_of(hashes)
        is_hot = self._hot_ones(hashes, len(ring.nodes)) & (owners != me)
        self.counts.owned += int((owners == me).sum())
        self.counts.hot += int(is_hot.sum())
        owners[is_hot] = me
        questions, left = self._sent(ring, request, owners, me)
        local = np.flatnonzero(owners == me)
        parts = [answer(hashes[local])] if len(local) else []
        for places, owner, question in questions:
            received = self._received(question, len(places))
            if received is None:
                left.append((places, owner))
            else:
                parts.append(received)
        parts += self._elsewhere(ring, request, left, me, answer)
        return parts

    def close(self) -> None:
        """Close the connections."""
        self._peers.close()

    def _hot_ones(self, hashes: np.ndarray, nodes: int) -> np.ndarray:
        with self._lock:
            self._hot.note(hashes)
            return self._hot.are_hot(hashes, nodes)

    def _sent(
        self, ring: Ring, request: KeyRequest, owners: np.ndarray, me: int
    ) -> tuple[list[tuple[np.ndarray, int, Question]], list[tuple[np.ndarray, int]]]:
        """Ask all other owners at once; returns the questions, and the keys that no owner took."""
        questions, left = [], []
        for owner in np.unique(owners[owners != me]).tolist():
            places = np.flatnonzero(owners == owner)
            question = self._begun(ring, request, places, owner)
            if question is None:
                left.append((places, owner))
            else:
                questions.append((places, owner, question))
        return questions, left

    def _begun(
        self, ring: Ring, request: KeyRequest, places: np.ndarray, node: int
    ) -> Question | None:
        """Ask a node; None if it cannot be reached."""
        peer = self._peers.for_nodes(ring.nodes)[node]
        if peer.is_resting():
            return None
        try:
            return peer.begin(request.part(places, ring.number))
        except PenstockError as error:
            _log.warning("%s", error)
            return None

    def _received(self, question: Question, keys: int) -> KeyGroups | None:
        """Groups that a node has answered; None if it does not answer."""
        try:
            rows, ring = question.answer()
        except PenstockError as error:
            _log.warning("%s", error)
            return None
        self._ring(ring)
        self.counts.forwarded += keys
        return groups_from(rows)

    def _elsewhere(
        self,
        ring: Ring,
        request: KeyRequest,
        left: list[tuple[np.ndarray, int]],
        me: int,
        answer: Callable[[np.ndarray], KeyGroups],
    ) -> list[KeyGroups]:
        """Rows of keys whose owner did not answer: from the next node on the ring, or from here."""
        parts, local = [], []
        for places, owner in left:
            self.counts.retries += 1
            following = ring.next_owner(owner, request.hashes[places])
            for node in np.unique(following).tolist():
                some = places[following == node]
                received = None
                if node not in (me, owner):
                    question = self._begun(ring, request, some, node)
                    received = None if question is None else self._received(question, len(some))
                if received is None:
                    local.append(some)
                else:
                    parts.append(received)
        if local:
            places = np.sort(np.concatenate(local))
            self.counts.instead += len(places)
            parts.append(answer(request.hashes[places]))
        return parts
