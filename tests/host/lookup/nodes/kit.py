"""Nodes for tests: in this process, each with a relation of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from penstock.host.lookup.nodes.node_service import LookupNode
from penstock.host.lookup.nodes.peers import Patience
from penstock.host.lookup.nodes.record import change_ring
from penstock.host.lookup.nodes.ring import Node, Ring
from penstock.host.relation import open_relation
from penstock.host.relation.folder.reading import file_store
from penstock.host.wire.address import Address

#: For tests in which nobody answers.
HASTY = Patience(connect_s=0.5, answer_s=1.0, rest_s=0.05, most_rest_s=0.2)


def node_at(
    location: str,
    name: str,
    address: str,
    *,
    memory_bytes: int = 16 << 20,
    token: str | None = None,
    patience: Patience | None = None,
) -> LookupNode:
    """A node in this process; the caller closes it."""
    return LookupNode(
        open_relation(location),
        file_store(location),
        name,
        Address.parsed(address),
        token=token,
        memory_bytes=memory_bytes,
        patience=patience,
    )


def set_ring(location: str, nodes: Sequence[Node]) -> Ring:
    """Write that a relation has these nodes, whichever it had."""
    return change_ring(file_store(location), lambda old: Ring(old.number if old else 0, nodes))


@contextmanager
def sockets(count: int) -> Iterator[list[Node]]:
    """Names and addresses of nodes that do not run yet."""
    with tempfile.TemporaryDirectory(prefix="pen") as folder:
        yield [Node(name, f"unix://{Path(folder) / name}") for name in "abcdefgh"[:count]]


@contextmanager
def nodes_of(
    location: str,
    count: int,
    *,
    memory_bytes: int = 16 << 20,
    patience: Patience | None = None,
) -> Iterator[list[LookupNode]]:
    """Nodes of a relation, which are in its ring."""
    with sockets(count) as places, ExitStack() as stack:
        found = []
        for place in places:
            node = node_at(
                location, place.name, place.address, memory_bytes=memory_bytes, patience=patience
            )
            stack.callback(node.close, 5)
            found.append(node)
        number = set_ring(location, places).number
        for node in found:
            node.known_ring.ring(number)
        yield found
