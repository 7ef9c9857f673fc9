"""A join as all contenders get it: tables, conditions, and what hand-written forms know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

#: Threads of each contender.
THREADS = 2

#: Columns of one side by name: NumPy arrays or Polars expressions.
Columns = Mapping[str, Any]


@dataclass(frozen=True)
class Band:
    """``low <= f(r) - f(l) <= high`` for a whole number f that both sides have.

    Parameters
    ----------
    sql : str
        f over the columns of one side.
    of : callable
        The same on columns.
    low, high : int
    """

    sql: str
    of: Callable[[Columns], Any]
    low: int
    high: int

    @property
    def width(self) -> int:
        """Width of cells of which a row's band overlaps two at most."""
        return max(1, self.high - self.low)


@dataclass(frozen=True)
class Near:
    """A distance of points that the condition implies, for a k-d tree.

    Parameters
    ----------
    columns : tuple of str
        Coordinates.
    p : float
        Of the Minkowski distance.
    radius : float
        Between two distances that occur, so that rounding decides nothing.
    scales : tuple of float
        What to multiply the coordinates by; () for nothing.
    """

    columns: tuple[str, ...]
    p: float
    radius: float
    scales: tuple[float, ...] = ()


@dataclass(frozen=True)
class Within:
    """A distance on the sphere that the condition asks for.

    Parameters
    ----------
    lat, lon : str
        Columns, in degrees.
    metres : float
        Greater than the distance of each pair.
    """

    lat: str
    lon: str
    metres: float


