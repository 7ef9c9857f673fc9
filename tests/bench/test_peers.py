"""All contenders of bench/peers give the same rows, and what the bench says of them is right."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("duckdb", reason="a peer")
pytest.importorskip("polars", reason="a peer")
pytest.importorskip("scipy", reason="a peer")

from bench.peers import __main__ as command
from bench.peers import equality, streams, synthetic
from bench.peers.join import Join
from bench.peers.measure import contenders, measure
from bench.peers.penstock_side import EVERY_PAIR, NAME
from bench.peers.turns import Times, answer, take_turns
from bench.peers.workloads import Against, workloads
from penstock.errors import MissingToolError, PenstockError

#: Sizes of joins that brute force ends in no time, where not SMALL.
SIZES = {"unbounded": 0.02, "city": 0.002, "rows-out": 0.005}
SMALL = 0.002
REAL = 0.02
#: What runs everywhere, and what runs with PENSTOCK_DATA only.
ALL = {each.name: each for each in workloads()}


@pytest.mark.parametrize("name", [name for name in ALL if not name.startswith("streams")])
def test_contenders_give_the_same_rows(name: str) -> None:
    workload = ALL[name]
    size = REAL if name in streams.REAL else SIZES.get(name, SMALL)
    join = workload.make(size)
    runs, left_out = contenders(join)
    assert all("not installed" in reason for reason in left_out.values())
    assert len(runs) >= 4
    assert take_turns(runs, 0).rows > 0


def test_negative_values_and_a_smaller_right_side() -> None:
    """The right side visits cells then, whose numbers begin below zero."""
    join = synthetic.manhattan(16_000, 400_000, 1e-4, 0.2, SMALL)
    sides = []
    for table in join:
        moved = [pa.array(table[name].to_numpy() - (1 << 19)) for name in ("x", "y")]
        sides.append(table.select(["id", "t"]).append_column("x", moved[0]))
        sides[-1] = sides[-1].append_column("y", moved[1])
    runs, _ = contenders(replace(join, left=sides[1], right=sides[0]))
    assert take_turns(runs, 0).rows > 0


def test_an_interval_to_one_side() -> None:
    join = replace(equality.with_residual(SMALL), interval=(1 << 20, 1 << 27))
    both = {}
    for name, count in (("pairs", False), ("counts", True)):
        runs, _ = contenders(replace(join, count=count))
        both[name] = take_turns(runs, 0).rows
    assert both["pairs"] > both["counts"] > 0


def test_equal_times_in_asof_joins() -> None:
    join = equality.zipf_both(SMALL)
    sides = [t.set_column(1, "t", pa.array(np.sort(t["t"].to_numpy() >> 20))) for t in join]
    runs, _ = contenders(replace(join, left=sides[0], right=sides[1], interval=(0, 3)))
    assert {"DuckDB, ASOF", "Polars, ASOF"} <= set(runs)
    assert take_turns(runs, 0).rows > 0


def test_ranges_of_a_rows_window() -> None:
    rng = np.random.default_rng(3)
    sides = [pa.table({"id": np.arange(n), "t": np.sort(rng.integers(0, 30, n))}) for n in (40, 60)]
    join = Join(left=sides[0], right=sides[1], on="", test=None, rows=5)
    arrivals = sorted(
        (t, side, row) for side in (0, 1) for row, t in enumerate(sides[side]["t"].to_pylist())
    )
    wanted = set()
    seen: tuple[list[int], list[int]] = ([], [])
    for _, side, row in arrivals:
        for other in seen[1 - side][-5:]:
            wanted.add((row, other) if side == 0 else (other, row))
        seen[side].append(row)
    first, stop = join.ranges()
    assert {(i, j) for i in range(40) for j in range(first[i], stop[i])} == wanted
    assert join.pairs_in_window == len(wanted)


def test_answers() -> None:
    table = pa.table({"i": [1, 2, 3], "j": [3, 1, 2]})
    assert answer(table) == answer(table.take([2, 0, 1]))
    assert answer(table) != answer(pa.table({"i": [1, 2, 3], "j": [1, 3, 2]}))
    assert answer(table) != answer(table[:2])


def test_other_rows_are_an_error() -> None:
    tables = [pa.table({"i": [1], "j": [k]}) for k in (2, 3)]
    runs = {"a": lambda: tables[0], "b": lambda: tables[1]}
    with pytest.raises(PenstockError, match="different rows"):
        take_turns(runs, 1)
    assert set(take_turns(runs, 1, same_rows=False).seconds) == {"a", "b"}


def test_every_other_round_runs_backwards() -> None:
    calls: list[str] = []
    table = pa.table({"i": [1], "j": [2]})

    def run(name: str) -> pa.Table:
        calls.append(name)
        return table

    times = take_turns({name: lambda name=name: run(name) for name in "ab"}, 3)
    assert "".join(calls) == "ab" + "ab" + "ba" + "ab"
    assert len(times.seconds["a"]) == 3


def test_who_is_slow_runs_once(monkeypatch) -> None:
    monkeypatch.setattr("bench.peers.turns.SLOW_S", 0.5)
    ticks = iter(range(100))
    table = pa.table({"i": [1], "j": [2]})
    runs = {name: lambda: table for name in "ab"}
    times = take_turns(runs, 2, once="b", clock=lambda: next(ticks))
    assert times.seconds == {"a": [1, 1], "b": [1]}


def test_ratios_are_medians_over_rounds() -> None:
    times = Times(1, {"a": [1.0, 2.0, 9.0], "b": [2.0, 6.0, 9.0], "slow": [5.0]})
    assert times.ratio("b", "a") == 2.0
    assert times.ratio("slow", "a") == 5.0
    assert times.median("b") == 6.0


def test_rows_of_the_report() -> None:
    by_name = {each.name: each for each in workloads()}
    row = measure(by_name["keys"], size=SMALL, rounds=1).row
    assert row.target == ">= 1x the fastest peer"
    assert row.values["fastest"] not in (NAME, EVERY_PAIR)
    assert row.met == (row.values["ratio"] >= 1)
    longer = measure(by_name["longer"], size=SMALL, rounds=1)
    assert by_name["longer"].against is Against.SHORTER_WINDOW
    assert longer.row.target == "<= 1.2x the shorter one"
    assert len(longer.times.seconds) == 2


def test_streams_give_the_same_rows(monkeypatch) -> None:
    monkeypatch.setattr("bench.peers.measure.BATCH_ROWS", 300)
    for name in ("streams-points", "streams-skews"):
        found = measure(ALL[name], size=SMALL, rounds=1)
        assert found.times.rows > 0
        assert found.row.target == "<= 2x the same as tables"


def test_command(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(command, "BUILD", tmp_path)
    quick = [replace(each, quick=SMALL) for each in workloads() if each.name.startswith("keys")]
    monkeypatch.setattr(command, "workloads", lambda: quick)
    assert command.main(["--quick", "--only", "keys", "keys-residual", "--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    assert "Polars, hash join" in printed
    assert "no real streams" in printed
    rows = json.loads((tmp_path / "quick" / "peers.json").read_text())
    assert [row["values"]["workload"] for row in rows] == ["keys", "keys-residual"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert command.main(["--only", "keys"]) == MissingToolError.exit_code
    assert "pip install duckdb" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command.main(["--only", "nothing"])
