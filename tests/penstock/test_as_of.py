"""Relations as of a version or a time: rows are those of a join with what was stored then."""

from __future__ import annotations

import datetime
import random
import re
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.api.classify import columns_of
from penstock.errors import FileError, PenstockError, QueryError
from penstock.host.join.lookup.relation_source import RelationTable
from penstock.host.relation import FolderRelation, RelationOptions, build, file_store, open_folder
from penstock.host.relation.folder.records import VERSION_NAMES
from tests.host.lookup.nodes.kit import nodes_of
from tests.penstock.cli.conftest import cli

__all__ = ["cli"]

STREAM = pa.table({"id": range(40), "k": [n * 7 % 12 for n in range(40)]})
QUERY = "SELECT s.id, d.v FROM s LEFT JOIN dim {} d ON s.k = d.k"
GROUPS = (
    "SELECT s.k, count(d.v) AS n, max(d.v) AS v FROM s LEFT JOIN dim {} d ON s.k = d.k GROUP BY s.k"
)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
#: What each version has, by number.
STORED = {
    1: {n: f"one {n}" for n in range(8)},
    2: {n: f"two {n}" if n < 4 else f"one {n}" for n in range(8)},
    3: {n: f"two {n}" if n < 4 else f"one {n}" for n in range(8) if n != 5} | {9: "three"},
}


def table(values: dict[int, str]) -> pa.Table:
    return pa.table(
        {"k": pa.array(values, pa.int64()), "v": pa.array(values.values(), pa.string())}
    )


def stored(location: str) -> FolderRelation:
    """A relation with the three versions."""
    made = build(table(STORED[1]), location, RelationOptions(key=("k",)))
    made.update(table({n: STORED[2][n] for n in range(4)}), compact=False)
    made.update(table({9: "three"}), table({5: ""}).select(["k"]), compact=False)
    return made


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored") / "dim"
    stored(str(folder)).close()
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "dim"))


def created(folder: Path, number: int, zone: datetime.tzinfo = datetime.UTC) -> datetime.datetime:
    """When a version was made."""
    with closing(open_folder(folder, "is opened")) as made:
        record = made.version_record(number)
    assert record is not None
    return datetime.datetime.fromtimestamp(record.created, zone)


def wanted(number: int) -> list[tuple[int, str | None]]:
    return [(row["id"], STORED[number].get(row["k"])) for row in STREAM.to_pylist()]


def wanted_groups(number: int) -> list[tuple[int, int, str | None]]:
    keys = STREAM["k"].to_pylist()
    held = STORED[number]
    return sorted((k, keys.count(k) * (k in held), held.get(k)) for k in set(keys))


def rows(found: pa.Table) -> list[tuple]:
    return sorted(tuple(row.values()) for row in found.to_pylist())


def streamed(query: str, relation: RelationTable, update: FolderRelation | None = None) -> pa.Table:
    """The rows of a stream; the relation is changed between its batches."""
    found = []
    with penstock.stream(
        query, {"s": STREAM.schema, "dim": relation}, unique={"s": "id"}
    ) as stream:
        for first in range(0, 40, 10):
            stream.push("s", STREAM.slice(first, 10))
            found.append(stream.poll())
            if update is not None:
                update.update(table({first: "later"}))
        found.append(stream.close())
    return pa.concat_tables(found)


CLAUSES = {
    "VERSION AS OF 1": 1,
    "VERSION AS OF 2": 2,
    "version\n as   of '3'": 3,
    "FOR VERSION AS OF 2": 2,
    "/* né */ VERSION AS OF 1 + 1": 2,
    "VERSION AS OF n": 1,
}


@pytest.mark.parametrize("clause", CLAUSES)
def test_versions(clause: str, folder: Path) -> None:
    number, given = CLAUSES[clause], {"s": STREAM, "dim": penstock.relation(folder)}
    params = {"n": 1} if clause.endswith(" n") else None
    found = penstock.sql(QUERY.format(clause), given, params=params)
    assert rows(found) == wanted(number)
    found = penstock.sql(GROUPS.format(clause), given, params=params)
    assert rows(found) == wanted_groups(number)


