"""Places within a distance of each other on the sphere."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from bench.peers.join import Columns, Join, Near, Within

#: Metres of the sphere's radius, and within which places are near.
_RADIUS_M, _NEAR_M = 6_371_008.8, 1000.0
#: The distance in SQL of engines that have no function for it.
METRES = (
    f"2 * {_RADIUS_M} * asin(sqrt(power(sin(radians(r.lat - l.lat) / 2), 2) + cos(radians(l.lat)) "
    "* cos(radians(r.lat)) * power(sin(radians(r.lon - l.lon) / 2), 2)))"
)


@cache
def places(size: float) -> Join:
    """Uniform places of Europe's latitudes and longitudes, 1,000 m from each other at most."""
    near_m = _NEAR_M / size**0.5
    return Join(
        left=_places(round(100_000 * size), 1),
        right=_places(round(1_000_000 * size), 2),
        on=f"haversine(l.lat, l.lon, r.lat, r.lon) < {near_m!r}",
        duckdb_on=f"{METRES} < {near_m!r}",
        test=lambda a, b: _metres(a, b) < near_m,
        # A chord of the unit sphere.
        near=Near(("x", "y", "z"), 2, 2 * np.sin(near_m / 2 / _RADIUS_M)),
        within=Within("lat", "lon", near_m),
    )


def _places(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    lat, lon = rng.uniform(35, 60, rows), rng.uniform(-10, 30, rows)
    here, along = np.radians(lat), np.radians(lon)
    point = np.cos(here) * np.cos(along), np.cos(here) * np.sin(along), np.sin(here)
    columns = {"lat": lat, "lon": lon, **dict(zip("xyz", point, strict=True))}
    return pa.table(
        {"id": np.arange(rows, dtype=np.int32), "t": np.zeros(rows, np.int64)} | columns
    )


def _metres(a: Columns, b: Columns) -> np.ndarray:
    here, there = np.radians(a["lat"]), np.radians(b["lat"])
    along = np.sin(np.radians(b["lon"] - a["lon"]) / 2) ** 2
    height = np.sin((there - here) / 2) ** 2 + np.cos(here) * np.cos(there) * along
    return 2 * _RADIUS_M * np.arcsin(np.sqrt(height))
