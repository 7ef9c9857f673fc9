"""Ranks that are killed: each other one says so, and the next start goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.host.workers.points import RANK_POINTS
from tests.host.workers.kit.hub import Hub
from tests.host.workers.kit.rank_chaos import RankRound

TIMEOUT_S = 120.0
_SHORT = ("part",)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=[] if point in _SHORT else [pytest.mark.slow])
        for point in RANK_POINTS
        if point not in ("between slots", "restore")
    ],
)
def test_a_killed_rank_costs_no_row(point: str, tmp_path: Path) -> None:
    rank = 0 if point in ("record", "committed") else 1
    one = RankRound(tmp_path, 6)
    one.run([f"{point}:{rank}:2"], sizes=(2, 1), count=24)
    assert one.killed == [f"{point}:{rank}:2"]
    assert one.told == 1, "the other rank says that this one was lost"
    rows, lost, doubled = one.outcome()
    assert rows
    assert (lost, doubled) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("hosts", [1, 2])
def test_a_rank_that_is_killed_within_a_large_message_costs_no_row(
    hosts: int, tmp_path: Path
) -> None:
    one = RankRound(tmp_path, 6, hosts=hosts, rows=10_000)
    one.run(["between slots:1:1"], sizes=(2, 1), count=9)
    assert one.killed == ["between slots:1:1"]
    rows, lost, doubled = one.outcome()
    assert rows > 80_000
    assert (lost, doubled) == (0, 0)


@pytest.mark.slow
def test_a_rank_that_is_killed_while_it_takes_over_a_record_costs_no_row(tmp_path: Path) -> None:
    one = RankRound(tmp_path, 6)
    one.run(["committed:0:2", "restore:1:1"], sizes=(2, 2, 3), count=24)
    assert one.killed == ["committed:0:2", "restore:1:1"]
    rows, lost, doubled = one.outcome()
    assert rows
    assert (lost, doubled) == (0, 0)


@pytest.mark.slow
def test_without_a_checkpoint_a_lost_rank_says_what_to_do(tmp_path: Path) -> None:
    command = ["-m", "tests.host.workers.kit.rank_app", str(tmp_path), "6", "24", "0"]
    hub = Hub(tmp_path, command, 2, {"PENSTOCK_KILL": "fold:1:3"})
    (status, said), _ = hub.wait(TIMEOUT_S)
    assert status == 3
    assert "rank 1 of 2 (process" in said
    assert "push everything again, or give checkpoint=FOLDER" in said
