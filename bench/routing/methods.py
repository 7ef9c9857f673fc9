"""Ways to send tuples to nodes: by planned keys, as a join-matrix, as a join-biclique."""

from __future__ import annotations

import time

import numpy as np

from bench.routing.homes import ByRing
from bench.routing.nodes import LEFT, Nodes, Routes
from bench.routing.readj import readj
from penstock.host.routing.loads import Loads, spans
from penstock.host.routing.moves import KeyMoves
from penstock.host.routing.moves_plan import largest_load, plan
from penstock.host.routing.table import RoutingTable

#: Keys that Readj tracks, for each node.
_TRACKED = 20


def _single(nodes: np.ndarray) -> Routes:
    return np.arange(len(nodes) + 1), nodes


class ByKeys:
    """Tuples of a key are on one node, or on those that its key is split over.

    Parameters
    ----------
    planner : str
        mnrt, qmmp, hash or readj.
    count : int
        Nodes.
    keys, band : int
    tolerance : float
    """

    is_apart = False

    def __init__(
        self, planner: str, count: int, keys: int, band: int, tolerance: float = 0.05
    ) -> None:
        self.name = {"hash": "hash", "readj": "Readj"}.get(planner, planner.upper())
        self.planner, self.count, self.tolerance = planner, count, tolerance
        self.keys, self.band = keys, band
        self.homes = ByRing().homes(np.arange(keys), count)
        self.table = RoutingTable(self.homes, count)
        self._seen = np.zeros(keys, np.int64)

    def store(self, side: int, keys: np.ndarray) -> Routes:
        """One node of the key, in turns if it is split."""
        order = np.argsort(keys, kind="stable")
        sorted_keys = keys[order]
        first = np.searchsorted(sorted_keys, sorted_keys)
        ordinals = np.empty(len(keys), np.int64)
        ordinals[order] = np.arange(len(keys)) - first
        ordinals += self._seen[keys]
        self._seen += np.bincount(keys, minlength=self.keys)
        # Shares are by load, and neighbours would stay together: a stride spreads them.
        return _single(self.table.store(keys, ordinals * 7919))

    def probe(self, side: int, keys: np.ndarray) -> Routes:
        """All nodes of the key, of a band those of its neighbours, too."""
        if not self.band:
            return self.table.probe(keys)
        low, high = np.maximum(keys - self.band, 0), np.minimum(keys + self.band, self.keys - 1)
        return self.table.reach(low, high)

    def adapt(self, nodes: Nodes) -> None:
        """Plan anew where a node has more than the tolerance allows."""
        if self.planner != "hash" and self._is_uneven(nodes):
            self._plan(nodes)

    def grow(self, nodes: Nodes) -> None:
        """One node more, empty; keys have homes there."""
        self.count += 1
        self.homes = ByRing().homes(np.arange(self.keys), self.count)
        self._plan(nodes)

    def _is_uneven(self, nodes: Nodes) -> bool:
        stored = nodes.stored(self.count)
        return stored.max() > largest_load(int(stored.sum()), self.count, self.tolerance)

    def _plan(self, nodes: Nodes) -> None:
        key, node, number = nodes.parts()
        began = time.perf_counter()
        if self.planner == "readj":
            load, at = np.bincount(key, number, self.keys).astype(np.int64), self.homes.copy()
            at[key] = node
            after = readj(load, at, self.count, self.tolerance, _TRACKED * self.count)
            nodes.plan_s += time.perf_counter() - began
            moved = np.flatnonzero((after != at) & (load > 0))
            nodes.move(KeyMoves(moved, load[moved], load[moved], at[moved], after[moved]))
            cells = np.flatnonzero(after != self.homes)
            self.table = RoutingTable(
                self.homes, self.count, cells, np.arange(len(cells) + 1), after[cells],
                np.ones(len(cells), np.int64),
            )  # fmt: skip
            return
        loads = Loads(key, node, number, homes=self.homes, lanes=self.count)
        made = plan(loads, self.tolerance, self.planner)
        nodes.plan_s += time.perf_counter() - began
        nodes.move(made.moves)
        self.table = made.table


