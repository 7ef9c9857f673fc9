"""Files that commands read and write: their formats, their places, and none destroyed."""

from __future__ import annotations

import gzip
import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from penstock.cli.main import COMMANDS
from penstock.cli.options import READ, WRITTEN

TIMES = "b.t BETWEEN a.t - INTERVAL 5 SECONDS AND a.t + INTERVAL 5 SECONDS"
JOIN = f"SELECT a.id, b.id AS o FROM a JOIN b ON a.k = b.k AND {TIMES}"
A = "id,k,t\n1,x,2024-01-01 00:00:00\n2,y,2024-01-01 00:00:10\n"
B = "id,k,t\n7,x,2024-01-01 00:00:03\n8,y,2024-01-01 00:00:30\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with ``a.csv`` and ``b.csv``, of which two rows match."""
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(A)
    Path("b.csv").write_text(B)
    return tmp_path


def joined(cli, *more: str, a: str = "a.csv", query: str = JOIN) -> list[list[Any]] | str:
    """Rows of the join, or the error."""
    args = ["sql", query, "-t", f"a={a}", "-t", "b=b.csv", "--out", "out.parquet", *more]
    _, err, status = cli(*args)
    if status:
        assert "Traceback" not in err
        return err
    return [list(row.values()) for row in pq.read_table("out.parquet").to_pylist()]


def _links(folder: Path) -> Iterator[tuple[str, list[str], str]]:
    """Ways to name an input as the output, with the tables of the query."""
    (folder / "tables").mkdir()
    for name in "ab":
        pq.write_table(
            pacsv.read_csv(folder / f"{name}.csv"), folder / "tables" / f"{name}.parquet"
        )
    plain = ["a=tables/a.parquet", "b=tables/b.parquet"]
    (folder / "soft.parquet").symlink_to("tables/a.parquet")
    (folder / "hard.parquet").hardlink_to("tables/b.parquet")
    (folder / "linked").symlink_to("tables")
    (folder / "via.parquet").symlink_to("tables/b.parquet")
    yield "tables/a.parquet", plain, "the input"
    yield "soft.parquet", plain, "a symbolic link"
    yield "hard.parquet", plain, "a hard link"
    yield "linked/../tables/b.parquet", plain, "another path"
    yield f"file://{folder}/tables/a.parquet", plain, "a URI"
    yield "tables/a.parquet", [f"a=file://{folder}/tables/a.parquet", plain[1]], "read by URI"
    yield "tables/a.parquet", ["a=tables/[a].parquet", plain[1]], "a pattern"
    yield "tables/a.parquet", ["a=soft.parquet", "b=via.parquet"], "read through links"
    yield "tables/b.parquet", ["a=soft.parquet", "b=linked"], "in a folder"
    yield "tables/new.parquet", ["a=soft.parquet", "b=linked"], "a new part of a folder"


def test_no_output_replaces_an_input(cli, files):
    for out, tables, how in list(_links(files)):
        named = [item for table in tables for item in ("-t", table)]
        before = {one: one.read_bytes() for one in files.rglob("*.parquet")}
        for option in ("--out", "--stats", "--trace", "--vcd"):
            _, err, status = cli("sql", JOIN, *named, option, out)
            assert status == 2, (how, option)
            assert "read by this command" in err or "which this command reads" in err, (how, err)
        assert {one: one.read_bytes() for one in files.rglob("*.parquet")} == before, how
    _, err, status = cli("sql", JOIN, *named, "--out", "x.csv", "--stats", "./x.csv")
    assert (status, "both name" in err) == (2, True)
    query = files / "q.sql"
    query.write_text(JOIN)
    _, err, status = cli("sql", "-f", "q.sql", *named, "--stats", "q.sql")
    assert (status, query.read_text()) == (2, JOIN)


def _commands() -> Iterator[tuple[list[str], Any]]:
    """Every command, by its words."""

    def walk(app: Any, words: list[str]) -> Iterator[tuple[list[str], Any]]:
        for one in app.registered_commands:
            name = one.name or one.callback.__name__
            yield [*words, *([name] if name != "command" else [])], one.callback
        if app.registered_callback is not None:
            yield words, app.registered_callback.callback
        for group in app.registered_groups:
            yield from walk(group.typer_instance, [*words, group.name])

    for name in COMMANDS:
        yield from walk(import_module(f"penstock.cli.{name}").app, [name])


def _places() -> Iterator[Any]:
    for words, callback in _commands():
        for name, parameter in inspect.signature(callback).parameters.items():
            if "Path" in str(get_args(parameter.annotation)[:1]):
                yield pytest.param(callback, name, id=f"{' '.join(words)} {name}")


