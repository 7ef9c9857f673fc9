"""Relations whose files are objects, in the S3 server of moto."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")
pytest.importorskip("moto", reason="needs pip install 'penstock[dev]'")

from penstock.errors import DataError, FileError, MissingToolError
from penstock.host.relation import FolderRelation, RelationOptions, build, open_relation
from penstock.host.relation.folder import writing
from penstock.host.relation.folder.records import version_name
from penstock.host.rows import exclusive_put
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


def objects_of(location: str) -> set[str]:
    files = FileStore(location, lost="", again="")
    names = {name for name in ("relation.json", version_name(1)) if files.size(name) is not None}
    return names | {file.name for file in files.listed("data")}


def test_a_failed_build_leaves_nothing(location, monkeypatch):
    pytest.importorskip("obstore", reason="needs pip install 'penstock[objects]'")
    options = RelationOptions(key=("id",), page_bytes=1024, unique=True)
    with pytest.raises(DataError, match="is unique, but several rows"):
        build(pa.concat_tables([TABLE, TABLE.slice(300, 2)]), location, options)
    assert objects_of(location) == set()
    with monkeypatch.context() as patch:
        put = exclusive_put.put_if_absent

        def refused(location: str, kind: str, path: str, content: bytes) -> bool:
            if "versions" in path:
                raise OSError("refused")
            return put(location, kind, path, content)

        patch.setattr(exclusive_put, "put_if_absent", refused)
        with pytest.raises(FileError, match=r"cannot write s3://.*refused"):
            build(TABLE, location, options)
    assert objects_of(location) == set()
    assert build(TABLE, location, options).version().rows == 500


def test_two_builds_of_one_name(location):
    """One of them is there, and nothing of the other one."""
    pytest.importorskip("obstore", reason="needs pip install 'penstock[objects]'")

    def batches() -> Iterator[pa.RecordBatch]:
        build(TABLE, location, OPTIONS)  # when the outer one has seen that nothing is there
        yield from TABLE.slice(0, 3).to_batches()

    with pytest.raises(FileError, match=r"s3://.* exists; update it"):
        build(pa.RecordBatchReader.from_batches(TABLE.schema, batches()), location, OPTIONS)
    check_version(open_relation(location), 1, Counter(row_list(TABLE)))
    assert len(objects_of(location)) == 4
    assert list(open_relation(location).check()) == []


def test_a_commit_whose_answer_is_lost(location, monkeypatch):
    """It is made once, though a store says first that it is there already, or fails."""
    pytest.importorskip("obstore", reason="needs pip install 'penstock[objects]'")
    made = build(TABLE, location, OPTIONS)
    put = exclusive_put.put_if_absent

    def says_no(*given) -> bool:
        put(*given)
        return False

    def fails(*given) -> bool:
        put(*given)
        raise OSError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(exclusive_put, "put_if_absent", says_no)
        assert made.append(TABLE.slice(0, 1), compact=False) == 2
    with monkeypatch.context() as patch:
        patch.setattr(exclusive_put, "put_if_absent", fails)
        assert made.append(TABLE.slice(1, 1), compact=False) == 3
    rows = pa.concat_tables([TABLE, TABLE.slice(0, 2)])
    check_version(open_relation(location), 3, Counter(row_list(rows)))
    with monkeypatch.context() as patch:
        patch.setattr(exclusive_put, "put_if_absent", fails)
        patch.setattr(writing, "put_once", FileStore.put_new_json)  # nor does a look find it
        with pytest.raises(FileError, match="no answer"):
            made.append(TABLE.slice(2, 1), compact=False)
    assert made.newest() == 4
    assert list(made.check()) == []
