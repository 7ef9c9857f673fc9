"""Readj (Gedik, VLDB Journal 2014): frequent keys move, or change places; none is split."""

from __future__ import annotations

import numpy as np

#: Moves of one key in a plan.
_MOST_MOVES = 5


def readj(
    load: np.ndarray, node: np.ndarray, count: int, tolerance: float, tracked: int
) -> np.ndarray:
    """The nodes of keys after moves and swaps, each the one with the most gain per load moved.

    Parameters
    ----------
    load, node : ndarray of int64, shape (keys,)
    count : int
        Nodes.
    tolerance : float
        The largest spread (max - min) / mean that is left, if it can be reached.
    tracked : int
        Keys that may move: the most frequent ones.
    """
    node = node.copy()
    by_node = np.bincount(node, load, count)
    mean = max(by_node.mean(), 1e-9)
    heavy = np.argsort(-load, kind="stable")[:tracked]
    heavy = heavy[load[heavy] > 0]
    times = np.zeros(len(load), np.int64)
    while by_node.max() - by_node.min() > max(tolerance, 1e-9) * mean:
        best, chosen = 0.0, None
        # Only what leaves the fullest node, or comes to the emptiest, narrows the spread.
        full, empty = int(by_node.argmax()), int(by_node.argmin())
        free = heavy[times[heavy] < _MOST_MOVES]
        pairs = {(full, other) for other in range(count)} | {(n, empty) for n in range(count)}
        for source, target in sorted(pairs):
            if source == target:
                continue
            own = free[node[free] == source]
            there = np.append(free[node[free] == target], -1)  # -1: a move
            back = np.where(there >= 0, load[there], 0)
            delta = (load[own][:, None] - back[None, :]).astype(np.float64)
            if not delta.size:
                continue
            rest = np.delete(by_node, [source, target])
            high = np.maximum(by_node[source] - delta, by_node[target] + delta)
            low = np.minimum(by_node[source] - delta, by_node[target] + delta)
            if len(rest):
                high, low = np.maximum(high, rest.max()), np.minimum(low, rest.min())
            gain = (by_node.max() - by_node.min()) - (high - low)
            gain = np.where(delta > 0, gain / (load[own][:, None] + back[None, :]), 0)
            at = int(gain.argmax())
            if gain.flat[at] > best + 1e-12:
                best, (row, column) = float(gain.flat[at]), np.unravel_index(at, gain.shape)
                chosen = source, target, int(own[row]), int(there[column])
        if chosen is None:
            break
        source, target, key, swapped = chosen
        for moved, at, to in ((key, source, target), (swapped, target, source)):
            if moved >= 0:
                node[moved], times[moved] = to, times[moved] + 1
                by_node[at] -= load[moved]
                by_node[to] += load[moved]
    return node
