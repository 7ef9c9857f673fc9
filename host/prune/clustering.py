"""Clustering: an order in which neighbours have tight bounds, from the leaves of a k-d tree.

Each level halves every node at the median of one key, so that leaves are equally large whatever the
distribution. The key of a level depends on the share of tuples that each key alone leaves over: a
key that rules out much is worth more halvings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .boxes import Boxes, Tester

#: Largest share of the tuples that the best key may leave over if clustering is to pay.
MOST_SHARE = 0.75
#: Sample of tuples of one side to try against bins of the other, and number of bins.
SAMPLE, BINS = 64, 64
#: Rows that the bins of a key are cut from.
BINNED = 4096


@dataclass(frozen=True)
class TupleGroups:
    """Groups of tuples, one after the other.

    Parameters
    ----------
    members : ndarray of int64, shape (n,)
        Tuple of each member.
    edges : ndarray of int64, shape (groups + 1,)
        First member of each group, and n; no group is empty.
    """

    members: np.ndarray
    edges: np.ndarray

    def between(self, low: int, high: int) -> TupleGroups:
        """The groups ``[low, high)``."""
        first, last = self.edges[low], self.edges[high]
        return TupleGroups(self.members[first:last], self.edges[low : high + 1] - first)

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.edges)


def cluster(keys: Sequence[np.ndarray], rows: int, leaf_rows: int) -> TupleGroups:
    """Leaves of at most ``leaf_rows`` rows.

    Parameters
    ----------
    keys : sequence of ndarray, each of shape (rows,)
        Key of each level, from the root; the last key serves all further levels. None for the
        order of the rows.
    rows, leaf_rows : int
        At least 1.
    """
    levels = max(-(-rows // leaf_rows) - 1, 0).bit_length()
    if not keys:
        return TupleGroups(np.arange(rows), _edges(np.arange(rows) // leaf_rows))
    leaves = 1 << levels
    size = -(-rows // leaves)
    # Equal leaves need a multiple of their number: some rows are repeated, and removed again.
    spare = leaves * size - rows
    source = np.concatenate([np.arange(rows), np.linspace(0, rows - 1, spare).astype(np.int64)])
    places = np.arange(len(source))
    for level in range(levels):
        key = keys[min(level, len(keys) - 1)][source]
        nodes = places.reshape(1 << level, -1)
        half = nodes.shape[1] // 2
        split = np.argpartition(key[nodes], half, axis=1)
        nodes = np.take_along_axis(nodes, split, axis=1)
        # Every other node is reversed, so that neighbours in the order are close.
        nodes[1::2] = nodes[1::2, ::-1]
        places = nodes.reshape(-1)
    leaf = np.repeat(np.arange(leaves), size)
    kept = places < rows
    return TupleGroups(places[kept], _edges(leaf[kept]))


def _edges(leaf: np.ndarray) -> np.ndarray:
    """Places where ascending numbers change, with 0 and the end."""
    starts = np.flatnonzero(np.diff(leaf)) + 1
    return np.concatenate([[0], starts, [len(leaf)]]).astype(np.int64)


def shares(
    tester: Tester, side: str, columns: Sequence[np.ndarray], others: Sequence[np.ndarray]
) -> dict[int, float]:
    """The share of the other side's tuples that each key of a side alone leaves over.

    ``columns`` and ``others`` are the columns of both sides, with at least one tuple each.
    """
    tuples = _spread(len(others[0]), SAMPLE)
    each = tester.boxes(
        "w" if side == "s" else "s", [c[tuples] for c in others], np.arange(len(tuples) + 1)
    )
    chosen = _spread(len(columns[0]), BINNED)
    edges = np.unique(np.linspace(0, len(chosen), min(len(chosen), BINS) + 1).astype(np.int64))

    def bounds(rows: np.ndarray, edges: np.ndarray) -> Boxes:
        return tester.boxes(side, [c[rows] for c in columns], edges)

    everything = bounds(chosen, np.array([0, len(chosen)]))
    found = {}
    for k, column in tester.axes(side, columns).items():
        order = chosen[np.argsort(column[chosen], kind="stable")]
        known = list(everything)
        known[k] = bounds(order, edges)[k]
        pair = (known, each) if side == "s" else (each, known)
        found[k] = float(np.mean(tester.may_match(*pair)))
    return found


def _spread(rows: int, most: int) -> np.ndarray:
    """At most ``most`` rows at equal distances."""
    return np.linspace(0, rows - 1, min(rows, most)).astype(np.int64)


def halvings(found: Mapping[int, float], levels: int) -> list[int]:
    """The key of each level of a tree; none if no key rules out enough.

    Let a key leave over a share q, and a node extend over a share e of all tuples: about e + q of
    them then meet the node. Halving pays most where e / q is largest.
    """
    useful = {k: max(q, 1 / BINS) for k, q in found.items() if q <= MOST_SHARE}
    extent = dict.fromkeys(useful, 1.0)
    chosen = []
    for _ in range(levels if useful else 0):
        best = max(useful, key=lambda k: extent[k] / useful[k])
        chosen.append(best)
        extent[best] /= 2
    return chosen