@dataclass(frozen=True, kw_only=True)
class Join:
    """A join of tables ``l`` and ``r``, each with ``id`` and ``t`` and in the order of ``t``.

    Parameters
    ----------
    left, right : pyarrow.Table
    on : str
        The condition without keys and window, as SQL; "" if there is none.
    duckdb_on : str
        The same in DuckDB's SQL, whose products overflow; "" if it is the same text.
    test : callable or None
        The same on columns of both sides.
    keys : tuple of str
        Columns of which both sides have equal values.
    bands : tuple of Band
        What ``on`` implies, the most selective first.
    near : Near or None
        The same as a distance.
    within : Within or None
        The same as a distance on the sphere.
    interval : tuple of int or None
        ``low <= r.t - l.t <= high``.
    rows : int or None
        ROWS window.
    time_cells : bool
        Whether cells by time can help hand-written forms: not where most times are in the window.
    overlap : tuple of str or None
        Columns of the key, first and last place of intervals; the join is their overlap.
    comparisons : int
        Conditions that bound a value from one side, 0 where there are others: DuckDB sorts by two
        of them, and so does Polars where there are no more.
    count : bool
        Number of matches of each row of ``l`` that has any, not pairs.
    """

    left: pa.Table
    right: pa.Table
    on: str
    test: Callable[[Columns, Columns], Any] | None
    duckdb_on: str = ""
    keys: tuple[str, ...] = ()
    bands: tuple[Band, ...] = ()
    near: Near | None = None
    within: Within | None = None
    interval: tuple[int, int] | None = None
    rows: int | None = None
    time_cells: bool = True
    overlap: tuple[str, str, str] | None = None
    comparisons: int = 0
    count: bool = False
    _bases: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def time_band(self) -> Band | None:
        """The interval as a band; None if there is none."""
        if self.interval is None:
            return None
        return Band("t", lambda side: side["t"], *self.interval)

    @property
    def grids(self) -> dict[str, tuple[Band, ...]]:
        """Bands whose cells a hand-written form joins on, by the name of the form."""
        found = {"grid": self.bands} if self.bands else {}
        if self.time_cells and self.time_band is not None:
            found["grid with time" if self.bands else "grid"] = (*self.bands, self.time_band)
        return found

    @cached_property
    def candidates(self) -> int:
        """Pairs that the same SQL looks at elsewhere: a hash join finds those with equal keys."""
        return self.pairs_of_keys if self.keys else self.pairs_in_window

    @property
    def found_by(self) -> str:
        """How the same SQL comes by its candidates elsewhere: "keys", "ranges" or "loop"."""
        if self.keys:
            return "keys"
        return "loop" if self.interval is None and self.rows is None else "ranges"

    @property
    def equal_keys(self) -> str:
        """The keys as SQL."""
        return " AND ".join(f"l.{key} = r.{key}" for key in self.keys)

    @property
    def times(self) -> str:
        """The interval as SQL; "" if there is none."""
        if self.interval is None:
            return ""
        low, high = (f"{'-' if v < 0 else '+'} {abs(v)}" for v in self.interval)
        return f"r.t BETWEEN l.t {low} AND l.t {high}"

    @cached_property
    def pairs_in_window(self) -> int:
        """Pairs whose times, or order of arrival, let them meet."""
        first, stop = self.ranges()
        return int((stop - first).sum())

    @cached_property
    def pairs_of_keys(self) -> int:
        """Pairs with equal keys, whatever their times."""
        sides = [table.group_by(list(self.keys)).aggregate([("id", "count")]) for table in self]
        both = sides[0].join(sides[1], list(self.keys), join_type="inner", right_suffix="_r")
        counts = (both[name].to_numpy().astype(np.float64) for name in ("id_count", "id_count_r"))
        return int(np.multiply(*counts).sum())

    def __iter__(self):
        return iter((self.left, self.right))

    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Places of ``r`` that each row of ``l`` can meet, by interval or ROWS window."""
        here, there = (table["t"].to_numpy() for table in self)
        if self.rows is None:
            if self.interval is None:
                return np.zeros(len(here), np.int64), np.full(len(here), len(there))
            low, high = self.interval
            return (
                np.searchsorted(there, here + low),
                np.searchsorted(there, here + high, side="right"),
            )
        # At equal times l comes first. A row meets the last n earlier rows of the other side.
        before = np.searchsorted(there, here)
        before_right = np.searchsorted(here, there, side="right")
        reach = np.arange(len(here)) + self.rows
        stop = np.searchsorted(before_right, reach, side="right")
        return np.maximum(before - self.rows, 0), np.maximum(stop, before)

    def with_places(self) -> tuple[pa.Table, pa.Table]:
        """Both tables; for a ROWS window with columns ``first``, ``stop`` and ``place``."""
        if self.rows is None:
            return self.left, self.right
        first, stop = (places.astype(np.int32) for places in self.ranges())
        left = self.left.append_column("first", pa.array(first))
        left = left.append_column("stop", pa.array(stop))
        place = np.arange(self.right.num_rows, dtype=np.int32)
        return left, self.right.append_column("place", pa.array(place))

    def base(self, band: Band) -> int:
        """What to subtract from a band's values, so that cells are not negative.

        Who writes a grid by hand knows it of the data, so finding it is not timed.
        """
        if band.sql not in self._bases:
            lows = []
            for table in self:
                columns = {name: table[name].to_numpy() for name in table.column_names}
                lows.append(int(band.of(columns).min()) if table.num_rows else 0)
            self._bases[band.sql] = min(lows) - abs(band.low) - abs(band.high)
        return self._bases[band.sql]


def square(values: Any) -> Any:
    """Squares in 64 bits, of an array or a Polars expression."""
    if isinstance(values, np.ndarray):
        wide: Any = values.astype(np.int64)
    else:
        import polars as pl

        wide = values.cast(pl.Int64)
    return wide * wide


def within_manhattan(x: str, y: str, d: int) -> dict[str, Any]:
    """What a :class:`Join` of points less than ``d`` from each other has beside its sides."""
    return {
        "on": f"abs(l.{x} - r.{x}) + abs(l.{y} - r.{y}) < {d}",
        "test": lambda a, b: abs(a[x] - b[x]) + abs(a[y] - b[y]) < d,
        "bands": (
            Band(f"{x} + {y}", lambda side: side[x] + side[y], 1 - d, d - 1),
            Band(f"{x} - {y}", lambda side: side[x] - side[y], 1 - d, d - 1),
        ),
        "near": Near((x, y), 1, d - 0.5),
    }