@pytest.mark.parametrize("number", STORED)
def test_a_stream_keeps_its_version(number: int, folder: Path) -> None:
    query = QUERY.format(f"VERSION AS OF {number}")
    with closing(open_folder(folder, "is opened")) as made:
        assert rows(streamed(query, penstock.relation(folder), made)) == wanted(number)
    upper = query.replace("d.v", "upper(d.v) || s.k AS v")  # computed around the join
    found = [row[1] for row in rows(streamed(upper, penstock.relation(folder)))]
    values = zip(wanted(number), STREAM["k"].to_pylist(), strict=True)
    assert found == [v and f"{v.upper()}{k}" for (_, v), k in values]


TIMES = {
    "TIMESTAMP AS OF '{:%Y-%m-%d %H:%M:%S.%f}'": None,
    "FOR SYSTEM_TIME AS OF '{:%Y-%m-%d %H:%M:%S.%f}'": "Asia/Kathmandu",
    "FOR TIMESTAMP AS OF '{:%Y-%m-%d %H:%M:%S.%f} +05:45'": "Asia/Kathmandu",
    "TIMESTAMP AS OF TIMESTAMP '{:%Y-%m-%d %H:%M:%S.%f}' - INTERVAL 0 SECONDS": None,
    "TIMESTAMP AS OF moment": "Asia/Kathmandu",
}


@pytest.mark.parametrize("clause", TIMES)
def test_times(clause: str, folder: Path) -> None:
    zone = TIMES[clause]
    offset = datetime.timezone(datetime.timedelta(minutes=345)) if zone else datetime.UTC
    given = {"s": STREAM, "dim": penstock.relation(folder)}
    step = datetime.timedelta(microseconds=1)
    for number in STORED:
        at = created(folder, number, offset)
        for moment, version in ((at, number), (at - step, number - 1)):
            query = QUERY.format(clause.format(moment))
            params = {"moment": moment} if "moment" in clause else None
            if not version:
                with pytest.raises(FileError, match=r"no version of that time: version 1 was made"):
                    penstock.sql(query, given, time_zone=zone, params=params)
                continue
            found = penstock.sql(query, given, time_zone=zone, params=params)
            assert rows(found) == wanted(version)


def test_times_to_the_microsecond(folder: Path) -> None:
    """Also where a float of seconds lies between two microseconds."""
    draw = random.Random(5)
    with closing(open_folder(folder, "is opened")) as made:
        files = file_store(str(folder))
        values = files.get_json(VERSION_NAMES.name(1))
        for _ in range(60):
            at = 1.1e9 + draw.random() * 5e8
            files.put_json(VERSION_NAMES.name(1), {**values, "created": at})
            step = datetime.timedelta(microseconds=1)
            micros = (datetime.datetime.fromtimestamp(at, datetime.UTC) - EPOCH) // step
            assert made.number_at(micros) == 1
            with pytest.raises(FileError, match="has no version of that time"):
                made.number_at(micros - 1)


def test_versions_under_names_of_their_own(folder: Path) -> None:
    given = {"s": STREAM, "d1": penstock.relation(folder), "d3": penstock.relation(folder)}
    query = (
        "SELECT s.id, a.v AS x, b.v AS y FROM s LEFT JOIN d1 VERSION AS OF 1 a ON s.k = a.k "
        "LEFT JOIN d3 VERSION AS OF 3 AS b ON s.k = b.k"
    )
    both = [(n, v, w) for (n, v), (_, w) in zip(wanted(1), wanted(3), strict=True)]
    assert rows(penstock.sql(query, given)) == both
    schemas = {**given, "s": STREAM.schema}
    with penstock.stream(query, schemas) as stream:
        stream.push("s", STREAM)
        assert rows(pa.concat_tables([stream.poll(), stream.close()])) == both


def test_nodes(folder: Path) -> None:
    query = QUERY.format("VERSION AS OF 2")
    with nodes_of(str(folder), 1) as nodes:
        asked = penstock.relation(folder, nodes=True)
        assert rows(penstock.sql(query, {"s": STREAM, "dim": asked})) == wanted(2)
        assert sum(node.counts.entered for node in nodes) > 0


