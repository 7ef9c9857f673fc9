"""Relations beside other joins: rows of tables and streams are those of DuckDB."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import FileError, PenstockError, QueryError, UsageError
from penstock.host.join.lookup.relation_source import RelationTable
from penstock.host.relation import RelationOptions, build, open_relation

ROWS = 300
NEAR = "b.t BETWEEN a.t - INTERVAL 20 SECOND AND a.t + INTERVAL 20 SECOND"
ON = f"abs(a.x - b.x) < 9 AND {NEAR}"
BOTH = f"FROM a JOIN b ON {ON}"


def rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 1_000_000, ROWS)) * 1000
    return pa.table(
        {
            "id": np.arange(ROWS),
            "t": pa.array(times, pa.timestamp("us", "UTC")),
            "k": rng.integers(0, 20, ROWS),
            "x": rng.integers(0, 100, ROWS),
            "s": [f"N{n}" for n in rng.integers(0, 20, ROWS)],
        }
    )


STREAMS = {"a": rows(1), "b": rows(2)}
DIM = pa.table(
    {
        "k": np.arange(15),
        "name": [f"n{n % 4}" for n in range(15)],
        "wide": np.arange(15) % 7,
        "code": [f"n{n}" for n in range(15)],
    }
)
STORED = {
    "dim": (DIM, "k"),
    "codes": (DIM, "code"),
    "zones": (pa.table({"z": ["n0", "n1", "n2"], "zone": ["east", "west", "north"]}), "z"),
}

QUERIES = {
    "behind": f"SELECT a.id AS i, b.id AS j, d.name {BOTH} JOIN dim d ON d.k = a.k",
    "left": f"SELECT a.id AS i, b.id AS j, d.name {BOTH} LEFT JOIN dim d ON d.k = b.k",
    "semi": f"SELECT a.id AS i, b.id AS j {BOTH} SEMI JOIN dim d ON d.k = a.k",
    "anti": f"SELECT a.id AS i, b.id AS j {BOTH} ANTI JOIN dim d ON d.k = a.k",
    "before": f"SELECT a.id AS i, b.id AS j, d.name FROM a JOIN dim d ON d.k = a.k JOIN b ON {ON}",
    "left before": (
        f"SELECT a.id AS i, b.id AS j, d.name FROM a LEFT JOIN dim d ON d.k = a.k JOIN b ON {ON}"
    ),
    "first": f"SELECT a.id AS i, b.id AS j, d.name FROM dim d JOIN a ON d.k = a.k JOIN b ON {ON}",
    "of all three": (
        "SELECT a.id AS i, b.id AS j, d.name FROM a JOIN dim d ON d.k = a.k "
        f"JOIN b ON abs(a.x - b.x) < d.wide AND {NEAR}"
    ),
    "theta": f"SELECT a.id AS i, b.id AS j, d.name {BOTH} JOIN dim d ON d.wide > a.x",
    "listed": (
        f"SELECT a.id AS i, b.id AS j, d.name FROM a, b, dim d WHERE {ON} AND d.k = a.k "
        "AND d.wide > 2"
    ),
    "chain": (
        f"SELECT a.id AS i, b.id AS j, d.name, z.zone {BOTH} JOIN dim d ON d.k = a.k "
        "LEFT JOIN zones z ON z.z = d.name"
    ),
    "twice": (
        f"SELECT a.id AS i, b.id AS j, d.name, e.name AS other {BOTH} JOIN dim d ON d.k = a.k "
        "JOIN dim e ON e.k = b.k"
    ),
    "computed": (
        f"SELECT a.id AS i, b.id AS j, upper(d.name) || '!' AS n {BOTH} "
        "JOIN codes d ON d.code = lower(a.s) WHERE length(d.code) > 2"
    ),
    "outer": (
        f"SELECT a.id AS i, b.id AS j, d.name FROM a LEFT JOIN b ON {ON} "
        "LEFT JOIN dim d ON d.k = b.k"
    ),
    "side": (
        "WITH e AS (SELECT a.*, d.wide FROM a JOIN dim d ON d.k = a.k) "
        "SELECT e.id AS i, b.id AS j, e.wide FROM e JOIN b ON abs(e.x - b.x) < e.wide "
        f"AND {NEAR.replace('a.', 'e.')}"
    ),
    "groups": (
        f"SELECT date_trunc('minute', a.t) AS m, d.name, count(DISTINCT b.id) AS c {BOTH} "
        "JOIN dim d ON d.k = a.k GROUP BY date_trunc('minute', a.t), d.name"
    ),
    "groups by row": (
        f"SELECT a.id, max(d.name) AS m, count(DISTINCT b.k) AS c {BOTH} JOIN dim d ON d.k = b.k "
        "GROUP BY a.id"
    ),
    "groups of a LEFT JOIN": (
        "SELECT a.t, d.name, count(*) AS n, count(d.wide) AS c, max(d.wide) AS w FROM a "
        "LEFT JOIN dim d ON d.k = a.k AND d.wide > 2 GROUP BY a.t, d.name"
    ),
    "one stream": "SELECT a.id AS i, upper(d.name) AS n FROM a JOIN codes d ON d.code = lower(a.s)",
    "one stream, chain": (
        "SELECT a.id AS i, z.zone AS n FROM a JOIN codes d ON d.code = lower(a.s) "
        "JOIN zones z ON z.z = d.name"
    ),
}


@pytest.fixture(scope="module")
def relations(tmp_path_factory) -> dict[str, RelationTable]:
    folder = tmp_path_factory.mktemp("stored")
    for name, (table, key) in STORED.items():
        build(table, str(folder / name), RelationOptions(key=(key,))).close()
    return {name: penstock.relation(folder / name) for name in STORED}


def of_duckdb(query: str) -> list[str]:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name, table in {**STREAMS, **{n: table for n, (table, _) in STORED.items()}}.items():
            database.register(name, table)
        return plain(database.sql(query).to_arrow_table())


def plain(table: pa.Table) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


def names_in(query: str, names: Iterator[str]) -> list[str]:
    words = re.findall(r"\w+", query)
    return [name for name in names if name in words]


def on_tables(query: str, relations: dict[str, RelationTable]) -> pa.Table:
    given = {**STREAMS, **relations}
    named = {name: given[name] for name in names_in(query, given)}
    return penstock.sql(query, named, time_zone="UTC")


def on_streams(query: str, relations: dict[str, RelationTable]) -> tuple[int, pa.Table]:
    """How many rows came before the end, and all of them."""
    streams = names_in(query, STREAMS)
    given = {**{name: STREAMS[name].schema for name in streams}, **relations}
    own = {name: given[name] for name in names_in(query, given)}
    found = []
    with penstock.stream(query, own, unique={"a": "id"}, time_zone="UTC") as stream:
        for first in range(0, ROWS, 30):
            for name in streams:
                stream.push(name, STREAMS[name].slice(first, 30))
            found.append(stream.poll())
        early = sum(part.num_rows for part in found)
        found.append(stream.close())
    return early, pa.concat_tables(found)


@pytest.mark.parametrize("name", QUERIES)
def test_rows_of_tables_are_those_of_duckdb(name: str, relations) -> None:
    wanted = of_duckdb(QUERIES[name])
    assert plain(on_tables(QUERIES[name], relations)) == wanted
    assert len(wanted) > 20


@pytest.mark.parametrize("name", QUERIES)
def test_rows_of_streams_are_those_of_duckdb(name: str, relations) -> None:
    early, found = on_streams(QUERIES[name], relations)
    assert plain(found) == of_duckdb(QUERIES[name])
    assert early > 0


@pytest.mark.parametrize("seed", range(12))
def test_joins_in_any_order(seed: int, relations) -> None:
    """Relations and streams in random places, of random kinds where the kind decides."""
    draw = random.Random(seed)
    joins = [f"JOIN b ON {ON}"] if draw.random() < 0.5 else [f"LEFT JOIN b ON {ON}"]
    joins.append(f"{draw.choice(['', 'LEFT '])}JOIN dim d ON d.k = a.k")
    joins.append(f"{draw.choice(['', 'LEFT '])}JOIN codes c ON c.code = lower(a.s)")
    draw.shuffle(joins)
    if draw.random() < 0.5:
        at = 1 + next(place for place, one in enumerate(joins) if "dim" in one)
        joins.insert(draw.randint(at, 3), "LEFT JOIN zones z ON z.z = d.name")
    zone = "z.zone" if len(joins) == 4 else "0"
    where = draw.choice(["", " WHERE d.wide > 1", " WHERE c.name IS NULL OR a.x > c.wide"])
    query = (
        f"SELECT a.id AS i, b.id AS j, d.name AS n, c.name AS m, {zone} AS z "
        f"FROM a {' '.join(joins)}{where}"
    )
    wanted = of_duckdb(query)
    assert plain(on_tables(query, relations)) == wanted
    assert plain(on_streams(query, relations)[1]) == wanted


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "FULL JOIN"])
def test_tables_without_a_window(kind: str, relations) -> None:
    """What DuckDB joins is looked up, too."""
    query = (
        f"SELECT a.id AS i, b.id AS j, d.name FROM a {kind} (SELECT * FROM b WHERE x < 20) b "
        "ON a.k = b.k AND a.x > b.x JOIN dim d ON d.k = coalesce(a.k, b.k) WHERE d.wide > 2"
    )
    assert plain(on_tables(query, relations)) == of_duckdb(query)


def test_all_columns_have_names(relations) -> None:
    found = on_tables(f"SELECT * {BOTH} JOIN dim d ON d.k = a.k", relations)
    assert found.schema.names[:2] + found.schema.names[-4:] == [
        "a_id", "a_t", "d_k", "name", "wide", "code",
    ]  # fmt: skip


@pytest.fixture
def changing(tmp_path: Path) -> Path:
    build(DIM, str(tmp_path / "dim"), RelationOptions(key=("k",))).close()
    return tmp_path / "dim"


def open_pairs(stored: Path):
    schemas = {name: table.schema for name, table in STREAMS.items()}
    return penstock.stream(QUERIES["behind"], {**schemas, "dim": penstock.relation(stored)})


def test_pairs_meet_the_newest_version(changing: Path) -> None:
    """When they are polled, as rows of a stream do when they are pushed."""
    with open_pairs(changing) as stream:
        for name, table in STREAMS.items():
            stream.push(name, table.slice(0, 150))
        stream.flush()
        before = stream.poll()
        with closing(open_relation(str(changing))) as stored:
            stored.update(DIM.set_column(1, "name", pa.array(["new"] * DIM.num_rows)))
        for name, table in STREAMS.items():
            stream.push(name, table.slice(150))
        after = stream.close()
    assert set(before["name"].to_pylist()) == {"n0", "n1", "n2", "n3"}
    assert set(after["name"].to_pylist()) == {"new"}
    assert len(of_duckdb(QUERIES["behind"])) == before.num_rows + after.num_rows


@pytest.mark.parametrize("last", ["poll", "close"])
def test_pairs_wait_while_a_relation_cannot_be_read(changing: Path, last: str) -> None:
    stream = open_pairs(changing)
    away = changing.with_name("away")
    for name, table in STREAMS.items():
        stream.push(name, table)
    stream.flush()
    shutil.move(changing, away)
    for _ in range(2):
        with pytest.raises(FileError):
            stream.poll()
    if last == "close":
        with pytest.raises(FileError):
            stream.close()
    shutil.move(away, changing)
    found = [stream.poll(), stream.close()] if last == "poll" else [stream.close()]
    assert plain(pa.concat_tables(found)) == of_duckdb(QUERIES["behind"])


def test_a_batch_of_a_side_can_be_pushed_again(changing: Path) -> None:
    """A batch that could not be looked up was not taken."""
    schemas = {name: table.schema for name, table in STREAMS.items()}
    given = {**schemas, "dim": penstock.relation(changing)}
    away = changing.with_name("away")
    with penstock.stream(QUERIES["side"], given) as stream:
        stream.push("b", STREAMS["b"])
        shutil.move(changing, away)
        with pytest.raises(FileError):
            stream.push("a", STREAMS["a"])
        assert stream.pushed("a") == 0
        shutil.move(away, changing)
        stream.push("a", STREAMS["a"])
        found = stream.close()
    assert plain(found) == of_duckdb(QUERIES["side"])


REFUSED = {
    f"SELECT a.id {BOTH} JOIN (SELECT k FROM dim WHERE wide > 2) d ON d.k = a.k": (
        "dim is a relation, whose rows are looked up"
    ),
    f"SELECT a.id, d.name {BOTH} RIGHT JOIN dim d ON d.k = a.k": "gives rows of the relation d",
    f"SELECT d.name, count(DISTINCT a.id) AS n {BOTH} JOIN dim d ON d.k = a.k GROUP BY d.name": (
        "a stream never knows that these groups are complete"
    ),
    "SELECT d.name, count(DISTINCT upper(a.s)) AS n FROM a JOIN dim d ON d.k = a.k "
    "GROUP BY d.name": "DISTINCT inside an aggregate",
    "SELECT date_trunc('minute', a.t) AS m, percentile(d.wide, 0.5) AS n FROM a "
    "JOIN dim d ON d.k = a.k GROUP BY date_trunc('minute', a.t)": "PERCENTILE",
    f"SELECT a.id {BOTH} WHERE a.k IN (SELECT k FROM dim)": "EXISTS or IN",
    f"SELECT a.id {BOTH} JOIN dim d ON d.k = a.k ORDER BY a.id": "ORDER BY needs all rows",
}


@pytest.mark.parametrize("query", REFUSED)
def test_refused_on_streams(query: str, relations) -> None:
    with pytest.raises(QueryError, match=REFUSED[query]):
        on_streams(query, relations)


def test_arguments_of_windows_are_for_other_joins(relations) -> None:
    """They belong to the join that has a window, and are refused where none has."""
    query = QUERIES["behind"]
    given = {**STREAMS, "dim": relations["dim"]}
    assert plain(penstock.sql(query, given, disorder=0, memory_bytes=1 << 26)) == of_duckdb(query)
    with pytest.raises(PenstockError, match="disorder= is not for a look-up in a relation"):
        penstock.sql(QUERIES["one stream"], {k: {**given, **relations}[k] for k in ("a", "codes")},
                     disorder=0)  # fmt: skip


SELF = (
    "SELECT x.id AS i, y.id AS j{more} FROM a {x} JOIN a {y} ON x.k = y.k AND abs(x.x - y.x) < 40 "
    "AND y.t BETWEEN x.t - INTERVAL 60 SECOND AND x.t{join}"
)


@pytest.mark.parametrize("around", [False, True])
def test_a_table_that_is_joined_with_itself_is_pushed_once(relations, around: bool) -> None:
    more, join = (", d.name", " JOIN dim d ON d.k = y.k") if around else ("", "")
    query = SELF.format(x="x", y="y", more=more, join=join)
    given = {"a": STREAMS["a"].schema, **({"dim": relations["dim"]} if around else {})}
    with penstock.stream(query, given) as stream:
        for first in range(0, ROWS, 50):
            stream.push("a", STREAMS["a"].slice(first, 50))
        assert [stream.pushed(name) for name in "axy"] == [6, 6, 6]
        stream.advance("a", 1_000_000_000)
        found = stream.close()
    assert plain(found) == of_duckdb(query)


def test_an_alias_that_is_the_table_too(relations) -> None:
    given, found = {"a": STREAMS["a"].schema, "dim": relations["dim"]}, []
    for x, y in ("xy", "ay", "xa"):
        query = (
            f"SELECT {x}.id AS i, {y}.id AS j, d.name FROM a {x} JOIN a {y} ON {x}.k = {y}.k "
            f"AND {y}.t BETWEEN {x}.t - INTERVAL 60 SECOND AND {x}.t JOIN dim d ON d.k = {y}.k"
        )
        with penstock.stream(query, given) as stream:
            stream.push("a", STREAMS["a"])
            found.append(plain(stream.close()))
    assert found[0] == found[1] == found[2] != []


@pytest.mark.parametrize("name", ["behind", "side"])
def test_a_closed_stream(name: str, relations) -> None:
    given = {k: table.schema for k, table in STREAMS.items()} | {"dim": relations["dim"]}
    stream = penstock.stream(QUERIES[name], given)
    for wrong in (None, [1]):
        with pytest.raises(UsageError, match="batch of a must be"):
            stream.push("a", wrong)  # type: ignore[arg-type]
    assert stream.stats.pairs_evaluated == 0
    stream.close()
    assert stream.poll().num_rows == stream.close().num_rows == 0
    with pytest.raises(UsageError, match="the stream is closed"):
        stream.push("a", STREAMS["a"])


def test_late_rows_are_those_of_the_source(relations) -> None:
    given = {k: table.schema for k, table in STREAMS.items()} | {"dim": relations["dim"]}
    with penstock.stream(QUERIES["side"], given) as stream:
        stream.push("a", STREAMS["a"])
        stream.push("a", STREAMS["a"].slice(0, 5))
        stream.flush()
        late = stream.late()
    assert set(late) == {"a", "b"}
    assert late["a"].schema.names == STREAMS["a"].schema.names
    known = STREAMS["a"].slice(0, 5).filter(pc.call_function("less", [STREAMS["a"]["k"][:5], 15]))
    assert late["a"].num_rows == known.num_rows


def test_errors_of_users_come_first(changing: Path) -> None:
    class Own(Exception):
        pass

    def fail() -> None:
        with open_pairs(changing) as stream:
            for name, table in STREAMS.items():
                stream.push(name, table)
            shutil.rmtree(changing)
            raise Own

    with pytest.raises(Own) as found:
        fail()
    assert "Closing the stream failed, too" in found.value.__notes__[0]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            f"SELECT a.id {BOTH} JOIN dim d ON d.nam = a.k",
            "unknown column (d.)?nam; close names are name",
        ),
        (f"SELECT a.id {BOTH} JOIN nothing d ON d.name = a.k", "unknown table nothing"),
        (
            "SELECT a.id FROM a [ROWS 2] JOIN b [ROWS 2] ON a.k = b.k JOIN dim d ON d.k = a.k",
            "ROWS are for a query that is one join",
        ),
    ],
)
def test_what_is_wrong_is_said(query: str, message: str, relations) -> None:
    for call in (on_tables, on_streams):
        with pytest.raises(QueryError, match=message):
            call(query, relations)
