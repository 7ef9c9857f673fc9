"""Shards of a ROWS join: segments of arrivals, with the rows around them that a window needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from penstock.plan.query import LEFT, RIGHT, JoinQuery, RowsWindow, other

from ..clock import Clock
from .choose import EVALUATIONS_PER_ROW, Choice, Limits, evaluations_of_rows
from .shards import RowsShards

#: A segment has at least so many times the rows that it needs around it.
_LEAST_SEGMENT = 2


def edges_of(quantiles: Mapping[str, Sequence[int]], clocks: Mapping[str, Clock]) -> list[int]:
    """Times at which segments, and the rows around them, may begin."""
    return sorted({clocks[side].time(int(q)) for side, qs in quantiles.items() for q in qs})


def shards_of_rows(
    query: JoinQuery,
    clocks: Mapping[str, Clock],
    edges: Sequence[int],
    counts: Mapping[str, np.ndarray],
    limits: Limits,
    sides: Sequence[str],
) -> Choice:
    """Segments of the divided side.

    Parameters
    ----------
    query : JoinQuery
    clocks : mapping of side to Clock
    edges : sequence of int
        Times, ascending.
    counts : mapping of side to ndarray of int64, shape (len(edges) + 1,)
        Exact rows before the first edge, from each edge on, and from the last on.
    limits : Limits
    sides : sequence of str
        Those of which one may be divided.
    """
    window = query.window
    assert isinstance(window, RowsWindow)
    rows = {side: int(counts[side].sum()) for side in (LEFT, RIGHT)}
    side = max(sides, key=lambda s: rows[s])
    evaluations = evaluations_of_rows(query, rows)
    total = sum(rows.values())
    wanted = limits.shards(total + evaluations / EVALUATIONS_PER_ROW, total)
    if not limits.exact:
        wanted = min(wanted, max(1, total // (_LEAST_SEGMENT * (window.left + window.right))))
    cuts = _cuts(counts[side], wanted)
    sizes = {LEFT: window.left, RIGHT: window.right}
    # Rows before an edge, by side.
    before = {s: np.concatenate([[0], np.cumsum(counts[s])]) for s in (LEFT, RIGHT)}
    owned: list[tuple[int | None, int | None]] = []
    reached: dict[str, list[tuple[int | None, int | None]]] = {LEFT: [], RIGHT: []}
    bounds = [None, *cuts, None]
    for low, high in pairwise(bounds):
        owned.append((_time(edges, low), _time(edges, high)))
        # While a row is among the latest of its own side, it meets what arrives.
        until = _after(before[side], high, sizes[side])
        since = _before(before[other(side)], low, sizes[other(side)])
        reached[side].append((_time(edges, low), _time(edges, until)))
        reached[other(side)].append((_time(edges, since), _time(edges, until)))
    shards = RowsShards(side, owned, reached, clocks)
    text = f"segments of the arrivals of {query.names[side]}, with the rows around them"
    if len(owned) == 1:
        text = "the windows are long beside the data" if wanted == 1 else "rows share few times"
    moved = sum(
        before[s][-1 if high is None else edges.index(high) + 1]
        - before[s][0 if low is None else edges.index(low) + 1]
        for s in (LEFT, RIGHT)
        for low, high in reached[s]
    )
    return Choice(shards, text, float(moved), evaluations)


def _cuts(counts: np.ndarray, wanted: int) -> list[int]:
    """Edges, by index, at which segments of about as many rows begin."""
    total = int(counts.sum())
    if wanted == 1 or not total:
        return []
    ahead = np.cumsum(counts)[:-1]  # rows before each edge
    targets = [k * total / wanted for k in range(1, wanted)]
    found = {int(np.searchsorted(ahead, math.ceil(t))) for t in targets}
    return sorted(k for k in found if k < len(ahead) and 0 < ahead[k] < total)


def _time(edges: Sequence[int], index: int | None) -> int | None:
    return None if index is None else edges[index]


def _after(before: np.ndarray, edge: int | None, rows: int) -> int | None:
    """First edge with so many rows between it and an edge before it; None if there is none."""
    if edge is None:
        return None
    enough = np.flatnonzero(before[1:-1] - before[edge + 1] >= rows)
    return int(enough[0]) if len(enough) else None


def _before(before: np.ndarray, edge: int | None, rows: int) -> int | None:
    """Last edge with so many rows between it and an edge after it; None if there is none."""
    if edge is None:
        return None
    enough = np.flatnonzero(before[edge + 1] - before[1:-1] >= rows)
    return int(enough[-1]) if len(enough) else None
