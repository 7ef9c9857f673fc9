"""Groups of what rows look up: of a table, and of a stream, against DuckDB."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import Flow
from penstock.errors import FileError, QueryError
from penstock.host.execute.budget import Budget
from penstock.host.relation import RelationOptions, build
from penstock.host.workers.here import GroupStream
from tests.kit.effort import effort

#: Each ad belongs to a campaign; some ads to several, and some to none.
ADS = pa.table(
    {
        "ad": pa.array([*range(60), *range(10)], pa.int64()),
        "campaign": pa.array([f"c{k % 7}" for k in range(60)] + ["extra"] * 10),
        "weight": pa.array(range(70), pa.int32()),
    }
)
#: Queries over events and ads: their text, and DuckDB's names of its parts.
QUERIES = {
    "by a column of the relation": (
        "SELECT c.campaign AS k, {window} AS w, count(*) AS n FROM e JOIN c ON e.ad = c.ad "
        "WHERE e.kind = 1 GROUP BY c.campaign, {key}"
    ),
    "by columns of both": (
        "SELECT c.campaign AS k, e.kind AS kind, {window} AS w, sum(e.x + c.weight) AS s, "
        "avg(c.weight) AS a FROM e JOIN c ON e.ad = c.ad AND e.x < c.weight "
        "GROUP BY c.campaign, e.kind, {key}"
    ),
    "the relation first": (
        "SELECT q.campaign AS k, {window} AS w, max(q.weight) AS m, count(e.x) AS n "
        "FROM (SELECT * FROM c WHERE weight > 5) q, e WHERE q.ad = e.ad GROUP BY 1, {key} "
        "HAVING count(*) > 1"
    ),
    "nothing but the number of pairs": (
        "SELECT {window} AS w, count(*) AS n FROM e JOIN c ON e.ad = c.ad GROUP BY {key}"
    ),
    "by columns of the stream": (
        "SELECT e.kind AS k, {window} AS w, min(c.weight) AS m FROM e JOIN c ON e.ad = c.ad "
        "GROUP BY e.kind, {key}"
    ),
}
WINDOW, KEY = "window(e.t, '10 seconds').start", "window(e.t, '10 seconds')"
BUCKET = "time_bucket(INTERVAL '10 seconds', e.t)"


@pytest.fixture
def place(tmp_path: Path) -> str:
    folder = str(tmp_path / "ads")
    build(ADS, folder, RelationOptions(key=("ad",), page_bytes=512)).close()
    return folder


def events(seed: int, rows: int = 400) -> pa.Table:
    rng = np.random.default_rng(seed)
    ads = pa.array(rng.integers(0, 80, rows), mask=rng.random(rows) < 0.05)
    times = np.arange(rows) * 200 + rng.integers(-500, 500, rows)
    return pa.table(
        {
            "ad": ads,
            "kind": pa.array(rng.integers(0, 3, rows), pa.int8()),
            "x": pa.array(rng.integers(-50, 50, rows), pa.int32()),
            "t": pa.array(times, pa.timestamp("ms"), mask=rng.random(rows) < 0.02),
        }
    )


def plain(table: pa.Table) -> list[tuple]:
    names = table.schema.names
    if "w" in names:
        whole = table["w"].cast(pa.timestamp("ms")).cast(pa.int64())
        table = table.set_column(names.index("w"), "w", whole)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return sorted((tuple(round(v, 9) if isinstance(v, float) else v for v in r) for r in rows),
                  key=repr)  # fmt: skip


def expected(query: str, rows: pa.Table) -> list[tuple]:
    with duckdb.connect() as connection:
        connection.register("e0", rows)
        connection.register("c", ADS)
        connection.execute("CREATE VIEW e AS SELECT * FROM e0 WHERE t IS NOT NULL")
        text = query.format(window=BUCKET, key=BUCKET)
        return plain(connection.sql(text).to_arrow_table())


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(effort(12, 3)))
def test_tables(place, name, seed):
    rows = events(seed)
    text = QUERIES[name].format(window=WINDOW, key=KEY)
    found = penstock.sql(text, {"e": rows, "c": penstock.relation(place)})
    assert plain(found) == expected(QUERIES[name], rows)


@pytest.mark.parametrize("latency_s", [0.0, 0.02])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(effort(8, 2)))
def test_streams(place, name, seed, latency_s):
    rows, rng = events(seed), np.random.default_rng(seed)
    text = QUERIES[name].format(window=WINDOW, key=KEY)
    schemas = {"e": rows.schema, "c": penstock.relation(place)}
    stream = penstock.stream(
        text, schemas, disorder=timedelta(milliseconds=300), flow=Flow(latency_s=latency_s)
    )
    assert isinstance(stream, GroupStream)
    with stream:
        found, at = [], 0
        while at < rows.num_rows:
            size = int(rng.integers(1, 60))
            stream.push("e", rows.slice(at, size))
            at += size
            if rng.random() < 0.3:
                found.append(stream.poll())
        late = stream.late()["e"]
        found.append(stream.close())
    gone = {tuple(row.values()) for row in late.to_pylist()}
    kept = pa.Table.from_pylist(
        [row for row in rows.to_pylist() if tuple(row.values()) not in gone], rows.schema
    )
    assert kept.num_rows + late.num_rows == rows.num_rows
    assert late.num_rows
    assert plain(pa.concat_tables(found)) == expected(QUERIES[name], kept)


def test_ties_of_min_by_go_by_time_then_row(place):
    rows = pa.table(
        {
            "ad": [1, 1, 1, 2],
            "kind": pa.array([0, 0, 0, 0], pa.int8()),
            "x": pa.array([3, 1, 2, 9], pa.int32()),
            "t": pa.array([500, 200, 200, 100], pa.timestamp("ms")),
        }
    )
    text = (
        f"SELECT c.campaign AS k, min_by(e.x, e.kind) AS x FROM e JOIN c ON e.ad = c.ad "
        f"GROUP BY c.campaign, {KEY}"
    )
    found = penstock.sql(text, {"e": rows, "c": penstock.relation(place)})
    assert plain(found) == [("c1", 1), ("c2", 9), ("extra", 9)]


def test_a_relation_that_cannot_be_read_keeps_the_rows(place, tmp_path):
    away = tmp_path / "away"
    text = QUERIES["by a column of the relation"].format(window=WINDOW, key=KEY)
    rows = events(1)
    stream = penstock.stream(
        text, {"e": rows.schema, "c": penstock.relation(place)}, disorder=timedelta(seconds=1000)
    )
    stream.push("e", rows.slice(0, 100))
    shutil.move(place, away)
    with pytest.raises(FileError):
        stream.push("e", rows.slice(100, 200))
    taken = stream.pushed("e")
    assert taken == 2  # the rows are in, and wait
    assert stream.report().memory_bytes["waiting"] > 0
    with pytest.raises(FileError):
        stream.push("e", rows.slice(300))
    assert stream.pushed("e") == taken
    shutil.move(away, place)
    stream.flush()
    stream.push("e", rows.slice(300))
    assert plain(stream.close()) == expected(QUERIES["by a column of the relation"], rows)


def test_groups_that_waited_for_room_leave_while_a_relation_is_away(place, tmp_path, monkeypatch):
    away, is_full = tmp_path / "away", [True]
    monkeypatch.setattr(Budget, "results_full", property(lambda budget: is_full[0]))
    text = QUERIES["by columns of the stream"].format(window=WINDOW, key=KEY)
    rows = events(1).sort_by("t")
    stream = penstock.stream(
        text, {"e": rows.schema, "c": penstock.relation(place)}, flow=Flow(latency_s=0.01)
    )
    stream.push("e", rows.slice(0, 300))
    stream.wait_for(lambda: stream._held, timeout_s=30)
    shutil.move(place, away)
    stream.push("e", rows.slice(300))
    with pytest.raises(FileError):
        stream.flush()
    is_full[0] = False
    stream.budget.bells.wait_for(lambda: not stream._held, 30)
    first = stream.poll()
    assert first.num_rows
    shutil.move(away, place)
    last = pa.concat_tables([first, stream.close()])
    assert plain(last) == expected(QUERIES["by columns of the stream"], rows)


REFUSED = {
    "no end": ("SELECT c.campaign, count(*) FROM e JOIN c ON e.ad = c.ad GROUP BY 1",
               {}, QueryError, "add the event time to GROUP BY"),
    "outer": ("SELECT e.kind, count(*) FROM e LEFT JOIN c ON e.ad = c.ad GROUP BY e.kind",
              {}, QueryError, "add the event time to GROUP BY"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_remedy(place, name):
    text, options, kind, message = REFUSED[name]
    schemas = {"e": events(0).schema, "c": penstock.relation(place)}
    with pytest.raises(kind, match=message):
        penstock.stream(text, schemas, **options)


def test_rows_that_wait_are_folded_once_the_relation_is_back(place, tmp_path):
    away, rows = tmp_path / "away", events(2)
    text = QUERIES["by columns of the stream"].format(window=WINDOW, key=KEY)
    stream = penstock.stream(
        text, {"e": rows.schema, "c": penstock.relation(place)}, disorder=timedelta(seconds=1000)
    )
    shutil.move(place, away)
    with pytest.raises(FileError):
        stream.push("e", rows)
    is_in = stream.pushed("e") == 1
    with pytest.raises(FileError):
        stream.close()  # and it stays open
    shutil.move(away, place)
    stream.wait_for(lambda: stream.report().groups.open > 0 or not is_in, timeout_s=30)
    if not is_in:
        stream.push("e", rows)
    assert plain(stream.close()) == expected(QUERIES["by columns of the stream"], rows)
