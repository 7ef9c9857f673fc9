"""Joins of the demo's city, and of the real streams in the folder that PENSTOCK_DATA names."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.peers.files import read_side, stream
from bench.peers.join import Band, Join, Near, square, within_manhattan
from penstock.sim.workloads import City

#: Rows of the long ROWS windows, and seconds to both sides of the long time window.
LONG_ROWS = 65_536
LONG_S = 3_600

_SECOND_US = 1_000_000
#: Metres, and feet of altitude, within which two aircraft are near.
_APART_M, _APART_FT = 9260, 1000


@cache
def city(size: float) -> Join:
    """Orders and vehicles near each other in ``penstock demo``, an hour of it."""
    with tempfile.TemporaryDirectory() as folder:
        City(seconds=max(5, round(3_600 * size)), seed=1).write(Path(folder))
        orders, gps = (
            read_side(Path(folder) / f"{name}.parquet", "ts", ("lon", "lat"))
            for name in ("orders", "gps")
        )
    d, window = 120, 180 * _SECOND_US
    return Join(
        left=orders,
        right=gps,
        **within_manhattan("lon", "lat", d),
        interval=(-window, window),
    )


@cache
def rides_in_a_box(size: float) -> Join:
    """U2 over a long ROWS window."""
    left, right = _rides(size)
    return Join(
        left=left,
        right=right,
        on="abs(l.x_m - r.x_m) <= 250 AND abs(l.y_m - r.y_m) <= 250",
        test=lambda a, b: (abs(a["x_m"] - b["x_m"]) <= 250) & (abs(a["y_m"] - b["y_m"]) <= 250),
        bands=_plane(250),
        near=Near(("x_m", "y_m"), np.inf, 250.5),
        rows=max(1, round(LONG_ROWS * size)),
    )


@cache
def rides_within_100_m(size: float) -> Join:
    """U3 over a long ROWS window."""
    left, right = _rides(size)
    return Join(
        left=left,
        right=right,
        **_within(100),
        bands=_plane(100),
        near=_ball(100),
        rows=max(1, round(LONG_ROWS * size)),
    )


@cache
def aircraft_in_time(size: float) -> Join:
    """A1 over a long time window."""
    return _aircraft(size, interval=(-LONG_S, LONG_S))


@cache
def aircraft_in_rows(size: float) -> Join:
    """A2 over a long ROWS window."""
    return _aircraft(size, rows=max(1, round(LONG_ROWS * size)))


@cache
def buses(size: float) -> Join:
    """B1: buses of a route that bunch."""
    side = stream("bus", "t_s", ("vehicle_id", "route", "x_m", "y_m"), size, _from("route", 0))
    near = _within(300)
    return Join(
        left=side,
        right=side,
        on=f"l.vehicle_id < r.vehicle_id AND {near['on']}",
        duckdb_on=f"l.vehicle_id < r.vehicle_id AND {near['duckdb_on']}",
        test=lambda a, b: (a["vehicle_id"] < b["vehicle_id"]) & near["test"](a, b),
        keys=("route",),
        interval=(-120, 120),
    )


@cache
def picks(size: float) -> Join:
    """S2: P and S phases at a station."""
    left, right = (
        stream("seismic", "t_ms", ("station",), size, _equal(picker=1, phase=phase))
        for phase in (0, 1)
    )
    return _keys(left, right, "station", (500, 15_000))


@cache
def names_and_connections(size: float) -> Join:
    """Z1: a client's connections after its look-ups."""
    left, right = (stream(name, "t_us", ("orig_ip",), size) for name in ("zeek_dns", "zeek_ssl"))
    return _keys(left, right, "orig_ip", (0, 10 * _SECOND_US))


@cache
def jobs(size: float) -> Join:
    """G1: a job's end after its submission."""
    return _keys(*_jobs("job_id", size), "job_id", (0, 300 * _SECOND_US))


@cache
def users(size: float) -> Join:
    """G3: submissions and ends of one user's jobs, skewed."""
    return _keys(*_jobs("user", size), "user", (-60 * _SECOND_US, 60 * _SECOND_US))


