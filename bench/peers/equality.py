"""Generated joins of equal keys within an interval of time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa

from bench.peers.join import Join
from bench.peers.synthetic import TIMES

ROWS = 1_000_000
KEYS = 100_000
#: Exponent of the skewed keys.
ZIPF = 1.2


@cache
def uniform(size: float) -> Join:
    """Uniform keys, a tenth of all times in the window: a million rows."""
    return _join(size, (False, False), 0.1)


@cache
def zipf_left(size: float) -> Join:
    """Skewed keys on one side; equal keys are as many as before, and so are the rows."""
    return _join(size, (True, False), 0.1)


@cache
def zipf_both(size: float) -> Join:
    """Skewed keys on both sides, the matches of each row counted."""
    return _join(size, (True, True), 1e-4, count=True)


@cache
def with_residual(size: float) -> Join:
    """Uniform keys and a condition that neither an order nor a hash helps with."""
    return replace(
        uniform(size),
        on="r.v > l.v",
        test=lambda a, b: b["v"] > a["v"],
    )


def _join(size: float, skewed: tuple[bool, bool], share: float, *, count: bool = False) -> Join:
    """Keys and times; a window of a share of all times around each row."""
    reach = round(share / 2 * TIMES)
    sides = [_side(round(ROWS * size), size, seed, skew) for seed, skew in enumerate(skewed)]
    return Join(
        left=sides[0],
        right=sides[1],
        on="",
        test=None,
        keys=("k",),
        interval=(-reach, reach),
        count=count,
    )


def _side(rows: int, size: float, seed: int, skew: bool) -> pa.Table:
    rng = np.random.default_rng(seed)
    keys = max(1, round(KEYS * size))
    weights = np.arange(1, keys + 1) ** -ZIPF if skew else np.ones(keys)
    total = np.cumsum(weights)
    k = np.searchsorted(total, rng.random(rows) * total[-1]).astype(np.int32)
    return pa.table(
        {
            "id": np.arange(rows, dtype=np.int32),
            "t": np.sort(rng.integers(0, TIMES, rows)),
            "k": k,
            "v": rng.integers(0, 1000, rows, np.int32),
        }
    )
