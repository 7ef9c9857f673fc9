"""Places of files: one reading of paths and URIs, at every entrance."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import FileError, PenstockError, UsageError
from penstock.host.execute.trace import Trace
from penstock.host.relation import RelationOptions, build, open_relation
from penstock.host.rows.files import (
    check_writable,
    open_writer,
    read_schema,
    read_table,
    write_text,
)
from penstock.host.store.file_store import FileStore
from penstock.host.store.location import Location, local_path
from penstock.host.wire.address import read_token
from tests.kit.documents import ROOT

KEY = RelationOptions(key=("t",))
SCHEMA = pa.schema([("t", pa.int64())])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("x/y.csv", "x/y.csv"),
        ("a:b.csv", "a:b.csv"),
        ("a=s3://b", "a=s3://b"),
        ("what?#.csv", "what?#.csv"),
        ("file:/x/y%20z", "/x/y z"),
        ("file:///x/y%3F", "/x/y?"),
        ("FILE://localhost/x", "/x"),
        (Path("file:///x/y"), "/x/y"),
    ],
)
def test_local_places(text, path):
    assert local_path(text) == Path(path)


@pytest.mark.parametrize(
    "text", ["s3://b/x", "s3:/b/x", "hdfs:///x", "HTTPS://h/x", Path("gs://b/x")]
)
def test_other_places(text):
    place = Location.parse(text)
    assert place.path is None
    assert place.scheme == str(text).partition(":")[0].lower()
    with pytest.raises(UsageError, match="is no file or folder of this machine"):
        local_path(text)


@pytest.mark.parametrize("text", ["", "a\0b", "file://other/x", "file:///x?y", "file:///x#y"])
def test_no_places(text):
    with pytest.raises(UsageError):
        Location.parse(text)


def _write(place: str) -> None:
    with open_writer(place, SCHEMA):
        pass


#: Entrances for places of files of this machine.
LOCAL: dict[str, Callable[[str], Any]] = {
    "a table": lambda place: penstock.sql("SELECT count(*) AS n FROM a", {"a": place}),
    "a schema": read_schema,
    "rows of a relation": lambda place: build(place, "unused", KEY),
    "a written table": _write,
    "a written text": lambda place: write_text(place, "x"),
    "a check": check_writable,
    "a trace": Trace(False).write,
    "a checkpoint": penstock.Checkpoint,
    "a token": read_token,
}
#: Entrances for places of files on this machine or in stores of objects.
STORED: dict[str, Callable[[str], Any]] = {
    "a relation": penstock.relation,
    "an opened relation": open_relation,
    "a built relation": lambda place: build(pa.table({"t": [1]}), place, KEY),
    "a store": lambda place: FileStore(place, lost="", again=""),
}


@pytest.mark.parametrize("name", [*LOCAL, *STORED])
def test_entrances_refuse_other_places(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for place in ("hdfs://me:secret@host/x.csv", "ftp:/x.csv", "file://host/x.csv"):
        with pytest.raises(UsageError) as raised:
            (LOCAL | STORED)[name](place)
        assert "secret" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [*LOCAL, *STORED])
def test_entrances_take_uris_of_files(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"t": [1]}), tmp_path / "x y.parquet")
    place = f"file://{tmp_path}/x%20y.parquet"
    message = f"{tmp_path}/x y.parquet"
    try:
        (LOCAL | STORED)[name](place)
    except PenstockError as error:  # of the file: it is no token, no package, no folder
        message = str(error)
    assert f"{tmp_path}/x y.parquet" in message.replace("%20", " ")
    assert {one.name for one in tmp_path.iterdir()} <= {"x y.parquet", "unused"}


def test_a_path_of_a_store_has_lost_a_slash():
    with pytest.raises(UsageError, match="give it as text"):
        FileStore(str(Path("s3://bucket/x")), lost="", again="")


#: Modules that read addresses of servers, or the options of a store's address.
_OTHERS = {
    "host/store/location.py",
    "host/store/exclusive_put.py",
    "host/relation/postgres/location.py",
    "host/wire/address.py",
}


def test_nobody_else_reads_uris():
    reads = re.compile(r"\b(urlparse|urlsplit|url2pathname)\b|removeprefix\(.file:")
    users = {
        str(file.relative_to(ROOT))
        for room in ("penstock", "host", "spark_bridge")
        for file in (ROOT / room).rglob("*.py")
        if reads.search(file.read_text(encoding="utf-8"))
    }
    assert users == _OTHERS


def test_missing_files_and_patterns(tmp_path):
    for name in ("x.csv", "x.ndjson.gz", "x.parquet", "x.arrow"):
        with pytest.raises(FileError, match=f"there is no file .*{name}"):
            read_table(tmp_path / name)
    with pytest.raises(FileError, match="no file matches"):
        read_table(tmp_path / "*.csv")
    with pytest.raises(FileError, match="cannot tell the format"):
        read_table(tmp_path / "x.parquet.gz")
