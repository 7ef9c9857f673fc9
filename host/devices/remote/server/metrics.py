"""A server's numbers for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ....metrics.exporter import Series, families
from .owner import DeviceOwner
from .residents import Gone
from .service import DeviceServer, Reason
from .session import ClientSession


class ServerCollector(Collector):
    """Gives a server's numbers as metrics whenever Prometheus asks.

    Parameters
    ----------
    server : DeviceServer
    """

    def __init__(self, server: DeviceServer) -> None:
        self._server = server

    def collect(self) -> Iterable[Metric]:
        return families(self._series())

    def _series(self) -> Iterator[Series]:
        server, owners = self._server, self._server.owners
        ended = {(reason.name.lower(),): server.ended[reason] for reason in Reason}
        yield _series("sessions_ended", "Sessions that ended, by reason.", ended, "reason")
        sessions = server.sessions()
        by_device = {name: _values(owner, sessions) for name, owner in owners.items()}
        for place, (name, text, total) in enumerate(_BY_DEVICE):
            values = {(device,): of_device[place] for device, of_device in by_device.items()}
            yield _series(name, text, values, "device", total=total)
        requests = {
            (d, k): n for d, owner in owners.items() for k, n in owner.residents.counts.items()
        }
        text = "Windows asked for by name: hits that were there, loads that were not."
        yield _series("resident_asked", text, requests, "device", "found")
        dropped = {
            (device, reason.name.lower()): owner.residents.dropped[reason]
            for device, owner in owners.items()
            for reason in Gone
        }
        text = "Windows that are no longer kept by name, by reason."
        yield _series("resident_gone", text, dropped, "device", "reason")


_COUNTERS = {
    "tasks": "Tasks that ended, failures included.",
    "failures": "Tasks that failed.",
    "evaluations": "Predicate tests executed.",
    "window_rows": "Rows of windows that came from clients.",
}
#: Name and text of each device's metrics, and whether they only grow; see :func:`_values`.
_BY_DEVICE = (
    ("clients", "Clients that hold a session.", False),
    ("window_bytes", "Bytes of windows.", False),
    ("waiting_tasks", "Tasks that wait for their turn.", False),
    ("running_tasks", "Tasks on the device.", False),
    *((name, text, True) for name, text in _COUNTERS.items()),
    ("resident_windows", "Windows kept by name.", False),
    ("resident_bytes", "Bytes of windows kept by name.", False),
)


def _values(owner: DeviceOwner, sessions: Sequence[ClientSession]) -> Sequence[float]:
    """A value for each of :data:`_BY_DEVICE`."""
    return (
        sum(session.owner is owner for session in sessions),
        sum(owner.held().values()),
        *owner.load(),
        *(owner.counters[counter] for counter in _COUNTERS),
        *owner.residents.held(),
    )


def _series(
    name: str,
    text: str,
    values: Mapping[tuple[str, ...], float],
    *labels: str,
    total: bool = True,
) -> Series:
    return Series(f"penstock_server_{name}", text, values, labels, total)
