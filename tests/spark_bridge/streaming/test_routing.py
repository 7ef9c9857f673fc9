"""Streams whose lanes own keys: exact whatever the plan, balanced, and small in the record."""

from __future__ import annotations

import json
from collections import Counter
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.host.routing import moves_plan as plans
from penstock.spark_bridge.streaming import compaction
from penstock.spark_bridge.streaming.probe import LaneParts, StoredRows
from penstock.spark_bridge.streaming.routing import CellShare, Routing
from penstock.spark_bridge.streaming.spec import Rules
from tests.kit.effort import effort
from tests.spark_bridge.kit.duck import by_duckdb
from tests.spark_bridge.kit.planners import at_random
from tests.spark_bridge.kit.steps import Steps

SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.int64()), ("k", pa.int32()), ("x", pa.int32())])
SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
#: By kind of join, what it selects.
KINDS = {
    "JOIN": "a.n AS i, b.n AS j",
    "LEFT JOIN": "a.n AS i, b.n AS j",
    "FULL JOIN": "a.n AS i, b.n AS j",
    "LEFT SEMI JOIN": "a.n AS i",
    "LEFT ANTI JOIN": "a.n AS i",
}
CONDITIONS = [
    "a.k = b.k",
    "a.k = b.k AND a.x <= b.x",
    "abs(a.x - b.x) <= 4",
    "b.x - a.x BETWEEN -2 AND 9 AND a.k <> b.k",
    "abs(CAST(a.x AS DOUBLE) * 0.5 - b.x) <= 2.5",
]
#: A failing example takes seconds, and shrinking it minutes.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
_folders = count()


def drawn(seed: int, rows: int, skew: float, first: int) -> pa.Table:
    """Rows whose times rise by about one, with frequent keys, and with NULL."""
    rng = np.random.default_rng(seed)
    shares = np.arange(1, 31.0) ** -skew
    key = rng.choice(30, rows, p=shares / shares.sum())
    times = first + np.arange(rows) - rng.integers(0, 5, rows)
    columns = [
        pa.array(seed * 100_000 + np.arange(rows)),
        pa.array(times, mask=rng.random(rows) < 0.03),
        pa.array(key.astype(np.int32), mask=rng.random(rows) < 0.1),
        pa.array(
            (key * 3 + rng.integers(0, 9, rows)).astype(np.int32), mask=rng.random(rows) < 0.1
        ),
    ]
    return pa.table(columns, schema=SCHEMA)


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(one, marks=() if place == 3 else pytest.mark.slow)
        for place, one in enumerate(CONDITIONS)
    ],
)
@settings(deadline=None, max_examples=effort(8, 4), phases=NO_SHRINKING)
@given(data=st.data())
def test_rows_are_exact_whatever_the_plan(tmp_path_factory, condition, data):
    """Lanes, cells, planner, tolerance and partitioning change from batch to batch."""
    kind = data.draw(st.sampled_from(list(KINDS)))
    text = (
        f"SELECT {KINDS[kind]} FROM a {kind} b ON {condition} AND b.t BETWEEN a.t - 20 AND a.t + 30"
    )
    check(tmp_path_factory.mktemp(f"steps{next(_folders)}"), text, data)


#: Groups whose keys are keys of the condition, too, of one side and of both; with other keys; and
#: of conditions that tie none, or none that keeps ties in order.
GROUPS = [
    ("a.k = b.k", "a.k AS k, min_by(b.t, b.n) AS f", "a.k"),
    ("a.k = b.k AND a.x <= b.x", "a.k AS k, b.x AS x", "a.k, b.x"),
    ("abs(a.x - b.x) <= 4", "a.x AS x", "a.x"),
    ("a.k = b.k", "a.x % 5 AS x", "a.x % 5"),
    ("abs(a.x - b.x) <= 4", "a.k AS k, b.k AS l", "a.k, b.k"),
    ("a.k = b.k", "1 AS one", "1"),
    ("(a.k = b.k OR a.x < b.x)", "a.k AS k", "a.k"),
    ("a.x < b.x", "b.k % 3 AS k, a.x % 4 AS x", "b.k % 3, a.x % 4"),
    ("a.x < b.x", "1 AS one", "1"),
    ("a.k = b.k", "a.x % 5 AS x, max_by(b.t, b.n) AS f", "a.x % 5"),
    ("abs(a.x - b.x) <= 4", "a.k AS k, min_by(b.t, b.n) AS f", "a.k"),
]


