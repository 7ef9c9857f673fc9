"""Ways to deal tuples that are counted by key: partial counts of a key are merged on one node.

PKG (ICDE 2015): each tuple goes to that of its key's two nodes to which the sender has sent less.
D- and W-Choices (ICDE 2016): frequent keys have d nodes, or all.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bench.routing.homes import ByHash

#: A key is frequent above this share of a node's mean.
_FREQUENT = 1 / 5


def dealt(name: str, keys: np.ndarray, known: int, count: int) -> np.ndarray:
    """The node of each tuple, in the order of arrival.

    Parameters
    ----------
    name : str
        PKG, D-Choices or W-Choices.
    keys : ndarray of int64, shape (tuples,)
    known : int
        Number of keys.
    count : int
        Nodes.
    """
    loads = np.bincount(keys, minlength=known)
    numbers = np.arange(known)
    choices = np.full(known, 2)
    frequent = loads > _FREQUENT * len(keys) / count
    if name == "W-Choices":
        choices[frequent] = count
    elif name == "D-Choices" and frequent.any():
        # As many as the largest key needs to stay below the mean, and one more.
        most = int(np.ceil(loads.max() * count / len(keys))) + 1
        choices[frequent] = min(max(most, 2), count)
    homes = np.stack([ByHash().homes(numbers * count + n, count) for n in range(count)], 1)
    return _deal(keys, choices, homes, count)


@njit(cache=False)
def _deal(keys, choices, homes, count):
    sent = np.zeros(count, np.int64)
    nodes = np.empty(len(keys), np.int64)
    for row in range(len(keys)):
        key = keys[row]
        best = homes[key, 0]
        if choices[key] >= count:
            best = np.argmin(sent)
        else:
            for n in range(1, choices[key]):
                if sent[homes[key, n]] < sent[best]:
                    best = homes[key, n]
        sent[best] += 1
        nodes[row] = best
    return nodes
