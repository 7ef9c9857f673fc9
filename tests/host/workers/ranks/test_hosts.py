"""Ranks on several hosts: a network lies between them, here TCP within one machine."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import LostError, MissingToolError
from penstock.host.channel.ucx import library
from penstock.host.workers import Workers
from penstock.host.workers.points import RANK_POINTS
from tests.host.workers.kit.groups import batches, comparable, opened, wanted
from tests.host.workers.kit.hub import Hub, spread
from tests.host.workers.kit.rank_chaos import RankRound
from tests.host.workers.kit.together import all_of, together
from tests.host.workers.ranks.test_ranks import feeds_of, push_all, without_first

TIMEOUT_S = 120.0


@pytest.fixture(autouse=True)
def _tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCX_TLS", "tcp,self")


@pytest.mark.parametrize(
    ("size", "hosts"),
    [
        (2, 2),
        pytest.param(3, 3, marks=pytest.mark.slow),
        pytest.param(4, 2, marks=pytest.mark.slow),
    ],
)
def test_ranks_of_several_hosts_compute_what_one_process_does(size: int, hosts: int) -> None:
    given = batches(size, 20)

    def rank(workers: Workers) -> pa.Table:
        with opened(workers) as stream:
            push_all(stream, feeds_of(workers, given))
            return pa.concat_tables([stream.poll(), stream.close()])

    found = pa.concat_tables(all_of(together(size, rank, hosts)))
    assert without_first(comparable(found)) == without_first(wanted(given))


def test_an_error_of_a_rank_reaches_other_hosts() -> None:
    def rank(workers: Workers) -> None:
        with opened(workers) as stream:
            stream.register("a", f"f{workers.rank}")
            if workers.rank:
                raise KeyError("elsewhere")
            stream.close()

    lost, failed = together(2, rank, hosts=2)
    assert isinstance(failed, KeyError)
    assert isinstance(lost, LostError)
    assert "rank 1 of 2 has ended its stream: this rank was left by an error: KeyError" in str(lost)


def test_without_the_extra_no_rank_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_loaded", [])
    monkeypatch.setattr(library, "_NAME", "none has been loaded before")
    monkeypatch.setitem(sys.modules, "libucx", None)
    errors = together(2, lambda workers: opened(workers), hosts=2)
    for error in errors:
        assert isinstance(error, MissingToolError)
        assert "pip install '.[rdma]'" in str(error)


@pytest.mark.slow
def test_a_rank_that_is_killed_on_another_host_is_named(tmp_path: Path) -> None:
    command = ["-m", "tests.host.workers.kit.rank_app", str(tmp_path), "6", "24", "0"]
    hub = Hub(tmp_path, command, 2, {"PENSTOCK_KILL": "fold:1:3", **spread(2)})
    (status, said), _ = hub.wait(TIMEOUT_S)
    assert status == 3
    assert "rank 1 of 2 (process" in said
    assert f" on {socket.gethostname()}) has ended; start all ranks again" in said


@pytest.mark.slow
@pytest.mark.parametrize("point", [p for p in RANK_POINTS if p not in ("between slots", "restore")])
def test_a_rank_that_is_killed_on_another_host_costs_no_row(point: str, tmp_path: Path) -> None:
    rank = 0 if point in ("record", "committed") else 1
    one = RankRound(tmp_path, 6, hosts=2)
    one.run([f"{point}:{rank}:2"], sizes=(4, 2), count=24)
    assert one.killed == [f"{point}:{rank}:2"]
    assert one.told == 3, "all others say that this one was lost"
    rows, lost, doubled = one.outcome()
    assert rows
    assert (lost, doubled) == (0, 0)
