"""Shards of a ROWS join: segments of arrivals, with the rows around them that a window needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from penstock.plan.query import LEFT, RIGHT, JoinQuery, RowsWindow, other

from ..clock import TickClock
from ..costs import EVALUATIONS_PER_ROW
from .choose import Choice, Limits
from .shards import RowsShards, Stretch

#: A segment has at least this many times the rows that it needs around it.
_LEAST_SEGMENT = 2


def shards_of_rows(
    query: JoinQuery,
    clocks: Mapping[str, TickClock],
    edges: Sequence[int],
    counts: Mapping[str, np.ndarray],
    limits: Limits,
    sides: Sequence[str],
) -> Choice:
    """Segments of the divided side.

    Parameters
    ----------
    query : JoinQuery
    clocks : mapping of side to TickClock
    edges : sequence of int
        Times at which segments, and the rows around them, may begin; ascending.
    counts : mapping of side to ndarray of int64, shape (len(edges) + 1,)
        Exact rows before the first edge, and from each edge to the next or to the end.
    limits : Limits
    sides : sequence of str
        One of them is divided.
    """
    window = query.window
    assert isinstance(window, RowsWindow)
    rows = {side: int(counts[side].sum()) for side in (LEFT, RIGHT)}
    side = max(sides, key=lambda s: rows[s])
    lefts = rows[LEFT] * min(window.right, rows[RIGHT])
    rights = rows[RIGHT] * min(window.left, rows[LEFT])
    # Pairs that the window admits, at most.
    evaluations = float(min(lefts + rights, rows[LEFT] * rows[RIGHT]))
    total = sum(rows.values())
    wanted = limits.shards(total + evaluations / EVALUATIONS_PER_ROW, total)
    if not limits.exact:
        wanted = min(wanted, max(1, total // (_LEAST_SEGMENT * (window.left + window.right))))
    sizes = {LEFT: window.left, RIGHT: window.right}
    # Rows before the beginning, each edge and the end, by side.
    before = {s: np.concatenate([[0], np.cumsum(counts[s])]) for s in (LEFT, RIGHT)}
    owned: list[Stretch] = []
    reached: dict[str, list[Stretch]] = {LEFT: [], RIGHT: []}
    for low, high in pairwise([None, *_cuts(counts[side], wanted), None]):
        owned.append((low, high))
        # A row meets rows that arrive while it is among the latest of its own side.
        until = _after(before[side], high, sizes[side])
        since = _before(before[other(side)], low, sizes[other(side)])
        reached[side].append((low, until))
        reached[other(side)].append((since, until))
    moved = sum(
        before[s][-1 if high is None else high + 1] - before[s][0 if low is None else low + 1]
        for s in (LEFT, RIGHT)
        for low, high in reached[s]
    )
    times = {s: _times(edges, stretches) for s, stretches in reached.items()}
    shards = RowsShards(side, _times(edges, owned), times, clocks)
    text = f"segments of the arrivals of {query.names[side]}, with the rows around them"
    if len(owned) == 1:
        text = "the windows are long beside the data" if wanted == 1 else "rows share few times"
    return Choice(shards, text, float(moved), evaluations)


def _cuts(counts: np.ndarray, wanted: int) -> list[int]:
    """Indices of the edges at which segments of about equal numbers of rows begin."""
    total = int(counts.sum())
    if wanted == 1 or not total:
        return []
    ahead = np.cumsum(counts)[:-1]  # rows before each edge
    targets = [k * total / wanted for k in range(1, wanted)]
    edges = {int(np.searchsorted(ahead, math.ceil(t))) for t in targets}
    return sorted(k for k in edges if k < len(ahead) and 0 < ahead[k] < total)


def _times(edges: Sequence[int], stretches: Sequence[Stretch]) -> list[Stretch]:
    """Stretches between edges by time, from those by index."""
    return [
        (None if low is None else edges[low], None if high is None else edges[high])
        for low, high in stretches
    ]


def _after(before: np.ndarray, edge: int | None, rows: int) -> int | None:
    """First edge that has at least ``rows`` rows between ``edge`` and itself; None if none has."""
    if edge is None:
        return None
    enough = np.flatnonzero(before[1:-1] - before[edge + 1] >= rows)
    return int(enough[0]) if len(enough) else None


def _before(before: np.ndarray, edge: int | None, rows: int) -> int | None:
    """Last edge that has at least ``rows`` rows between itself and ``edge``; None if none has."""
    if edge is None:
        return None
    enough = np.flatnonzero(before[edge + 1] - before[1:-1] >= rows)
    return int(enough[-1]) if len(enough) else None
