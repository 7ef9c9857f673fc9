"""Contenders of bench/workers give the same groups, and other groups are noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("duckdb", reason="a peer")
pytest.importorskip("polars", reason="a peer")

import duckdb

from bench.peers.turns import Answer
from bench.rows import Row
from bench.workers import __main__ as command
from bench.workers import (
    cost,
    hand,
    hand_joins,
    heavy,
    nexmark,
    one,
    pair,
    peers,
    pictures,
    roles,
    scaling,
    theta,
    uppar,
)
from bench.workers.jobs import Job, agree, answer, cm, in_one_window, nb7, result, ro, ysb
from bench.workers.joins import JoinJob, nb8, nb11
from bench.workers.scale import QUICK
from bench.workers.turns import Turn, in_steps, take_turns, timed
from penstock.errors import PenstockError

ROWS = 60_000
JOBS = [
    pytest.param(ysb(ROWS, ads=20_000), id="ysb"),
    pytest.param(nb7(ROWS, auctions=5000), id="nb7", marks=pytest.mark.slow),
]
MEANS = pytest.param(cm(ROWS, jobs=2000), id="cm")


def expected(job: Job, rows: pa.Table) -> dict[tuple[int, int], int]:
    """Values by key and window, row after row."""
    found: dict[tuple[int, int], int] = {}
    columns = [rows[name].cast(pa.int64()).to_pylist() for name in job.read]
    for key, t, last in zip(*columns, strict=True):
        group = key, t // job.window_ms * job.window_ms
        if job.stream == "bids":
            found[group] = max(last, found.get(group, 0))
        elif last == 0:
            found[group] = found.get(group, 0) + 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_contenders_give_the_groups_of_a_plain_loop(job: Job):
    batches = job.batches(0)
    rows = pa.Table.from_batches(batches)
    assert rows.schema == job.schema
    assert rows.num_rows == ROWS
    assert not rows.equals(pa.Table.from_batches(job.batches(1)))
    wanted = expected(job, rows)
    by_hand = job.by_hand(job.arrays(batches)).to_pydict()
    keys = list(zip(by_hand["key"], by_hand["w"], strict=True))
    assert len(set(keys)) == len(keys)
    assert dict(zip(keys, by_hand["value"], strict=True)) == wanted
    runs = {
        "by hand": lambda: job.by_hand(job.arrays(batches)),
        **peers.contenders(job, {job.stream: rows}),
    }
    assert len(runs) == 5
    times = take_turns({name: timed(run) for name, run in runs.items()}, 1)
    assert times.rows == len(wanted)
    assert set(times.seconds) >= {*runs, *(f"{name}, CPU" for name in runs)}
    assert all(len(own) == 1 for own in times.seconds.values())


@pytest.mark.parametrize("job", [*JOBS, MEANS])
def test_a_worker_alone_gives_the_same_groups(job: Job):
    batches = job.batches(0)
    found = one.given(one.folded(job, batches))
    assert answer(found) == answer(job.by_hand(job.arrays(batches)))


def test_workers_that_make_their_own_input_give_the_groups_of_all_rows():
    # Windows of 10 s in 25 s of each: they leave one after the other, as both promise.
    job = replace(ysb(ROWS, window_s=10, ads=500), per_second=ROWS // 25, batch_rows=4000)
    rows = pa.concat_tables([pa.Table.from_batches(job.batches(rank)) for rank in range(2)])
    wanted = answer(peers.contenders(job, {job.stream: rows})["DuckDB"]())
    assert wanted.rows == 3 * 500
    with pair.started(job) as own:
        for _ in range(2):
            assert own.turn().answer == wanted
        # How many epochs it takes depends on how busy the machine is.
        assert all(stint.epochs >= 1 and stint.sent_bytes > 0 for stint in own.stints)
        assert sum(stint.answer.rows for stint in own.stints) == wanted.rows


def test_means_are_those_of_a_plain_loop():
    job = cm(ROWS, jobs=300)
    batches = job.batches(0)
    parts: dict[int, list[float]] = {}
    for batch in batches:
        for key, cpu in zip(batch["job"].to_pylist(), batch["cpu"].to_pylist(), strict=True):
            parts.setdefault(key, []).append(cpu)
    found = job.by_hand(job.arrays(batches)).to_pydict()
    assert dict(zip(found["key"], found["value"], strict=True)) == {
        key: sum(own) / len(own) for key, own in parts.items()
    }


@pytest.mark.parametrize(
    ("job", "size"),
    [
        pytest.param(job, size, id=f"{job.stream}-{size}", marks=marks)
        for job, size, marks in (
            (ysb(ROWS, ads=20_000), 2, ()),
            (nb7(ROWS, auctions=5000), 2, pytest.mark.slow),
            (cm(ROWS, jobs=2000), 4, pytest.mark.slow),
        )
    ],
)
def test_repartitioned_rows_give_the_same_groups(job: Job, size: int):
    with pair.started(job, size) as ours, pair.started(job, size, uppar.main) as theirs:
        assert ours.turn().answer == theirs.turn().answer
        found, other = scaling.point(ours, job, 1), scaling.point(theirs, job, 1)
    folded = [stint.rows for stint in theirs.stints]
    rows = size * ROWS
    assert folded[: size // 2] == [0] * (size // 2)
    assert sum(folded) == rows if not job.where else 0.3 * rows < sum(folded) < 0.4 * rows
    assert other.busiest == max(folded) * (size // 2) / sum(folded)
    width = sum(field.type.byte_width for field in job.sent_schemas[job.stream])
    assert other.sent_bytes == pytest.approx(width * sum(folded) / rows)
    assert found.sent_bytes > 0
    assert found.busiest == 1


def answered(job: JoinJob | Job, size: int) -> Answer:
    """By DuckDB, of the rows of so many workers."""
    parts = [job.tables(rank) for rank in range(size)]
    with duckdb.connect() as db:
        for name in job.schemas:
            db.register(name, pa.concat_tables([own[name] for own in parts]))
        return answer(db.sql(job.workload.oracle()).to_arrow_table())


@pytest.mark.parametrize(
    ("job", "size"),
    [
        pytest.param(nb8(ROWS), 2, id="nb8"),
        pytest.param(nb11(ROWS), 2, id="nb11", marks=pytest.mark.slow),
        pytest.param(ro(ROWS, keys=ROWS), 4, id="ro", marks=pytest.mark.slow),
        pytest.param(nb11(ROWS), 4, id="nb11-4", marks=pytest.mark.slow),
    ],
)
def test_joins_and_tables_give_what_duckdb_does(job, size: int):
    wanted = answered(job, size)
    assert wanted.rows > ROWS / 2
    inputs = job.inputs(0)
    assert answer(job.by_hand(job.hand_input(inputs))) == answered(job, 1)
    assert sum(batch.num_rows for _, batch in inputs) == pytest.approx(ROWS, abs=2)
    both = [job.tables(rank) for rank in range(size)]
    runs = peers.contenders(
        job, {name: pa.concat_tables([own[name] for own in both]) for name in job.schemas}
    )
    assert len(runs) == (2 if "NB11" in job.name else 4)
    assert {name: answer(run()) for name, run in runs.items()} == dict.fromkeys(runs, wanted)
    for main in (pair.main, uppar.main):
        with pair.started(job, size, main) as own:
            for _ in range(2):
                assert own.turn().answer == wanted
            assert sum(stint.sent_bytes for stint in own.stints) > 0
            assert sum(stint.counts.messages for stint in own.stints) > 0


def test_sessions_by_hand_close():
    # Three rows of one seller and two of another, with gaps of 10 and of 11.
    left = [np.array(own) for own in ([1, 2, 1, 1], [0, 5, 10, 30], [7, 8, 9, 10], [1, 2, 3, 4])]
    right = [np.array([1, 2, 1]), np.array([0, 16, 20])]
    found = hand_joins.bids(left, right, 10).to_pylist()
    rows = sorted((one["seller"], one["auction"], one["since"]) for one in found)
    # Of seller 1 all rows are of one session; those of seller 2 are 11 apart.
    assert rows == [(1, a, since) for a in (7, 9, 10) for since in (0, 20)]


@pytest.mark.slow
def test_buffers_that_fill_lose_no_row():
    job = ysb(3 * uppar.BUFFER_ROWS, ads=7)
    rows = pa.concat_tables([pa.Table.from_batches(job.batches(rank)) for rank in range(2)])
    with pair.started(job, 2, uppar.main) as own:
        for _ in range(2):
            assert own.turn().answer == answer(
                peers.contenders(job, {job.stream: rows})["DuckDB"]()
            )


@pytest.mark.slow
def test_uppar_has_as_many_senders_as_receivers():
    with (
        pytest.raises(PenstockError, match="has ended"),
        pair.started(nb7(1000), 3, uppar.main),
    ):
        pass


@pytest.mark.slow
def test_scaling(tmp_path):
    rows: list[Row] = []
    scale = replace(QUICK, each=30_000, joined=10_000, workers=(1, 2))
    found = scaling.measure(scale, 1, rows.append)
    names = [row.what for row in rows]
    assert len(set(names)) == len(names) == 5 * 3 + 2 + 2
    assert all(row.met is not None for row in rows)
    assert list(found.curves) == ["YSB, 600 s", "CM, 2 s", "NB7, 60 s", "NB8, 12 h", "NB11, 10 s"]
    assert all(list(own) == [0.2, 2.0] for own in found.skewed.values())
    costs = cost.measure(scale, 1, rows.append)
    assert [own.name for own in costs] == ["YSB", "CM", "NB7", "NB8", "NB11", "RO"]
    assert [row.met is None for row in rows[-6:]] == [True, False, False, True, True, True]
    paths = pictures.draw(found, costs, tmp_path)
    figures = {f"workers_{name}" for name in ("9a", "9b", "9c", "9d", "9e", "10c", "10d", "11")}
    assert {path.stem for path in paths} == figures
    assert all(path.stat().st_size > 10_000 for path in paths)


def test_workers_that_are_needed():
    # Half of the thread's rate each: three are faster, and shipping costs two a quarter more.
    own = cost.Cost("NB7", 10.0, {1: 5.0, 2: 9.0}, {1: 0.2, 2: 0.25})
    assert own.over(1) == pytest.approx(0.5)
    assert own.over(2) == pytest.approx(0.8)
    assert own.needed == 3
    assert cost.Cost("NB7", 1e9, {1: 5.0}, {1: 0.2, 2: 0.25}).needed is None


@pytest.mark.slow
def test_roles(monkeypatch):
    rows: list[Row] = []
    roles.measure([nb7(ROWS, auctions=5000)], 2, rows.append)
    ours, receivers, senders = rows[0].values["roles"]
    assert [own["name"] for own in (ours, receivers, senders)] == [
        "workers", "UpPar's receivers", "UpPar's senders"
    ]  # fmt: skip
    assert [own["workers"] for own in (ours, receivers, senders)] == [2, 1, 1]
    assert senders["sent_bytes"] == 24
    assert receivers["sent_bytes"] == 0
    assert all(own["cpu_s"] > 0 for own in (ours, receivers, senders))
    assert senders["messages"] * 2 * ROWS == -(-2 * ROWS // uppar.BUFFER_ROWS) + 1
    monkeypatch.setattr("shutil.which", lambda _: None)
    with roles.counted([1, 2]) as counters:
        pass
    assert counters() == [dict.fromkeys(roles.EVENTS)] * 2


def test_what_perf_says():
    lines = [
        "<not supported>,,cycles,0,100.00,,",
        "123456,,instructions:u,9,100.00,,",
        "12,,page-faults,1,1,,",
    ]
    assert roles.parsed("\n".join(lines)) == {
        "instructions": 123456.0, "cycles": None, "cache misses": None, "page faults": 12.0
    }  # fmt: skip
    assert roles.parsed("perf: no such process") == dict.fromkeys(roles.EVENTS)


def test_peers_cut_windows():
    # Windows of a second in 2.5 s: rows at both ends of each.
    job = ysb(2_500_000, window_s=1, ads=50)
    rows = pa.Table.from_batches(job.batches(0)).slice(900_000, 300_000)
    tables = {name: run() for name, run in peers.contenders(job, {job.stream: rows}).items()}
    agree({name: answer(table) for name, table in tables.items()})
    assert result(tables["DuckDB"]).num_rows == 2 * 50


def test_the_loop_by_hand_has_one_window():
    job = ysb(ROWS, ads=100)
    arrays = job.arrays(job.batches(0))
    begin = int(arrays[0][1][0])
    with pytest.raises(PenstockError, match="outside of the loop's one window"):
        hand.fold(hand.count_views, arrays, 100, begin, begin + 10)
    # A table as full as it may be: each key is found again behind others.
    keys = np.arange(8) * (1 << 40)
    columns = (np.tile(keys, 3), np.zeros(24, np.int64), np.zeros(24, np.int8))
    found = hand.give(hand.fold(hand.count_views, [columns], 8, 0, 1), 0).to_pydict()
    assert sorted(found["key"]) == keys.tolist()
    assert found["value"] == [3] * 8


def test_rows_in_one_window():
    job = in_one_window(cm(3_000_000, jobs=100))
    arrays = job.arrays(job.batches(0))
    assert len({int(t) // job.window_ms for _, own, _ in arrays for t in (own[0], own[-1])}) == 1
    assert in_one_window(ysb(ROWS)).per_second == ysb(ROWS).per_second
    assert in_one_window(ro(ROWS)).per_second == ro(ROWS).per_second


def test_answers():
    table = pa.table({"k": [1, 2, 3], "w": [0, 0, 10], "n": [3, 1, 2]})
    assert answer(table) == answer(table.take([2, 0, 1]))
    assert answer(table) != answer(table[:2])
    for name, values in (("k", [2, 1, 3]), ("w", [0, 10, 0]), ("n", [1, 3, 2])):
        place = table.schema.get_field_index(name)
        assert answer(table) != answer(table.set_column(place, name, pa.array(values)))
    # However a contender calls its columns, and in whatever unit windows begin.
    begins = pa.array([0, 0, 10_000], pa.timestamp("us", "UTC"))
    other = pa.table({"ad": pa.array([1, 2, 3]), "w": begins, "n": pa.array([3, 1, 2])})
    assert answer(other) == answer(table)


def test_other_groups_are_an_error():
    table = pa.table({"k": [1], "w": [0], "n": [2]})
    other = pa.table({"k": [1], "w": [0], "n": [3]})
    runs = {"a": timed(lambda: table), "b": timed(lambda: other)}
    with pytest.raises(PenstockError, match="different groups"):
        take_turns(runs, 1)
    tables = iter([table, other])
    with pytest.raises(PenstockError, match="different groups"):
        take_turns({"a": timed(lambda: next(tables))}, 1)


def test_nobody_follows_itself_and_the_first_round_does_not_count():
    calls: list[str] = []
    same = answer(pa.table({"k": [1], "w": [0], "n": [2]}))

    def run(name: str) -> Turn:
        calls.append(name)
        return Turn(float(len(calls)), same, 1.0)

    times = take_turns({name: lambda name=name: run(name) for name in "abc"}, 9)
    assert all(one != other for one, other in pairwise(calls))
    rounds = [calls[k : k + 3] for k in range(0, 30, 3)]
    assert all(sorted(own) == ["a", "b", "c"] for own in rounds)
    assert len({"".join(own) for own in rounds}) > 2
    for name in "abc":
        counted = [k + 1.0 for k, called in enumerate(calls) if called == name][1:]
        assert times.seconds[name] == counted
        assert times.seconds[f"{name}, CPU"] == [1.0] * 9


@pytest.mark.slow
def test_command(tmp_path, monkeypatch, capsys):
    scale = replace(QUICK, rows=ROWS, rounds=1)
    monkeypatch.setattr("bench.workers.__main__.QUICK", scale)
    monkeypatch.setattr("bench.command.BUILD", tmp_path)
    assert command.main(["--quick", "--only", "one"]) == 0
    assert "a loop by hand" in capsys.readouterr().out
    rows = json.loads((tmp_path / "quick" / "workers.json").read_text())
    assert [row["values"]["job"] for row in rows] == ["YSB, 600 s", "NB7, 60 s"]
    assert rows[0]["met"] == (rows[0]["values"]["over"] >= 0.7)
    assert rows[1]["target"] == ""
    with pytest.raises(SystemExit):
        command.main(["--only", "nothing"])


def test_folding_is_a_part_of_a_turn():
    table = pa.table({"k": [1], "w": [0], "n": [2]})
    times = take_turns({"a": in_steps(lambda: table, lambda own: own)}, 2)
    assert set(times.seconds) == {"a", "a, CPU", "a, folding"}
    pairs = zip(times.seconds["a, folding"], times.seconds["a"], strict=True)
    assert all(0 <= folding <= whole for folding, whole in pairs)


def test_nexmark():
    rows: list[Row] = []
    nexmark.measure(200_000, 1, rows.append)
    assert [row.values["query"] for row in rows] == ["Q7", "Q8", "Q11"]
    assert all(row.met == (row.values["over"] >= 20) for row in rows)


def test_other_rows_than_duckdb_are_an_error():
    own = pa.table({"a": [1, 2], "t": pa.array([0, 5], pa.timestamp("ms", "UTC"))})
    nexmark.agree("Q7", own, pa.table({"a": [2, 1], "s": [5, 0]}))
    for other in ({"a": [2, 1], "s": [0, 5]}, {"a": [1], "s": [0]}):
        with pytest.raises(PenstockError, match="Q7: Penstock has 2 rows"):
            nexmark.agree("Q7", own, pa.table(other))


@pytest.mark.slow
def test_theta():
    rows: list[Row] = []
    # A second or more: what a query over no rows needs, which is subtracted, is less.
    theta.measure(30_000, [1, 2], rows.append)
    assert [cost["evaluations"] for cost in rows[0].values["costs"]] == [900_000_000, 42_426**2]
    assert all(cost["cpu"] > 0 for cost in rows[0].values["costs"])


@pytest.mark.slow
def test_heavy():
    rows: list[Row] = []
    heavy.measure(3_000, rows.append)
    costs = rows[0].values["costs"]
    assert costs["heavy"]["evaluations"] == pytest.approx(costs["even"]["evaluations"], rel=0.1)
    assert costs["heavy"]["workers"] == 2


def test_rows_of_a_theta_join_are_compared(monkeypatch):
    monkeypatch.setattr(
        theta.penstock,
        "sql",
        lambda text, tables, workers=None: theta.side(len(tables["a"]), workers or 1),
    )
    with pytest.raises(PenstockError, match="2 workers have 9 rows, one process 9"):
        theta.cost(9, 2)
