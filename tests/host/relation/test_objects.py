"""Relations whose files are objects, in the S3 server of moto."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.errors import DataError, FileError, MissingToolError
from penstock.host.relation import FolderRelation, RelationOptions, build, open_relation
from penstock.host.relation.folder import writing
from penstock.host.relation.folder.records import VERSION_NAMES
from penstock.host.store import exclusive_put
from penstock.host.store.file_store import FileStore
from tests.host.relation.model import check_version, row_list
from tests.kit.effort import effort

TABLE = pa.table({"id": range(500), "name": [f"n{n}" for n in range(500)]})
OPTIONS = RelationOptions(key=("id",), page_bytes=1024)


def test_without_obstore(object_location, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingToolError, match=r"needs the package obstore, .*\[objects\]"):
        build(TABLE, object_location, OPTIONS)
    with pytest.raises(FileError, match="there is no relation"):
        open_relation(object_location)


def test_updates(object_location):
    pytest.importorskip("obstore", reason="needs pip install 'penstock[objects]'")
    made = build(TABLE, object_location, OPTIONS)
    assert made.name == object_location.partition("?")[0]
    wanted = Counter(row_list(TABLE))
    check_version(made, 1, wanted)
    with pytest.raises(FileError, match=r"s3://.* exists; update it"):
        build(TABLE, object_location, OPTIONS)
    other = open_relation(object_location)
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
    files = FileStore(object_location, lost="", again="")
    data = made.version().record.base.data
    content = files.get(data)
    assert content is not None
    files.put(data, content[:-16])
    again = open_relation(object_location)
    with pytest.raises(FileError, match="truncated"):
        check_version(again, 4, left)


def test_writers_that_race(object_location):
    pytest.importorskip("obstore", reason="needs pip install 'penstock[objects]'")
    made = build(TABLE, object_location, OPTIONS)
    count, each = effort((3, 4), (2, 2))
    failed = []

    def write(writer: int) -> None:
        try:
            own: FolderRelation = open_relation(object_location)
            for n in range(each):
                own.append(pa.table({"id": [1000 + n], "name": [f"w{writer}"]}), compact=False)
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(count)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(60)
    assert failed == []
    assert made.newest() == 1 + count * each
    assert made.version().rows == 500 + count * each


def objects_of(location: str) -> set[str]:
    files = FileStore(location, lost="", again="")
    names = {
        name for name in ("relation.json", VERSION_NAMES.name(1)) if files.size(name) is not None
    }
    return names | {file.name for file in files.listed("data")}


def test_a_failed_build_leaves_nothing(object_location, monkeypatch):
    pytest.importorskip("obstore", reason="needs pip install 'penstock[objects]'")
    options = RelationOptions(key=("id",), page_bytes=1024, unique=True)
    with pytest.raises(DataError, match="is unique, but several rows"):
        build(pa.concat_tables([TABLE, TABLE.slice(300, 2)]), object_location, options)
    assert objects_of(object_location) == set()
    with monkeypatch.context() as patch:
        put = exclusive_put.put_if_absent

        def refused(where: str, kind: str, path: str, content: bytes) -> bool:
            if "versions" in path:
                raise OSError("refused")
            return put(where, kind, path, content)

        patch.setattr(exclusive_put, "put_if_absent", refused)
        with pytest.raises(FileError, match=r"cannot write s3://.*refused"):
            build(TABLE, object_location, options)
    assert objects_of(object_location) == set()
    assert build(TABLE, object_location, options).version().rows == 500


def test_two_builds_of_one_name(object_location):
    """One of them is there, and nothing of the other one."""
    pytest.importorskip("obstore", reason="needs pip install 'penstock[objects]'")

    def batches() -> Iterator[pa.RecordBatch]:
        build(TABLE, object_location, OPTIONS)  # when the outer one has seen that nothing is there
        yield from TABLE.slice(0, 3).to_batches()

    with pytest.raises(FileError, match=r"s3://.* exists; update it"):
        build(pa.RecordBatchReader.from_batches(TABLE.schema, batches()), object_location, OPTIONS)
    check_version(open_relation(object_location), 1, Counter(row_list(TABLE)))
    assert len(objects_of(object_location)) == 4
    assert list(open_relation(object_location).check()) == []


def test_a_commit_whose_answer_is_lost(object_location, monkeypatch):
    """It is made once, though a store says first that it is there already, or fails."""
    pytest.importorskip("obstore", reason="needs pip install 'penstock[objects]'")
    made = build(TABLE, object_location, OPTIONS)
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
    check_version(open_relation(object_location), 3, Counter(row_list(rows)))
    with monkeypatch.context() as patch:
        patch.setattr(exclusive_put, "put_if_absent", fails)
        patch.setattr(writing, "put_once", FileStore.put_new_json)  # nor does a look find it
        with pytest.raises(FileError, match="no answer"):
            made.append(TABLE.slice(2, 1), compact=False)
    assert made.newest() == 4
    assert list(made.check()) == []