@pytest.mark.parametrize(("callback", "name"), list(_places()))
def test_a_path_of_another_place_is_refused(callback, name):
    # As Typer gives it: a Path, which has lost a slash.
    is_many = "list" in str(inspect.signature(callback).parameters[name].annotation)
    path = Path("s3://user:secret@bucket/x.parquet")
    with pytest.raises(Exception, match=r"s3://bucket/x.parquet is no file or folder") as raised:
        callback(**{name: [path] if is_many else path})
    assert type(raised.value).__name__ == "UsageError"
    assert "secret" not in str(raised.value)


#: Parameters with a path that is read, or a folder of a command's own files.
_OF_READERS = {
    *(
        "text_file",
        "token_file",
        "page_token_file",
        "nodes_token",
        "package",
        "overlay",
        "python",
        "board_python",
    ),
    "folder",
}


def test_every_parameter_that_names_a_place_is_known():
    """A new one must be of the outputs, which are checked, or of what is read."""
    for words, callback in _commands():
        for name, parameter in inspect.signature(callback).parameters.items():
            kind, about, *_ = (*get_args(parameter.annotation), None, None)
            if "Path" in str(kind):
                assert name in WRITTEN | _OF_READERS, (words, name)
            elif name not in READ | WRITTEN:
                assert "FILE" not in str(getattr(about, "help", "")), (words, name)


@pytest.mark.parametrize("scheme", ["s3", "gs", "https", "hdfs", "ftp"])
def test_tables_of_other_places(cli, files, scheme):
    err = joined(cli, a=f"{scheme}://u:secret@bucket/a.parquet?region=x")
    assert f"{scheme}://bucket/a.parquet is no file or folder of this machine" in err
    assert "copy it here" in " ".join(err.split())
    assert "secret" not in err


CLEAN = [[1, 7]]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        pytest.param(A.replace(",k", ", k"), [], id="a blank in the header"),
        pytest.param(A.replace(",", ";"), ["--delimiter", ";"], id="semicolons"),
        pytest.param(A.replace(",", "\t"), ["--delimiter", "\\t"], id="tabs"),
        pytest.param(A.replace("2,y", "2,NULL"), ["--null", "NULL"], id="NULL in text"),
        pytest.param("\ufeff" + A.replace("\n", "\r\n"), [], id="BOM and CRLF"),
    ],
)
def test_csv_of_other_shapes(cli, files, text, options):
    Path("a.csv").write_bytes(text.encode())
    Path("b.csv").write_text(
        B.replace(",", {";": ";", "\\t": "\t"}.get((options or [""])[-1], ","))
    )
    assert joined(cli, *options) == CLEAN


def test_csv_options(cli, files):
    Path("a.csv").write_text(A.partition("\n")[2])
    Path("b.csv").write_text(B.partition("\n")[2].replace("8,y", "8,-"))
    query = JOIN.replace(".id", "._c0").replace(".k", "._c1").replace(".t", "._c2")
    assert joined(cli, "--no-header", query=query) == CLEAN
    query = query.replace("a._c1 = b._c1", "b._c1 IS NULL").replace("5 SEC", "50 SEC")
    assert joined(cli, "--no-header", "--null", "-", query=query) == [[1, 8], [2, 8]]
    assert "one ASCII character" in joined(cli, "--delimiter", "--")
    pq.write_table(pa.table({"t": [1]}), "t.parquet")
    _, err, status = cli("sql", "SELECT count(*) AS n FROM a", "-t", "a=t.parquet", "--null", "x")
    assert (status, "--null is about CSV files" in err) == (2, True)


def test_csv_without_rows_or_times(cli, files):
    left = JOIN.replace("JOIN", "LEFT JOIN")
    Path("a.csv").write_text("id,k,t\n")
    assert joined(cli) == joined(cli, query=left) == []
    Path("a.csv").write_text("id,k,t\n1,x,\n")
    assert (joined(cli), joined(cli, query=left)) == ([], [[1, None]])
    between = left.replace(TIMES, "b.t - a.t < INTERVAL 5 SECONDS AND b.t >= a.t")
    assert joined(cli, query=between) == [[1, None]]
    Path("b.csv").write_text("id,k,t\n")
    assert (joined(cli), joined(cli, query=left)) == ([], [[1, None]])
    Path("a.csv").write_text("id,k,t\n")
    assert joined(cli) == []


