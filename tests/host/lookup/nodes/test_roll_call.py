"""Whether nodes answer, with one of every kind that does not."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pyarrow as pa
import pytest

from penstock.errors import VersionError
from penstock.host.lookup.nodes.peers import Caller
from penstock.host.lookup.nodes.ring import Node, Ring
from penstock.host.lookup.nodes.roll_call import call_roll
from penstock.host.relation import RelationOptions, build, open_relation
from penstock.host.wire.address import Address
from penstock.host.wire.errors import error_header
from penstock.host.wire.handshake import other_version
from penstock.host.wire.listening import Connection, Listener
from tests.host.lookup.nodes.kit import HASTY, node_at, set_ring, sockets


@pytest.fixture
def place(tmp_path) -> str:
    place = str(tmp_path / "r.rel")
    build(pa.table({"id": range(100)}), place, RelationOptions(key=("id",)))
    return place


def caller(place: str) -> Caller:
    with closing(open_relation(place)) as relation:
        return Caller("test", relation.id, relation.name, relation.schema, patience=HASTY)


@contextmanager
def answering(address: str, answer: dict) -> Iterator[None]:
    """A server that has this answer to every greeting."""

    def serve(connection: Connection) -> None:
        connection.frames.receive()
        connection.frames.send(answer)

    listener = Listener(serve, Address.parsed(address), 8)
    try:
        yield
    finally:
        listener.close(5)


def test_an_empty_ring_has_nobody(place):
    assert call_roll(caller(place), Ring(3, ())) == []


def test_a_node_says_its_name_and_ring(place):
    with sockets(1) as places, closing(node_at(place, "a", places[0].address)) as node:
        ring = set_ring(place, places)
        (behind,) = call_roll(caller(place), ring)
        assert behind.answers
        assert (behind.called, behind.ring, behind.message) == ("a", 0, "")
        node.known_ring.ring(ring.number)
        assert call_roll(caller(place), ring)[0].ring == ring.number


def test_reasons_are_a_word(place, tmp_path):
    other = str(tmp_path / "other.rel")
    build(pa.table({"id": range(100)}), other, RelationOptions(key=("id",)))
    refusal = {"error": error_header(VersionError(other_version(5, "0.1")))}
    with ExitStack() as stack:
        places = stack.enter_context(sockets(4))
        stack.enter_context(closing(node_at(other, "a", places[0].address)))
        stack.enter_context(answering(places[1].address, refusal))
        stack.enter_context(answering(places[2].address, {"protocol": 5, "version": "0.1"}))
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(8)]
        hung = [
            Node(f"h{k}", f"tcp://127.0.0.1:{s.getsockname()[1]}") for k, s in enumerate(silent)
        ]
        gone = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = gone.getsockname()[1]
        gone.close()
        refusing = Node("refusing", f"tcp://127.0.0.1:{port}")
        began = time.monotonic()
        ring = Ring(1, [*places, refusing, *hung])
        named = [node.name for node in ring.nodes]
        states = dict(zip(named, call_roll(caller(place), ring), strict=True))
        took_s = time.monotonic() - began
    assert {name: state.reason for name, state in states.items()} == {
        "a": "another relation",
        "b": "another version of Penstock",
        "c": "another version of Penstock",
        "d": "no socket",
        "refusing": "refused",
        **{node.name: "timed out" for node in hung},
    }
    assert not any(state.answers or state.ring is not None for state in states.values())
    assert "install the same version of penstock" in states["b"].message
    # All at once: one after the other, those that hang would take 4 s.
    assert took_s < 2 * HASTY.connect_s + 2
