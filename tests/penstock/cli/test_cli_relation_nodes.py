"""``penstock relation nodes``: what it prints, and one line for every mistake."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from penstock.host.lookup.nodes.ring import Node
from tests.host.lookup.nodes.kit import node_at, set_ring, sockets


@pytest.fixture
def built(cli, tables) -> Path:
    out = tables / "a.rel"
    _, err, status = cli("relation", "build", tables / "a.parquet", "--key", "x", "--out", out)
    assert (err, status) == ("", 0)
    return out


def nodes(cli, *arguments) -> str:
    shown, err, status = cli("relation", "nodes", *arguments)
    assert (err, status) == ("", 0)
    return shown


def test_nodes_come_and_go(cli, built):
    assert nodes(cli, "list", built) == f"{built} has no nodes: whoever looks rows up reads it\n"
    added = nodes(cli, "add", built, "a", "--address", "tcp://127.0.0.1:1")
    assert added == f"{built}: record 1, 1 node\n"
    added = nodes(cli, "add", built, "b", "--address", "unix:///run/b.sock")
    assert added == f"{built}: record 2, 2 nodes\n"
    same = nodes(cli, "add", built, "b", "--address", "unix:///run/b.sock")
    assert same == "nothing changes: record 2 has it so already\n"
    lines = [line.split() for line in nodes(cli, "list", built).splitlines()]
    assert lines[0][-5:] == ["nodes,", "0", "of", "2", "answering"]
    assert lines[1] == ["node", "address", "share", "record", "now"]
    assert [line[:2] for line in lines[2:]] == [
        ["a", "tcp://127.0.0.1:1"],
        ["b", "unix:///run/b.sock"],
    ]
    assert [" ".join(line[3:]) for line in lines[2:]] == [
        "does not answer: refused",
        "does not answer: no socket",
    ]
    shares = [float(line[2].rstrip("%")) for line in lines[2:]]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert max(shares) < 55
    moved = nodes(cli, "add", built, "a", "--address", "tcp://[::1]:9", "--replace")
    assert moved == f"{built}: record 3, 2 nodes\n"
    found = json.loads(nodes(cli, "list", built, "--json"))
    assert found["number"] == 3
    assert [node["address"] for node in found["nodes"]] == ["tcp://[::1]:9", "unix:///run/b.sock"]
    assert nodes(cli, "drain", built, "a") == f"{built}: record 4, 1 node\n"
    assert nodes(cli, "drain", built, "b") == f"{built}: record 5, 0 nodes\n"
    found = json.loads(nodes(cli, "list", built, "--json"))
    assert found == {"relation": str(built), "number": 5, "nodes": []}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["list", "no.rel"], 6, "there is no relation at .*no.rel"),
        (["add", "no.rel", "b", "--address", "tcp://h:1"], 6, "there is no relation at .*no.rel"),
        (["drain", "a.rel", "c"], 2, "there is no node c; there are a$"),
        (["add", "a.rel", "a", "--address", "tcp://h:2"], 2, "a is at tcp://h:1 already; take an"),
        (["add", "a.rel", "b", "--address", "tcp://h:1"], 2, "nodes a and b are both at tcp://h:1"),
        (["add", "a.rel", "b", "--address", "tcp://h:0"], 2, "nobody can connect to tcp://h:0"),
        (["add", "a.rel", "b", "--address", "h:1"], 2, "'h:1' is no address of a server; give"),
        (["add", "a.rel", "b c", "--address", "tcp://h:3"], 2, "'b c' cannot be the name of a no"),
    ],
)
def test_mistakes_are_one_line(cli, built, tables, monkeypatch, arguments, status, message):
    nodes(cli, "add", built, "a", "--address", "tcp://h:1")
    monkeypatch.chdir(tables)
    shown, err, found = cli("relation", "nodes", *arguments)
    assert (shown, found) == ("", status), err
    assert err.count("\n") == 1
    assert re.search(message, err), err
    assert nodes(cli, "list", built).count("\n") == 3


def test_damaged_records_are_named(cli, built):
    nodes(cli, "add", built, "a", "--address", "tcp://h:1")
    nodes(cli, "add", built, "b", "--address", "tcp://h:2")
    record = sorted((built / "nodes").iterdir())[-1]
    record.write_bytes(record.read_bytes()[:40])
    shown, err, status = cli("relation", "nodes", "list", built)
    assert (shown, status) == ("", 6)
    assert re.search(rf"{record} cannot be read: .*; restore .*; until then go on with", err), err


def test_who_answers_is_said(cli, built, tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef" * 2)
    token.chmod(0o600)
    with sockets(2) as places:
        places[1] = Node("z", places[1].address)
        number = set_ring(str(built), places).number
        first = node_at(str(built), "a", places[0].address)
        second = node_at(str(built), "b", places[1].address, token=token.read_text())
        with closing(first), closing(second):
            lines = [line.split() for line in nodes(cli, "list", built).splitlines()]
            assert lines[0][-4:] == ["1", "of", "2", "answering"]
            assert lines[2][3:] == [str(number), "answers"]
            assert lines[3][3:] == ["does", "not", "answer:", "token"]
            shown = nodes(cli, "list", built, "--token-file", token, "--json")
            rows = json.loads(shown)["nodes"]
    assert [row["answers"] for row in rows] == [False, True]
    assert [row["reason"] for row in rows] == ["token", ""]
    assert "it has no token" in rows[0]["message"]
    assert (rows[1]["called"], rows[1]["record"]) == ("b", number)
