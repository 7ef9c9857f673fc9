"""Reports for Prometheus."""

from __future__ import annotations

import logging
import socket
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.errors import UsageError

from .report import GroupsReport, LookupReport, Report, RoutingReport, WorkerReport, lag_s

_log = logging.getLogger("penstock.metrics")

#: Begin of the names of all metrics.
PREFIX = "penstock_"
#: Seconds in which the sender of a request must say the next part of it.
_PATIENCE_S = 10.0
#: Requests at a time: Prometheus and a few people.
_REQUESTS = 16


@dataclass(frozen=True)
class Series:
    """Values of one metric.

    Parameters
    ----------
    name, text : str
        As Prometheus shows them.
    values : mapping of tuple of str to float
        Values by label values.
    labels : tuple of str
        Names of the labels.
    total : bool
        Whether it only grows.
    """

    name: str
    text: str
    values: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()
    total: bool = False


def families(all_series: Iterable[Series]) -> Iterable[Metric]:
    """Series in the form of Prometheus' client; several of one metric are put together."""
    by_name: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for series in all_series:
        if series.name not in by_name:
            kind = CounterMetricFamily if series.total else GaugeMetricFamily
            by_name[series.name] = kind(series.name, series.text, labels=series.labels)
        for labels, value in series.values.items():
            by_name[series.name].add_metric(labels, value)
    return by_name.values()


def values_by_query(metrics: Iterable[Metric]) -> dict[str, dict[str, dict[str, float]]]:
    """Numbers of Penstock's metrics, by query, metric without prefix, and label; "" for none."""
    by_query: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for sample in (sample for metric in metrics for sample in metric.samples):
        if sample.name.startswith(PREFIX):
            labels = dict(sample.labels)
            query = labels.pop("query", "")
            label = " ".join(labels.values())
            by_query[query][sample.name.removeprefix(PREFIX)][label] = sample.value
    return by_query


#: A function that gives the current report: of one join, or of several by name.
Reports = Callable[[], Report | Mapping[str, Report]]


class ReportCollector(Collector):
    """Gives reports as metrics whenever Prometheus asks.

    Parameters
    ----------
    reports : callable
        Gives the current report. Reports of several joins, by name, differ in a label ``query``.
    """

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def collect(self) -> Iterable[Metric]:
        reports = self._reports()
        if isinstance(reports, Report):
            return families(_series(reports))
        return families(
            replace(
                series,
                values={(*labels, query): value for labels, value in series.values.items()},
                labels=(*series.labels, "query"),
            )
            for query, report in reports.items()
            for series in _series(report)
        )


def _series(report: Report) -> Iterator[Series]:
    """All metrics of a join."""
    for name, text, number, total in (
        ("rows", "Rows delivered.", report.rows, True),
        ("evaluations", "Predicate tests executed.", report.evaluations, True),
        (
            "pruned_pairs",
            "Predicate tests that bounds made superfluous.",
            report.pairs_pruned,
            True,
        ),
        ("pairs_in_window", "Pairs that the window admits.", report.pairs_in_window, True),
        ("window_rows", "Rows that later ones may still meet.", report.window_rows, False),
    ):
        yield Series(f"penstock_{name}", text, {(): number}, total=total)
    for name, text, label, values, total in (
        ("arrived_rows", "Rows that came.", "source", report.arrived, True),
        ("late_rows", "Rows that came too late.", "source", report.late, True),
        ("memory_bytes", "Main memory.", "part", report.memory_bytes, False),
        (
            "watermark_lag",
            "How far a source's watermark lies behind its largest time, in the window's unit.",
            "source",
            report.watermark_lag,
            False,
        ),
        (
            "watermark_lag_seconds",
            "The same, where the window has a unit.",
            "source",
            {name: lag_s(lag, report.unit) for name, lag in report.watermark_lag.items()},
            False,
        ),
        (
            "latency_seconds",
            "From the arrival of a pair's later tuple until it can be polled; in Spark, of a "
            "micro-batch.",
            "quantile",
            report.latency_s,
            False,
        ),
    ):
        by_label = {(str(key),): value for key, value in values.items() if value is not None}
        yield Series(f"penstock_{name}", text, by_label, (label,), total)
    if report.memory_limit is not None:
        text = "Bytes that all parts of main memory may take."
        yield Series("penstock_memory_limit_bytes", text, {(): report.memory_limit})
    if report.clock is not None:
        text = "Time below which no row of a source comes, in the window's unit."
        marks = {(alias,): float(time) for alias, time in report.clock.watermarks.items()}
        yield Series("penstock_watermark", text, marks, ("source",))
    for name, text, attribute, total in (
        ("queue", "Orders that wait for a lane or run on it.", "queued", False),
        ("busy_seconds", "Seconds of tasks on the device.", "busy_s", True),
        ("failures", "Tasks that failed or hung.", "failures", True),
        ("parked", "1 for lanes out of service.", "parked", False),
    ):
        by_lane = {(lane.name,): float(getattr(lane, attribute)) for lane in report.lanes}
        yield Series(f"penstock_lane_{name}", text, by_lane, ("lane",), total)
    if report.lookup is not None:
        yield from _lookup_series(report.lookup)
    if report.routing is not None:
        yield from _routing_series(report.routing)
    if report.groups is not None:
        yield from _groups_series(report.groups)
    yield from _workers_series(report.workers)


