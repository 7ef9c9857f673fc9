"""Promises of a lookup join: memory, groups, one version per push, rows that outlive errors."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import DeviceError, FileError, QueryError
from penstock.host.join.table.table_join import TableJoin
from penstock.host.relation import FolderRelation, RelationOptions, build, open_relation
from tests.host.join.lookup.cases import ALGORITHMS, damaged

KEYS = 400
QUERY = "SELECT o.id, c.rid FROM o JOIN c ON o.k = c.k"


def orders(first: int, end: int, keys: int = KEYS) -> pa.Table:
    numbers = np.arange(first, end)
    return pa.table({"k": numbers % keys, "id": numbers})


SCHEMA = orders(0, 0).schema


@pytest.fixture
def location(tmp_path: Path) -> str:
    place = str(tmp_path / "c.rel")
    stored = pa.table({"k": np.arange(KEYS), "rid": np.arange(KEYS), "p": ["x" * 50] * KEYS})
    build(stored, place, RelationOptions(key=("k",), page_bytes=512)).close()
    return place


def opened(
    location: str,
    latency_s: float = 0.0,
    memory: int | None = None,
    query: str = QUERY,
    **options: Any,
) -> Any:
    schemas = {"o": SCHEMA, "c": penstock.relation(location, **options)}
    flow = penstock.Flow(latency_s=latency_s, memory_bytes=memory)
    return penstock.stream(query, schemas, flow=flow)


def upsert(location: str, rid: int) -> None:
    """Give all rows of the relation another ``rid``."""
    relation = open_relation(location)
    rows = {"k": np.arange(KEYS), "rid": np.full(KEYS, rid), "p": [""] * KEYS}
    relation.update(pa.table(rows), compact=False)
    relation.close()


# -- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("latency_s", [0.0, 60.0])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_memory_stays_within_its_bound_in_small_batches(location, algorithm, latency_s):
    memory = 1_000_000
    stream = opened(location, latency_s, memory, algorithm=algorithm)
    for batch in range(60 if latency_s else 6):
        stream.push("o", orders(batch * 2000, (batch + 1) * 2000))
        assert sum(stream.report().memory_bytes.values()) <= memory
        stream.poll()
    stream.close()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_memory_stays_within_its_bound_in_a_large_batch(location, algorithm):
    memory = 1_000_000
    stream = opened(location, 0.0, memory, algorithm=algorithm)
    stream.push("o", orders(0, 65_536))
    assert sum(stream.report().memory_bytes.values()) <= memory


def test_long_texts_of_the_stream_count(location):
    memory = 1_000_000
    query = "SELECT o.id, o.text, c.rid FROM o JOIN c ON o.k = c.k"
    schema = SCHEMA.append(pa.field("text", pa.string()))
    schemas = {"o": schema, "c": penstock.relation(location, algorithm="hybridjoin")}
    flow = penstock.Flow(latency_s=60.0, memory_bytes=memory)
    stream = penstock.stream(query, schemas, flow=flow)
    most = 0
    for batch in range(10):
        rows = orders(batch * 200, (batch + 1) * 200)
        stream.push("o", rows.append_column("text", pa.array(["t" * 2000] * 200)))
        most = max(most, sum(stream.report().memory_bytes.values()))
    assert stream.close().num_rows == 2000
    assert most <= memory


@pytest.mark.parametrize("algorithm", ["auto", "hybridjoin"])
def test_answered_rows_leave_memory(location, algorithm):
    stream = opened(location, algorithm=algorithm)
    kept = set()
    for batch in range(5):
        stream.push("o", orders(batch * 500, (batch + 1) * 500))
        kept.add(stream.report().memory_bytes["waiting rows"])
        stream.poll()
    assert len(kept) == 1
    stream.close()


# -- groups ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "memory",
    [
        None,
        400_000,
    ],
)
@pytest.mark.parametrize("algorithm", ["auto", "meshjoin"])
@pytest.mark.parametrize("select", ["o.id, count(*) AS n", "DISTINCT o.id"])
def test_groups_of_a_table(tmp_path, select, algorithm, memory):
    place = str(tmp_path / "large.rel")
    keys, rows = 5_000, 140_000
    stored = pa.table({"k": np.arange(keys), "rid": np.arange(keys), "p": ["x" * 200] * keys})
    build(stored, place, RelationOptions(key=("k",))).close()
    table = pa.table({"k": np.arange(rows) * 7 % keys, "id": np.arange(rows) % 1000})
    group = "" if "DISTINCT" in select else "GROUP BY o.id"
    found = penstock.sql(
        f"SELECT {select} FROM o JOIN c ON o.k = c.k {group}",
        {"o": table, "c": penstock.relation(place, algorithm=algorithm)},
        memory_bytes=memory,
    )
    assert sorted(found["id"].to_pylist()) == list(range(1000))
    if group:
        assert set(found["n"].to_pylist()) == {rows // 1000}


def test_groups_of_a_stream_are_of_one_row_each(location):
    query = "SELECT o.id, count(*) AS n FROM o JOIN c ON o.k = c.k GROUP BY o.id"
    with pytest.raises(QueryError, match=r"say so with unique=\{'o': 'COLUMN'\}"):
        opened(location, 0.0, query=query)
    found = []
    for latency_s in (0.0, 60.0):
        schemas = {"o": SCHEMA, "c": penstock.relation(location)}
        flow = penstock.Flow(latency_s=latency_s)
        stream = penstock.stream(query, schemas, flow=flow, unique={"o": "id"})
        for first in (0, 3):
            stream.push("o", orders(first, first + 3))
        found.append(Counter(map(str, stream.close().to_pylist())))
    assert found[0] == found[1]


# -- versions -------------------------------------------------------------------------------------


def test_a_push_meets_one_version(location):
    """All slices of a large batch meet the version that was the newest when it came."""
    stream = opened(location, memory=400_000)
    upsert(location, 7777)
    count = Counter()
    for _ in range(2):
        stream.push("o", orders(0, 140_000))
        count.update(stream.poll()["rid"].to_pylist())
        upsert(location, 8888)
    assert count == {7777: 140_000, 8888: 140_000}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_that_wait_meet_the_version_with_which_they_came(location, algorithm):
    stream = opened(location, 60.0, algorithm=algorithm)
    wanted: Counter = Counter()
    for version in range(1, 6):
        stream.push("o", orders(0, 300))
        rids = range(300) if version == 1 else [version * 1000] * 300
        wanted.update(zip(range(300), rids, strict=True))
        upsert(location, (version + 1) * 1000)
    found = stream.close()
    assert Counter(zip(*found.to_pydict().values(), strict=True)) == wanted


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_version_of_the_start(location, algorithm):
    stream = opened(location, 60.0, algorithm=algorithm, refresh="start")
    upsert(location, 5000)
    stream.push("o", orders(0, 300))
    upsert(location, 6000)
    stream.push("o", orders(300, KEYS))
    found = stream.close().to_pydict()
    assert sorted(found["rid"]) == list(range(KEYS))
    table = {"o": orders(0, 9), "c": penstock.relation(location, refresh="start")}
    assert set(penstock.sql(QUERY, table)["rid"].to_pylist()) == {6000}


def test_all_rows_of_a_table_meet_one_version(location, monkeypatch):
    newest = FolderRelation.newest
    calls = iter(range(1, 1000))

    def racing(self: FolderRelation) -> int:
        monkeypatch.setattr(FolderRelation, "newest", newest)
        upsert(location, 1000 * next(calls))
        monkeypatch.setattr(FolderRelation, "newest", racing)
        return newest(self)

    monkeypatch.setattr(FolderRelation, "newest", racing)
    table = pa.concat_tables([orders(n, n + 5) for n in range(0, 40, 5)])
    found = penstock.sql(QUERY, {"o": table, "c": penstock.relation(location)})
    assert found.num_rows == 40
    assert len(set(found["rid"].to_pylist())) == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_only_changed_keys_leave_the_cache_and_none_of_them_stays(location, algorithm):
    """Keys that are upserted, deleted, added, and were absent before are answered anew."""
    relation = open_relation(location)
    stream = opened(location, algorithm=algorithm, query=QUERY.replace("JOIN", "LEFT JOIN"))
    wide = orders(0, 2 * KEYS, keys=2 * KEYS)
    state = {n: [n] for n in range(KEYS)}
    for step in range(6):
        for _ in range(2):
            stream.push("o", wide)
            found = Counter(zip(*stream.poll().to_pydict().values(), strict=True))
            wanted = Counter((n, rid) for n in range(2 * KEYS) for rid in state.get(n, [None]))
            assert found == wanted
        changed, gone, new = step, 50 + step, KEYS + step
        rows = {"k": [changed, new], "rid": [9000 + step] * 2, "p": ["", ""]}
        relation.update(pa.table(rows), pa.table({"k": [gone]}), compact=step == 3)
        state[changed] = state[new] = [9000 + step]
        del state[gone]
        relation.append(pa.table({"k": [100], "rid": [step], "p": [""]}), compact=False)
        state[100].append(step)
    relation.close()


# -- rows outlive errors --------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_outlive_damage_where_memory_is_little(location, algorithm):
    stream = opened(location, 60.0, 350_000, algorithm=algorithm)
    stream.push("o", orders(0, 900))
    file, good = damaged(location)
    with pytest.raises(FileError):
        stream.push("o", orders(900, 1800))
    file.write_bytes(good)
    if stream.pushed("o") == 1:
        stream.push("o", orders(900, 1800))
    assert sorted(stream.close()["id"].to_pylist()) == list(range(1800))


def test_a_close_that_fails_can_be_called_again(location):
    stream = opened(location, 60.0)
    stream.push("o", orders(0, 20))
    file, good = damaged(location)
    with pytest.raises(FileError):
        stream.close()
    file.write_bytes(good)
    assert sorted(stream.close()["id"].to_pylist()) == list(range(20))


def test_rows_outlive_a_device(location, monkeypatch):
    stream = opened(location)

    def fails(*args: Any) -> Any:
        raise DeviceError("no lane")

    with monkeypatch.context() as patch:
        patch.setattr(TableJoin, "run", fails)
        with pytest.raises(DeviceError):
            stream.push("o", orders(0, 20))
    stream.flush()
    assert sorted(stream.close()["id"].to_pylist()) == list(range(20))


# -- running --------------------------------------------------------------------------------------


def test_latency_zero_answers_in_push(location):
    stream = opened(location)
    for n in range(3):
        stream.push("o", orders(n * 10, n * 10 + 10))
        assert stream.poll().num_rows == 10
        assert stream.poll().num_rows == 0
    assert stream.close().num_rows == 0


def test_rows_wait_for_others_until_the_target(location):
    stream = opened(location, 0.8)
    began = time.monotonic()
    stream.push("o", orders(0, 10))
    at_once = stream.poll().num_rows
    if time.monotonic() - began < 0.3:
        assert at_once == 0
        assert stream.report().lookup.waiting == 10
    assert stream.wait(10 - at_once, 20.0)
    assert time.monotonic() - began < 6  # half of the target and a busy machine
    assert stream.poll().num_rows + at_once == 10
    assert stream.report().lookup.waiting == 0


def test_wait_gives_up(location):
    stream = opened(location)
    stream.push("o", orders(0, 10))
    assert stream.wait(10, 0.0)
    assert stream.wait(0, 0.0)
    began = time.monotonic()
    assert not stream.wait(11, 0.2)
    assert 0.15 < time.monotonic() - began < 10
    assert stream.poll().num_rows == 10


def test_flush_answers_all(location):
    stream = opened(location, 60.0)
    stream.push("o", orders(0, 10))
    stream.flush()
    assert stream.poll().num_rows == 10
    stream.push("o", orders(0, 0))
    stream.flush()
    assert stream.poll().num_rows == 0


def test_output_has_its_schema_before_any_row(location):
    stream = opened(location)
    assert stream.schema == stream.poll().schema == stream.close().schema
    assert stream.schema.names == ["id", "rid"]


def test_latency_quantiles_do_not_exceed_what_was_waited(location):
    stream = opened(location, 0.2)
    for n in range(20):
        stream.push("o", orders(n, n + 5))
        stream.wait(1, 5.0)
        stream.poll()
    stream.close()
    assert all(0 <= value < 20 for value in stream.report().latency_s.values())


@pytest.mark.parametrize("latency_s", [0.0, 0.01])
def test_several_threads(location, latency_s):
    stream = opened(location, latency_s, 400_000)
    found: list[pa.Table] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def guarded(call: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                call()
            except BaseException as error:
                errors.append(error)

        return run

    def pushes(number: int) -> Callable[[], None]:
        def run() -> None:
            for n in range(15):
                first = (number * 15 + n) * 100
                stream.push("o", orders(first, first + 100))

        return run

    def polls() -> None:
        while not done.is_set():
            stream.wait(1, 0.01)
            found.append(stream.poll())
            stream.report()

    def updates() -> None:
        for n in range(4):
            upsert(location, 1000 * (n + 1))
            done.wait(0.02)

    senders = [threading.Thread(target=guarded(pushes(n))) for n in range(3)]
    others = [threading.Thread(target=guarded(call)) for call in (polls, updates)]
    for thread in (*senders, *others):
        thread.start()
    for thread in senders:
        thread.join(60)
    done.set()
    for thread in others:
        thread.join(60)
    assert errors == []
    found.append(stream.close())
    rows = pa.concat_tables(found)
    assert sorted(rows["id"].to_pylist()) == list(range(4500))
    # All rows of a push met one version.
    of_push: dict[int, set[int]] = {}
    for row in rows.to_pylist():
        version = row["rid"] if row["rid"] >= 1000 else 0
        of_push.setdefault(row["id"] // 100, set()).add(version)
    assert {len(versions) for versions in of_push.values()} == {1}


@pytest.mark.parametrize(
    "select", ["o.id, c.rid FROM o LEFT JOIN c", "o.id, count(*) AS n FROM o JOIN c"]
)
def test_rows_that_scan_outlive_a_device(location, monkeypatch, select):
    groups = " GROUP BY o.id" if "count" in select else ""
    query = f"SELECT {select} ON abs(o.k - c.k) < 2{groups}"
    schemas = {"o": SCHEMA, "c": penstock.relation(location)}
    expected = penstock.sql(query, {"o": orders(0, 20), "c": schemas["c"]})
    flow = penstock.Flow(memory_bytes=600_000)
    stream = penstock.stream(query, schemas, flow=flow, unique={"o": "id"})
    run, calls = TableJoin.run, iter(range(100))

    def fails_late(self: TableJoin, delivery: Any) -> Any:
        yield from run(self, delivery)
        if next(calls) == 0:
            raise DeviceError("no lane")

    with monkeypatch.context() as patch:
        patch.setattr(TableJoin, "run", fails_late)
        with pytest.raises(DeviceError):
            stream.push("o", orders(0, 20))
    found = stream.close()
    assert Counter(map(str, found.to_pylist())) == Counter(map(str, expected.to_pylist()))
