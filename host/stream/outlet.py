"""The rows that a join has given and nobody has taken yet."""

from __future__ import annotations

import time
from collections import deque

import pyarrow as pa

from penstock.host.batch_bytes import byte_counter
from penstock.host.budget import RESULTS, Budget
from penstock.host.metrics import Latency
from penstock.host.postprocess.output import Rows


class Outlet:
    """Holds output rows until they are polled.

    Parameters
    ----------
    budget : Budget
        Counts their bytes.
    latency : Latency
        Is told when pairs leave.
    schema : pyarrow.Schema
        Of the rows.
    """

    def __init__(self, budget: Budget, latency: Latency, schema: pa.Schema) -> None:
        self.budget = budget
        self.latency = latency
        self._bytes = byte_counter(schema)
        self._results: deque[pa.RecordBatch] = deque()

    @property
    def rows(self) -> int:
        """Rows that can be polled."""
        return sum(batch.num_rows for batch in list(self._results))

    def collect(self, rows: Rows) -> None:
        """Rows leave the join."""
        pairs = rows.later[rows.later != rows.earlier]  # others waited for their window to close
        self.latency.left(pairs, time.monotonic())
        self.budget.add(RESULTS, self._bytes(rows.batch))
        self._results.append(rows.batch)

    def take(self) -> list[pa.RecordBatch]:
        """All rows there are, each once."""
        found = []
        while self._results:
            found.append(self._results.popleft())
        self.budget.add(RESULTS, -sum(map(self._bytes, found)))
        return found
