"""A server's numbers for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .residents import Gone
from .service import DeviceServer, Reason


class ServerCollector(Collector):
    """Turns what a server does into metrics whenever somebody asks.

    Parameters
    ----------
    server : DeviceServer
    """

    def __init__(self, server: DeviceServer) -> None:
        self._server = server

    def collect(self) -> Iterable[Metric]:
        by_device = [_family(*told, "device") for told in _BY_DEVICE]
        asked, gone = (_family(*told) for told in (_ASKED, _GONE))
        sessions = self._server.sessions()
        for name, owner in self._server.owners.items():
            values = (
                sum(session.owner is owner for session in sessions),
                sum(owner.held().values()),
                *owner.load(),
                *(owner.counters[counter] for counter in _COUNTERS),
                *owner.residents.held(),
            )
            for family, value in zip(by_device, values, strict=True):
                family.add_metric([name], value)
            for found, count in owner.residents.counts.items():
                asked.add_metric([name, found], count)
            for reason in Gone:
                gone.add_metric([name, reason.name.lower()], owner.residents.gone[reason])
        ended = _family(*_ENDED)
        for reason in Reason:
            ended.add_metric([reason.name.lower()], self._server.ended[reason])
        yield from (ended, *by_device, asked, gone)


_COUNTERS = {
    "tasks": "Tasks that ended, failures included.",
    "failures": "Tasks that failed.",
    "evaluations": "Predicate tests executed.",
    "window_rows": "Rows of windows that came from clients.",
}
#: Kind of metric, name and text of what each device has.
_BY_DEVICE = (
    (GaugeMetricFamily, "clients", "Clients that hold a session."),
    (GaugeMetricFamily, "window_bytes", "Bytes of windows."),
    (GaugeMetricFamily, "waiting_tasks", "Tasks that wait for their turn."),
    (GaugeMetricFamily, "running_tasks", "Tasks on the device."),
    *((CounterMetricFamily, name, text) for name, text in _COUNTERS.items()),
    (GaugeMetricFamily, "resident_windows", "Windows kept by name."),
    (GaugeMetricFamily, "resident_bytes", "Bytes of windows kept by name."),
)
_ASKED = (
    CounterMetricFamily,
    "resident_asked",
    "Windows asked for by name: hits that were there, loads that were not.",
    "device",
    "found",
)
_GONE = (
    CounterMetricFamily,
    "resident_gone",
    "Windows that are no longer kept by name, by reason.",
    "device",
    "reason",
)
_ENDED = (CounterMetricFamily, "sessions_ended", "Sessions that ended, by reason.", "reason")


def _family(
    kind: type[GaugeMetricFamily | CounterMetricFamily], name: str, text: str, *labels: str
) -> GaugeMetricFamily | CounterMetricFamily:
    return kind(f"penstock_server_{name}", text, labels=labels)