@pytest.mark.slow
def test_workers(folder: Path) -> None:
    kinds = "CASE WHEN d.v LIKE 'one%' THEN 1 WHEN d.v LIKE 'two%' THEN 2 END"
    query = QUERY.replace("d.v", f"sum({kinds}) AS v") + " GROUP BY s.id, s.t"
    timed = STREAM.append_column("t", STREAM["id"].cast(pa.timestamp("us")))
    given = {"s": timed.schema, "dim": penstock.relation(folder)}
    with penstock.stream(query.format("VERSION AS OF 2"), given, workers=1) as stream:
        stream.push("s", timed)
        found = pa.concat_tables([stream.poll(), stream.close()])
    assert rows(found) == [(n, v and {"one": 1, "two": 2}[v[:3]]) for n, v in wanted(2)]


@pytest.mark.slow  # of other files than in a folder, the same records
def test_objects(object_location: str) -> None:
    pytest.importorskip("obstore", reason="needs pip install 'penstock[objects]'")
    with closing(stored(object_location)) as made:
        record = made.version_record(2)
    assert record is not None
    given = {"s": STREAM, "dim": penstock.relation(object_location)}
    assert rows(penstock.sql(QUERY.format("VERSION AS OF 1"), given)) == wanted(1)
    moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    query = QUERY.format("TIMESTAMP AS OF moment")
    assert rows(penstock.sql(query, given, params={"moment": moment})) == wanted(2)


@pytest.mark.parametrize("number", STORED)
def test_command_line(number: int, folder: Path, cli) -> None:
    pq.write_table(STREAM, folder.parent / "s.parquet")
    out = folder.parent / "out.parquet"
    given = [f"--table=s={folder.parent / 's.parquet'}", f"--relation=dim={folder}"]
    query = QUERY.format(f"VERSION AS OF {number}")
    _, err, status = cli("sql", query, *given, "--out", out)
    assert (status, f"looked up in version {number} of" in err) == (0, True), err
    assert rows(pq.read_table(out)) == wanted(number)
    for text in (query, query.replace("d.v", "upper(d.v) AS v")):
        shown, err, status = cli("explain", text, *given)
        assert (status, err) == (0, "")
        assert re.search(rf"version +{number}, {len(STORED[number])} rows", shown)


REFUSED: dict[str, Sequence[str]] = {
    "VERSION AS OF 4": ("VERSION AS OF 4: ", "has no version 4; versions there are 1, 2, 3"),
    "VERSION AS OF 0": ("has no version 0",),
    "VERSION AS OF 1.5": ("a version is a whole number",),
    "VERSION AS OF -1": ("a version is a whole number",),
    "VERSION AS OF 1 / 0": ("a version is a whole number",),
    "VERSION AS OF 'a' + 1": ("'a' + 1",),
    "VERSION AS OF 9223372036854775807 + 1": ("a version is a whole number",),
    "VERSION AS OF (SELECT max(k) FROM s)": ("VERSION AS OF (SELECT",),
    "TIMESTAMP AS OF 5": ("TIMESTAMP AS OF 5: that is no time",),
    "TIMESTAMP AS OF NULL": ("no time",),
    "TIMESTAMP AS OF TRUE": ("TIMESTAMP AS OF TRUE: that is no time",),
    "TIMESTAMP AS OF '2024-05-06' + INTERVAL 1 MONTH": ("a date or timestamp is needed",),
    "VERSION AS OF NULL": ("a version is a whole number",),
    "VERSION AS OF s.k": ("AS OF takes a constant, and s.k is a column", "VERSION AS OF s.k"),
    "FOR SYSTEM_TIME AS OF s.t": ("s.t is a column",),
    "TIMESTAMP AS OF current_timestamp()": ("current_timestamp",),
    "TIMESTAMP AS OF 'yesterday'": ("'yesterday' is not an ISO date or time",),
    "TIMESTAMP AS OF '1999-01-01'": ("has no version of that time", "Versions there are 1, 2, 3"),
    "FOR SYSTEM_TIME FROM 1 TO 3": ("one version of a relation is read: write AS OF",),
}


