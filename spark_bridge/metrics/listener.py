"""Collects the figures of a session's streaming joins from Spark's reports of progress."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from pyspark.sql.streaming.listener import StreamingQueryListener

from penstock.errors import FileError
from penstock.host.metrics import LaneReport, Report
from penstock.host.metrics.exporter import MetricsServer, serve_metrics
from penstock.host.metrics.report import LookupReport, RoutingReport
from penstock.host.page.page import Page, show_reports

from ..conf import Conf
from .figures import LOOKED_UP, SUMS, BatchFigures
from .lookups import looked_up_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Latest micro-batches of a query whose figures are kept one by one.
BATCHES = 1000

#: Most queries whose figures are kept; the oldest goes first.
QUERIES = 50

#: Quantiles of the durations of micro-batches in a report.
_QUANTILES = (0.5, 0.9, 0.99)

#: Function that gives the figures of a micro-batch; by Spark's number of a query.
_recorded: dict[str, Callable[[int], BatchFigures | None]] = {}

_listeners: WeakKeyDictionary[SparkSession, JoinListener] = WeakKeyDictionary()


def records_are(query: str, figures_of: Callable[[int], BatchFigures | None]) -> None:
    """Register the function that gives a query's figures by micro-batch; called at its start."""
    _recorded.pop(query, None)
    _recorded[query] = figures_of  # the newest is the last
    while len(_recorded) > QUERIES:
        del _recorded[next(iter(_recorded))]


def watch(spark: SparkSession, port: int | None = None) -> JoinListener:
    """Collect figures of the session's streaming joins, and serve them to Prometheus.

    There is one listener per session; a second call gives the same one.

    Parameters
    ----------
    spark : SparkSession
    port : int, optional
        Of ``http://127.0.0.1:port/metrics``; 0 takes a free one. By default
        ``spark.penstock.metrics.port``; if that is empty, nothing is served.

    Returns
    -------
    JoinListener

    Raises
    ------
    UsageError
        The port is taken, or out of range.

    Examples
    --------
    >>> listener = spark_bridge.watch(spark, port=0)
    >>> listener.port > 0  # of Prometheus' page; reports() has a report for each join that runs
    True
    >>> listener.close()
    """
    listener = _listeners.get(spark)
    if listener is None or listener.is_closed:
        listener = _listeners[spark] = JoinListener(spark)
        spark.streams.addListener(listener)
    if port is None:
        port = Conf.read(spark).metrics_port
    if port is not None:
        listener.serve(port)
    return listener


