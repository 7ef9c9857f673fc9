"""Generated intervals that overlap within a key, and comparisons with bounds from one side.

Starts lie anywhere on 24 keys of 250 million places, like genes on chromosomes. Lengths are
lognormal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from bench.peers.join import Columns, Join

ROWS = 1_000_000
KEYS, PLACES = 24, 250_000_000
#: Rows of the joins of comparisons alone, and the range of their numbers.
OPPOSED_ROWS, NUMBERS, PAIRS_OF_EACH = 100_000, 1 << 30, 10


@cache
def short(size: float) -> Join:
    """Lengths of 150 places, as reads are."""
    return _overlap(size, long_ones=False)


@cache
def skewed(size: float) -> Join:
    """The same, 0.1 % of them a thousand times longer."""
    return _overlap(size, long_ones=True)


@cache
def dense(size: float) -> Join:
    """Three hundred million pairs, whose ids take 2.4 GB."""
    return _overlap(size, long_ones=True, more=round(900_000 / size))


@cache
def dense_counted(size: float) -> Join:
    """Three hundred million pairs, the matches of each row counted."""
    # So many pairs of a row at the full size, whatever the size.
    return _overlap(size, long_ones=True, more=round(900_000 / size), count=True)


@cache
def opposed(size: float) -> Join:
    """``x`` below and ``y`` above, which nearly exclude each other: ten pairs of each row."""
    return _opposed(
        size,
        "l.x < r.x AND l.y > r.y",
        lambda a, b: (a["x"] < b["x"]) & (a["y"] > b["y"]),
    )


@cache
def opposed_three(size: float) -> Join:
    """The same and a third comparison, which half of them pass."""
    return _opposed(
        size,
        "l.x < r.x AND l.y > r.y AND l.z <= r.z",
        lambda a, b: (a["x"] < b["x"]) & (a["y"] > b["y"]) & (a["z"] <= b["z"]),
    )


def _overlap(size: float, *, long_ones: bool, more: int = 0, count: bool = False) -> Join:
    def side(seed: int) -> pa.Table:
        rng, rows = np.random.default_rng(seed), round(ROWS * size)
        key = rng.integers(0, KEYS, rows)
        start = rng.integers(0, PLACES, rows)
        length = rng.lognormal(5, 1, rows).astype(np.int64) + 1
        if long_ones:
            length[rng.random(rows) < 0.001] *= 1000
        names = pa.array([f"chr{k + 1}" for k in range(KEYS)])
        return pa.table(
            {
                "id": np.arange(rows, dtype=np.int32),
                "t": np.zeros(rows, np.int64),
                "k": names.take(pa.array(key)),
                "s": start,
                "e": start + length + more,
            }
        )

    return Join(
        left=side(1),
        right=side(2),
        on="l.s <= r.e AND r.s <= l.e",
        test=lambda a, b: (a["s"] <= b["e"]) & (b["s"] <= a["e"]),
        keys=("k",),
        overlap=("k", "s", "e"),
        count=count,
    )


def _opposed(size: float, on: str, test: Callable[[Columns, Columns], Any]) -> Join:
    rows = round(OPPOSED_ROWS * size)
    # Two numbers of the range around zero differ by a third of it to one side, about.
    reach = round(3 * PAIRS_OF_EACH * NUMBERS / rows)

    def side(seed: int) -> pa.Table:
        rng = np.random.default_rng(seed)
        x, z = rng.integers(0, NUMBERS, (2, rows))
        y = x + rng.integers(-reach, reach, rows)
        return pa.table(
            {
                "id": np.arange(rows, dtype=np.int32),
                "t": np.zeros(rows, np.int64),
                "x": x,
                "y": y,
                "z": z,
            }
        )

    return Join(left=side(1), right=side(2), on=on, test=test, comparisons=on.count("AND") + 1)
