"""Ride orders and vehicle positions in a city: the first data set of the FJoin paper.

Coordinates are integers in steps of 1e-5 degree, as GPS units report them: one step is 1.11 m
north-south and, at this latitude, 0.96 m east-west. Like the paper, the join takes both as equal.

The city has districts: hot spots of different weight and size, some busy by day (work) and some
by night (homes), over a thin uniform background. Vehicles drive from one place to the next along
a grid of streets, wait there, and go on. Orders appear near hot spots at a rate that follows the
hour of the day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import UsageError

from .draws import cdf, draw
from .slots import US_PER_S, Slot, poisson_times
from .workload import SLOT_ROWS, TIMESTAMP, Columns, Workload, check

ORDERS = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", TIMESTAMP),
        ("lon", pa.int32()),
        ("lat", pa.int32()),
    ]
)
GPS = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", TIMESTAMP),
        ("vehicle", pa.int32()),
        ("lon", pa.int32()),
        ("lat", pa.int32()),
    ]
)

#: Middle of the city in steps of 1e-5 degree: that of Chengdu, where the paper's data comes from.
CENTRE_LON = 10_406_000
CENTRE_LAT = 3_066_000

#: Distance between two streets in steps.
BLOCK = 250

#: Standard deviation of a position fix in steps.
GPS_NOISE = 4.0

#: Every vehicle begins a trip each half hour: long enough to cross the city at town speed.
TRIP_S = 1800.0

#: Slowest and fastest cruising speed in steps per second (about 18 and 50 km/h).
SPEED = (5.0, 14.0)

#: Share of places outside all districts.
BACKGROUND = 0.15

#: Orders by hour of the day, from midnight: peaks before work, at noon and after work.
HOURLY = np.array(
    [4, 3, 2, 1, 1, 2, 5, 9, 12, 10, 9, 10, 11, 11, 10, 9, 10, 12, 14, 13, 11, 10, 8, 6],
    dtype=np.float64,
)

_DAY_US = 86_400 * US_PER_S
_HOUR_US = 3_600 * US_PER_S


def query(diff: int = 500, *, window_s: int = 180) -> str:
    """SQL of the paper's join: orders and vehicles close in space and time.

    Parameters
    ----------
    diff : int
        Manhattan distance in steps of 1e-5 degree, excluded.
    window_s : int
        Longest time between the two, in seconds, either way, included.
    """
    return (
        "SELECT * FROM orders o JOIN gps g\n"
        f"ON abs(o.lon - g.lon) + abs(o.lat - g.lat) < {diff}\n"
        f"AND g.ts BETWEEN o.ts - INTERVAL {window_s} SECONDS "
        f"AND o.ts + INTERVAL {window_s} SECONDS"
    )


@dataclass(frozen=True, kw_only=True)
class City(Workload):
    """Streams ``orders`` (id, ts, lon, lat) and ``gps`` (id, ts, vehicle, lon, lat).

    ``id`` counts the rows of a stream in the order they arrive, from 0. ``ts`` is the event time.
    ``lon`` and ``lat`` are integers in 1e-5 degree.

    The defaults are the mean rates of the paper's month of data (7 million orders, 3 billion
    positions).

    Parameters
    ----------
    order_rate : float
        Mean orders per second over the run.
    gps_rate : float
        Mean positions per second of all vehicles together.
    vehicles : int
        Each reports at a fixed interval of its own, on average ``vehicles / gps_rate`` seconds.
    radius : int
        Half the side of the city in steps of 1e-5 degree; all coordinates lie within it.
    districts : int
        Hot spots. 0 spreads everything evenly.
    hourly : bool
        Whether the order rate follows the hour of the day; its mean over the run stays the same.
    """

    order_rate: float = 2.7
    gps_rate: float = 1150.0
    vehicles: int = 3500
    radius: int = 15_000
    districts: int = 24
    hourly: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check("order_rate", self.order_rate, low=1e-6, high=1e9, unit="rows/s")
        check("gps_rate", self.gps_rate, low=1e-6, high=1e9, unit="rows/s")
        check("vehicles", self.vehicles, low=1, high=10_000_000)
        check("radius", self.radius, low=4 * BLOCK, high=3_000_000, unit="steps of 1e-5 degree")
        check("districts", self.districts, low=0, high=10_000)
        if self.vehicles / self.gps_rate > 3600:
            raise UsageError(
                f"{self.vehicles} vehicles at {self.gps_rate:g} positions/s report less than once "
                "an hour each; raise gps_rate or lower vehicles"
            )

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        return MappingProxyType({"orders": ORDERS, "gps": GPS})

    def query(self, diff: int = 500, *, window_s: int = 180) -> str:
        """See :func:`query`."""
        return query(diff, window_s=window_s)

    def rate_of(self, stream: str) -> float:
        return {"orders": self.order_rate, "gps": self.gps_rate}[stream]

    def _slot_rows(self, stream: str) -> int:
        # A slot of positions costs a pass over all vehicles, so it should hold one report of each.
        return SLOT_ROWS if stream == "orders" else max(SLOT_ROWS, self.vehicles)

    def _fill(self, stream: str, slot: Slot) -> Columns:
        return self._orders(slot) if stream == "orders" else self._gps(slot)

    # Orders

    def _orders(self, slot: Slot) -> Columns:
        rate = self.order_rate
        if self.hourly:
            middle = (slot.begin_us + slot.end_us) // 2
            rate *= float(self._activity(np.array([middle]))[0]) / self._mean_activity
        ts = poisson_times(slot, rate)
        x, y = self._places(slot.rng, len(ts), slot.begin_us)
        return {"ts": ts, **self._columns(x, y)}

    def _activity(self, at_us: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Orders at these times relative to other hours, joined by straight lines."""
        hour = (at_us + self._start_us) % _DAY_US / _HOUR_US
        return np.interp(hour, np.arange(25), np.append(HOURLY, HOURLY[0]))

    @cached_property
    def _mean_activity(self) -> float:
        """Mean of the activity over the slots, weighed as they are drawn."""
        length = self._slot_us("orders")
        begin = np.arange(0, self._duration_us, length)
        end = np.minimum(begin + length, self._duration_us)
        return float(np.average(self._activity((begin + end) // 2), weights=end - begin))

    # Places

    @cached_property
    def _map(self) -> dict[str, npt.NDArray[np.floating]]:
        """Districts: centre and spread in steps from the city's middle, weight, share of work."""
        rng = self._rng("map")
        n = self.districts
        return {
            "x": rng.normal(0, self.radius / 3, n).clip(-0.85 * self.radius, 0.85 * self.radius),
            "y": rng.normal(0, self.radius / 3, n).clip(-0.85 * self.radius, 0.85 * self.radius),
            "spread": self.radius * rng.uniform(0.01, 0.06, n),
            "weight": np.arange(1, n + 1) ** -0.8,
            "work": rng.uniform(0, 1, n),
        }

    def _places(
        self, rng: np.random.Generator, size: int, at_us: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Places where people are at a time, in steps from the middle of the city."""
        x = rng.uniform(-self.radius, self.radius, size)
        y = rng.uniform(-self.radius, self.radius, size)
        if not self.districts:
            return x, y
        hour = (at_us + self._start_us) % _DAY_US / _HOUR_US
        day = 0.5 - 0.5 * np.cos((hour - 1) / 24 * 2 * np.pi)  # 0 at 1 am, 1 at 1 pm
        work = self._map["work"]
        weights = self._map["weight"] * (work * day + (1 - work) * (1 - day) + 0.1)
        inside = rng.random(size) >= BACKGROUND
        which = draw(rng, cdf(weights), size)
        spread = self._map["spread"][which]
        near_x = self._map["x"][which] + rng.normal(0, 1, size) * spread
        near_y = self._map["y"][which] + rng.normal(0, 1, size) * spread
        return np.where(inside, near_x, x), np.where(inside, near_y, y)

    def _columns(self, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> Columns:
        """Columns of points given from the middle of the city; the edge takes what lies beyond."""
        bound = self.radius
        return {
            "lon": (np.rint(x).clip(-bound, bound) + CENTRE_LON).astype(np.int32),
            "lat": (np.rint(y).clip(-bound, bound) + CENTRE_LAT).astype(np.int32),
        }

    # Vehicles

    @cached_property
    def _fleet(self) -> dict[str, npt.NDArray[np.floating]]:
        """Report interval and phase in us, trip phase in trips, speed in steps/s, by vehicle."""
        rng = self._rng("fleet")
        n = self.vehicles
        share = rng.uniform(0.8, 1.25, n)
        share /= share.sum()
        interval = US_PER_S / (self.gps_rate * share)
        return {
            "interval": interval,
            "phase": rng.random(n) * interval,
            "trip": rng.random(n),
            "speed": rng.uniform(*SPEED, n),
        }

    def _gps(self, slot: Slot) -> Columns:
        interval, phase = self._fleet["interval"], self._fleet["phase"]
        # Report k of a vehicle is due at phase + k * interval; those inside the slot.
        first = np.ceil((slot.begin_us - phase) / interval).astype(np.int64).clip(0)
        last = np.ceil((slot.end_us - phase) / interval).astype(np.int64).clip(0)
        count = last - first
        vehicle = np.repeat(np.arange(self.vehicles, dtype=np.int32), count)
        # 0, 1, 2, ... within each vehicle
        step = np.arange(len(vehicle)) - np.repeat(np.cumsum(count) - count, count)
        due = phase[vehicle] + (first[vehicle] + step) * interval[vehicle]
        ts = np.floor(due).astype(np.int64).clip(slot.begin_us, slot.end_us - 1)
        x, y = self._positions(vehicle, ts)
        noise = slot.rng.normal(0, GPS_NOISE, (2, len(ts)))
        return {"ts": ts, "vehicle": vehicle, **self._columns(x + noise[0], y + noise[1])}

    def _positions(
        self, vehicle: npt.NDArray[np.int32], ts: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Where vehicles are: a function of time alone, so slots need no state."""
        progress = ts / (TRIP_S * US_PER_S) + self._fleet["trip"][vehicle]
        trip = np.floor(progress).astype(np.int64)
        x = np.empty(len(ts))
        y = np.empty(len(ts))
        for number in np.unique(trip):  # one or two in a slot: the phases differ by less than one
            here = trip == number
            elapsed_s = (progress[here] - number) * TRIP_S
            x[here], y[here] = self._along(int(number), vehicle[here], elapsed_s)
        return x, y

    def _along(
        self, trip: int, vehicle: npt.NDArray[np.int32], elapsed_s: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Positions on a trip: along one axis, then the other, then the first again, then wait."""
        a = self._stops(trip)[:, vehicle]
        b = self._stops(trip + 1)[:, vehicle]
        rng = self._rng("turn", trip)
        swap = rng.random(self.vehicles)[vehicle] < 0.5
        turn = rng.random(self.vehicles)[vehicle]
        a, b = np.where(swap, a[::-1], a), np.where(swap, b[::-1], b)
        middle = a[0] + np.rint((b[0] - a[0]) * turn / BLOCK) * BLOCK
        legs = np.abs(np.stack([middle - a[0], b[1] - a[1], b[0] - middle]))
        length = legs.sum(axis=0)
        # A trip across the whole city goes faster, so that it ends before the next one begins.
        speed = np.maximum(self._fleet["speed"][vehicle], length / (TRIP_S * 0.95))
        way = np.minimum(elapsed_s * speed, length)
        first = a[0] + np.sign(middle - a[0]) * np.minimum(way, legs[0])
        first += np.sign(b[0] - middle) * (way - legs[0] - legs[1]).clip(0)
        second = a[1] + np.sign(b[1] - a[1]) * (way - legs[0]).clip(0, legs[1])
        return np.where(swap, second, first), np.where(swap, first, second)

    def _stops(self, trip: int) -> npt.NDArray[np.float64]:
        """Street corners where the vehicles begin a trip: x and y rows, one column a vehicle."""
        at_us = round(trip * TRIP_S * US_PER_S)
        places = np.stack(self._places(self._rng("stops", trip), self.vehicles, at_us))
        limit = self.radius // BLOCK
        return np.rint(places / BLOCK).clip(-limit, limit) * BLOCK