@pytest.mark.parametrize(
    ("condition", "select", "by"),
    [
        pytest.param(*one, marks=() if place % 2 == 0 else pytest.mark.slow)
        for place, one in enumerate(GROUPS)
    ],
)
@settings(deadline=None, max_examples=effort(5, 2), phases=NO_SHRINKING)
@given(data=st.data())
def test_groups_are_exact_whatever_the_plan(tmp_path_factory, condition, select, by, data):
    """Groups of split cells come in parts, from several lanes."""
    text = (
        f"SELECT a.t - a.t % 10 AS w, {select}, count(*) AS c, sum(b.n) AS s, max(b.x) AS m "
        f"FROM a JOIN b ON {condition} "
        f"AND b.t BETWEEN a.t - 20 AND a.t + 30 GROUP BY a.t - a.t % 10, {by}"
    )
    steps = check(tmp_path_factory.mktemp(f"steps{next(_folders)}"), text, data)
    event("merged" if steps.merged else "not merged")


def check(folder: Path, text: str, data: st.DataObject) -> Steps:
    """Play micro-batches of random rows, and compare what leaves with the join of the tables."""
    skew, seed = data.draw(st.sampled_from([0.0, 1.0, 3.0])), data.draw(st.integers(1, 999))
    steps = Steps(folder, text, SCHEMAS, "t", 8, resident=data.draw(st.booleans()))
    whole, found = {"l": [], "r": []}, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "MOST_FILES", 3)
        patch.setitem(plans.PLANNERS, "random", at_random(np.random.default_rng(seed)))
        for batch in range(5):
            parts = {
                side: [
                    drawn(seed * 100 + batch * 10 + 2 * part + (side == "r"), 30, skew, batch * 30)
                    for part in range(2)
                ]
                for side in "lr"
            }
            for side, own in parts.items():
                whole[side] += own
            planner = data.draw(st.sampled_from(["random", "mnrt", "qmmp", "hash", ""]))
            cells = data.draw(st.sampled_from([16, 16, 5]))
            rules = Rules(planner, 0.05, cells, None) if planner else None
            lanes = data.draw(st.sampled_from([4, 4, 1, 7]))
            found.append(steps.run(parts, lanes, rules))
    found.append(steps.rest(3))
    tables = {name: pa.concat_tables(whole[side]) for name, side in zip("ab", "lr", strict=True)}
    wanted = as_counter(by_duckdb(text, tables))
    assert as_counter(pa.concat_tables(found)) == wanted
    assert wanted
    return steps


def as_counter(rows: pa.Table) -> Counter:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def test_every_micro_batch_is_balanced(tmp_path):
    """Also where one key has nearly all rows; the record stays small."""
    text = "SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t - 20 AND a.t"
    steps = Steps(tmp_path, text, SCHEMAS, "t", 8, resident=False)
    for batch, skew in enumerate([0.0, 6.0, 1.0, 6.0]):
        parts = {side: [drawn(batch * 9 + len(side), 2000, skew, batch * 2000)] for side in "lr"}
        steps.run(parts, 8, Rules("mnrt", 0.05, 256, None))
        routing = steps.commit.routing
        assert routing is not None
        lanes = [len(own) for own in probing(steps)]
        # Planned work is rows that probe, and a little for pairs.
        assert max(lanes) <= 1.15 * sum(lanes) / 8, (batch, lanes)
        assert routing["figures"]["busiest"] <= 1.05
        assert skew < 6 or routing["figures"]["split"]


@pytest.mark.parametrize(
    ("condition", "key", "is_always_merged"),
    [("a.k = b.k", "a.k", False), ("a.x < b.x", "a.k", False), ("a.k = b.k", "a.n % 3", True)],
)
def test_groups_are_merged_by_need(tmp_path, condition, key, is_always_merged):
    """Rows of one group are in several lanes only where their cell is split."""
    text = (
        f"SELECT a.t - a.t % 100 AS w, {key} AS g, count(*) AS c FROM a JOIN b ON {condition} "
        f"AND b.t BETWEEN a.t - 9 AND a.t GROUP BY a.t - a.t % 100, {key}"
    )
    steps = Steps(tmp_path, text, SCHEMAS, "t", 8, resident=False)
    for batch, skew in enumerate([0.0, 6.0]):
        parts = {side: [drawn(batch * 9 + len(side), 1500, skew, batch * 1500)] for side in "lr"}
        # With so much tolerance, only a key with most of the rows is split.
        assert steps.run(parts, 4, Rules("mnrt", 0.6, 256, None)).num_rows
        routing = Routing.from_record(steps.spec, steps.commit)
        assert routing is not None
        assert routing.figures["split"] == batch
        assert (steps.merged > 0) == (is_always_merged or batch == 1)
        read = [
            LaneParts(routing, lane).parts_of("l", steps.commit.new["l"][0]) for lane in range(4)
        ]
        rows = [sum(b - a for part in own or [] for a, b in part.stretches) for own in read]
        assert sum(rows) >= 1500 * 0.9
        assert batch or max(rows) < 900


