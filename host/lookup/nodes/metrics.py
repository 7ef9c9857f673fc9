"""A node's numbers for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ...metrics.exporter import Series, families
from .node_service import LookupNode


class NodeCollector(Collector):
    """Gives a node's numbers as metrics whenever Prometheus asks.

    Parameters
    ----------
    node : LookupNode
    """

    def __init__(self, node: LookupNode) -> None:
        self._node = node

    def collect(self) -> Iterable[Metric]:
        return families(self._series())

    def _series(self) -> Iterator[Series]:
        node = self._node
        counts, answers, sent = node.counts, node.answers.counts, node.forwarding.counts
        for source, number in (("client", counts.entered), ("node", counts.forwarded_in)):
            yield _one("requests", "Requests, by who asked.", number, source=source)
        keys = {"own": sent.owned, "hot": sent.hot, "forwarded": sent.forwarded}
        keys |= {"instead": sent.instead, "forwarded_in": counts.keys_in}
        text = (
            "Keys that were asked for: own, hot ones of others that were answered here, forwarded "
            "to others, answered instead of others, and forwarded by others."
        )
        for how, number in keys.items():
            yield _one("keys", text, number, how=how)
        for name, text, number in (
            ("retries", "Requests that another node was asked, or nobody else.", sent.retries),
            ("failed", "Requests that were answered with an error.", counts.failed),
            ("refused", "Connections of another release, relation or token.", counts.refused),
            ("hits", "Keys whose rows were in memory.", answers.hits),
            ("absent", "Keys that the relation lacks.", answers.absent),
            ("older", "Keys of a version that is not the newest one.", answers.older),
            ("pages", "Pages of the relation that were read.", answers.pages),
            ("page_bytes", "Bytes of those pages.", answers.page_bytes),
        ):
            yield _one(name, text, number)
        rooms = node.rooms.values()
        for name, text, number in (
            ("version", "Newest version of the relation here.", node.answers.version.number),
            ("ring", "Number of the ring that it goes by.", node.known_ring.number),
            ("connections", "Connections now.", node.connections()),
            ("cached", "Keys whose rows are in memory.", node.answers.cached),
            ("kept_bytes", "Bytes of rows in memory.", node.answers.kept_bytes),
            ("request_bytes", "Bytes of requests now.", sum(room.used for room in rooms)),
            ("waiting", "Requests that wait for room.", sum(room.waiting for room in rooms)),
        ):
            yield _one(name, text, number, total=False)


def _one(name: str, text: str, number: float, *, total: bool = True, **labels: str) -> Series:
    values = {tuple(labels.values()): float(number)}
    return Series(f"penstock_node_{name}", text, values, tuple(labels), total)
