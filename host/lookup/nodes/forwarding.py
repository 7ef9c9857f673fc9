"""Keys that other nodes own: they are asked for there, once, or answered here."""

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
    """What a node has done with keys that it was asked for.

    Parameters
    ----------
    own : int
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

    own: int = 0
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
        Gives the ring to go by, told of the number that somebody else knows; None for no nodes.
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
        others = [] if ring is None else [node for node in ring.nodes if node.name != self._name]
        if ring is None or not others:
            self.counts.own += len(hashes)
            return [answer(hashes)]
        me = next((k for k, node in enumerate(ring.nodes) if node.name == self._name), -1)
        owners = ring.owner_of(hashes)
        is_hot = self._hot_ones(hashes, len(ring.nodes)) & (owners != me)
        self.counts.own += int((owners == me).sum())
        self.counts.hot += int(is_hot.sum())
        owners[is_hot] = me
        asked, left = self._sent(ring, request, owners, me)
        here = np.flatnonzero(owners == me)
        parts = [answer(hashes[here])] if len(here) else []
        for places, owner, question in asked:
            found = self._received(question, len(places))
            if found is None:
                left.append((places, owner))
            else:
                parts.append(found)
        parts += self._elsewhere(ring, request, left, me, answer)
        return parts

    def close(self) -> None:
        """Close the connections."""
        self._peers.close()

    def _hot_ones(self, hashes: np.ndarray, nodes: int) -> np.ndarray:
        with self._lock:
            self._hot.note(hashes)
            return self._hot.of(hashes, nodes)

    def _sent(
        self, ring: Ring, request: KeyRequest, owners: np.ndarray, me: int
    ) -> tuple[list[tuple[np.ndarray, int, Question]], list[tuple[np.ndarray, int]]]:
        """Ask all other owners at once; gives the questions, and the places that nobody took."""
        asked, left = [], []
        for owner in np.unique(owners[owners != me]).tolist():
            places = np.flatnonzero(owners == owner)
            question = self._begun(ring, request, places, owner)
            if question is None:
                left.append((places, owner))
            else:
                asked.append((places, owner, question))
        return asked, left

    def _begun(
        self, ring: Ring, request: KeyRequest, places: np.ndarray, node: int
    ) -> Question | None:
        """Ask a node; None if it cannot be reached."""
        peer = self._peers.of(ring.nodes)[node]
        if peer.is_resting():
            return None
        try:
            return peer.begin(request.part(places, ring.number))
        except PenstockError as error:
            _log.warning("%s", error)
            return None

    def _received(self, question: Question, keys: int) -> KeyGroups | None:
        """What a node has answered; None if it has not, or cannot."""
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
        """The rows of keys whose owner did not answer: of the next one, or from here."""
        parts, here = [], []
        for places, owner in left:
            self.counts.retries += 1
            following = ring.next_owner(owner, request.hashes[places])
            for node in np.unique(following).tolist():
                some = places[following == node]
                found = None
                if node not in (me, owner):
                    question = self._begun(ring, request, some, node)
                    found = None if question is None else self._received(question, len(some))
                if found is None:
                    here.append(some)
                else:
                    parts.append(found)
        if here:
            places = np.sort(np.concatenate(here))
            self.counts.instead += len(places)
            parts.append(answer(request.hashes[places]))
        return parts
