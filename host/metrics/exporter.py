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

from .report import Report


@dataclass(frozen=True)
class _Series:
    """Values of one metric: by label, or one alone under no label."""

    name: str
    text: str
    values: Mapping[str, float]
    label: str = ""
    total: bool = False


#: What gives the report of this moment: of one join, or of several by name.
Reports = Callable[[], Report | Mapping[str, Report]]


class ReportCollector(Collector):
    """Turns reports into metrics whenever somebody asks for them.

    Parameters
    ----------
    reports : callable
        Gives the report of this moment. Those of several joins, by name, are told apart by a label
        ``query``.
    """

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def collect(self) -> Iterable[Metric]:
        found = self._reports()
        several = None if isinstance(found, Report) else found
        named = {"": found} if isinstance(found, Report) else found
        families: dict[str, Metric] = {}
        for query, report in named.items():
            for series in _series(report):
                labels = [series.label] if series.label else []
                if several is not None:
                    labels.append("query")
                if series.name not in families:
                    kind = CounterMetricFamily if series.total else GaugeMetricFamily
                    families[series.name] = kind(series.name, series.text, labels=labels)
                for key, value in series.values.items():
                    own = [key] if series.label else []
                    families[series.name].add_metric(  # type: ignore[attr-defined]
                        own if several is None else [*own, query], value
                    )
        return families.values()


def _series(report: Report) -> Iterable[_Series]:
    """All metrics of a join."""

    def one(name: str, text: str, value: float, total: bool = True) -> _Series:
        return _Series(name, text, {"": value}, total=total)

    yield _Series("penstock_arrived_rows", "Rows that came.", report.arrived, "source", True)
    yield _Series("penstock_late_rows", "Rows that came too late.", report.late, "source", True)
    yield one("penstock_rows", "Rows delivered.", report.rows)
    yield one("penstock_evaluations", "Predicate tests executed.", report.evaluations)
    yield one(
        "penstock_pruned_pairs",
        "Predicate tests that bounds made superfluous.",
        report.pairs_pruned,
    )
    yield one("penstock_pairs_in_window", "Pairs that the window admits.", report.pairs_in_window)
    yield one(
        "penstock_window_rows", "Rows that later ones may still meet.", report.window_rows, False
    )
    yield _Series("penstock_memory_bytes", "Main memory.", report.memory_bytes, "part")
    yield _Series(
        "penstock_watermark_lag",
        "How far a source's promise lies behind its largest time, in the window's unit.",
        report.watermark_lag,
        "source",
    )
    yield _Series(
        "penstock_latency_seconds",
        "From the arrival of a pair's later tuple until it can be polled; in Spark, of a "
        "micro-batch.",
        {str(share): value for share, value in report.latency_s.items()},
        "quantile",
    )
    lanes = {lane.name: lane for lane in report.lanes}
    yield _Series(
        "penstock_lane_queue",
        "Orders that wait for a lane or run on it.",
        {name: lane.queued for name, lane in lanes.items()},
        "lane",
    )
    yield _Series(
        "penstock_lane_busy_seconds",
        "Seconds of tasks on the device.",
        {name: lane.busy_s for name, lane in lanes.items()},
        "lane",
        True,
    )
    yield _Series(
        "penstock_lane_failures",
        "Tasks that failed or hung.",
        {name: lane.failures for name, lane in lanes.items()},
        "lane",
        True,
    )
    yield _Series(
        "penstock_lane_parked",
        "1 for lanes out of service.",
        {name: int(lane.parked) for name, lane in lanes.items()},
        "lane",
    )


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
        Who may ask: by default programs on this machine.

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
        server, thread = start_http_server(port, address, registry)
    except (OSError, OverflowError) as cause:
        raise UsageError(
            f"cannot serve metrics on {address}:{port}: {cause}; choose another port, or 0 for a "
            "free one"
        ) from cause
    return MetricsServer(server.server_port, server, thread)
