"""Generated joins: points near each other, wide bands, a condition without bounds, many rows out.

Each takes a size: 1 is the full workload, less is a smaller one with as many matches per row.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from bench.cpu.workload import SPAN
from bench.peers.join import Band, Join, Near, within_manhattan

#: Event times are in [0, TIMES).
TIMES = 1 << 30


def points(rows: int, seed: int, *, times: int = TIMES, span: int = SPAN) -> pa.Table:
    """Uniform points in the order of their uniform times."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, span, (2, rows), np.int32)
    t = np.sort(rng.integers(0, times, rows))
    return pa.table({"id": np.arange(rows, dtype=np.int32), "t": t, "x": x, "y": y})


@cache
def manhattan(left: int, right: int, selectivity: float, share: float, size: float) -> Join:
    """``abs(dx) + abs(dy) < d`` within a time window.

    Parameters
    ----------
    left, right : int
        Rows of the full workload.
    selectivity : float
        Of all pairs in the window of the full workload.
    share : float
        Of all pairs that lie in the window; 1 for all, at equal times.
    """
    # The diamond's area over the square's.
    d = max(2, round((selectivity / size / 2) ** 0.5 * SPAN))
    times = TIMES if share < 1 else 1
    # Two uniform times lie within w of each other with probability 2w - w².
    reach = round((1 - (1 - share) ** 0.5) * TIMES)
    return Join(
        left=points(round(left * size), 1, times=times),
        right=points(round(right * size), 2, times=times),
        **within_manhattan("x", "y", d),
        interval=(-reach, reach) if share < 1 else None,
    )


@cache
def wide_bands(size: float) -> Join:
    """Both coordinates within 15 % of the span to either side, counted."""
    rows, reach = max(200, round(70_000 * size)), round(0.15 * SPAN)
    return Join(
        left=points(rows, 1, times=1),
        right=points(rows, 2, times=1),
        on=f"abs(l.x - r.x) <= {reach} AND abs(l.y - r.y) <= {reach}",
        test=lambda a, b: (abs(a["x"] - b["x"]) <= reach) & (abs(a["y"] - b["y"]) <= reach),
        near=Near(("x", "y"), np.inf, reach + 0.5),
        count=True,
    )


@cache
def without_bounds(size: float) -> Join:
    """A product of both sides modulo a prime: nothing is implied about one column alone."""
    return Join(
        left=points(round(30_000 * size), 1, times=1, span=1 << 14),
        right=points(round(70_000 * size), 2, times=1, span=1 << 14),
        on="(l.x * r.y + l.y * r.x) % 10007 = 5",
        test=lambda a, b: (a["x"] * b["y"] + a["y"] * b["x"]) % 10007 == 5,
    )


@cache
def many_rows_out(size: float) -> Join:
    """A box of 250 m around rides of one city, over a long ROWS window: one percent match."""
    sides = [_rides(round(rows * size), seed) for seed, rows in ((1, 77_380), (2, 114_581))]
    return Join(
        left=sides[0],
        right=sides[1],
        on="abs(l.x - r.x) <= 250 AND abs(l.y - r.y) <= 250",
        test=lambda a, b: (abs(a["x"] - b["x"]) <= 250) & (abs(a["y"] - b["y"]) <= 250),
        bands=(
            Band("x", lambda side: side["x"], -250, 250),
            Band("y", lambda side: side["y"], -250, 250),
        ),
        near=Near(("x", "y"), np.inf, 250.5),
        rows=round(65_536 * size),
    )


def _rides(rows: int, seed: int) -> pa.Table:
    """Points around a few places of a city, in metres, as taxis are called."""
    places = np.random.default_rng(0).normal(0, 1900, (2, 24))
    rng = np.random.default_rng(seed)
    which = rng.integers(0, places.shape[1], rows)
    x, y = np.rint(places[:, which] + rng.normal(0, 540, (2, rows))).astype(np.int32)
    t = np.sort(rng.integers(0, TIMES, rows))
    return pa.table({"id": np.arange(rows, dtype=np.int32), "t": t, "x": x, "y": y})
