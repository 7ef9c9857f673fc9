"""Files in a folder: whole or not there, summed, listed, removed. Objects: test_objects.py."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import FileError
from penstock.host.store.atomic import atomic
from penstock.host.store.checksums import checksum
from penstock.host.store.file_store import FileStore, WrittenFile, explained
from penstock.host.store.own_names import OwnNames


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    own = OwnNames("[ab]/[xy]")
    made = FileStore(
        str(tmp_path / "files"), lost="look for it", again="do it again", own_names=own
    )
    made.make(["a", "b"])
    return made


def test_what_is_put_is_there(store: FileStore, tmp_path: Path) -> None:
    assert store.put("a/x", b"12") == WrittenFile(2, checksum(b"12"))
    assert store.put("a/x", pa.py_buffer(b"123")).bytes == 3
    assert (tmp_path / "files" / "a" / "x").read_bytes() == b"123"
    assert store.get("a/x") == b"123"
    assert store.size("a/x") == 3
    assert store.names("a") == ["x"]
    assert store.names("b") == store.names("nowhere") == []
    store.put("a/x.bak", b"1")
    store.remove(["a/x", "a/x", "a/x.bak"])
    assert store.get("a/x") is None
    assert store.size("a/x") is None
    assert store.get("a/x.bak") == b"1", "its name is not the store's"


def test_a_file_uri_is_a_folder(store: FileStore, tmp_path: Path) -> None:
    store.put("a/x", b"1")
    uri = (tmp_path / "files").as_uri()
    other = FileStore(uri, lost="", again="")
    assert other.root == str(tmp_path / "files")
    assert other.get("a/x") == b"1"


def test_values_belong_to_their_name(store: FileStore) -> None:
    store.put_json("a/x", {"n": 1})
    assert store.get_json("a/x") == {"n": 1}
    assert store.get_json("a/y") is None
    content = store.get("a/x")
    assert content is not None
    store.put("a/y", content)
    with pytest.raises(FileError, match=r"a/y cannot be read: it is a copy of a/x; look for it"):
        store.get_json("a/y")
    store.put("a/x", content.replace(b'"n": 1', b'"n": 2'))
    with pytest.raises(FileError, match=r"checksum does not fit its content; look for it"):
        store.get_json("a/x")
    store.put("a/x", b"")
    with pytest.raises(FileError, match=r"a/x cannot be read: .*; look for it"):
        store.get_json("a/x")


def test_tables_are_what_was_written(store: FileStore) -> None:
    table, sink = pa.table({"x": [1, 2]}), pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write(table)
    written = store.put("a/x", sink.getvalue())
    assert store.table("a/x", written.checksum).equals(table)
    with pytest.raises(FileError, match=r"a/y is gone; look for it"):
        store.table("a/y", written.checksum)
    store.put("a/x", b"other")
    with pytest.raises(FileError, match=r"is not what was written: its checksum .* look for it"):
        store.table("a/x", written.checksum)


def test_errors_say_what_to_do(store: FileStore) -> None:
    with pytest.raises(FileError, match=r"cannot write .*/c/x: No such file.* and do it again"):
        store.put("c/x", b"")
    store.put("a/x", b"")
    with pytest.raises(FileError, match=r"cannot make .*all workers can write"):
        store.make(["a/x/y"])
    with pytest.raises(FileError, match=r"a cannot be read: .*look for it"):
        store.get("a")
    full = "^cannot write x: No space left on device; free or add space and do it again$"
    with pytest.raises(FileError, match=full), explained("x", "do it again"):
        raise OSError(errno.ENOSPC, "No space left on device")
    store.put("a/x", b"12")
    store.require("a/x", 2)
    with pytest.raises(FileError, match="a/x has 2 bytes, not 1,000; look for it"):
        store.require("a/x", 1000)
    with pytest.raises(FileError, match="a/y is gone; look for it"):
        store.require("a/y", 0)


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_whole_or_not_there(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "x"
    with atomic(path, durable=durable) as partial:
        partial.write_text("1")
        assert not path.exists()
        assert partial.name[0] == "."
    with pytest.raises(FileNotFoundError), atomic(path, durable=durable):
        os.unlink(tmp_path / "gone")
    with pytest.raises(FileExistsError), atomic(path, replace=False, durable=durable) as partial:
        partial.write_text("3")
    assert path.read_text() == "1"
    with atomic(path, durable=durable) as partial:
        partial.write_text("4")
    assert path.read_text() == "4"
    assert os.listdir(tmp_path) == ["x"]


def test_only_one_writer_makes_a_file(store: FileStore, tmp_path: Path) -> None:
    assert store.put_new("a/x", b"1")
    assert not store.put_new("a/x", b"2")
    assert store.get("a/x") == b"1"
    assert store.put_new_json("a/y", {"n": 1})
    assert not store.put_new_json("a/y", {"n": 2})
    assert store.get_json("a/y") == {"n": 1}
    with pytest.raises(FileError, match=r"cannot write .*/c/x: No such file.* and do it again"):
        store.put_new("c/x", b"")
    assert sorted(os.listdir(tmp_path / "files" / "a")) == ["x", "y"]


def test_large_files_are_written_piece_by_piece(store: FileStore, tmp_path: Path) -> None:
    with store.writing("a/x") as file:
        file.write(b"12")
        file.write(b"345")
        assert store.size("a/x") is None
    assert store.get("a/x") == b"12345"
    with pytest.raises(ZeroDivisionError), store.writing("a/y") as file:
        file.write(b"1" * (1 // 0))
    full = r"cannot write .*/a/y: No space left on device; free or add space"
    with pytest.raises(FileError, match=full), store.writing("a/y"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert os.listdir(tmp_path / "files" / "a") == ["x"]


def test_ranges_of_bytes(store: FileStore) -> None:
    store.put("a/x", bytes(range(100)))
    reader = store.ranges("a/x")
    out = bytearray(10)
    assert reader.read_into(memoryview(out), 5) == 10
    assert out == bytes(range(5, 15))
    assert reader.read_into(memoryview(out), 95) == 5  # the file ends
    assert reader.read_into(memoryview(out), 200) == 0
    reader.close()
    reader.close()
    with pytest.raises(FileError, match=r"a/y is gone; look for it"):
        store.ranges("a/y")


def test_columns_are_read_into_memory(store: FileStore) -> None:
    table, sink = pa.table({"x": [1, 2], "y": ["a", "b"], "z": [3, 4]}), pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write(table)
    written = store.put("a/x", sink.getvalue())
    assert (
        store.columns("a/x", written.checksum, ["z", "y"])
        .select(["z", "y"])
        .equals(table.select(["z", "y"]))
    )
    with pytest.raises(FileError, match=r"a/y is gone; look for it"):
        store.columns("a/y", written.checksum, ["x"])
    with pytest.raises(FileError, match=r"is not what was written: its checksum .* look for it"):
        store.columns("a/x", "0", ["x"])
    text = store.put("a/z", b"no Arrow file")
    with pytest.raises(FileError, match=r"a/z cannot be read: .*look for it"):
        store.columns("a/z", text.checksum, ["x"])


def test_files_are_listed(store: FileStore) -> None:
    store.make(["a/b"])
    store.put("a/x", b"12")
    store.put("a/b/y", b"1")
    assert [(one.name, one.bytes) for one in store.listed("a")] == [("a/x", 2)]
    assert sorted(one.name for one in store.listed("a", deep=True)) == ["a/b/y", "a/x"]
    assert store.listed("nowhere") == []
    stamp = store.stamp("a/x")
    assert stamp == store.stamp("a/x") is not None
    store.put("a/x", b"12")
    assert store.stamp("a/x") != stamp
    assert store.stamp("a/nothing") is None
