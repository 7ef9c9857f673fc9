"""Output rows of a join that have not been polled yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.errors import memory_explained

from ...emit.output import RowsByArrival
from ...execute.budget import RESULTS, Budget
from ...metrics import Latency
from ...rows.batch_bytes import byte_counter
from .handover import Handover


class Outlet:
    """Holds output rows until they are polled.

    Parameters
    ----------
    budget : Budget
        Counts their bytes.
    latency : Latency
        Notes when pairs leave.
    schema : pyarrow.Schema
        Schema of the rows.
    """

    def __init__(self, budget: Budget, latency: Latency, schema: pa.Schema) -> None:
        self.budget = budget
        self.latency = latency
        self.schema = schema
        self._bytes = byte_counter(schema)
        self._results: Handover[pa.RecordBatch] = Handover()
        budget.watch(RESULTS, lambda: self._results.left.nbytes)

    @property
    def rows(self) -> int:
        """Number of rows that can be polled."""
        return self._results.left.rows

    def collect(self, rows: RowsByArrival) -> None:
        """Add rows that leave the join."""
        pairs = rows.later[rows.later != rows.earlier]  # others waited for their window
        self.latency.left(pairs, time.monotonic())
        self._results.put(rows.batch, rows.batch.num_rows, self._bytes(rows.batch))
        self.budget.note()

    def take(self, if_none: Callable[[], None]) -> pa.Table:
        """Take all rows, each once; call ``if_none`` first if there are none.

        As for :meth:`Handover.take`.
        """

        def table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
            if not batches:
                if_none()
            with memory_explained():
                return pa.Table.from_batches(batches, self.schema)

        return self._results.take(table)
