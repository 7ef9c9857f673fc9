"""The paper's nodes in one process: they store tuples, join what they are sent, and are counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from penstock.expr.columns import int_vector
from penstock.host.keys.hashing import hash_keys
from penstock.host.routing.moves import KeyMoves

from .tpch import KeyStreams

LEFT, RIGHT = 0, 1
#: Nodes of tuples: from ``offsets[k]`` on, those of tuple k.
Routes = tuple[np.ndarray, np.ndarray]


class Method(Protocol):
    """A way to send tuples of two streams to nodes."""

    name: str
    count: int
    #: Whether the nodes that store a tuple are others than those that it probes.
    is_apart: bool

    def store(self, side: int, keys: np.ndarray) -> Routes:
        """The nodes that store each tuple."""
        ...

    def probe(self, side: int, keys: np.ndarray) -> Routes:
        """The nodes that each tuple visits to meet the other stream's tuples."""
        ...

    def adapt(self, nodes: Nodes) -> None:
        """Look at what the nodes hold, and change the routes, and what lies where."""
        ...

    def grow(self, nodes: Nodes) -> None:
        """Take more nodes."""
        ...


@dataclass
class Held:
    """Tuples of one stream on nodes, a row for each copy."""

    key: np.ndarray
    node: np.ndarray
    mark: np.ndarray
    batch: np.ndarray

    @staticmethod
    def none() -> Held:
        empty = np.zeros(0, np.int64)
        return Held(empty, empty, empty.astype(np.uint64), empty)

    def add(self, other: Held) -> None:
        for name in ("key", "node", "mark", "batch"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(other, name)]))

    def pick(self, chosen: np.ndarray) -> Held:
        return Held(self.key[chosen], self.node[chosen], self.mark[chosen], self.batch[chosen])


@dataclass
class Counts:
    """What nodes have done, each an ndarray by node.

    Parameters
    ----------
    received, evaluations, rows : ndarray of float64
    """

    received: np.ndarray
    evaluations: np.ndarray
    rows: np.ndarray


@dataclass
class Nodes:
    """Nodes that join two streams.

    Parameters
    ----------
    keys, band : int
        As of :class:`.KeyStreams`.
    window : int, optional
        Micro-batches that are kept; all by default.
    """

    keys: int
    band: int
    window: int | None = None
    held: list[Held] = field(default_factory=lambda: [Held.none(), Held.none()])
    moved: int = 0
    plan_s: float = 0.0
    checksum: int = 0
    rows: int = 0
    counts: Counts | None = None
    _given: int = 0

    def run(self, method: Method, streams: KeyStreams, batches: int) -> None:
        """Send both streams through, in so many micro-batches."""
        for batch in range(batches):
            for side, own in ((LEFT, streams.left), (RIGHT, streams.right)):
                low, high = (len(own) * k // batches for k in (batch, batch + 1))
                self.take(method, side, own[low:high], batch)
            method.adapt(self)

    def take(self, method: Method, side: int, keys: np.ndarray, batch: int) -> None:
        """Tuples of one stream probe what is stored of the other, and are stored."""
        if self.window is not None:
            self.held = [own.pick(own.batch > batch - self.window) for own in self.held]
        marks = marks_of(self._given + np.arange(len(keys)))
        self._given += len(keys)
        counts = self._sized(method.count)
        offsets, nodes = method.probe(side, keys)
        visits = np.diff(offsets)
        self._join(counts, 1 - side, np.repeat(keys, visits), nodes, np.repeat(marks, visits))
        counts.received += np.bincount(nodes, minlength=method.count)
        offsets, nodes = method.store(side, keys)
        copies = np.diff(offsets)
        if method.is_apart:
            counts.received += np.bincount(nodes, minlength=method.count)
        batches = np.full(len(nodes), batch)
        self.held[side].add(Held(np.repeat(keys, copies), nodes, np.repeat(marks, copies), batches))

    def stored(self, count: int) -> np.ndarray:
        """Tuples on each node."""
        return sum((np.bincount(own.node, minlength=count) for own in self.held), np.zeros(count))

    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Key, node and number of the tuples of each part of a key."""
        both = np.concatenate([own.node * self.keys + own.key for own in self.held])
        found, number = np.unique(both, return_counts=True)
        return found % self.keys, found // self.keys, number

    def move(self, moves: KeyMoves) -> None:
        """Carry tuples as a plan says: of a part, any of either stream."""
        key = np.concatenate([own.key for own in self.held])
        node = np.concatenate([own.node for own in self.held])
        order = np.argsort(node * self.keys + key, kind="stable")
        there = (node * self.keys + key)[order]
        wanted = moves.source * self.keys + moves.key
        turn = np.argsort(wanted, kind="stable")
        sizes, at = moves.size[turn], wanted[turn]
        # Several moves of a part take its tuples one after the other.
        before = np.cumsum(sizes) - sizes
        begins = np.searchsorted(at, at)
        first = np.searchsorted(there, at) + before - before[begins]
        places = np.repeat(first - before, sizes) + np.arange(int(sizes.sum()))
        node[order[places]] = np.repeat(moves.target[turn], sizes)
        self.moved += int(sizes.sum())
        cut = len(self.held[LEFT].node)
        self.held[LEFT].node, self.held[RIGHT].node = node[:cut], node[cut:]

    def _join(
        self, counts: Counts, side: int, keys: np.ndarray, nodes: np.ndarray, marks: np.ndarray
    ) -> None:
        own, width = self.held[side], self.keys + 2 * self.band
        place = own.node * width + own.key + self.band
        size = len(counts.rows) * width
        number = np.bincount(place, minlength=size)
        mixed = np.zeros(size, np.uint64)
        np.add.at(mixed, place, own.mark)
        held = np.bincount(own.node, minlength=len(counts.rows))
        counts.evaluations += np.bincount(nodes, minlength=len(held)) * held
        for near in range(2 * self.band + 1):
            at = nodes * width + keys + near
            met = number[at]
            counts.rows += np.bincount(nodes, met, len(held))
            self.rows += int(met.sum())
            with np.errstate(over="ignore"):  # modulo 2^64
                found = int((marks * mixed[at]).sum(dtype=np.uint64))
            self.checksum = (self.checksum + found) % (1 << 64)

    def _sized(self, count: int) -> Counts:
        if self.counts is None:
            self.counts = Counts(*(np.zeros(count) for _ in range(3)))
        missing = count - len(self.counts.rows)
        if missing > 0:
            more = np.zeros(missing)
            own = self.counts
            self.counts = Counts(
                *(np.append(each, more) for each in (own.received, own.evaluations, own.rows))
            )
        return self.counts


def marks_of(numbers: np.ndarray) -> np.ndarray:
    """A random word for each tuple, ndarray of uint64."""
    return hash_keys([int_vector(numbers)], len(numbers))[0]


class Whole:
    """One node that has all: the join as it should be."""

    name, count, is_apart = "NumPy", 1, False

    def store(self, side: int, keys: np.ndarray) -> Routes:
        return np.arange(len(keys) + 1), np.zeros(len(keys), np.int64)

    probe = store

    def adapt(self, nodes: Nodes) -> None:
        """Nothing."""

    def grow(self, nodes: Nodes) -> None:
        """Nothing."""
