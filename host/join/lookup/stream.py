"""A running join of a stream with a relation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock import arguments
from penstock.errors import PenstockError, UsageError, memory_explained
from penstock.plan.lookup import LookupPlan

from ...device.base import Device
from ...execute.stats import Stats
from ...execute.trace import Trace
from ...metrics import Latency, Report
from ...relation.border import Relation
from ...rows.received import one_batch
from ...windows.feeds import ONLY
from ...windows.source import Moment, Span
from ..stream.flow import Flow
from ..stream.running_query import RunningQuery
from ..stream.serial import closed_error
from .lookup_join import LookupOptions
from .opening import open_lookup
from .report import report

#: Share of the latency target after which waiting rows are answered; the rest is for their answer.
_DUE = 0.5
#: Seconds between looks at rows that wait, while a caller waits for output.
_LOOK_S = 0.005


class LookupStream(RunningQuery[pa.Table]):
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
    Calls are done one after the other. Rows are answered in ``push``, ``poll``, ``wait``, ``flush``
    and ``close``: there is no thread beside.
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
        self.trace = Trace(False)
        self._schema, self._close_owned = schema, close
        self._lock = threading.RLock()
        self._latency = Latency()
        self._join = open_lookup(plan, schema, relation, devices, options, latency=self._latency)
        self._out: list[pa.RecordBatch] = []
        self._since: float | None = None  # when the first row came that may wait
        self._closed = False

    @property
    def schema(self) -> pa.Schema:
        return self._join.schema

    @property
    def stats(self) -> Stats:
        return self._join.stats

    def register(self, source: str, feed: str, disorder: Span | None = None) -> None:
        raise _timeless("register")

    def deregister(self, source: str, feed: str) -> None:
        raise _timeless("deregister")

    def push(self, source: str, batch: Any, *, feed: str = ONLY) -> None:
        self._require_unnamed(feed)
        self._require_stream(arguments.text("source", source))
        with self._lock, memory_explained():
            self._require_open()
            one = one_batch(batch, self._schema, source)
            self._since = self._since or time.monotonic()
            self._collect(self._join.push(one))
            self._answer_due(everything=not self.flow.latency_s)

    def pushed(self, source: str, feed: str | None = None) -> int:
        self._require_stream(arguments.text("source", source))
        self._require_unnamed(feed or ONLY)
        return self._join.batches_in

    def poll(self) -> pa.Table:
        with self._lock:
            try:
                self._answer_due(everything=False)
            except PenstockError:
                if not self._out:
                    raise
            return self._take_output()

    def late(self) -> dict[str, pa.Table]:
        """Return no rows per source, since a row of the stream has no time."""
        return {self.plan.outer.alias: self._schema.empty_table()}

    def advance(self, source: str, time_: Moment, *, feed: str = ONLY) -> None:
        raise _timeless("advance")

    def wait(self, rows: int, timeout_s: float) -> bool:
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
        with self._lock:
            self._require_open()
            self._answer_due(everything=True)

    def report(self) -> Report:
        with self._lock:
            return report(self._join, self._latency.quantiles())

    def close(self) -> pa.Table:
        with self._lock:
            if not self._closed:
                self._answer_due(everything=True)
                self._free()
            return self._take_output()

    def _free(self) -> None:
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
            raise closed_error()

    def _require_unnamed(self, feed: str) -> None:
        if arguments.text("feed", feed) != ONLY:
            raise _timeless(f"feed={feed!r}")

    def _require_stream(self, source: str) -> None:
        outer, inner = self.plan.outer, self.plan.inner
        if source.lower() in (inner.alias.lower(), inner.table.lower()):
            raise UsageError(
                f"{source} is the relation, whose rows come from its file; push rows of "
                f"{outer.alias}"
            )
        if source.lower() not in (outer.alias.lower(), outer.table.lower()):
            raise UsageError(f"there is no source {source}; push rows of {outer.alias}")


def _timeless(call: str) -> UsageError:
    """Return the error for a call, or an argument, that tells of the time of rows."""
    return UsageError(
        f"a join with a relation has no window, so no row waits for a later one; leave {call} out"
    )
