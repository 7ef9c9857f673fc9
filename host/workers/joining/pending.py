"""Pending rows of a join: they have come, and no step has taken them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, RIGHT, JoinQuery, Side

from ...grouping.event_times import read_times
from ..output_order import FEED, PLACE


@dataclass(frozen=True)
class DueRows:
    """Rows of one side that a step takes, all with an event time.

    Parameters
    ----------
    rows : pyarrow.Table
    times : ndarray of int64, optional
        Of the rows; None if the rows are in order.
    """

    rows: pa.Table
    times: np.ndarray | None = None

    def in_order(self) -> pa.Table:
        """Return the rows by time, feed and place."""
        if self.times is None:
            return self.rows
        return self.rows.take(pa.array(order_of(self.rows, self.times)))


class PendingSide:
    """Pending rows of one side, in any order.

    Parameters
    ----------
    side : Side
    schema : pyarrow.Schema
        Of shipped rows.
    """

    def __init__(self, side: Side, schema: pa.Schema) -> None:
        self._side, self._schema = side, schema
        self._timed: list[pa.RecordBatch] = []
        self._times: list[np.ndarray] = []
        #: Rows whose event time is NULL.
        self.timeless: list[pa.RecordBatch] = []
        self.rows = self.nbytes = 0

    def add(self, batch: pa.RecordBatch) -> np.ndarray:
        """Add rows; return their event times, without NULLs."""
        read = read_times(self._side, batch)
        if read.rows is not None:
            alone = np.ones(batch.num_rows, bool)
            alone[read.rows] = False
            self.timeless.append(batch.filter(pa.array(alone)))
            self._count(self.timeless[-1:])
            batch = batch.take(pa.array(read.rows))
        if len(read.times):
            self._timed.append(batch)
            self._times.append(read.times)
            self._count([batch])
        return read.times

    def without_time(self) -> pa.Table:
        """Take out the rows that have no time."""
        rows, self.timeless = pa.Table.from_batches(self.timeless, self._schema), []
        self._count_anew()
        return rows

    def below(self, time: int) -> DueRows:
        """Take out the rows below a time."""
        times = np.concatenate(self._times) if self._times else np.zeros(0, np.int64)
        rows = pa.Table.from_batches(self._timed, self._schema)
        is_due = times < time
        self._timed, self._times = [], []
        if not is_due.all():
            self._times = [times[~is_due]]
            self._timed = rows.filter(pa.array(~is_due)).combine_chunks().to_batches()
            rows, times = rows.filter(pa.array(is_due)), times[is_due]
        self._count_anew()
        return DueRows(rows, times)

    def with_time(self) -> list[tuple[pa.RecordBatch, np.ndarray]]:
        """Return the rows that have a time, and their times."""
        cuts = np.cumsum([batch.num_rows for batch in self._timed])[:-1]
        times = np.split(np.concatenate(self._times), cuts) if self._timed else []
        return list(zip(self._timed, times, strict=True))

    def batches(self) -> list[pa.RecordBatch]:
        """Return all rows."""
        return [*self._timed, *self.timeless]

    def _count(self, batches: Sequence[pa.RecordBatch]) -> None:
        self.rows += sum(batch.num_rows for batch in batches)
        self.nbytes += sum(batch.nbytes for batch in batches)

    def _count_anew(self) -> None:
        self.rows = self.nbytes = 0
        self._count(self.batches())


#: Rows that a step takes, by side: rows with a time, and rows without.
StepRows = dict[str, tuple[DueRows, pa.Table]]


class PendingRows:
    """Pending rows of both sides, which wait for the clock to pass them.

    Parameters
    ----------
    query : JoinQuery
        With event times.
    schemas : sequence of pyarrow.Schema
        Of shipped rows, by source.
    """

    def __init__(self, query: JoinQuery, schemas: Sequence[pa.Schema]) -> None:
        self.sides = {
            side: PendingSide(query.side(side), schema)
            for side, schema in zip((LEFT, RIGHT), schemas, strict=True)
        }

    def add(self, side: str, batch: pa.RecordBatch) -> np.ndarray:
        """Add rows of a side; return their event times, without NULLs."""
        return self.sides[side].add(batch)

    def take(self, clock: int) -> tuple[StepRows, int]:
        """Take out the rows of a step, once no row below the clock comes; also the step's time."""
        due = {s: (rows.below(clock), rows.without_time()) for s, rows in self.sides.items()}
        return due, clock

    def batches(self, side: str) -> list[pa.RecordBatch]:
        """Return all rows of a side."""
        return self.sides[side].batches()

    def with_time(self, side: str) -> list[tuple[pa.RecordBatch, np.ndarray]]:
        """Return the rows of a side that have a time, and their times."""
        return self.sides[side].with_time()

    def without_time(self, side: str) -> list[pa.RecordBatch]:
        """Return the rows of a side that have no time."""
        return self.sides[side].timeless

    @property
    def rows(self) -> int:
        return sum(side.rows for side in self.sides.values())

    @property
    def nbytes(self) -> int:
        return sum(side.nbytes for side in self.sides.values())


def order_of(rows: pa.Table, times: np.ndarray) -> np.ndarray:
    """Return the order of rows by time, feed and place."""
    places, feeds = (rows.column(name).to_numpy() for name in (PLACE, FEED))
    return np.lexsort((places, feeds, times))
