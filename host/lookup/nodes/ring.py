"""The consistent ring of nodes: each owns the keys on its arcs; without input and output.

The place of a key is the prefix of 64 bits, so all, of the one hash of the house
(:mod:`host.keys.hashing`), by which pages are ordered, too: an arc of the ring is a stretch of
pages, and who forwards a row sends its hash along. A node has ``POINTS`` points, at the hashes of
(its name, 0), (its name, 1) and so on, the same on every machine. A key belongs to the node of the
first point at its place or after it, and behind the last point to that of the first one; where
points of two nodes meet, to the one whose name comes first.

So a node that is added takes keys over, and no other key moves; a node that leaves gives its keys
away, and no other key moves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.errors import UsageError
from penstock.expr.columns import Vector

from ...keys.hashing import hash_keys

#: Points of a node. With 64, a new node moves up to 1.27 times its share of the keys and has up to
#: 1.42 times the mean; with 1,024, 1.05 and 1.11 times (2 to 32 nodes).
POINTS = 1024
#: Names that a pod of Kubernetes and a unit of systemd may have, too.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LAST = np.uint64((1 << 64) - 1)


@dataclass(frozen=True)
class Node:
    """A process that answers lookups.

    Parameters
    ----------
    name : str
        Says which keys it owns: letters, digits, ``.``, ``_`` and ``-``, at most 63.
    address : str
        ``tcp://host:port`` or ``unix:///path``.

    Raises
    ------
    UsageError
    """

    name: str
    address: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"{self.name!r} cannot be the name of a node: take up to 63 letters, digits, dots, "
                "underscores and hyphens, the first one a letter or digit"
            )
        if not self.address.startswith(("tcp://", "unix://")):
            raise UsageError(
                f"node {self.name} cannot be at {self.address!r}: give tcp://HOST:PORT or "
                "unix:///PATH"
            )


class Ring:
    """Immutable map from hashes of keys to the nodes that own them.

    Parameters
    ----------
    number : int
        Rings of a relation count up from 1.
    nodes : sequence of Node
        In any order.

    Attributes
    ----------
    nodes : tuple of Node
        In the order of their names.

    Raises
    ------
    UsageError
        Two nodes have one name, or one address.
    """

    def __init__(self, number: int, nodes: Sequence[Node]) -> None:
        self.number = number
        self.nodes = tuple(sorted(nodes, key=lambda node: node.name))
        self._numbers = {node.name: k for k, node in enumerate(self.nodes)}
        if len(self._numbers) < len(self.nodes):
            raise UsageError(f"two nodes have one name; there are {self._shown}")
        at: dict[str, str] = {}
        for node in self.nodes:
            if other := at.get(node.address):
                raise UsageError(
                    f"nodes {other} and {node.name} are both at {node.address}; give each an "
                    "address of its own"
                )
            at[node.address] = node.name
        places = [_points(node.name) for node in self.nodes]
        owners = np.repeat(np.arange(len(self.nodes)), POINTS)
        points = np.concatenate(places) if places else np.zeros(0, np.uint64)
        order = np.argsort(points, kind="stable")  # of equal points, the first name's is first
        self._places, self._owners = points[order], owners[order]

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def _shown(self) -> str:
        return ", ".join(node.name for node in self.nodes) or "none"

    def owner_of(self, hashes: np.ndarray) -> np.ndarray:
        """Owner of each key.

        Parameters
        ----------
        hashes : ndarray of uint64

        Returns
        -------
        ndarray of int64
            Indices of :attr:`nodes`.

        Raises
        ------
        UsageError
            There is no node.
        """
        return self._owners[self._point_of(hashes)]

    def _point_of(self, hashes: np.ndarray) -> np.ndarray:
        if not self.nodes:
            raise UsageError(f"ring {self.number} has no node; read the relation itself")
        point = np.searchsorted(self._places, np.asarray(hashes, np.uint64))
        return np.where(point == len(self._places), 0, point)

    def next_owner(self, node: int, hashes: np.ndarray) -> np.ndarray:
        """Next node to ask for each key after one that did not answer.

        All nodes stand behind a place in the order of their first points after it, the owner
        first; behind the last one stands the owner again. So who asks the next one each time has
        asked all of them before one is asked again.

        Parameters
        ----------
        node : int
            The node that was asked; if it is the only one, it is the next one, too.
        hashes : ndarray of uint64

        Returns
        -------
        ndarray of int64
            Indices of :attr:`nodes`, of the shape of the hashes.
        """
        orders = self._orders[self._point_of(hashes)]
        rank = np.argmax(orders == node, axis=-1)
        following = (rank + 1) % len(self.nodes)
        return np.take_along_axis(orders, following[..., None], -1)[..., 0].astype(np.int64)

    @cached_property
    def _orders(self) -> np.ndarray:
        """The nodes as they follow from each point on, of shape (points, nodes)."""
        orders = np.empty((len(self._owners), len(self.nodes)), np.int32)
        order = list(range(len(self.nodes)))
        for _ in range(2):  # the first time round shows in which order they come behind the end
            for k in range(len(self._owners) - 1, -1, -1):
                owner = int(self._owners[k])
                order.remove(owner)
                order.insert(0, owner)
                orders[k] = order
        return orders

    def arcs_of(self, node: int) -> np.ndarray:
        """Ranges of hashes that a node owns.

        Returns
        -------
        ndarray of uint64, shape (arcs, 2)
            First and last hash of each arc, ascending; arcs that touch are one.
        """
        mine = self._owners == node
        if mine.all():
            return np.array([[0, _LAST]], np.uint64)
        last = self._places
        first = np.concatenate([np.zeros(1, np.uint64), last[:-1] + np.uint64(1)])
        # Of points at one place the first one has the arc; the others have none.
        is_first = np.concatenate([[True], last[1:] != last[:-1]])
        arcs = np.stack([first[mine & is_first], last[mine & is_first]], 1)
        if mine[0] and last[-1] != _LAST:  # it goes on behind the last point
            arcs = np.concatenate([arcs, np.array([[last[-1] + np.uint64(1), _LAST]], np.uint64)])
        begins = np.concatenate([[True], arcs[1:, 0] != arcs[:-1, 1] + np.uint64(1)])
        ends = np.concatenate([begins[1:], [True]])
        return np.stack([arcs[begins, 0], arcs[ends, 1]], 1)

    def share_of(self, node: int) -> float:
        """The share of all places that a node owns."""
        arcs = self.arcs_of(node)
        return float(((arcs[:, 1] - arcs[:, 0]).astype(np.float64) + 1).sum() / 2.0**64)

    def index_of(self, name: str) -> int:
        """Index of the node with this name.

        Raises
        ------
        UsageError
            There is no such node.
        """
        index = self._numbers.get(name)
        if index is None:
            raise UsageError(f"there is no node {name}; there are {self._shown}")
        return index

    def add(self, node: Node, *, replace: bool = False) -> Ring:
        """The ring with one more node, or with a node at another address; of the same number.

        Parameters
        ----------
        node : Node
        replace : bool
            Whether a node of this name may be at another address.

        Raises
        ------
        UsageError
            A node of this name is elsewhere, or another one is at this address.
        """
        index = self._numbers.get(node.name)
        if index is None:
            return Ring(self.number, [*self.nodes, node])
        known = self.nodes[index]
        if known.address != node.address and not replace:
            raise UsageError(
                f"node {node.name} is at {known.address} already; take another name, or move it "
                "with --replace"
            )
        return Ring(self.number, [*self.nodes[:index], node, *self.nodes[index + 1 :]])

    def drain(self, name: str) -> Ring:
        """The ring without a node; of the same number.

        Raises
        ------
        UsageError
            There is no such node.
        """
        index = self.index_of(name)
        return Ring(self.number, [*self.nodes[:index], *self.nodes[index + 1 :]])


def _points(name: str) -> np.ndarray:
    names = np.full(POINTS, name, object)
    return hash_keys([Vector(names), Vector(np.arange(POINTS))], POINTS)[0]