class Query:
    """Figures of a query since it was started here."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: deque[BatchFigures] = deque(maxlen=BATCHES)
        self._sums, self._arrived, self._late = Counter(), Counter(), Counter()
        self._lookups: Counter[str] = Counter()
        self._nodes: Counter[str] = Counter()
        self._busy: defaultdict[str, float] = defaultdict(float)

    def add(self, batch: BatchFigures) -> None:
        self.batches.append(batch)
        self._sums.update({name: getattr(batch, name) for name in SUMS})
        self._arrived.update(batch.arrived)
        self._late.update(batch.late)
        if batch.lookup is not None:
            self._lookups.update({name: getattr(batch.lookup, name) for name in LOOKED_UP})
            self._nodes.update(batch.lookup.nodes)
        for shard, seconds in batch.busy_s.items():
            self._busy[shard] += seconds

    def report(self) -> Report:
        latest = self.batches[-1]
        took = [batch.seconds for batch in self.batches]
        return Report(
            arrived=dict(self._arrived),
            late=dict(self._late),
            rows=self._sums["rows"],
            evaluations=self._sums["evaluations"],
            pairs_pruned=self._sums["pairs_pruned"],
            pairs_in_window=self._sums["pairs_in_window"],
            window_rows=latest.window_rows,
            memory_bytes={"windows" if latest.lookup is None else "relation": latest.window_bytes},
            watermark_lag=latest.watermark_lag,
            unit=latest.unit,
            latency_s={share: float(np.quantile(took, share)) for share in _QUANTILES},
            lanes=tuple(LaneReport(n, 0, s, 0, False) for n, s in sorted(self._busy.items())),
            lookup=self._lookup(latest),
            routing=None if latest.routing is None else RoutingReport(**latest.routing),
        )

    def _lookup(self, latest: BatchFigures) -> LookupReport | None:
        now = latest.lookup
        if now is None:
            return None
        sums = {name: self._lookups[name] for name in LOOKED_UP}
        return replace(
            now, age_s=max(0.0, time.time() - now.created), nodes=dict(self._nodes), **sums
        )


class JoinListener(StreamingQueryListener):
    """Gets Spark's report of each micro-batch; made by :func:`watch`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.is_closed = False
        self._queries: dict[str, Query] = {}
        self._unknown: deque[Any] = deque(maxlen=BATCHES)
        self._server: MetricsServer | None = None
        self._lock = threading.Condition()

    # -- what Spark calls -------------------------------------------------------------------------

    def onQueryStarted(self, event: Any) -> None:
        """Nothing: the query has no figures yet."""

    def onQueryProgress(self, event: Any) -> None:
        with self._lock:
            self._unknown.append(event.progress)
            self._take_reports()
            self._lock.notify_all()

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing: figures of ended queries are kept."""

    # -- what users call --------------------------------------------------------------------------

    @property
    def port(self) -> int | None:
        """Port at which Prometheus is answered; None if it is not."""
        return None if self._server is None else self._server.port

    def batches(self, query: Any) -> list[BatchFigures]:
        """Micro-batches of a query since it was started here, the latest 1,000.

        Parameters
        ----------
        query : StreamingQuery or str
            Or its ``id``.
        """
        with self._lock:
            figures = self._query(query)
            return [] if figures is None else list(figures.batches)

    def wait(self, query: Any, batch: int, timeout_s: float) -> bool:
        """Wait until Spark has reported a micro-batch, which it does some time after its end.

        Parameters
        ----------
        query : StreamingQuery or str
            Or its ``id``.
        batch : int
        timeout_s : float

        Returns
        -------
        bool
            False if it was not in time.
        """

        def is_reported() -> bool:
            figures = self._query(query)
            return figures is not None and figures.batches[-1].batch >= batch

        with self._lock:
            return self._lock.wait_for(is_reported, timeout_s)

    def reports(self) -> Mapping[str, Report]:
        """Figures of each query, by its name, or by its number if it has no name."""
        with self._lock:
            self._take_reports()
            return {query.name: query.report() for query in self._queries.values()}

    def serve(self, port: int) -> MetricsServer:
        """Answer Prometheus, if that is not done already.

        Raises
        ------
        UsageError
        """
        if self._server is None:
            self._server = serve_metrics(self.reports, port)
        return self._server

    def page(self, port: int = 0, *, address: str = "127.0.0.1", token: str | None = None) -> Page:
        """Show the session's streaming joins on a page, until the listener or the page is closed.

        Otherwise as :meth:`penstock.RunningQuery.page`.
        """
        return show_reports(
            self.reports, port, address, token, name="Spark", ended=lambda: self.is_closed
        )

    def close(self) -> None:
        """Take no more reports, and stop answering."""
        self.is_closed = True
        self._spark.streams.removeListener(self)
        if self._server is not None:
            self._server.close()
            self._server = None

    # -- figures ----------------------------------------------------------------------------------

    def _query(self, query: Any) -> Query | None:
        self._take_reports()
        return self._queries.get(str(getattr(query, "id", query)))

    def _take_reports(self) -> None:
        """Take in those reports whose figures can be found now."""
        for _ in range(len(self._unknown)):
            progress = self._unknown.popleft()
            number = str(progress.id)
            figures = self._figures(number, progress)
            if figures is None:
                # Perhaps start() has not registered the query yet, or it is no join.
                if number not in _recorded:
                    self._unknown.append(progress)
                continue
            query = self._queries.setdefault(number, Query(progress.name or number))
            if len(self._queries) > QUERIES:
                self._queries.pop(next(iter(self._queries)))
            seconds = progress.durationMs.get("triggerExecution", 0) / 1000
            query.add(replace(figures, seconds=seconds))

    def _figures(self, number: str, progress: Any) -> BatchFigures | None:
        figures = looked_up_in(progress.batchId, progress.observedMetrics)
        if figures is None and number in _recorded:
            try:
                figures = _recorded[number](progress.batchId)
            except FileError:
                return None
            seen = self._queries.get(number)
            # Spark also reports triggers without a batch, with the number of the batch before.
            if figures and seen and seen.batches and seen.batches[-1].batch >= figures.batch:
                return None
        return figures
