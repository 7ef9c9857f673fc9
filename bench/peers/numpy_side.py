"""NumPy: one side sorted by a number made of keys, cells and a last value, and searched.

The last value is exact (the time, or the first band), so each row has one range per combination of
the cells that it overlaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa

from bench.peers.join import THREADS, Band, Join

#: Most values of a key that is a number of its own; others are ranked first.
DENSE = 1 << 24

#: Pairs before the filter that a thread holds at a time.
HELD = 1 << 20


def contenders(join: Join) -> dict[str, Callable[[], pa.Table] | str]:
    """Calls by name, or why one is left out."""
    found: dict[str, Callable[[], pa.Table] | str] = {}
    if join.bands:
        found["NumPy, by key"] = lambda: run(join, join.bands)
    if join.time_band is not None and ("grid with time" in join.grids or join.keys):
        bands = (join.time_band, *join.bands)
        found["NumPy, by time"] = lambda: run(join, bands)
    return found


def pool() -> ThreadPoolExecutor:
    """Threads for what NumPy does without the interpreter's lock."""
    return ThreadPoolExecutor(THREADS)


def run(join: Join, bands: tuple[Band, ...]) -> pa.Table:
    """Sort, search, gather, filter.

    Parameters
    ----------
    bands : tuple of Band
        The first one's values are the last to sort by; the others have cells.
    """
    left, right = join.with_places()
    with pool() as threads:
        rows, codes, starts, reach = _codes(join, bands, left, right)
        orders = threads.map(np.argsort, (codes, starts[0]))
        order, probing = orders
        codes, rows = codes[order], rows[probing]
        exact = not join.bands and join.test is None
        parts = []
        for each in starts:
            pieces = np.array_split(each[probing], 2 * THREADS)
            ends = list(threads.map(lambda p: _search(codes, p, reach), pieces))
            first, stop = (np.concatenate(side) for side in zip(*ends, strict=True))
            if join.count and exact:
                found = stop > first
                ids = left["id"].to_numpy()[rows[found]]
                return pa.table({"i": ids, "n": (stop - first)[found]})

            def part(piece: slice, first=first, stop=stop) -> tuple[np.ndarray, np.ndarray]:
                i, at = _expanded(rows[piece], first[piece], stop[piece])
                return matches(join, left, right, i, order[at], exact=exact)

            parts += threads.map(part, _pieces(stop - first))
    if join.count:
        n = np.bincount(np.concatenate([i for i, _ in parts]), minlength=left.num_rows)
        return pa.table({"i": left["id"].to_numpy()[n > 0], "n": n[n > 0]})
    return pairs_table(left, right, parts)


class Gathered(Mapping[str, Any]):
    """Columns at some rows, gathered when they are asked for."""

    def __init__(self, table: pa.Table, rows: np.ndarray) -> None:
        self._table = table
        self._rows = rows

    def __getitem__(self, name: str) -> np.ndarray:
        return self._table[name].to_numpy()[self._rows]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.column_names)

    def __len__(self) -> int:
        return self._table.num_columns


def matches(
    join: Join,
    left: pa.Table,
    right: pa.Table,
    i: np.ndarray,
    j: np.ndarray,
    *,
    exact: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of rows that lie in the window and meet the condition.

    Parameters
    ----------
    exact : bool
        Whether all of them do.
    """
    if exact:
        return i, j
    if join.interval is not None:
        low, high = join.interval
        apart = right["t"].to_numpy()[j] - left["t"].to_numpy()[i]
        near = (apart >= low) & (apart <= high)
        i, j = i[near], j[near]
    if join.rows is not None:
        meet = (j >= left["first"].to_numpy()[i]) & (j < left["stop"].to_numpy()[i])
        i, j = i[meet], j[meet]
    if join.test is not None:
        good = join.test(Gathered(left, i), Gathered(right, j))
        i, j = i[good], j[good]
    return i, j


def pairs_table(
    left: pa.Table, right: pa.Table, parts: list[tuple[np.ndarray, np.ndarray]]
) -> pa.Table:
    """Ids of pairs of rows, a chunk for each part."""
    ids = [table["id"].to_numpy() for table in (left, right)]
    columns = [
        pa.chunked_array([pa.array(own[part[k]]) for part in parts], pa.int32())
        for k, own in enumerate(ids)
    ]
    return pa.table(columns, ["i", "j"])


def _codes(
    join: Join, bands: tuple[Band, ...], left: pa.Table, right: pa.Table
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], int]:
    """Rows of the left side with an equal key, the right side's codes, first codes, and reach."""
    here, there = (
        {name: table[name].to_numpy() for name in table.column_names} for table in (left, right)
    )
    rows = np.arange(left.num_rows)
    codes = np.zeros(right.num_rows, np.int64)
    starts = np.zeros(left.num_rows, np.int64)
    for key in join.keys:
        low, high = min(here[key].min(), there[key].min()), max(here[key].max(), there[key].max())
        size = int(high - low) + 1
        if size <= DENSE:
            place, own = here[key][rows] - low, there[key] - low
        else:
            known, own = np.unique(there[key], return_inverse=True)
            size = len(known)
            place = np.minimum(np.searchsorted(known, here[key][rows]), size - 1)
            equal = known[place] == here[key][rows]
            rows, starts, place = rows[equal], starts[equal], place[equal]
        codes, starts = codes * size + own, starts * size + place
    last, *cells = bands
    steps = [0]
    for band in cells:
        base = join.base(band)
        own = (band.of(there) - base) // band.width
        first = (band.of(here)[rows] - (base - band.low)) // band.width
        size = int(max(own.max(initial=0), first.max(initial=0))) + 2
        codes, starts = codes * size + own, starts * size + first
        steps = [step * size + more for step, more in product(steps, (0, 1))]
    base = join.base(last)
    own, first = last.of(there) - base, last.of(here)[rows] - (base - last.low)
    reach = last.high - last.low
    size = int(max(own.max(initial=0), first.max(initial=0))) + reach + 1
    codes, starts = codes * size + own, starts * size + first
    return rows, codes, [starts + step * size for step in steps], reach


def _search(codes: np.ndarray, starts: np.ndarray, reach: int) -> tuple[np.ndarray, np.ndarray]:
    return np.searchsorted(codes, starts), np.searchsorted(codes, starts + reach, side="right")


def _expanded(
    rows: np.ndarray, first: np.ndarray, stop: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each row with each place in its range."""
    sizes = stop - first
    total = np.cumsum(sizes)
    at = np.repeat(first - total + sizes, sizes) + np.arange(total[-1] if len(total) else 0)
    return np.repeat(rows, sizes), at


def _pieces(sizes: np.ndarray) -> list[slice]:
    """Rows whose pairs fit into a thread's share of memory."""
    total = np.cumsum(sizes)
    most = int(total[-1]) if len(total) else 0
    edges = np.searchsorted(total, np.arange(HELD, most, HELD))
    edges = np.unique(np.concatenate([[0], edges, [len(sizes)]]))
    return [slice(a, b) for a, b in pairwise(edges)]