class Matrix:
    """Dynamic (Squall, VLDB 2014): a grid of nodes; one tuple goes to a row, or to a column.

    Parameters
    ----------
    count : int
        Nodes, a power of two.
    """

    name, is_apart = "Dynamic", False

    def __init__(self, count: int, seed: int = 0) -> None:
        self.count, self.rows = count, 1 << ((count.bit_length() - 1) // 2)
        self._rng = np.random.default_rng(seed)
        self._last: Routes = _single(np.zeros(0, np.int64))

    def probe(self, side: int, keys: np.ndarray) -> Routes:
        """A random row or column, which also stores the tuples."""
        self._last = self._drawn(side, len(keys))
        return self._last

    def store(self, side: int, keys: np.ndarray) -> Routes:
        """Where they have just probed."""
        return self._last

    def _drawn(self, side: int, number: int) -> Routes:
        columns = self.count // self.rows
        if side == LEFT:
            first, step, copies = self._rng.integers(0, self.rows, number) * columns, 1, columns
        else:
            first, step, copies = self._rng.integers(0, columns, number), columns, self.rows
        nodes = (first[:, None] + step * np.arange(copies)).ravel()
        return np.arange(number + 1) * copies, nodes

    def adapt(self, nodes: Nodes) -> None:
        """Take the shape that sends the fewest copies, if it halves or doubles the rows."""
        # Copies are kept: each tuple's first copy is the one that is counted.
        left, right = (self._whole(nodes, side) for side in (0, 1))
        shapes = [1 << k for k in range(self.count.bit_length()) if 1 << k <= self.count]
        cost = {rows: left * (self.count // rows) + right * rows for rows in shapes}
        best = min(shapes, key=lambda rows: cost[rows])
        if cost[best] < 0.8 * cost[self.rows]:
            self._place(nodes, self.count, best)

    def grow(self, nodes: Nodes) -> None:
        """One node turns into four."""
        self._place(nodes, 4 * self.count, 2 * self.rows)

    def _whole(self, nodes: Nodes, side: int) -> int:
        copies = self.count // self.rows if side == LEFT else self.rows
        return len(nodes.held[side].node) // copies

    def _place(self, nodes: Nodes, count: int, rows: int) -> None:
        """Send all tuples where another shape wants them."""
        began = time.perf_counter()
        singles = []
        for side in (0, 1):
            _, first = np.unique(nodes.held[side].mark, return_index=True)
            singles.append(nodes.held[side].pick(first))
        self.count, self.rows = count, rows
        for side, own in enumerate(singles):
            offsets, to = self._drawn(side, len(own.key))
            held = own.pick(np.repeat(np.arange(len(own.key)), np.diff(offsets)))
            held.node = to
            nodes.moved += len(to)
            nodes.held[side] = held
        nodes.plan_s += time.perf_counter() - began


class Biclique:
    """Join-biclique (SIGMOD 2015): nodes store one stream each, by groups of keys.

    Parameters
    ----------
    groups : int
        Of each stream; 1 is Bi, 6 is Bi6. A tuple is on a random node of its group, and probes all
        nodes of that of the other stream.
    count : int
        Nodes of both streams together.
    keys, band : int
    """

    is_apart = True

    def __init__(self, groups: int, count: int, keys: int, band: int, seed: int = 0) -> None:
        self.name = "Bi" if groups == 1 else f"Bi{groups}"
        self.groups, self.keys, self.band = groups, keys, band
        self._rng = np.random.default_rng(seed)
        self.count = 0
        self._nodes: list[list[list[int]]] = [[[] for _ in range(groups)] for _ in (0, 1)]
        for side in (0, 1):
            for group in range(groups):
                self._add(side, group)
        turn = 0
        while self.count < count:
            self._add(turn % 2, turn // 2 % groups)
            turn += 1

    def _add(self, side: int, group: int) -> None:
        self._nodes[side][group].append(self.count)
        self.count += 1

    def _group(self, keys: np.ndarray) -> np.ndarray:
        keys = np.clip(keys, 0, self.keys - 1)
        if self.band:  # by range, so that neighbours are together
            return keys * self.groups // self.keys
        return (keys * 2654435761 >> 7) % self.groups

    def store(self, side: int, keys: np.ndarray) -> Routes:
        """A random node of the key's group."""
        found = np.empty(len(keys), np.int64)
        group = self._group(keys)
        for number, own in enumerate(self._nodes[side]):
            rows = np.flatnonzero(group == number)
            found[rows] = np.array(own)[self._rng.integers(0, len(own), len(rows))]
        return _single(found)

    def probe(self, side: int, keys: np.ndarray) -> Routes:
        """All nodes of the other stream's group; at the edge of a range, of two."""
        low, high = self._group(keys - self.band), self._group(keys + self.band)
        if not self.band:
            low = high = self._group(keys)
        own = self._nodes[1 - side]
        sizes = np.array([len(each) for each in own])
        flat, ends = np.concatenate([np.array(each) for each in own]), np.cumsum(sizes)
        begins, last = (ends - sizes)[low], ends[high]
        offsets = np.concatenate([[0], np.cumsum(last - begins)])
        return offsets, flat[spans(begins, last)]

    def adapt(self, nodes: Nodes) -> None:
        """Nothing: groups are balanced by chance."""

    def grow(self, nodes: Nodes) -> None:
        """One node more in the fullest group, with its share of the group's tuples."""
        began = time.perf_counter()
        stored = nodes.stored(self.count)
        _, side, group = max(
            (stored[own].mean(), side, group)
            for side, groups in enumerate(self._nodes)
            for group, own in enumerate(groups)
        )
        self._add(side, group)
        own, held = self._nodes[side][group], nodes.held[side]
        rows = np.flatnonzero(np.isin(held.node, own[:-1]))
        chosen = rows[self._rng.random(len(rows)) < 1 / len(own)]
        held.node[chosen] = own[-1]
        nodes.moved += len(chosen)
        nodes.plan_s += time.perf_counter() - began


#: Methods for joins, by name, from number of nodes, keys, band.
JOINS = {
    "MNRT": lambda count, keys, band: ByKeys("mnrt", count, keys, band),
    "QMMP": lambda count, keys, band: ByKeys("qmmp", count, keys, band),
    "Readj": lambda count, keys, band: ByKeys("readj", count, keys, band),
    "hash": lambda count, keys, band: ByKeys("hash", count, keys, band),
    "Dynamic": lambda count, keys, band: Matrix(count),
    "Bi": lambda count, keys, band: Biclique(1, count, keys, band),
    "Bi6": lambda count, keys, band: Biclique(6, count, keys, band),
}
