"""The routing cells of rows: where equal keys meet, and neighbouring ones where a band ties them.

Cells of equalities are stretches of the house's hash, those of a band are ranges of its values. One
more cell has the rows whose key is NULL: they match nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Columns, evaluate_all, evaluate_columns
from penstock.host.emit.groups.floats import ordered, unordered
from penstock.host.keys.hashing import hash_values
from penstock.host.routing.base import base_homes, cells_of_hashes
from penstock.host.routing.loads import Loads
from penstock.host.routing.table import RoutingTable
from penstock.host.rows.sides import side_columns
from penstock.plan.query import LEFT, RIGHT, columns
from penstock.plan.routing_keys import RoutingKeys
from penstock.types import FLOAT64

from .compiled import Compiled
from .key_choice import Wanted, find_keys

#: In place of the cell of a row that its side's filter leaves out.
NO_CELL = -1

_INT64 = np.iinfo(np.int64)


#: Beyond it, by whether floats have 32 bits, a sum may have become infinite.
_MOST = {True: 2.0**126, False: 2.0**1022}
#: A share of a double is smaller.
_SINGLE = 2.0**-30


def reach_of_floats(
    bounds: Sequence[int], low: float, high: float, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """First and last cell that a band around the values of each cell may reach.

    Parameters
    ----------
    bounds : sequence of int
        Code of the least value of each cell but the first, rising. NaN is in the last cell.
    low, high : float
        Ends of the band.
    share : float
        Of a value, by how much it may reach further.
    """
    codes = np.array(bounds, np.int64)
    values, most = unordered(codes, FLOAT64), _MOST[share > _SINGLE]
    begin, end = np.append(-np.inf, values), np.append(values, np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        least = np.where(np.isinf(begin), begin, begin + low - 4 * share * np.abs(begin))
        largest = np.where(np.isinf(end), end, end + high + 4 * share * np.abs(end))
    # Where sums may overflow, numbers and infinity reach each other. NaN reaches itself.
    least = np.where(least < -most, -np.inf, np.minimum(least, most))
    largest = np.where(largest > most, np.inf, np.maximum(largest, -most))
    first, last = (np.searchsorted(codes, ordered(each), "right") for each in (least, largest))
    return first, last


@dataclass(frozen=True)
class CellOf:
    """Finds the cell of each row; travels to the tasks.

    Parameters
    ----------
    compiled : Compiled
        A query with routing keys.
    hashed : int
        Cells of hashes, where keys are equal.
    bounds : tuple of int
        Of a band: the least value of each cell but the first, rising.
    wanted, stepwise
        As for :func:`.key_choice.find_keys`.
    """

    compiled: Compiled
    hashed: int
    bounds: tuple[int, ...] = ()
    wanted: Wanted | None = None
    stepwise: bool = False

    def __getstate__(self) -> dict[str, Any]:
        # What was found out of them does not travel.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def keys(self) -> RoutingKeys:
        """The keys of the query."""
        keys = find_keys(self.compiled.query(), self.wanted, stepwise=self.stepwise)
        assert keys is not None, "whoever asks has looked"
        return keys

    @cached_property
    def cells(self) -> int:
        """Number of cells but NULL's, and so the index of NULL's cell."""
        return self.hashed if self.keys.band is None else len(self.bounds) + 1

    @cached_property
    def sides(self) -> tuple[str, ...]:
        """Sides whose rows have cells; rows of any cell can match all rows of another side."""
        grouped = self.keys.grouped
        return (LEFT, RIGHT) if grouped is None else (grouped,)

    @cached_property
    def identity(self) -> str:
        """Names the cells: rows under the same name have the same cells."""
        keys = self.keys.text({LEFT: LEFT, RIGHT: RIGHT})
        text = repr((keys, self.hashed, self.bounds))
        return blake2b(text.encode(), digest_size=8).hexdigest()

    def names(self, side: str) -> list[str]:
        """Columns of a side that its cells need, sorted."""
        condition = self.compiled.query().side(side).filter
        filtered = {name for owner, name in columns(condition) if owner == side}
        return sorted(filtered | self.keys.names(side))

    def homes(self, lanes: int) -> np.ndarray:
        """Base routing: the home of each cell, of NULL's last; neighbours are on one lane."""
        return np.append(base_homes(self.cells, lanes), lanes - 1)

    def reach(self, side: str, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and last cell of the other side's rows that rows of some cells can match.

        Both sides have cells.
        """
        if self.keys.band is None:
            return cells, cells
        low, high = self.keys.band if side == LEFT else (-self.keys.band[1], -self.keys.band[0])
        if self.keys.share is None:
            bounds = np.array(self.bounds, object)
            lows = np.searchsorted(bounds, np.append(_INT64.min, bounds) + low, "right")
            highs = np.searchsorted(bounds, np.append(bounds, _INT64.max + 1) - 1 + high, "right")
        else:
            lows, highs = reach_of_floats(self.bounds, low, high, self.keys.share)
        # NULL matches nothing, and stays where it is.
        lows, highs = np.append(lows, self.cells), np.append(highs, self.cells)
        return lows[cells], highs[cells]

    def visits(
        self, table: RoutingTable, side: str, cells: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """All lanes with rows of the other side that rows of some cells can match, as CSR."""
        if self.keys.band is None:
            return table.probe(cells)
        return table.reach(*self.reach(side, cells))

    def __call__(self, side: str, arrays: Sequence[pa.Array]) -> np.ndarray:
        """The cell of each row, ndarray of int64; :data:`NO_CELL` for rows that WHERE leaves out.

        Parameters
        ----------
        side : str
        arrays : sequence of Array
            The columns :meth:`names`.
        """
        rows = self._rows(side, arrays)
        passes = self._passes(side, rows)
        cells = np.full(rows.num_rows, NO_CELL)
        # Keys of other rows are not computed: a CAST may fail there.
        kept = rows if passes.all() else rows.filter(pa.array(passes))
        cells[passes] = self.of_columns(side, self._loaded(side, kept), kept.num_rows)
        return cells

    def of_columns(self, side: str, loaded: Columns, rows: int) -> np.ndarray:
        """The cell of each row, ndarray of int64, by columns that are loaded.

        Rows of a side without cells count as of the first one.
        """
        if side not in self.sides:
            return np.zeros(rows, np.int64)
        if self.keys.band is None:
            hashes, valid = hash_values(self.keys.side_keys(side), loaded, rows)
            cells = cells_of_hashes(hashes, self.hashed)
        else:
            values, valid = self.values_of_columns(side, loaded, rows)
            cells = np.searchsorted(np.array(self.bounds, np.int64), values, "right")
        return cells if valid is None else np.where(valid, cells, self.cells)

    def values(self, side: str, arrays: Sequence[pa.Array]) -> pa.Array:
        """The key of a band in each row, an Array of int64; NULL in rows that WHERE leaves out."""
        rows = self._rows(side, arrays)
        passes = self._passes(side, rows)
        kept = rows.filter(pa.array(passes))
        key_values, valid = self.values_of_columns(side, self._loaded(side, kept), kept.num_rows)
        values, known = np.zeros(rows.num_rows, np.int64), passes.copy()
        values[passes], known[passes] = key_values, valid
        return pa.array(values, mask=~known)

    def values_of_columns(
        self, side: str, loaded: Columns, rows: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The key of a band by columns that are loaded: int64, and which are not NULL."""
        (value,) = evaluate_all(self.keys.side_keys(side), loaded, rows)
        return _int64(value.values), value.is_known

    def _rows(self, side: str, arrays: Sequence[pa.Array]) -> pa.RecordBatch:
        schema = self.compiled.by_side()[side]
        fields = [schema.field(name) for name in self.names(side)]
        typed = [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)]
        return pa.RecordBatch.from_arrays(typed, schema=pa.schema(fields))

    def _passes(self, side: str, rows: pa.RecordBatch) -> np.ndarray:
        condition = self.compiled.query().side(side).filter
        return evaluate_columns(condition, self._loaded(side, rows), rows.num_rows).true

    def _loaded(self, side: str, rows: pa.RecordBatch) -> Columns:
        return side_columns(self.compiled.query(), side, rows, rows.schema.names)


def bounds_of(quantiles: Sequence[int]) -> tuple[int, ...]:
    """Bounds of a band's cells, from quantiles of one side's values; the least one bounds none."""
    return tuple(sorted({int(value) for value in quantiles})[1:])


def imbalance(loads: Loads) -> float:
    """The busiest lane's load over the mean; 1 without any load."""
    mean = loads.total / loads.lanes
    return float(loads.by_lane.max() / mean) if mean else 1.0


def _int64(values: np.ndarray) -> np.ndarray:
    """Numbers as 64 bits in their order; integers that are larger become the largest."""
    if values.dtype.kind == "f":
        return ordered(values)
    if values.dtype == object:
        values = np.clip(values, _INT64.min, _INT64.max)
    return values.astype(np.int64)
