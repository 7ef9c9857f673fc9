"""A server's numbers for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.host.server.residents import Gone
from penstock.host.server.service import DeviceServer, Reason


class ServerCollector(Collector):
    """Turns what a server does into metrics whenever somebody asks.

    Parameters
    ----------
    server : DeviceServer
    """

    def __init__(self, server: DeviceServer) -> None:
        self._server = server

    def collect(self) -> Iterable[Metric]:
        clients = GaugeMetricFamily(
            "penstock_server_clients", "Clients that hold a session.", labels=["device"]
        )
        memory = GaugeMetricFamily(
            "penstock_server_window_bytes", "Bytes of windows.", labels=["device"]
        )
        waiting = GaugeMetricFamily(
            "penstock_server_waiting_tasks", "Tasks that wait for their turn.", labels=["device"]
        )
        running = GaugeMetricFamily(
            "penstock_server_running_tasks", "Tasks on the device.", labels=["device"]
        )
        sums = {
            "tasks": "Tasks that ended, failures included.",
            "failures": "Tasks that failed.",
            "evaluations": "Predicate tests executed.",
            "window_rows": "Rows of windows that came from clients.",
        }
        counters = {
            name: CounterMetricFamily(f"penstock_server_{name}", text, labels=["device"])
            for name, text in sums.items()
        }
        kept = GaugeMetricFamily(
            "penstock_server_resident_windows", "Windows kept by name.", labels=["device"]
        )
        kept_bytes = GaugeMetricFamily(
            "penstock_server_resident_bytes", "Bytes of windows kept by name.", labels=["device"]
        )
        asked = CounterMetricFamily(
            "penstock_server_resident_asked",
            "Windows asked for by name: hits that were there, loads that were not.",
            labels=["device", "found"],
        )
        gone = CounterMetricFamily(
            "penstock_server_resident_gone",
            "Windows that are no longer kept by name, by reason.",
            labels=["device", "reason"],
        )
        sessions = self._server.sessions()
        for name, owner in self._server.owners.items():
            clients.add_metric([name], sum(session.owner is owner for session in sessions))
            memory.add_metric([name], sum(owner.held().values()))
            for family, value in zip((waiting, running), owner.load(), strict=True):
                family.add_metric([name], value)
            for counter, family in counters.items():
                family.add_metric([name], owner.counters[counter])
            for family, value in zip((kept, kept_bytes), owner.residents.held(), strict=True):
                family.add_metric([name], value)
            for found, count in owner.residents.counts.items():
                asked.add_metric([name, found], count)
            for reason in Gone:
                gone.add_metric([name, reason.name.lower()], owner.residents.gone[reason])
        ended = CounterMetricFamily(
            "penstock_server_sessions_ended", "Sessions that ended, by reason.", labels=["reason"]
        )
        for reason in Reason:
            ended.add_metric([reason.name.lower()], self._server.ended[reason])
        yield from (ended, clients, memory, waiting, running, *counters.values())
        yield from (kept, kept_bytes, asked, gone)
