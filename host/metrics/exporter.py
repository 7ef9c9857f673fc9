"""Reports for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.errors import UsageError
from penstock.host.metrics.report import Report


class ReportCollector(Collector):
    """Turns a report into metrics whenever somebody asks for them.

    Parameters
    ----------
    report : callable
        Gives the report of this moment.
    """

    def __init__(self, report: Callable[[], Report]) -> None:
        self._report = report

    def collect(self) -> Iterable[Metric]:
        report = self._report()
        yield _by("source", "penstock_arrived_rows", "Rows that came.", report.arrived, True)
        yield _by("source", "penstock_late_rows", "Rows that came too late.", report.late, True)
        yield CounterMetricFamily("penstock_rows", "Rows delivered.", report.rows)
        yield CounterMetricFamily(
            "penstock_evaluations", "Predicate tests executed.", report.evaluations
        )
        yield CounterMetricFamily(
            "penstock_pruned_pairs", "Predicate tests that bounds made superfluous.",
            report.pairs_pruned,
        )  # fmt: skip
        yield CounterMetricFamily(
            "penstock_pairs_in_window", "Pairs that the window admits.", report.pairs_in_window
        )
        yield GaugeMetricFamily(
            "penstock_window_rows", "Rows that later ones may still meet.", report.window_rows
        )
        yield _by("part", "penstock_memory_bytes", "Main memory.", report.memory_bytes)
        yield _by(
            "source",
            "penstock_watermark_lag",
            "How far a source's promise lies behind its largest time, in the window's unit.",
            report.watermark_lag,
        )
        yield _by(
            "quantile",
            "penstock_latency_seconds",
            "From the arrival of a pair's later tuple until it can be polled.",
            {str(share): value for share, value in report.latency_s.items()},
        )
        lanes = {lane.name: lane for lane in report.lanes}
        yield _by(
            "lane", "penstock_lane_queue", "Orders that wait for a lane or run on it.",
            {name: lane.queued for name, lane in lanes.items()},
        )  # fmt: skip
        yield _by(
            "lane", "penstock_lane_busy_seconds", "Seconds of tasks on the device.",
            {name: lane.busy_s for name, lane in lanes.items()}, True,
        )  # fmt: skip
        yield _by(
            "lane", "penstock_lane_failures", "Tasks that failed or hung.",
            {name: lane.failures for name, lane in lanes.items()}, True,
        )  # fmt: skip
        yield _by(
            "lane", "penstock_lane_parked", "1 for lanes out of service.",
            {name: int(lane.parked) for name, lane in lanes.items()},
        )  # fmt: skip


def _by(
    label: str, name: str, text: str, values: Mapping[str, float], total: bool = False
) -> Metric:
    """A metric with one label; ``total`` for what only grows."""
    family = (CounterMetricFamily if total else GaugeMetricFamily)(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


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


def serve_metrics(
    report: Callable[[], Report], port: int, address: str = "127.0.0.1"
) -> MetricsServer:
    """Answer Prometheus.

    Parameters
    ----------
    report : callable
        Gives the report of this moment.
    port : int
        0 takes a free one.
    address : str
        Who may ask: by default programs on this machine.

    Raises
    ------
    UsageError
        The port is taken, or out of range.
    """
    return serve_collector(ReportCollector(report), port, address)


def serve_collector(collector: Collector, port: int, address: str = "127.0.0.1") -> MetricsServer:
    """Answer Prometheus with the metrics of a collector; otherwise as :func:`serve_metrics`.

    Raises
    ------
    UsageError
    """
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = start_http_server(port, address, registry)
    except (OSError, OverflowError) as cause:
        raise UsageError(
            f"cannot serve metrics on {address}:{port}: {cause}; choose another port, or 0 for a "
            "free one"
        ) from cause
    return MetricsServer(server.server_port, server, thread)
