"""Whatever fails between nodes and who asks: the rows of the folder, or a clear error."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import FileError, OverloadError, UsageError
from penstock.host.device.fields import MalformedError
from penstock.host.lookup.nodes import known_ring
from penstock.host.lookup.nodes.client import NodesRelation, open_nodes
from penstock.host.lookup.nodes.messages import KeyRequest, KeyRows
from penstock.host.lookup.nodes.node_service import RequestRoom
from penstock.host.lookup.nodes.peers import RefusedError
from penstock.host.lookup.nodes.ring import Node
from penstock.host.relation import RelationOptions, build, open_relation
from penstock.host.relation.folder.reading import file_store
from penstock.host.relation.folder.records import RING_NAMES
from penstock.host.wire.address import Address
from penstock.host.wire.handshake import new_nonce
from penstock.host.wire.listening import Connection, Listener
from tests.host.lookup.nodes.kit import HASTY, node_at, nodes_of, set_ring, sockets

ROWS = 12_000


@pytest.fixture
def place(tmp_path: Path) -> str:
    return built(tmp_path / "r.rel")


def built(folder: Path, name: str = "first") -> str:
    rows = pa.table({"id": range(ROWS), "name": [f"{name} {k}" for k in range(ROWS)]})
    build(rows, str(folder), RelationOptions(key=("id",)))
    return str(folder)


def check(asked: NodesRelation, number: int | None = None, seed: int = 1) -> None:
    """Rows of many keys are those of the folder."""
    version, folder = asked.version(number), asked.folder.version(number)
    whole = folder.read(np.arange(len(folder.index)), ["id", "name"])
    random = np.random.default_rng(seed)
    sought = np.unique(random.choice(whole.hashes, ROWS // 2))
    pages = np.unique(version.index.page_of(sought))
    found = version.read(pages, ["id", "name"], sought)
    expected = pa.Table.from_batches([whole.batch.filter(pa.array(np.isin(whole.hashes, sought)))])
    order = [("id", "ascending"), ("name", "ascending")]
    assert pa.Table.from_batches([found.batch]).sort_by(order).equals(expected.sort_by(order))
    assert (found.hashes[1:] >= found.hashes[:-1]).all()


@contextmanager
def silent(address: str) -> Iterator[None]:
    """Somebody who accepts connections and says nothing, as behind a firewall that drops."""
    listener = Listener(lambda connection: connection.frames.receive(), Address.parsed(address), 64)
    try:
        yield
    finally:
        listener.close(5)


@contextmanager
def other_release(address: str) -> Iterator[None]:
    """A node of another release of Penstock."""

    def serve(connection: Connection) -> None:
        connection.frames.receive()
        hello = {"protocol": 99, "version": "9.9", "nonce": new_nonce(), "token": False}
        connection.frames.send(hello)
        connection.frames.receive()

    listener = Listener(serve, Address.parsed(address), 64)
    try:
        yield
    finally:
        listener.close(5)


# -- who cannot be reached ----------------------------------------------------------------------


@pytest.mark.parametrize("dead", ["closed", "silent"])
def test_two_nodes_that_do_not_reach_each_other(place: str, dead: str):
    with sockets(4) as names:
        # Each is told of the other at an address where nobody answers.
        one = node_at(place, "a", names[0].address, patience=HASTY)
        one.known_ring.ring(set_ring(place, names[:3]).number)
        with closing(one), silent(names[1].address), closing(asked_of(place, [names[0]])) as asked:
            if dead == "silent":
                with silent(names[2].address):
                    check(asked)
            else:
                check(asked)
            assert asked.ask_counts.alone == 0
            assert one.forwarding.counts.instead > ROWS // 8
            assert one.forwarding.counts.forwarded == 0


def asked_of(place: str, nodes: Sequence[Node]) -> NodesRelation:
    return open_nodes(place, [node.address for node in nodes], patience=HASTY)


def test_the_next_owner_is_asked(place: str):
    with (
        nodes_of(place, 3, patience=HASTY) as nodes,
        closing(open_nodes(place, [str(nodes[0].address)], patience=HASTY)) as asked,
    ):
        check(asked)
        nodes[1].close(5)
        check(asked)
        counts = nodes[0].forwarding.counts
        assert counts.retries >= 1
        assert nodes[2].counts.forwarded_in >= 3
        assert asked.ask_counts.alone == 0


def test_clients_ask_the_next_node_and_then_the_folder(place: str):
    with (
        nodes_of(place, 3, patience=HASTY) as nodes,
        closing(open_nodes(place, patience=HASTY)) as asked,
    ):
        for k, node in enumerate(nodes):
            check(asked, seed=k)
            assert asked.ask_counts.alone == 0
            node.close(5)
        check(asked)
        assert asked.ask_counts.alone > 0
        assert asked.ask_counts.retries > 0


def test_a_connection_that_was_lost_is_renewed(place: str):
    with sockets(1) as names, closing(asked_of(place, names)) as asked:
        for _ in range(2):
            node = node_at(place, "a", names[0].address)
            check(asked)
            node.close(5)
        assert asked.ask_counts.alone == asked.ask_counts.retries == 0


def test_late_answers_are_not_taken(place: str):
    with (
        sockets(2) as names,
        silent(names[0].address),
        closing(node_at(place, "b", names[1].address)),
        closing(asked_of(place, names)) as asked,
    ):
        for seed in range(3):
            check(asked, seed=seed)
        assert asked.ask_counts.alone == 0
        assert set(asked.ask_counts.keys) == {"node-1"}


def test_a_node_without_room_refuses_in_time():
    room = RequestRoom(100, 0.05)
    with (
        room.reserved(1_000),
        pytest.raises(OverloadError, match="no room for 1 bytes"),
        room.reserved(1),
    ):
        pass
    with room.reserved(60), room.reserved(40):
        assert room.used == 100


def test_an_overloaded_node_is_passed_by(place: str):
    with (
        nodes_of(place, 2, patience=HASTY) as nodes,
        nodes[0].rooms[False].reserved(1 << 40),
        nodes[0].rooms[True].reserved(1 << 40),
        closing(open_nodes(place)) as asked,
    ):
        check(asked)
        assert asked.ask_counts.alone == 0


# -- who is somebody else -----------------------------------------------------------------------


def test_another_release_is_named(place: str):
    with sockets(2) as names, other_release(names[0].address):
        with (
            closing(asked_of(place, names[:1])) as asked,
            pytest.raises(RefusedError, match=r"speaks protocol.*99 \(penstock '9.9'\)"),
        ):
            check(asked)
        with (
            closing(node_at(place, "b", names[1].address)),
            closing(asked_of(place, names)) as asked,
        ):
            check(asked)  # the other one goes on


def test_another_relation_is_named(place: str, tmp_path: Path):
    other = built(tmp_path / "other.rel", "second")
    with sockets(2) as names, closing(node_at(other, "a", names[0].address)) as wrong:
        with (
            closing(asked_of(place, names[:1])) as asked,
            pytest.raises(RefusedError, match=rf"(?s){other}.*{place}"),
        ):
            check(asked)
        assert wrong.counts.refused >= 1
        with closing(node_at(place, "b", names[1].address, patience=HASTY)) as right:
            right.known_ring.ring(set_ring(place, names).number)
            with closing(asked_of(place, names[1:])) as asked:
                check(asked)
            assert right.forwarding.counts.instead > 0


def test_a_relation_that_was_built_anew(place: str, tmp_path: Path):
    with (
        sockets(1) as names,
        closing(node_at(place, "a", names[0].address)),
        closing(asked_of(place, names)) as asked,
    ):
        check(asked)
        Path(place).rename(tmp_path / "old")
        built(Path(place), "second")
        with pytest.raises(FileError, match="was built anew"):
            asked.newest()
        with closing(asked_of(place, names)) as again, pytest.raises(RefusedError):
            check(again)


@pytest.mark.parametrize("given", [None, "another token of 32 characters"])
def test_the_token_must_be_right(place: str, given: str | None):
    token = "a token of at least 16 characters"
    node = node_at(place, "a", "tcp://127.0.0.1:0", token=token)
    with closing(node):
        at = [str(node.address)]
        with closing(open_nodes(place, at, token=token)) as asked:
            check(asked)
        with (
            closing(open_nodes(place, at, token=given)) as asked,
            pytest.raises(RefusedError, match="token"),
        ):
            check(asked)


# -- the ring's record ---------------------------------------------------------------------------


def test_a_missing_record(place: str):
    with pytest.raises(UsageError, match="has no nodes; start some"):
        open_nodes(place)


def test_a_torn_record(place: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(known_ring, "LOOK_S", 0.0)
    with nodes_of(place, 2) as nodes, closing(open_nodes(place)) as asked:
        check(asked)
        before = asked.ask_counts.requests
        store = file_store(place)
        torn = RING_NAMES.name(nodes[0].known_ring.number + 1)
        Path(place, torn).write_bytes(store.get(RING_NAMES.name(nodes[0].known_ring.number))[:-20])
        check(asked)  # all go on with the one before
        assert asked.ask_counts.requests > before
        with pytest.raises(FileError, match="nodes/"):
            open_nodes(place)
        set_ring(place, [Node("a", str(nodes[0].address))])
        check(asked)
        before = nodes[1].counts.entered
        check(asked)
        assert nodes[1].counts.entered == before
        for file in Path(place, "nodes").iterdir():
            file.unlink()
        check(asked)


def test_nodes_are_added_and_drained(place: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(known_ring, "LOOK_S", 1e9)
    with sockets(2) as names, closing(node_at(place, "a", names[0].address)) as first:
        first.known_ring.ring(set_ring(place, names[:1]).number)
        with (
            closing(open_nodes(place)) as asked,
            closing(node_at(place, "b", names[1].address)) as second,
        ):
            set_ring(place, names)
            check(asked)
            assert second.counts.forwarded_in == 0  # nobody has looked
            first.known_ring.ring(2)  # one hears of it, and tells the others
            check(asked)
            check(asked)
            assert second.counts.entered + second.counts.forwarded_in > 0
            assert asked._ring.number == 2
            set_ring(place, names[1:])
            second.known_ring.ring(3)
            for _ in range(4):
                check(asked)
            before = first.counts.entered, first.counts.forwarded_in
            check(asked)
            assert (first.counts.entered, first.counts.forwarded_in) == before
            with closing(asked_of(place, names[:1])) as late:
                check(late)  # a drained node answers still
            assert asked.ask_counts.alone == 0


# -- versions ------------------------------------------------------------------------------------


def test_versions_are_never_mixed(place: str):
    with nodes_of(place, 3) as nodes, closing(open_nodes(place)) as asked:
        writer = open_relation(place)
        for number in range(2, 6):
            ids = np.random.default_rng(number).integers(0, ROWS, 500)
            rows = pa.table({"id": np.unique(ids)})
            names = pa.array([f"v{number} {k}" for k in np.unique(ids)])
            assert writer.update(rows.append_column("name", names), compact=False) == number
            check(asked, number)
            check(asked, number - 1)
            check(asked, 1)
        assert {node.answers.version.number for node in nodes} == {5}
        assert all(node.answers.counts.older > 0 for node in nodes)
        writer.vacuum(keep=1, keep_s=0)
        check(asked, 5)
        with pytest.raises(FileError, match=r"version 1 of .* is gone"):
            open_nodes(place).version(1)
        writer.close()


def test_a_clock_that_is_off_decides_nothing(place: str, monkeypatch: pytest.MonkeyPatch):
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 10 * 365 * 86_400)
    with nodes_of(place, 2), closing(open_nodes(place)) as asked:
        check(asked)
        assert asked.ask_counts.alone == 0


def test_nodes_and_clients_write_nothing(place: str):
    with nodes_of(place, 2), closing(open_nodes(place)) as asked:
        before = {file: file.stat().st_mtime_ns for file in Path(place).rglob("*")}
        check(asked)
        assert {file: file.stat().st_mtime_ns for file in Path(place).rglob("*")} == before


# -- messages ------------------------------------------------------------------------------------


def test_a_damaged_answer_is_noticed():
    schema = pa.schema([("n", pa.int64()), ("t", pa.string())])
    hashes = np.arange(5, dtype=np.uint64)
    batch = pa.record_batch({"n": [1, 2, 3], "t": ["a", None, "ccc"]}, schema)
    rows = KeyRows(hashes, np.array([1, 0, 2, 0, 0]), batch)
    header, parts = rows.message(3)
    body = np.concatenate(parts)
    request = KeyRequest(1, 3, ("n", "t"), hashes)
    found = KeyRows.parsed(header, body, request, schema)
    assert found.batch.equals(batch)
    assert found.counts.tolist() == [1, 0, 2, 0, 0]
    random = np.random.default_rng(1)
    for place in random.integers(0, len(body), 50):
        wrong = body.copy()
        wrong[place] ^= 1 << random.integers(8)
        with pytest.raises(MalformedError, match="checksum"):
            KeyRows.parsed(header, wrong, request, schema)
    with pytest.raises(MalformedError):
        KeyRows.parsed(header, body[:64], request, schema)
    with pytest.raises(MalformedError, match="checksum"):
        KeyRows.parsed(header, body[:-1], request, schema)
    with pytest.raises(MalformedError, match="rows"):
        KeyRows.parsed({**header, "rows": 2}, body, request, schema)


@pytest.mark.parametrize(
    ("header", "hashes"),
    [
        ({"version": 1, "ring": 0, "columns": []}, [1]),
        ({"version": 1, "ring": 0, "columns": [3]}, [1]),
        ({"version": -1, "ring": 0, "columns": ["id"]}, [1]),
        ({"version": 1, "columns": ["id"]}, [1]),
        ({"version": 1, "ring": 0, "columns": ["id"]}, [2, 1]),
        ({"version": 1, "ring": 0, "columns": ["id"]}, [1, 1]),
        ({"version": 1, "ring": 0, "columns": ["id"]}, None),
    ],
)
def test_a_request_that_nobody_would_send(header: dict, hashes: list | None):
    body = None if hashes is None else np.array(hashes, np.uint64).view(np.uint8)
    with pytest.raises(MalformedError):
        KeyRequest.parsed(header, body)