def test_compressed_and_many_files(cli, files):
    Path("a.csv.gz").write_bytes(gzip.compress(A.encode()))
    assert joined(cli, a="a.csv.gz") == CLEAN
    lines = [
        json.dumps({"id": 1, "k": "x", "t": "2024-01-01 00:00:00"}),
        json.dumps({"id": 2, "k": "y", "t": "2024-01-01 00:00:10"}),
    ]
    Path("a.jsonl").write_text("\n".join(lines))
    Path("a.ndjson.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    assert joined(cli, a="a.jsonl") == joined(cli, a="a.ndjson.gz") == CLEAN
    for kind in ("csv", "jsonl", "parquet"):
        folder = Path(f"of_{kind}")
        folder.mkdir()
        for k, (line, row) in enumerate(zip(lines, A.split("\n")[1:3], strict=True)):
            part = folder / f"{k}.{kind}"
            if kind == "jsonl":
                part.write_text(line)
            else:
                part.write_text(f"id,k,t\n{row}\n")
            if kind == "parquet":
                pq.write_table(pacsv.read_csv(part), part)
        (folder / "_SUCCESS").touch()
        assert joined(cli, a=str(folder)) == CLEAN
        assert joined(cli, a=f"{folder}/*.{kind}") == joined(cli, a=f"*_{kind}/?.*") == CLEAN
    assert "no file matches" in joined(cli, a="of_csv/*.parquet")
    assert "several formats" in joined(cli, a="of_*/0.*")
    pq.write_table(pa.table({"id": ["x"]}), "of_parquet/2.parquet")
    assert "cannot read" in joined(cli, a="of_parquet/?.*")
    for name in ("out.csv.gz", "out.jsonl"):
        _, err, status = cli("sql", JOIN, "-t", "a=a.csv", "-t", "b=b.csv", "--out", name)
        assert (status != 0, "name it .parquet, .csv or .arrow" in err) == (True, True)


def test_query_in_a_file(cli, files):
    Path("query.sql").write_text(f"-- which meet\n{JOIN}\n;")
    tables = ["-t", "a=a.csv", "-t", "b=b.csv"]
    out, _, status = cli("sql", "-f", "query.sql", *tables)
    assert (status, out.split()[-2:]) == (0, ["1", "7"])
    _, err, status = cli("sql", JOIN, "--file", "query.sql", *tables)
    assert (status, "one of them" in err) == (2, True)
    assert cli("sql", *tables)[2] == 2
    _, err, status = cli("sql", "-f", "none.sql", *tables)
    assert (status, "cannot read none.sql: No such file" in err) == (6, True)


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("a.k = b.k", ["--within", "300"], "within is 300, a number without a unit"),
        (TIMES, ["--disorder", "5"], "disorder of a is 5, a number without a unit"),
        (TIMES, ["--disorder", "b=5"], "disorder of b is 5, a number without a unit"),
        ("b.t BETWEEN a.t AND a.t + 5", [], "moves by an INTERVAL, not by an integer"),
        ("b.t - a.t BETWEEN 0 AND 5", [], "write INTERVAL on both sides"),
        ("session_window(a.t, 5) = session_window(b.t, 5)", [], "as .10 seconds"),
        ("window(a.t, 5) = window(b.t, 5)", [], "as .10 seconds"),
    ],
)
def test_a_number_beside_timestamps_needs_a_unit(cli, files, query, options, message):
    query = f"SELECT a.id FROM a JOIN b ON a.k = b.k AND {query}"
    err = " ".join(str(joined(cli, *options, query=query)).split())
    assert re.search(message, err), err
    if options:
        assert "give a duration, such as" in err
        assert [1] in joined(cli, options[0], options[1] + "s", query=query)


def test_times_in_other_forms(cli, files):
    Path("a.csv").write_text("id,k,t\n1,x,01/01/2024 00:00:00\n2,y,01/01/2024 00:00:10\n")
    told = "to_timestamp(t, 'dd/MM/yyyy HH:mm:ss')"
    text = f"(SELECT id, k, CAST({told} AS TIMESTAMP_NTZ) AS t FROM a) a"
    assert joined(cli, query=JOIN.replace("FROM a", f"FROM {text}")) == CLEAN
    Path("a.csv").write_text("id,k,t\n1,x,1704067200\n2,y,1704067210\n")
    for made in ("timestamp_seconds(t)", "timestamp_millis(t * 1000)", "from_unixtime(t)"):
        text = f"(SELECT id, k, CAST({made} AS TIMESTAMP_NTZ) AS t FROM a) a"
        assert joined(cli, query=JOIN.replace("FROM a", f"FROM {text}")) == CLEAN, made
    Path("a.csv").write_text("id,k,t\n1,x,2024-1-01 00:00:00\n")
    text = text.replace("from_unixtime(t)", "to_timestamp(t, 'yyyy-MM-dd HH:mm:ss')")
    assert "does not have the format" in joined(cli, query=JOIN.replace("FROM a", f"FROM {text}"))
