"""Relations that are read once and searched: beside DuckDB, in random cuts, while they change."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.host.prune.sizes import Pruning
from penstock.host.relation import RelationOptions, build, open_folder
from tests.host.relation.model import row_list

CONDITIONS = (
    "abs(s.x - m.x) + abs(s.y - m.y) < 4",
    "s.x BETWEEN m.lo AND m.hi",
    "s.k = m.k AND s.x BETWEEN m.lo AND m.hi",
    "s.k = m.k AND s.y >= m.y",
    "s.y = m.y",
    "s.f <= m.f AND s.x < m.lo",
    "m.x < s.x AND m.y > s.y AND m.hi - s.x <= 30",
    "s.k = m.k AND (s.x + m.y) % 7 = 1",
)
JOINS = ("JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN")
SPAN, KEYS = 60, 5
#: Rows are searched in an order, however few they are; or only where it pays.
SEARCHED = Pruning(always=True), Pruning(least_pairs=1), Pruning()


def rows(rng: np.random.Generator, number: int, first: int = 0) -> pa.Table:
    """Rows with NULL, NaN, ties and equal rows."""

    def some(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=rng.random(number) < 0.1)

    low = rng.integers(0, SPAN, number)
    return pa.table(
        {
            "id": np.arange(first, first + number),
            "k": some(rng.integers(0, KEYS, number)),
            "x": some(rng.integers(0, SPAN, number)),
            "y": some(rng.integers(0, SPAN, number)),
            "lo": some(low),
            "hi": some(low + rng.geometric(0.2, number)),
            "f": some(rng.choice([0.0, -0.0, 1.5, np.nan, np.inf], number)),
        }
    )


def expected(query: str, s: pa.Table, m: pa.Table) -> Counter:
    con = duckdb.connect()
    con.register("s", s)
    con.register("m", m)
    return Counter(row_list(con.sql(query).to_arrow_table()))


def queries(rng: np.random.Generator) -> list[str]:
    chosen = []
    for on in CONDITIONS:
        join = str(rng.choice(JOINS))
        columns = "s.id" if join.startswith(("SEMI", "ANTI")) else "s.id, m.id AS found"
        chosen.append(f"SELECT {columns} FROM s {join} m ON {on}")
    return chosen


@pytest.mark.parametrize(("seed", "cluster"), [(0, ()), (1, ("x", "y")), (2, ())])
def test_the_rows_are_duckdbs(tmp_path, seed, cluster):
    """A stream that is cut anywhere, and a table, while versions come."""
    rng = np.random.default_rng(seed)
    m = rows(rng, (300, 2000, 1)[seed])
    place = str(tmp_path / "m.rel")
    build(m, place, RelationOptions(key=("id",), cluster=cluster, page_bytes=1 << 10))
    more = rows(rng, 200, first=1000)
    streams, wanted = {}, {}
    for number, query in enumerate(queries(rng)):
        s = rows(rng, 400)
        tables = {"s": s.schema, "m": penstock.relation(place)}
        flow = penstock.Flow(running=penstock.Running(pruning=SEARCHED[seed]))
        streams[query, number] = penstock.stream(query, tables, flow=flow), s
        wanted[number] = Counter()
    half = 200
    for at, end in ((0, half), (half, 2 * half)):
        for (query, number), (stream, s) in streams.items():
            cuts = np.sort(rng.integers(at, end, 3)).tolist()
            for low, high in zip([at, *cuts], [*cuts, end], strict=True):
                stream.push("s", s.slice(low, high - low))
            wanted[number] += expected(query, s.slice(at, end - at), m)
        if at == 0:
            with closing(open_folder(place, "")) as opened:
                opened.append(more)
            m = pa.concat_tables([m, more])
    for (query, number), (stream, s) in streams.items():
        assert stream.report().memory_bytes["kept rows"], query
        assert Counter(row_list(stream.close())) == wanted[number], query
        tables = {"s": s, "m": penstock.relation(place)}
        table = penstock.sql(query, tables, pruning=SEARCHED[seed])
        assert Counter(row_list(table)) == expected(query, s, m), query


def pages_read(stream, s: pa.Table) -> list[int]:
    """Pages that were read after each push of a thousand rows."""
    read = []
    for at in range(0, len(s), 1000):
        stream.push("s", s.slice(at, 1000))
        read.append(stream.report().lookup.pages)
    return read


def test_it_is_read_once(tmp_path):
    """All pushes, and none again until the relation changes."""
    rng = np.random.default_rng(5)
    m, s = rows(rng, 5000), rows(rng, 3000)
    place = str(tmp_path / "m.rel")
    build(m, place, RelationOptions(key=("id",)))
    query = "SELECT s.k, count(*) n FROM s JOIN m ON s.x BETWEEN m.lo AND m.hi GROUP BY s.id, s.k"
    tables = {"s": s.schema, "m": penstock.relation(place)}
    with penstock.stream(query, tables, unique={"s": "id"}) as stream:
        read = pages_read(stream, s)
        assert len(set(read)) == 1
        found = Counter(row_list(stream.poll()))
        assert found == expected(query, s, m)
        with closing(open_folder(place, "")) as opened:
            opened.append(rows(rng, 10, first=9000))
        stream.push("s", s.slice(0, 10))
        assert stream.report().lookup.pages > read[0]
        stream.close()


def test_what_has_no_room_is_read_again(tmp_path):
    """With the same rows, and a sentence that says how much memory it takes."""
    rng = np.random.default_rng(6)
    m, s = rows(rng, 20_000), rows(rng, 2000)
    place = str(tmp_path / "m.rel")
    build(m, place, RelationOptions(key=("id",)))
    query = "SELECT s.id, m.id AS found FROM s LEFT JOIN m ON s.k = m.k AND s.x = m.x AND s.y = m.y"
    flow = penstock.Flow(memory_bytes=900_000)
    with penstock.stream(
        query, {"s": s.schema, "m": penstock.relation(place)}, flow=flow
    ) as stream:
        read = pages_read(stream, s)
        assert 0 < read[0] < read[1]
        assert not stream.report().memory_bytes["kept rows"]
        assert Counter(row_list(stream.close())) == expected(query, s, m)