@cache
def flights(size: float) -> Join:
    """N2: departures from one airport within three minutes."""
    side = stream("flights", "dep_min", ("origin_id",), size, _known("dep_min"))
    return Join(
        left=side,
        right=side,
        on="l.id < r.id",
        test=lambda a, b: a["id"] < b["id"],
        keys=("origin_id",),
        interval=(-3, 3),
    )


def _keys(left: pa.Table, right: pa.Table, key: str, interval: tuple[int, int]) -> Join:
    return Join(left=left, right=right, on="", test=None, keys=(key,), interval=interval)


def _aircraft(size: float, **window) -> Join:
    where = ~pc.field("onground") & pc.field("alt_ft").is_valid() & pc.field("gs_kt").is_valid()
    side = stream("adsb", "t_s", ("icao24", "x_m", "y_m", "alt_ft"), size, where)
    near = _within(_APART_M)
    also = f"l.icao24 < r.icao24 AND abs(l.alt_ft - r.alt_ft) < {_APART_FT}"
    high = Band("alt_ft", lambda side: side["alt_ft"], 1 - _APART_FT, _APART_FT - 1)
    return Join(
        left=side,
        right=side,
        on=f"{also} AND {near['on']}",
        duckdb_on=f"{also} AND {near['duckdb_on']}",
        test=lambda a, b: (
            (a["icao24"] < b["icao24"])
            & (abs(a["alt_ft"] - b["alt_ft"]) < _APART_FT)
            & near["test"](a, b)
        ),
        bands=(high, *_plane(_APART_M)),
        time_cells=False,
        near=Near(("x_m", "y_m", "alt_ft"), np.inf, _APART_M + 0.5, (1, 1, _APART_M / _APART_FT)),
        **window,
    )


def _within(metres: int) -> dict:
    """Conditions of a distance in the plane."""
    x, y = "(l.x_m - r.x_m)", "(l.y_m - r.y_m)"
    return {
        "on": f"{x} * {x} + {y} * {y} <= {metres**2}",
        "duckdb_on": f"{x}::BIGINT * {x} + {y}::BIGINT * {y} <= {metres**2}",
        "test": lambda a, b: square(a["x_m"] - b["x_m"]) + square(a["y_m"] - b["y_m"]) <= metres**2,
    }


def _plane(metres: int) -> tuple[Band, Band]:
    return (
        Band("x_m", lambda side: side["x_m"], -metres, metres),
        Band("y_m", lambda side: side["y_m"], -metres, metres),
    )


def _ball(metres: int) -> Near:
    # Squares of distances are whole numbers.
    return Near(("x_m", "y_m"), 2, (metres**2 + 0.5) ** 0.5)


def _rides(size: float) -> tuple[pa.Table, pa.Table]:
    left, right = (
        stream("uber", "t_s", ("x_m", "y_m"), size, _equal(base=base)) for base in (1, 3)
    )
    return left, right


def _jobs(key: str, size: float) -> tuple[pa.Table, pa.Table]:
    left, right = (stream("gjobs", "t_us", (key,), size, _equal(event=event)) for event in (0, 4))
    return left, right


def _equal(**values: int) -> pc.Expression:
    (first, *rest) = (pc.field(name) == value for name, value in values.items())
    for each in rest:
        first &= each
    return first


def _from(name: str, least: int) -> pc.Expression:
    return pc.field(name) >= least


def _known(name: str) -> pc.Expression:
    return pc.field(name).is_valid()


#: Makers of the real streams' joins, by the names of their queries.
REAL: dict[str, Callable[[float], Join]] = {
    "U3": rides_within_100_m,
    "U2": rides_in_a_box,
    "A1": aircraft_in_time,
    "A2": aircraft_in_rows,
    "B1": buses,
    "S2": picks,
    "Z1": names_and_connections,
    "G1": jobs,
    "G3": users,
    "N2": flights,
}
