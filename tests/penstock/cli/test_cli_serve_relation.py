"""``penstock serve --relation``, and queries that ask nodes."""

from __future__ import annotations

import re
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.host.relation import RelationOptions, build
from tests.host.kit.serving import socket_address

TIMEOUT_S = 60


@pytest.fixture
def place(tmp_path: Path) -> str:
    rows = pa.table({"id": range(1_000), "name": [f"n{k}" for k in range(1_000)]})
    place = str(tmp_path / "r.rel")
    build(rows, place, RelationOptions(key=("id",)))
    return place


def test_a_node_from_start_to_stop(
    program: Callable, cli: Callable, place: str, tmp_path: Path
) -> None:
    stream = tmp_path / "s.parquet"
    pq.write_table(pa.table({"k": [k * 7 % 1_200 for k in range(5_000)]}), stream)
    query = "SELECT s.k, r.name FROM s LEFT JOIN r ON s.k = r.id"
    asked = ("sql", query, "--table", f"s={stream}", "--relation", f"r={place}", "--show", "6000")
    here, err, status = cli(*asked)
    assert status == 0, err
    with socket_address() as address:
        node = program(
            "serve", "--relation", place, "--node", "a", "--listen", address, "--memory", "8MB",
            "--metrics-port", "0",
        )  # fmt: skip
        metrics = re.search(r"http://\S+", node.stdout.readline())
        assert node.stdout.readline() == f"serving version 1 of {place} at {address}\n"
        advice = node.stdout.readline()
        assert advice.startswith("a is no node of the relation yet: penstock relation nodes add")
        _, err, status = cli(*asked, "--nodes", "ring")
        assert status == 2
        assert "has no nodes" in err
        _, err, status = cli(*advice.partition("penstock ")[2].split())
        assert status == 0, err
        for nodes in ("ring", address):
            there, err, status = cli(*asked, "--nodes", nodes)
            assert status == 0, err
            assert sorted(there.splitlines()) == sorted(here.splitlines())
        assert metrics is not None
        with urllib.request.urlopen(metrics[0], timeout=TIMEOUT_S) as answer:
            text = answer.read().decode()
        assert re.search(r'penstock_node_keys_total\{how="own"\} 2\d\d\d\.0', text)
        assert re.search(r"penstock_node_hits_total [1-9]", text)
        node.send_signal(signal.SIGTERM)
        out, err = node.communicate(timeout=TIMEOUT_S)
        assert (out, err, node.returncode) == ("stopped\n", "", 0)
        # Nobody is there: the folder is read.
        there, err, status = cli(*asked, "--nodes", "ring")
        assert status == 0, err
        assert sorted(there.splitlines()) == sorted(here.splitlines())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--node", "a"], "--node and --memory are for --relation"),
        (["--relation", "{}", "--node", "a", "--device", "cpu"], "are for devices"),
        (["--relation", "{}"], "--relation needs --node NAME"),
        (["--relation", "{}", "--node", "a b"], "cannot be the name of a node"),
        (["--relation", "{}.not", "--node", "a"], "there is no relation at"),
        (["--relation", "{}", "--node", "a", "--memory", "1K"], "needs"),
        (["--relation", "{}", "--node", "a", "--memory", "x"], "--memory"),
    ],
)
def test_what_is_refused(cli: Callable, place: str, options: list[str], said: str) -> None:
    with socket_address() as address:
        given = [one.format(place) for one in options]
        _, err, status = cli("serve", "--listen", address, *given)
    assert status != 0
    assert said in err


def test_tcp_wants_a_token(cli: Callable, place: str) -> None:
    asked = ("serve", "--relation", place, "--node", "a", "--listen", "tcp://127.0.0.1:0")
    _, err, status = cli(*asked)
    assert status == 2
    assert "would show the relation's rows to every user of this machine" in err
