"""Joins on workers give the rows that DuckDB gives on the same rows, each once."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock import Running
from penstock.errors import DataError, DeviceError, QueryError, SchemaError, UsageError
from penstock.host.devices.cpu import CpuDevice
from penstock.host.workers import Workers
from tests.host.kit.serving import serving
from tests.host.workers.kit.chaos import Round
from tests.host.workers.kit.groups import comparable, difference, listed, numbered
from tests.host.workers.kit.joins import (
    DISORDER,
    QUERIES,
    SCHEMA,
    batches,
    opened,
    wanted,
    without,
)
from tests.host.workers.kit.together import all_of, together
from tests.kit.effort import effort

TIME = {"a": "t", "b": "t"}


def calls(seed: int, count: int, stray: int) -> list[tuple[str, pa.RecordBatch]]:
    """Batches of both sources, cut and mixed at random; of each source in its order."""
    rng = Random(seed)
    rest = {"a": batches(seed, count, stray=stray), "b": batches(seed + 1, count, stray=stray)}
    found = []
    while any(rest.values()):
        source = rng.choice([name for name, left in rest.items() if left])
        batch = rest[source].pop(0)
        cut = rng.randint(0, batch.num_rows)
        found += [(source, part) for part in (batch.slice(0, cut), batch.slice(cut))]
    return found


def of(given: list[tuple[str, pa.RecordBatch]], source: str) -> list[pa.RecordBatch]:
    return [batch for name, batch in given if name == source]


#: Of equal windows and of groups; random joins and those whose rows are saved have other kinds.
SHORT = ("window", "theta groups")


@pytest.mark.parametrize(
    ("seed", "name"),
    [
        pytest.param(seed, name, id=name, marks=() if name in SHORT else pytest.mark.slow)
        for seed, name in enumerate(QUERIES)
    ],
)
def test_streams(seed: int, name: str) -> None:
    given = calls(seed, 12, stray=7)
    workers, latency_s = (1, 2, 3)[seed % 3], (0.0, 0.02)[seed % 2]
    pieces = []
    with opened(QUERIES[name], workers, flow={"latency_s": latency_s}) as stream:
        for source, batch in given:
            stream.push(source, batch)
            pieces.append(stream.poll())
        late = stream.late()
        stream.flush()
        report = stream.report()
        pieces.append(stream.close())
    assert late["a"].num_rows
    assert late["b"].num_rows
    left, right = (without(of(given, source), late[source]) for source in "ab")
    expected = wanted(QUERIES[name], left, right)
    assert comparable(pa.concat_tables(pieces)) == expected
    assert report.evaluations > 0
    assert report.pairs_in_window > 0
    assert report.window_rows > 0
    assert report.groups is None
    assert len(expected) > 5


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("keyed full", marks=pytest.mark.slow),
        "theta inner",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("theta anti", "keyed groups")),
    ],
)
def test_an_order_is_the_same_for_any_number_of_workers(name: str) -> None:
    given = calls(40, 8, stray=DISORDER)
    with opened(QUERIES[name], effort(3, 2), ordered=True) as stream:
        for source, batch in given:
            stream.push(source, batch)
        found = stream.close()
    tables = {s: pa.Table.from_batches(of(given, s), SCHEMA) for s in "ab"}
    one, *others = (
        penstock.sql(QUERIES[name], tables, time=TIME, workers=n, running=Running(ordered=True))
        for n in effort((1, 2), (1,))
    )
    assert all(listed(one) == listed(other) for other in others)
    assert comparable(one) == comparable(found)
    if "inner" in name or "groups" in name:  # others leave alone once nothing can meet them
        assert listed(one) == listed(found)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("keyed full", marks=pytest.mark.slow),
        "theta groups",
        pytest.param("theta right", marks=pytest.mark.slow),
    ],
)
def test_another_number_of_workers_goes_on(name: str, tmp_path: Path) -> None:
    given = calls(11, 14, stray=DISORDER)
    half = len(given) // 2
    found: dict[int, pa.Table] = {}
    before, after = effort((2, 3), (2, 1))
    with opened(QUERIES[name], before, checkpoint=tmp_path) as stream:
        for source, batch in given[:half]:
            stream.push(source, batch)
        stream.flush()
        found.update(numbered(stream))
        stream.stop()
    with opened(QUERIES[name], after, checkpoint=tmp_path) as stream:
        assert stream.position("a") == sum(b.num_rows for b in of(given[:half], "a"))
        found.update(numbered(stream))
        for source, batch in given[half:]:
            stream.push(source, batch)
        last = stream.close()
        found.update([] if last is None else [last])
        found.update(numbered(stream))
    assert len(found) > 1
    rows = comparable(pa.concat_tables(found.values()))
    assert not difference(rows, wanted(QUERIES[name], of(given, "a"), of(given, "b")))


@pytest.mark.slow
@pytest.mark.parametrize("case", ["keyed", "theta"])
def test_killed_workers_cost_no_row(case: str, tmp_path: Path) -> None:
    one = Round(tmp_path, seed=5, case=case)
    one.run(["seal:1:3", "restore:0:1"])
    rows, lost, doubled = one.outcome()
    assert (rows > 300, lost, doubled) == (True, 0, 0)
    assert one.killed


@pytest.mark.parametrize(
    "name", ["keyed left", pytest.param("theta inner", marks=pytest.mark.slow)]
)
def test_ranks(name: str) -> None:
    given = {s: of(calls(3, 9, stray=DISORDER), s) for s in "ab"}

    def rank(workers: Workers) -> pa.Table:
        with opened(QUERIES[name], workers) as stream:
            own = {(s, f"f{i}"): given[s][i::3] for s in "ab" for i in range(workers.rank, 3, 2)}
            for source, feed in own:
                stream.register(source, feed)
            for place in range(max(map(len, own.values()))):
                for (source, feed), parts in own.items():
                    if place < len(parts):
                        stream.push(source, parts[place], feed=feed)
            return pa.concat_tables([stream.poll(), stream.close()])

    found = all_of(together(2, rank))
    assert all(part.num_rows for part in found)
    rows = comparable(pa.concat_tables(found))
    assert not difference(rows, wanted(QUERIES[name], given["a"], given["b"]))


@pytest.mark.parametrize(
    "is_stream",
    [pytest.param(False, id="table", marks=pytest.mark.slow), pytest.param(True, id="stream")],
)
def test_rows_windows_follow_time(is_stream: bool) -> None:
    tables = {s: pa.Table.from_batches(of(calls(5, 6, stray=4), s), SCHEMA) for s in "ab"}
    tables = {s: t.filter(pc.is_valid(t["t"])) for s, t in tables.items()}
    query = "SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k"
    one = penstock.sql(query, tables, time=TIME, rows=20)
    if not is_stream:
        found = penstock.sql(query, tables, time=TIME, rows=20, workers=3)
    else:
        with opened(query, 2, rows=20) as stream:
            for source, table in tables.items():
                for batch in table.to_batches():
                    stream.push(source, batch)
            found = stream.close()
    assert comparable(found) == comparable(one)


def test_each_worker_opens_a_device_with_its_options() -> None:
    tables = {s: pa.Table.from_batches(of(calls(6, 6, stray=DISORDER), s)) for s in "ab"}
    query = QUERIES["theta inner"]
    with serving({"cpu": CpuDevice(threads=1)}) as server:
        remote = f"remote?address={server.address}"
        for device in effort(("cpu?threads=2", remote), (remote,)):
            found = penstock.sql(query, tables, time=TIME, workers=2, device=device)
            assert comparable(found) == comparable(penstock.sql(query, tables, time=TIME))
        assert server.owners["cpu"].counters["evaluations"] > 0
    with pytest.raises(DeviceError, match="there is no device named 'gpu'; choose one of"):
        opened(query, 2, device="gpu?threads=2")
    with pytest.raises(DeviceError, match="threads"):
        penstock.sql(query, tables, time=TIME, workers=2, device="cpu?threads=many")


def test_bad_calls_say_what_to_do() -> None:
    theta = QUERIES["theta inner"]
    with pytest.raises(QueryError, match="ROWS of streams are in the order of time"):
        opened("SELECT a.n FROM a JOIN b ON a.k = b.k", 2, rows=9, time=None, disorder=0)
    with pytest.raises(UsageError, match="each worker opens a device of its own; give its name"):
        opened(theta, 2, device=[])
    with opened(QUERIES["keyed inner"], 2) as stream:
        with pytest.raises(SchemaError, match="a batch of b has no column"):
            stream.push("b", pa.record_batch({"n": [1]}))
        with pytest.raises(UsageError, match="the query joins a and b"):
            stream.push("c", batches(0, 1)[0])


def test_a_value_off_its_grid_is_refused_and_nothing_is_taken() -> None:
    schema = pa.schema([("t", pa.int64()), ("f", pa.float64())])
    query = "SELECT a.f AS f, b.t AS t FROM a JOIN b ON abs(a.f - b.f) < 0.5 AND b.t = a.t"
    good = pa.record_batch({"t": [1, 2], "f": [0.25, 0.5]}, schema=schema)
    bad = pa.record_batch({"t": [1, 2], "f": [0.25, 0.001]}, schema=schema)
    with penstock.stream(
        query, {"a": schema, "b": schema}, time=TIME, scale={"a.f": 2, "b.f": 2}, workers=2
    ) as stream:
        stream.push("a", good)
        with pytest.raises(DataError, match=r"b\.f"):
            stream.push("b", bad)
        stream.push("b", good)
        assert stream.position("b") == 2
        assert stream.close().num_rows == 2
