"""Order in which neighbours have tight bounds: the leaves of a k-d tree, one after the other.

Each level halves every node by one key at its median, so that leaves are equally large whatever the
distribution. Which key a level halves by is chosen from how large a part of the tuples each key
alone leaves over: a key that rules out much is worth more halvings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .boxes import Boxes

#: Part of the tuples that the best key may leave over for clustering to be worth anything.
MOST_SHARE = 0.75
#: Tuples of one side that are tried against bins of the other, and bins.
SAMPLE, BINS = 64, 64
#: Rows that the bins of a key are cut from.
BINNED = 4096


@dataclass(frozen=True)
class Clustered:
    """Rows in order of their leaves.

    Parameters
    ----------
    order : ndarray of int64, shape (n,)
        Row at each place.
    edges : ndarray of int64, shape (leaves + 1,)
        First place of each leaf, none of which is empty, and n.
    """

    order: np.ndarray
    edges: np.ndarray


def cluster(keys: Sequence[np.ndarray], rows: int, leaf_rows: int) -> Clustered:
    """Leaves of at most ``leaf_rows`` rows.

    Parameters
    ----------
    keys : sequence of ndarray, each of shape (rows,)
        What each level halves by, the first level first; the last one goes on as needed. None for
        the order that the rows have.
    rows, leaf_rows : int
        At least 1.
    """
    levels = max(-(-rows // leaf_rows) - 1, 0).bit_length()
    if not keys:
        return Clustered(np.arange(rows), _edges(np.arange(rows) // leaf_rows))
    leaves = 1 << levels
    size = -(-rows // leaves)
    # Equal leaves need a multiple of their number: some rows come twice, and go again.
    spare = leaves * size - rows
    source = np.concatenate([np.arange(rows), np.linspace(0, rows - 1, spare).astype(np.int64)])
    places = np.arange(len(source))
    for level in range(levels):
        key = keys[min(level, len(keys) - 1)][source]
        nodes = places.reshape(1 << level, -1)
        half = nodes.shape[1] // 2
        split = np.argpartition(key[nodes], half, axis=1)
        nodes = np.take_along_axis(nodes, split, axis=1)
        # Every other node is turned round, so that neighbours in the order are close.
        nodes[1::2] = nodes[1::2, ::-1]
        places = nodes.reshape(-1)
    leaf = np.repeat(np.arange(leaves), size)
    kept = places < rows
    return Clustered(places[kept], _edges(leaf[kept]))


def _edges(leaf: np.ndarray) -> np.ndarray:
    """Where each number, of ascending ones, begins; and the end."""
    starts = np.flatnonzero(np.diff(leaf)) + 1
    return np.concatenate([[0], starts, [len(leaf)]]).astype(np.int64)


def shares(
    axes: Mapping[int, np.ndarray],
    boxes: Callable[[np.ndarray, np.ndarray], Boxes],
    may_match: Callable[[Boxes], np.ndarray],
    rows: int,
) -> dict[int, float]:
    """What part of the tuples each key leaves over, if only it is known.

    Parameters
    ----------
    axes : mapping of int to ndarray
        Columns to choose from, by their place among the boxes.
    boxes : callable
        Bounds of chosen rows cut at some edges.
    may_match : callable
        Whether such boxes may match each of some tuples of the other side; the last axis or the
        first is that of the boxes, which does not matter for a share.
    rows : int
        Number of rows, at least 1.
    """
    chosen = np.linspace(0, rows - 1, min(rows, BINNED)).astype(np.int64)
    edges = np.unique(np.linspace(0, len(chosen), min(len(chosen), BINS) + 1).astype(np.int64))
    everything = boxes(chosen, np.array([0, len(chosen)]))
    found = {}
    for k, column in axes.items():
        order = chosen[np.argsort(column[chosen], kind="stable")]
        known = list(everything)
        known[k] = boxes(order, edges)[k]
        found[k] = float(np.mean(may_match(known)))
    return found


def halvings(found: Mapping[int, float], levels: int) -> list[int]:
    """Which key each level of a tree halves by; none if no key rules out enough.

    A key of share q in a node of extent e, as a part of all tuples, is met by about e + q of them:
    halving pays most where e / q is largest.
    """
    useful = {k: max(q, 1 / BINS) for k, q in found.items() if q <= MOST_SHARE}
    extent = dict.fromkeys(useful, 1.0)
    chosen = []
    for _ in range(levels if useful else 0):
        best = max(useful, key=lambda k: extent[k] / useful[k])
        chosen.append(best)
        extent[best] /= 2
    return chosen
