"""SciPy's cKDTree: pairs or counts by distance, time and all else after."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa

from bench.peers.join import THREADS, Join, Near
from bench.peers.numpy_side import matches, pairs_table, pool

#: Rows of the left side that one tree holds, so that pairs before the filter fit into memory.
PIECE = 1 << 16


def contenders(join: Join) -> dict[str, Callable[[], pa.Table] | str]:
    """Calls by name, or why one is left out."""
    near = join.near
    if near is None:
        return {}
    return {"cKDTree": (lambda: counts(join, near)) if join.count else (lambda: pairs(join, near))}


def pairs(join: Join, near: Near) -> pa.Table:
    """Two trees at a time, then the window and the whole condition."""
    left, right = join.with_places()
    rows = left.num_rows
    # An even number of pieces, so that both threads have the same to do.
    count = 2 * max(1, round(rows / PIECE / 2))
    edges = np.linspace(0, rows, count + 1).astype(np.int64)
    with pool() as threads:
        whole = threads.submit(_tree, right, near)
        pieces = [left[begin:end] for begin, end in pairwise(edges)]
        parts = list(threads.map(lambda piece: _tree(piece, near), pieces))
        other = whole.result()

        def part(k: int) -> tuple[np.ndarray, np.ndarray]:
            found = parts[k].sparse_distance_matrix(
                other, near.radius, p=near.p, output_type="ndarray"
            )
            return matches(join, left, right, found["i"] + edges[k], found["j"])

        return pairs_table(left, right, list(threads.map(part, range(count))))


def counts(join: Join, near: Near) -> pa.Table:
    """Numbers of points in each row's ball; only for conditions that say no more than that."""
    n = _tree(join.right, near).query_ball_point(
        _points(join.left, near), near.radius, p=near.p, workers=THREADS, return_length=True
    )
    return pa.table({"i": join.left["id"].to_numpy()[n > 0], "n": n[n > 0]})


def _tree(table: pa.Table, near: Near):
    from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

    # Neither pays here: what splits in the middle and keeps its boxes builds in half the time.
    return cKDTree(_points(table, near), balanced_tree=False, compact_nodes=False)


def _points(table: pa.Table, near: Near) -> np.ndarray:
    points = np.stack([table[name].to_numpy() for name in near.columns], axis=1)
    return points * near.scales if near.scales else points
