"""Output rows that workers have given and that the caller has not polled."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..emit.output import RowsByArrival
from ..join.stream.outlet import Outlet
from .output_order import in_order


class Polled(NamedTuple):
    """Output rows of one checkpoint.

    Attributes
    ----------
    number : int
        Of the checkpoint that covers them. A sink that has rows of this number already replaces
        them: after a restart they are given again under the same number.
    rows : pyarrow.Table
    """

    number: int
    rows: pa.Table


class PolledPart(NamedTuple):
    """Output rows of one checkpoint, computed by one rank.

    Attributes
    ----------
    number : int
        Of the checkpoint that covers them.
    rank : int
        Rank that has computed them. After a restart another rank may give them: a sink replaces its
        rows of this number and rank.
    rows : pyarrow.Table

    Examples
    --------
    >>> number, rank, rows = penstock.workers.PolledPart(3, 0, orders)
    >>> f"checkpoint {number}, rank {rank}: {rows.num_rows} rows"
    'checkpoint 3, rank 0: 2 rows'
    """

    number: int
    rank: int
    rows: pa.Table


class Tally:
    """Counts of output rows and bytes that wait, by the number of the cut that covers them.

    Attributes
    ----------
    rows_given : int
        Rows that workers have given in all.
    """

    def __init__(self) -> None:
        self._rows: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()
        self.rows_given = 0

    def add(self, number: int, batch: pa.RecordBatch) -> None:
        """Count rows that have come."""
        self._rows[number] += batch.num_rows
        self._bytes[number] += batch.nbytes
        self.rows_given += batch.num_rows

    def drop(self, number: int) -> None:
        """Forget rows that the caller has got, or that will come again."""
        self._rows.pop(number, None)
        self._bytes.pop(number, None)

    def rows_of(self, number: int) -> int:
        """Return the rows of one number that wait."""
        return self._rows[number]

    def rows(self, most: int | None = None) -> int:
        """Return the rows that wait, up to a number."""
        return sum(n for number, n in list(self._rows.items()) if most is None or number <= most)

    def nbytes(self, most: int | None = None) -> int:
        """Return the bytes that wait, up to a number."""
        return sum(n for number, n in list(self._bytes.items()) if most is None or number <= most)


class Gathering:
    """Output without checkpoints: passed on at once, or in order once its cut is over.

    Parameters
    ----------
    outlet : Outlet
    schema : pyarrow.Schema
        Of the rows that callers get.
    ordered : bool
    """

    def __init__(self, outlet: Outlet, schema: pa.Schema, ordered: bool) -> None:
        self._outlet = outlet
        self._schema = schema
        self._ordered = ordered
        self._held: defaultdict[int, list[pa.RecordBatch]] = defaultdict(list)
        #: By cut, the first change that completed groups which the cut covers.
        self._changes: dict[int, int] = {}

    def note(self, number: int, change: int) -> None:
        """Note a change that completes groups which a cut will cover."""
        self._changes.setdefault(number, change)

    def add(self, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Hold rows until the cut that covers them is over, or pass them on at once."""
        if self._ordered:
            self._held[number] += batches
        else:
            for batch in batches:
                self._give(number, batch)

    def over(self, number: int) -> None:
        """Pass on the held rows of a cut that is over."""
        if batches := self._held.pop(number, []):
            self._give(number, in_order(batches, self._schema))
        self._changes.pop(number, None)

    def left(self, number: int, rows: int) -> None:
        """Note for the latency that ``rows`` rows of a checkpoint can be polled now."""
        change = self._changes.pop(number, 0)
        if rows:
            self._outlet.latency.left(np.full(rows, change, np.int64), time.monotonic())

    def _give(self, number: int, batch: pa.RecordBatch) -> None:
        rows = batch.num_rows
        changes = np.full(rows, self._changes.get(number, 0), np.int64)
        self._outlet.collect(RowsByArrival(batch, changes, np.full(rows, -1, np.int64)))


def table_of(batches: Sequence[pa.RecordBatch], schema: pa.Schema, ordered: bool) -> pa.Table:
    """Return batches of all workers as one table, sorted if ``ordered``."""
    if ordered and batches:
        return pa.Table.from_batches([in_order(batches, schema)], schema)
    return pa.Table.from_batches(batches, schema)