@pytest.mark.parametrize("clause", REFUSED)
def test_refusals(clause: str, folder: Path) -> None:
    given = {"s": STREAM, "dim": penstock.relation(folder)}
    for text in (QUERY, QUERY.replace("d.v", "upper(d.v) AS v")):
        with pytest.raises(PenstockError) as raised:
            penstock.sql(text.format(clause), given)
        assert all(words in str(raised.value) for words in REFUSED[clause]), raised.value
        with pytest.raises(type(raised.value)):
            penstock.stream(text.format(clause), {**given, "s": STREAM.schema})


def test_what_has_no_versions(folder: Path) -> None:
    dim = penstock.relation(folder)
    given = {"s": STREAM, "dim": dim, "t": table(STORED[1])}
    one = QUERY.format("VERSION AS OF 1")
    only = r"only a relation \(penstock.relation\) has versions \(at .*: VERSION AS OF 1\)"
    for text in (
        one.replace("dim", "t"),
        one.replace("FROM s", "FROM s VERSION AS OF 1"),
        f"WITH dim AS (SELECT k, v FROM t) {one}",
    ):
        with pytest.raises(QueryError, match=only):
            penstock.sql(text, given)
    server = RelationTable("postgresql://user:secret@host/db?table=dim&key=k")
    with pytest.raises(QueryError, match="table in PostgreSQL, which has no versions") as raised:
        penstock.sql(one, {"s": STREAM, "dim": server})
    assert "secret" not in str(raised.value)
    for second in ("dim VERSION AS OF 2", "dim"):
        with pytest.raises(
            QueryError, match=r"dim is read as of several versions.*a name for each"
        ):
            penstock.sql(f"{one} JOIN {second} e ON e.k = s.k", given)


def test_versions_that_were_swept(folder: Path) -> None:
    first, second = created(folder, 1), created(folder, 2)
    with closing(open_folder(folder, "is opened")) as made:
        made.pin("query", 1)
        assert made.compact() == 4
        made.update(table({1: "five"}), compact=False)
        assert made.compact() == 6
        made.vacuum(keep_s=0)
    dim = penstock.relation(folder)
    given = {"s": STREAM, "dim": dim}
    assert rows(penstock.sql(QUERY.format("VERSION AS OF 3"), given)) == wanted(3)
    for number in (1, 2, 4, 5):
        gone = rf"VERSION AS OF {number}: version {number} of .* is gone; versions there are 3, 6\."
        with pytest.raises(FileError, match=gone):
            penstock.sql(QUERY.format(f"VERSION AS OF {number}"), given)
    for moment in (first, second):
        with pytest.raises(FileError, match=r"no version of that time: .*versions 1 to 2 are gone"):
            penstock.sql(QUERY.format(f"TIMESTAMP AS OF '{moment:%Y-%m-%d %H:%M:%S.%f}'"), given)
    # Between two that are there, of which the record alone is left or nothing at all.
    fifth = created(folder, 5)
    text = QUERY.format(f"TIMESTAMP AS OF '{fifth:%Y-%m-%d %H:%M:%S.%f}'")
    with pytest.raises(FileError, match=r"version 5 of .* is gone"):
        penstock.sql(text, given)
    for number in (4, 5):
        (folder / VERSION_NAMES.name(number)).unlink()
    with pytest.raises(FileError, match=r"version 6 was made at .*; versions 4 to 5 are gone"):
        penstock.sql(text, given)


def test_names_and_texts_that_look_like_it(folder: Path) -> None:
    given = {"s": STREAM, "dim": penstock.relation(folder)}
    query = "SELECT s.id, ' VERSION AS OF 1' AS v, d.v AS of FROM s JOIN dim d ON s.k = d.k"
    assert penstock.sql(query, given)["of"].to_pylist().count("three") == 4
    assert columns_of(given["dim"]).names == ["k", "v"]
