"""Relations whose files are objects, in the S3 server of moto."""

from __future__ import annotations

import sys
import threading
from collections import Counter

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")
pytest.importorskip("moto", reason="needs pip install 'penstock[dev]'")

from penstock.errors import FileError, MissingToolError
from penstock.host.relation import FolderRelation, RelationOptions, build, open_relation
from penstock.host.rows.file_store import FileStore
from tests.host.relation.model import check_version, row_list
from tests.spark_bridge.kit.object_store import BUCKET, CREDENTIALS, object_store

TABLE = pa.table({"id": range(500), "name": [f"n{n}" for n in range(500)]})
OPTIONS = RelationOptions(key=("id",), page_bytes=1024)


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with object_store() as options:
            yield options


@pytest.fixture
def location(server, request):
    return f"s3://{BUCKET}/{request.node.name}?{server}"


def test_without_obstore(location, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingToolError, match=r"needs the package obstore, .*penstock\[objects\]"):
        build(TABLE, location, OPTIONS)
    with pytest.raises(FileError, match="there is no relation"):
        open_relation(location)


def test_updates(location):
    pytest.importorskip("obstore", reason="needs pip install 'penstock[objects]'")
    made = build(TABLE, location, OPTIONS)
    assert made.name == location.partition("?")[0]
    wanted = Counter(row_list(TABLE))
    check_version(made, 1, wanted)
    with pytest.raises(FileError, match=r"s3://.* exists; update it"):
        build(TABLE, location, OPTIONS)
    other = open_relation(location)
    made.append(TABLE.slice(0, 10), compact=False)
    made.update(TABLE.slice(5, 3), TABLE.slice(20, 400).select(["id"]))
    assert other.newest() == made.newest() == 4
    wanted = Counter(row_list(TABLE)) + Counter(row_list(TABLE.slice(0, 10)))
    gone = set(range(20, 420))
    left = Counter({r: n for r, n in wanted.items() if r[0] not in gone})
    for row in row_list(TABLE.slice(5, 3)):
        left[row] = 1
    check_version(other, 4, left)
    assert list(other.check()) == []
    assert made.pin("q", 1) == other.pin("q", 1) == 4
    assert made.vacuum(keep_s=0).versions == 3
    check_version(other, 4, left)
    files = FileStore(location, lost="", again="")
    data = made.version().record.base.data
    content = files.get(data)
    assert content is not None
    files.put(data, content[:-16])
    again = open_relation(location)
    with pytest.raises(FileError, match="truncated"):
        check_version(again, 4, left)


def test_writers_that_race(location):
    pytest.importorskip("obstore", reason="needs pip install 'penstock[objects]'")
    made = build(TABLE, location, OPTIONS)
    failed = []

    def write(writer: int) -> None:
        try:
            own: FolderRelation = open_relation(location)
            for n in range(4):
                own.append(pa.table({"id": [1000 + n], "name": [f"w{writer}"]}), compact=False)
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(60)
    assert failed == []
    assert made.newest() == 13
    assert made.version().rows == 512