def _workers_series(workers: Sequence[WorkerReport]) -> Iterator[Series]:
    """Metrics of worker processes."""
    for name, text, attribute, total in (
        ("rows", "Rows that a worker has folded since it began.", "rows", True),
        ("epochs", "Epochs that it has ended.", "epochs", True),
        ("delta_bytes", "Bytes of changes that it has sent to others.", "delta_bytes", True),
        ("entries", "Groups that it leads.", "entries", False),
        ("credit_waits", "Times that changes waited for a credit.", "credit_waits", True),
        (
            "clock_lag",
            "How far the last promise of all is behind its own, in the window's unit.",
            "clock_lag",
            False,
        ),
        ("clock_lag_seconds", "The same, where the window has a unit.", "clock_lag_s", False),
        ("checkpoint", "Number of its last part of a checkpoint.", "checkpoint", False),
        ("checkpoint_age_seconds", "Since the last checkpoint.", "checkpoint_age_s", False),
    ):
        values = {(str(one.rank),): getattr(one, attribute) for one in workers}
        known = {rank: float(value) for rank, value in values.items() if value is not None}
        if known:
            yield Series(f"penstock_worker_{name}", text, known, ("worker",), total)


def _groups_series(groups: GroupsReport) -> Iterator[Series]:
    """Metrics of a query over one source."""
    for name, text, number, total in (
        ("open", "Groups that have not left.", groups.open, False),
        ("timeless_rows", "Rows without an event time.", groups.timeless, True),
        ("filtered_rows", "Rows that did not pass WHERE.", groups.filtered, True),
    ):
        yield Series(f"penstock_groups_{name}", text, {(): float(number)}, total=total)


def _routing_series(routing: RoutingReport) -> Iterator[Series]:
    """Metrics of keys on lanes."""
    for name, text, number in (
        ("busiest", "Planned work of the busiest lane over the mean.", routing.busiest),
        ("entries", "Cells of keys in the routing table.", routing.entries),
        ("split", "Cells of keys that several lanes have.", routing.split),
        ("copies", "Work of split cells, once per lane but the first.", routing.copies),
        ("moved_rows", "Window rows of cells that moved with the latest plan.", routing.moved),
        ("seconds", "That the latest plan took.", routing.seconds),
    ):
        yield Series(f"penstock_routing_{name}", text, {(): float(number)})


def _lookup_series(lookup: LookupReport) -> Iterator[Series]:
    """Metrics of look-ups in a relation."""
    for name, text, number, total in (
        ("version", "Version of the relation that rows meet now.", lookup.version, False),
        ("age_seconds", "Seconds since that version was written.", lookup.age_s, False),
        ("sought", "Rows of the stream with a key.", lookup.sought, True),
        ("hits", "Rows that rows in memory answered.", lookup.hits, True),
        (
            "absent",
            "Rows whose key a filter or a page lacked.",
            lookup.absent,
            True,
        ),
        ("null_keys", "Rows whose key is NULL, which match nothing.", lookup.null_keys, True),
        ("waiting", "Rows that wait for a page.", lookup.waiting, False),
        ("pages", "Pages of the relation that were read.", lookup.pages, True),
        ("page_bytes", "Bytes of those pages.", lookup.page_bytes, True),
        ("cached", "Keys whose rows are in memory.", lookup.cached, False),
    ):
        yield Series(f"penstock_lookup_{name}", text, {(): number}, total=total)
    if lookup.nodes:
        keys = {(name,): float(number) for name, number in lookup.nodes.items()}
        text = "Keys that nodes of the relation were asked for."
        yield Series("penstock_lookup_node_keys", text, keys, ("node",), total=True)
    for name, text, number in (
        (
            "node_retries",
            "Requests that another node was asked, since one failed.",
            lookup.node_retries,
        ),
        ("alone", "Requests that no node has answered.", lookup.alone),
    ):
        yield Series(f"penstock_lookup_{name}", text, {(): number}, total=True)


class _Request(WSGIRequestHandler):
    """Answers one request, unless its sender is slow, and logs nothing."""

    #: Seconds of each wait for the sender.
    timeout = _PATIENCE_S

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingMixIn, WSGIServer):
    """Answers each request in a thread; beyond a number of requests, the oldest one is ended."""

    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        self._open: deque[socket.socket] = deque()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._open) >= _REQUESTS:
            with suppress(OSError):  # it has ended meanwhile
                self._open.popleft().shutdown(socket.SHUT_RDWR)
        self._open.append(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with suppress(ValueError):
            self._open.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("a request for metrics has failed", exc_info=True)


@dataclass(frozen=True)
class MetricsServer:
    """Metrics at ``http://127.0.0.1:port/metrics`` until it is closed."""

    port: int
    _server: WSGIServer
    _thread: Thread

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def serve_metrics(reports: Reports, port: int, address: str = "127.0.0.1") -> MetricsServer:
    """Answer Prometheus.

    Parameters
    ----------
    reports : callable
        As for :class:`ReportCollector`.
    port : int
        0 takes a free one.
    address : str
        Where to listen; by default only programs on this machine can ask.

    Raises
    ------
    UsageError
        The port is taken, or out of range.
    """
    return serve_collector(ReportCollector(reports), port, address)


def serve_collector(collector: Collector, port: int, address: str = "127.0.0.1") -> MetricsServer:
    """Answer Prometheus with the metrics of a collector; otherwise as :func:`serve_metrics`.

    Raises
    ------
    UsageError
    """
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        app = make_wsgi_app(registry)
        server = make_server(address, port, app, _Server, handler_class=_Request)
    except (OSError, OverflowError) as cause:
        raise UsageError(
            f"cannot serve metrics on {address}:{port}: {cause}; choose another port, or 0 for a "
            "free one"
        ) from cause
    thread = Thread(target=server.serve_forever, name="penstock-metrics", daemon=True)
    thread.start()
    return MetricsServer(server.server_port, server, thread)
