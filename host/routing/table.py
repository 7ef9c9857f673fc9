"""The routing table (the paper's Y), and the routing of rows by it (Algorithm 1)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from penstock.errors import DataError

from .checked_arrays import amounts, below, checked_lanes, not_negative
from .loads import Loads, spans
from .shares import bounds, deal

#: Version of a table in records; a change of its meaning takes another number.
_FORMAT = 1


class RoutingTable:
    """Table of the cells that are not wholly at home: their lanes, and each lane's share.

    It is immutable. A cell without an entry is at its home, by base routing.

    Parameters
    ----------
    homes : array_like of int, shape (all cells,)
        Lane of each cell that has no entry.
    lanes : int
    cells : array_like of int, shape (entries,)
        Cells that have an entry, rising.
    offsets : array_like of int, shape (entries + 1,)
        Where the lanes of each entry begin among all of them.
    parts : array_like of int
        Lanes of each entry, rising.
    weights : array_like of int
        Shares of those lanes: their loads, where an entry has several. If there is no load, shares
        are equal; a cell that is whole has weight 1.

    Attributes
    ----------
    homes, cells, offsets, parts, weights : ndarray of int64
    lanes : int

    Raises
    ------
    DataError
        A number is unknown or out of order.
    UsageError
        There is no lane.
    """

    def __init__(
        self, homes: Any, lanes: int, cells: Any = (), offsets: Any = (0,), parts: Any = (),
        weights: Any = (),
    ) -> None:  # fmt: skip
        self.lanes = checked_lanes(lanes)
        self.homes = below(homes, "home", self.lanes, "a lane: there are {} of them, from 0 on")
        self.cells = below(cells, "cell", len(self.homes), "one of the {} cells, from 0 on")
        self.parts = below(parts, "lane", self.lanes, "a lane: there are {} of them, from 0 on")
        self.offsets = below(offsets, "offset", len(self.parts) + 1, "less than {}")
        shares = amounts(weights, "weight")
        counts = np.diff(self.offsets)
        fits = len(self.offsets) == len(self.cells) + 1 and len(shares) == len(self.parts)
        fits = fits and self.offsets[0] == 0 and self.offsets[-1] == len(self.parts)
        if not fits or (counts < 1).any() or (np.diff(self.cells) < 1).any():
            raise DataError(
                "a routing table's cells do not rise, or its parts are not theirs; give each cell "
                "once, with one lane or more"
            )
        falls = np.diff(self.parts) < 1
        falls[self.offsets[1:-1] - 1] = False
        if falls.any():
            raise DataError("a cell of a routing table names a lane twice; give each lane once")
        if len(counts):
            idle = np.add.reduceat(shares, self.offsets[:-1]) == 0
            shares = np.where(np.repeat(idle | (counts == 1), counts), 1, shares)
        self.weights = shares

    @classmethod
    def from_loads(cls, loads: Loads) -> RoutingTable:
        """Make the table that sends rows where the loads are."""
        away = loads.lane != loads.homes[loads.key]
        row = np.flatnonzero(away | ~loads.whole)
        key = loads.key[row]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        offsets = np.append(first, len(row))
        return cls(loads.homes, loads.lanes, key[first], offsets, loads.lane[row], loads.load[row])

    def __len__(self) -> int:
        """Return how many cells have an entry: O2."""
        return len(self.cells)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RoutingTable):
            return NotImplemented
        mine, its = self._all, other._all
        return self.lanes == other.lanes and all(map(np.array_equal, mine, its))

    __hash__ = None  # type: ignore[assignment]

    @property
    def _all(self) -> tuple[np.ndarray, ...]:
        return self.homes, self.cells, self.offsets, self.parts, self.weights

    @cached_property
    def split(self) -> np.ndarray:
        """Cells with more than one lane, ndarray of int64."""
        return self.cells[np.diff(self.offsets) > 1]

    def store(self, cells: np.ndarray, ordinals: np.ndarray, counts: Any = None) -> np.ndarray:
        """Return the one lane that stores each row (STORAGE in Algorithm 1).

        Rows of a split cell are dealt in runs of neighbouring ordinals. A lane gets its share of
        them, rounded up or down to a whole row.

        Parameters
        ----------
        cells : ndarray of int64, shape (rows,)
        ordinals : ndarray of int64, shape (rows,)
            The row's number among those of its cell, from 0 on.
        counts : ndarray of int64, shape (rows,), optional
            Rows of the row's cell. If not given, as many as the sum of the cell's weights, so its
            load when it was planned; ordinals beyond begin again.

        Returns
        -------
        ndarray of int64, shape (rows,)

        Raises
        ------
        DataError
            A cell is unknown, an ordinal negative or not below its count.
        """
        cells, at = self._entries(cells)
        lanes = self.homes[cells]
        row = np.flatnonzero(at >= 0)
        lanes[row] = self.parts[self.offsets[at[row]]]
        row = row[np.diff(self.offsets)[at[row]] > 1]
        if not len(row):
            return lanes
        at, ordinal = at[row], not_negative(np.asarray(ordinals)[row], "ordinal")
        if counts is None:
            count = np.add.reduceat(self.weights, self.offsets[:-1])[at]
            ordinal = ordinal % count
        else:
            count = not_negative(np.asarray(counts)[row], "count")
            if (ordinal >= count).any():
                wrong = int(np.argmax(ordinal >= count))
                raise DataError(
                    f"row {ordinal[wrong]} of cell {self.cells[at[wrong]]} is beyond its "
                    f"{count[wrong]} rows; count ordinals from 0 on within each cell"
                )
        lanes[row] = self.parts[
            self.offsets[at] + deal(self.weights, self.offsets, at, count, ordinal)
        ]
        return lanes

    def probe(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all lanes that each row visits to meet equal keys (OPERATOR in Algorithm 1).

        Returns
        -------
        offsets : ndarray of int64, shape (rows + 1,)
        lanes : ndarray of int64
            Lanes of row k from ``offsets[k]`` on, up to ``offsets[k + 1]``.
        """
        cells, at = self._entries(cells)
        if not len(self.cells):
            return np.arange(len(cells) + 1), self.homes[cells]
        counts = np.where(at >= 0, np.diff(self.offsets)[at], 1)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        lanes = np.repeat(self.homes[cells], counts)
        has = np.repeat(at >= 0, counts)
        begin, end = self.offsets[at[at >= 0]], self.offsets[at[at >= 0] + 1]
        lanes[has] = self.parts[spans(begin, end)]
        return offsets, lanes

    def reach(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all lanes that each row visits to meet a range of cells: bands, inequalities.

        Parameters
        ----------
        low, high : ndarray of int64, shape (rows,)
            First and last cell; a row whose last one comes before its first visits no lane.

        Returns
        -------
        offsets : ndarray of int64, shape (rows + 1,)
        lanes : ndarray of int64
            Distinct lanes of row k, rising, from ``offsets[k]`` on, up to ``offsets[k + 1]``.
        """
        low, high = np.asarray(low, np.int64), np.asarray(high, np.int64)
        visits = np.empty((len(low), self.lanes), bool)
        for lane, cells in enumerate(self._cells_by_lane):
            begin = np.searchsorted(cells, low)
            visits[:, lane] = begin < np.searchsorted(cells, high, "right")
        offsets = np.concatenate([[0], np.cumsum(visits.sum(1))])
        return offsets, np.nonzero(visits)[1]

    @cached_property
    def _cells_by_lane(self) -> list[np.ndarray]:
        """Cells that each lane has a part of, rising."""
        _, lanes = self.probe(every := np.arange(len(self.homes)))
        cells = np.repeat(every, np.diff(self.probe(every)[0]))
        order = np.argsort(lanes, kind="stable")
        ends = np.searchsorted(lanes[order], np.arange(1, self.lanes))
        return np.split(cells[order], ends)

    def loads(self, load: Any, size: Any = None) -> Loads:
        """Return the loads of all cells on the lanes that this table sends them to.

        Parameters
        ----------
        load, size : array_like of int, shape (all cells,)
            Of each cell, together; the size is the load if not given.
        """
        whole = amounts(load, "load")
        sizes = whole if size is None else amounts(size, "size")
        if not len(whole) == len(sizes) == len(self.homes):
            raise DataError(
                f"there are {len(whole)} loads and {len(sizes)} sizes for {len(self.homes)} cells; "
                "give one of each per cell"
            )
        offsets, lanes = self.probe(cells := np.arange(len(whole)))
        key = np.repeat(cells, np.diff(offsets))
        loads, state = whole[key], sizes[key]
        for entry in np.flatnonzero(np.diff(self.offsets) > 1).tolist():
            cell = int(self.cells[entry])
            begin, end = int(offsets[cell]), int(offsets[cell + 1])
            weights = self.weights[self.offsets[entry] : self.offsets[entry + 1]]
            for column, total in ((loads, whole), (state, sizes)):
                ends = bounds(weights, int(total[cell]))
                column[begin:end] = np.diff(ends, prepend=0)
        used = (whole > 0) | (sizes > 0)
        used[self.cells] = True  # an entry stays until a plan merges it
        rows = used[key]
        return Loads(
            key[rows], lanes[rows], loads[rows], state[rows], homes=self.homes, lanes=self.lanes
        )

    def _entries(self, cells: Any) -> tuple[np.ndarray, np.ndarray]:
        """Check cells; returns them, and the entry of each one, -1 if it has none."""
        number = below(cells, "cell", len(self.homes), "one of the {} cells, from 0 on")
        if not len(self.cells):
            return number, np.full(len(number), -1)
        at = np.minimum(np.searchsorted(self.cells, number), len(self.cells) - 1)
        return number, np.where(self.cells[at] == number, at, -1)

    def to_json(self) -> dict[str, Any]:
        """Return the table without its homes as plain values, for JSON in a record."""
        counts = np.diff(self.offsets)
        return {
            "format": _FORMAT,
            "all": len(self.homes),
            "lanes": self.lanes,
            "cells": np.diff(self.cells, prepend=0).tolist(),
            "counts": counts.tolist() if len(self.split) else [],
            "parts": self.parts.tolist(),
            "weights": self.weights[np.repeat(counts > 1, counts)].tolist(),
        }

    @classmethod
    def from_json(cls, record: Any, homes: Any) -> RoutingTable:
        """Make the table that a record keeps.

        Parameters
        ----------
        record : dict
            From :meth:`to_json`.
        homes : array_like of int, shape (all cells,)
            Home of each cell by base routing.

        Raises
        ------
        DataError
            The record is damaged, or not of these cells.
        """
        try:
            if record["format"] != _FORMAT or record["all"] != len(homes):
                raise ValueError("it is of another format, or of other cells")
            cells = np.cumsum(_integers(record["cells"]))
            parts = _integers(record["parts"])
            counts = _integers(record["counts"]) if record["counts"] else np.ones_like(cells)
            if (counts < 1).any() or len(counts) != len(cells) or counts.sum() != len(parts):
                raise ValueError("parts are missing")
            weights = np.ones_like(parts)
            weights[np.repeat(counts > 1, counts)] = _integers(record["weights"])
            offsets = np.concatenate([[0], np.cumsum(counts)])
            return cls(homes, record["lanes"], cells, offsets, parts, weights)
        except (KeyError, TypeError, ValueError, OverflowError) as cause:
            raise DataError(
                f"the record of a routing table is damaged ({cause}); start without it, and the "
                "next plan makes another"
            ) from None


def _integers(values: Any) -> np.ndarray:
    if not isinstance(values, list) or not all(type(each) is int for each in values):
        raise ValueError("a list of whole numbers is none")
    return np.array(values, np.int64)