def probing(steps: Steps) -> list[np.ndarray]:
    """New rows that probe in each lane, of both sides."""
    routing = Routing.from_record(steps.spec, steps.commit)
    assert routing is not None
    found = [np.zeros(0, np.int64) for _ in range(routing.lanes)]
    rows = StoredRows(steps.spec, steps.store, steps.commit)
    for side in "lr":
        own = rows.new(side).rows
        chosen = [CellShare(n, routing.lanes, routing=routing).chosen(side, own) for n in range(8)]
        assert sorted(np.concatenate(chosen).tolist()) == list(range(len(own)))
        found = [np.concatenate(both) for both in zip(found, chosen, strict=True)]
    return found


def test_lanes_read_little_and_parts_stay(tmp_path):
    """A lane reads the cells of its rows; its home part has one name whatever the table."""
    text = "SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t - 20 AND a.t"
    steps = Steps(tmp_path, text, SCHEMAS, "t", 8, resident=False)
    names: list[set[str]] = []
    for batch in range(3):
        parts = {side: [drawn(batch * 9 + len(side), 500, 0.5, batch * 500)] for side in "lr"}
        steps.run(parts, 4, Rules("mnrt", 0.05, 256, None))
        routing = Routing.from_record(steps.spec, steps.commit)
        assert routing is not None
        (file,) = steps.commit.new["l"]
        read, home = [], set()
        for lane in range(4):
            own = LaneParts(routing, lane).parts_of("l", file)
            assert own is not None
            read.append(sum(last - first for part in own for first, last in part.stretches))
            home |= {part.name.split("/")[1] for part in own if " of " in part.name}
        assert max(read) < 0.5 * file.rows
        assert sum(read) >= file.rows
        names.append(home)
    assert names[0] == names[1] == names[2] == {f"{lane} of 4" for lane in range(4)}


def test_a_record_stays_small(tmp_path):
    """64 lanes, 200 micro-batches, 1,024 cells; not larger with more keys."""
    batches = effort(200, 50)
    text = (
        "SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t - 999999 AND a.t"
    )
    steps = Steps(tmp_path, text, SCHEMAS, "t", 8, resident=False)
    rng = np.random.default_rng(1)
    for batch in range(batches):
        keys = rng.integers(-(2**31), 2**31, (2, 2000)).astype(np.int32)
        keys[:, :500] = 7
        times = np.full(2000, batch)
        parts = {
            side: [pa.table([np.arange(2000), times, own, own], schema=SCHEMA)]
            for side, own in zip("lr", keys, strict=True)
        }
        steps.took(parts, 64, Rules("mnrt", 0.05, 1024, None))
    record = json.dumps(steps.commit.as_json())
    assert steps.commit.routing["table"]["lanes"] == 64
    assert len(record) <= 1 << 20
    assert len(list((tmp_path / "rows").iterdir())) < 2 * 2 * batches


def test_few_rows_are_written_in_the_order_of_time(tmp_path):
    """Where keys are dealt only if a micro-batch has many rows."""
    text = "SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t - 20 AND a.t"
    steps = Steps(tmp_path, text, SCHEMAS, "t", 8, resident=False)
    rules = Rules("mnrt", 0.05, 64, None, least_rows=3200)
    for batch, rows in enumerate((90, 1000, 3000)):
        parts = {side: [drawn(batch, rows, 0.5, batch * 3000)] for side in "lr"}
        steps.took(parts, 4, rules)
        assert all(bool(own[0].cells) == (rows > 100) for own in steps.commit.new.values())
        assert ("table" in (steps.commit.routing or {})) == (rows == 3000)


def test_ties_in_several_lanes_are_decided_by_time_and_place(tmp_path):
    """Early rows meet the first of two rows of one time, late rows the second; all values tie."""
    text = (
        "SELECT a.t - a.t % 100 AS w, a.k AS k, min_by(b.n, b.k) AS f FROM a JOIN b "
        "ON a.k = b.k AND abs(a.x - b.x) < 1 AND b.t BETWEEN a.t - 20 AND a.t + 60 "
        "GROUP BY a.t - a.t % 100, a.k"
    )
    steps = Steps(tmp_path, text, SCHEMAS, "t", 100, resident=False)
    rows = [(n, n, 1, int(n >= 20)) for n in range(40)]
    others = [(100 + n, n - 20, 1, 99) for n in range(60)] + [(7, 50, 1, 0), (3, 50, 1, 1)]
    tables = {
        name: pa.table([list(own) for own in zip(*given, strict=True)], schema=SCHEMA)
        for name, given in (("a", rows), ("b", others))
    }
    rules = Rules("mnrt", 0.05, 64, None)
    found = [steps.run({"l": [tables["a"]], "r": [tables["b"]]}, 4, rules)]
    later = pa.table([[900], [500], [2], [0]], schema=SCHEMA)
    found.append(steps.run({"l": [later], "r": [later]}, 4, rules))
    assert steps.merged
    wanted = penstock.sql(text, tables, time={"a": "t", "b": "t"})
    assert wanted.column("f").to_pylist() == [7]
    assert as_counter(pa.concat_tables(found)) == as_counter(wanted)
