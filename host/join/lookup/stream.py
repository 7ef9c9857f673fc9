"""A running join of a stream with a relation: the calls that users make."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa

from penstock import arguments
from penstock.errors import PenstockError, UsageError, memory_explained, warn_untaken
from penstock.plan.lookup import LookupPlan

from ...device.base import Device
from ...metrics import Latency, MetricsServer, Report, serve_metrics
from ...relation.border import Relation
from ...rows.received import one_batch
from ...windows.source import Moment
from ..stream.calls import QUANTILES
from ..stream.flow import Flow
from .lookup_join import LookupOptions
from .opening import open_lookup
from .report import report

#: Share of the latency target after which waiting rows are answered; the rest is for their answer.
_DUE = 0.5
#: Seconds between looks at rows that wait, while a caller waits for output.
_LOOK_S = 0.005


class LookupStream:
    """A running join of a stream with a relation.

    Parameters
    ----------
    plan : LookupPlan
    schema : pyarrow.Schema
        Of the stream's batches.
    relation : Relation
    devices : sequence of Device
    options : LookupOptions
    flow : Flow
        With a latency target, rows whose keys are not in memory wait for others that want the same
        pages, about half of that time at most.
    close : callable
        Closes the relation, and devices that are the stream's own.

    Notes
    -----
    Any thread may call any method; calls are done one after the other. Rows are answered in
    ``push``, ``poll``, ``wait``, ``flush`` and ``close``: there is no thread beside.
    """

    def __init__(
        self,
        plan: LookupPlan,
        schema: pa.Schema,
        relation: Relation,
        devices: Sequence[Device],
        options: LookupOptions,
        flow: Flow,
        *,
        close: Callable[[], None],
    ) -> None:
        plan.require_per_row()
        self.plan, self.flow = plan, flow
        self._schema, self._close_owned = schema, close
        self._lock = threading.RLock()
        self._latency = Latency()
        self._join = open_lookup(plan, schema, relation, devices, options, latency=self._latency)
        self._out: list[pa.RecordBatch] = []
        self._since: float | None = None  # when the first row came that may wait
        self._closed = False

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._join.schema

    def push(self, source: str, batch: Any) -> None:
        """Push the next rows of the stream; all meet the same version of the relation.

        Raises
        ------
        UsageError
            The source is not the stream, or the stream is closed.
        SchemaError
            The batch lacks a column, or the type of a column does not hold its values.
        FileError
            The relation cannot be read. Rows that were taken are answered by a later call, once it
            can be read again; :meth:`pushed` tells whether the batch was taken.
        DeviceError
            No device could run a task.
        """
        self._require_stream(arguments.text("source", source))
        with self._lock, memory_explained():
            self._require_open()
            one = one_batch(batch, self._schema, source)
            self._since = self._since or time.monotonic()
            self._collect(self._join.push(one))
            self._answer_due(everything=not self.flow.latency_s)

    def pushed(self, source: str) -> int:
        """How many batches of the stream have been taken."""
        self._require_stream(arguments.text("source", source))
        return self._join.batches_in

    def poll(self) -> pa.Table:
        """Return the joined rows since the last call, each once; in order only if so configured.

        Raises
        ------
        FileError, DeviceError
            As for :meth:`push`, and there are no earlier rows to return.
        """
        with self._lock:
            try:
                self._answer_due(everything=False)
            except PenstockError:
                if not self._out:
                    raise
            return self._take_output()

    def late(self) -> dict[str, pa.Table]:
        """Return the late rows per source: none, since a row of the stream has no time."""
        return {self.plan.outer.alias: self._schema.empty_table()}

    def advance(self, source: str, time_: Moment) -> None:
        """Refuse a promise about time, which decides nothing here.

        Raises
        ------
        UsageError
        """
        raise UsageError(
            "a join with a relation has no window, so no row waits for a later one; leave advance "
            "out"
        )

    def wait(self, rows: int, timeout_s: float) -> bool:
        """Wait until at least ``rows`` rows can be polled; return whether they can."""
        arguments.whole("rows", rows)
        arguments.seconds("timeout_s", timeout_s)
        end = time.monotonic() + timeout_s
        pause = threading.Event()
        while True:
            with self._lock:
                self._answer_due(everything=False)
                if sum(batch.num_rows for batch in self._out) >= rows:
                    return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            pause.wait(min(left, _LOOK_S))

    def flush(self) -> None:
        """Answer all pushed rows."""
        with self._lock:
            self._require_open()
            self._answer_due(everything=True)

    def report(self) -> Report:
        """Return the join's counts and state, for people and for metrics."""
        with self._lock:
            quantiles = {share: self._latency.quantile(share) for share in QUANTILES}
            return report(self._join, quantiles)

    def serve_metrics(self, port: int = 0) -> MetricsServer:
        """Serve metrics to Prometheus and to ``penstock top``; port 0 takes a free one."""
        return serve_metrics(self.report, arguments.whole("port", port, most=65_535))

    def close(self) -> pa.Table:
        """End the stream, and return the rows not yet polled. A second call returns none.

        Raises
        ------
        FileError, DeviceError
            Some rows cannot be answered. The stream stays open: rows that were answered can be
            polled, and once the relation can be read, another call answers the others.
        """
        with self._lock:
            if not self._closed:
                self._answer_due(everything=True)
                self._release()
            return self._take_output()

    def __enter__(self) -> LookupStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            untaken = self.close()
        finally:
            self._release()
        warn_untaken(untaken, error)

    def _release(self) -> None:
        """Close what the stream owns."""
        if not self._closed:
            self._closed = True
            self._close_owned()

    def _take_output(self) -> pa.Table:
        out, self._out = self._out, []
        return pa.Table.from_batches(out, self.schema)

    def _answer_due(self, *, everything: bool) -> None:
        """Answer the rows that have waited long enough."""
        if self._since is None:
            return
        if everything or time.monotonic() - self._since >= _DUE * self.flow.latency_s:
            self._collect(self._join.finish())
            self._since = None

    def _collect(self, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:  # what came before an error stays
            self._out.append(batch)

    def _require_open(self) -> None:
        if self._closed:
            raise UsageError("the stream is closed; open a new one")

    def _require_stream(self, source: str) -> None:
        outer, inner = self.plan.outer, self.plan.inner
        if source.lower() in (inner.alias.lower(), inner.table.lower()):
            raise UsageError(
                f"{source} is the relation, whose rows come from its file; push rows of "
                f"{outer.alias}"
            )
        if source.lower() not in (outer.alias.lower(), outer.table.lower()):
            raise UsageError(f"there is no source {source}; push rows of {outer.alias}")
