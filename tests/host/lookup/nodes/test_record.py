"""Records of nodes: who writes at once, what is torn, gone or of another relation."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from penstock.errors import FileError, UsageError
from penstock.host.lookup.nodes.record import change_ring, newest_ring, read_ring
from penstock.host.lookup.nodes.ring import Node, Ring
from penstock.host.relation import RelationOptions, build, open_relation
from penstock.host.relation.folder.keeping import KEPT_RINGS
from penstock.host.relation.folder.reading import file_store
from penstock.host.relation.folder.records import RING_NAMES
from penstock.host.store.checksums import sealed
from penstock.host.store.file_store import FileStore

WAIT_S = 60
DAY_S = 24 * 3600.0


@pytest.fixture
def files(tmp_path) -> FileStore:
    return made(str(tmp_path / "a.rel"))


def made(location: str) -> FileStore:
    build(pa.table({"id": range(10)}), location, RelationOptions(key=("id",))).close()
    return file_store(location)


def add(files: FileStore, *names: str) -> Ring:
    ring = Ring(0, ())
    for name in names:
        ring = change_ring(
            files, lambda ring, n=name: (ring or Ring(0, ())).add(Node(n, f"tcp://{n}:1"))
        )
    return ring


def names(ring: Ring | None) -> list[str] | None:
    return None if ring is None else [node.name for node in ring.nodes]


def file(files: FileStore, number: int) -> Path:
    assert files.folder is not None
    return files.folder / RING_NAMES.name(number)


def test_records_count_up(files):
    assert (newest_ring(files), read_ring(files)) == (0, None)
    assert add(files, "a", "b").number == 2
    assert (newest_ring(files), newest_ring(files, 1), newest_ring(files, 2)) == (2, 2, 2)
    assert names(read_ring(files)) == ["a", "b"]
    assert names(read_ring(files, 1)) == ["a"]
    assert add(files, "b").number == 2  # nothing changes
    with pytest.raises(UsageError, match="there is no node c"):
        change_ring(files, lambda ring: (ring or Ring(0, ())).drain("c"))
    assert newest_ring(files) == 2
    change_ring(files, lambda ring: Ring(0, ()))
    assert (newest_ring(files), read_ring(files), read_ring(files, 3)) == (3, None, None)
    assert add(files, "c").number == 4
    assert names(read_ring(files)) == ["c"]


def test_versions_and_nodes_are_apart(files):
    add(files, "a")
    with closing(open_relation(files.root)) as relation:
        relation.append(pa.table({"id": [11]}), compact=False)
        assert relation.numbers() == [1, 2]
        assert list(relation.check()) == []
    assert newest_ring(files) == 1


def test_several_write_at_once(files):
    count = 8
    ready = threading.Barrier(count)
    numbers = []

    def run(name: str) -> None:
        ready.wait(WAIT_S)
        numbers.append(add(file_store(files.root), name).number)

    threads = [threading.Thread(target=run, args=(f"n{k}",)) for k in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(WAIT_S)
    assert sorted(numbers) == list(range(1, count + 1))
    assert names(read_ring(files)) == [f"n{k}" for k in range(count)]


@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_a_torn_record_is_named_and_the_next_change_repairs(files, length, caplog):
    add(files, "a", "b")
    path = file(files, 2)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(FileError, match=rf"{path} cannot be read: .*add`\), which writes number 3"):
        read_ring(files)
    assert newest_ring(files) == 2
    assert names(read_ring(files, 1)) == ["a"]  # whoever has it goes on with it
    with caplog.at_level(logging.WARNING):
        ring = add(files, "a")
    assert (ring.number, names(ring)) == (3, ["a"])
    assert f"{path} cannot be read" in caplog.text
    assert "Its change is lost; the next record follows number 1" in caplog.text
    assert names(read_ring(files)) == ["a"]
    assert add(files, "b").number == 4


def test_records_that_are_gone(files):
    add(files, "a", "b", "c")
    with pytest.raises(FileError, match=r"0009.json is gone; see `penstock relation nodes list`"):
        read_ring(files, 9)
    file(files, 2).unlink()
    assert newest_ring(files) == newest_ring(files, 2) == newest_ring(files, 3) == 3
    assert names(read_ring(files)) == ["a", "b", "c"]
    file(files, 1).unlink()
    file(files, 3).unlink()
    assert (newest_ring(files, 3), read_ring(files)) == (0, None)


def test_nothing_left_to_begin_with(files):
    add(files, "a")
    file(files, 1).write_bytes(b"")
    with pytest.raises(FileError, match=r"none of the records in .*nodes can be read; remove that"):
        add(files, "b")
    assert newest_ring(files) == 1


def test_records_of_others(files, tmp_path):
    add(files, "a", "b")
    other = made(str(tmp_path / "b.rel"))
    shutil.copytree(file(files, 1).parent, file(other, 1).parent)
    with pytest.raises(FileError, match=r"b.rel/nodes/0+2.json belongs to another relation; go on"):
        read_ring(other)
    shutil.copy(file(files, 1), file(files, 3))
    with pytest.raises(FileError, match=r"0+3.json cannot be read: it is a copy of nodes/0+1.json"):
        read_ring(files)
    assert names(add(files, "c")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format": 2}, "has format 2, hash splitmix64-1 and 1024 points, and this release reads"),
        ({"points": 64}, "has format 1, hash splitmix64-1 and 64 points, and this"),
        ({"hash": "x"}, "hash x and 1024 points, and this release reads 1, splitmix64-1 and 1024"),
        ({"nodes": [{"name": "a"}]}, "cannot be read: .*missing.*address"),
        ({"nodes": [{"name": "a b", "address": "tcp://h:1"}]}, "cannot be read: 'a b' cannot be"),
        ({"nodes": None}, "cannot be read: "),
    ],
)
def test_records_of_other_releases(files, changed, message):
    add(files, "a")
    name = RING_NAMES.name(1)
    values = json.loads(file(files, 1).read_text())["values"]
    file(files, 1).write_text(sealed(name, {**values, **changed}))
    with pytest.raises(FileError, match=message):
        read_ring(files)


def test_no_relation(tmp_path):
    files = file_store(str(tmp_path / "no.rel"))
    assert (newest_ring(files), read_ring(files)) == (0, None)
    with pytest.raises(FileError, match=r"there is no relation at .*no.rel"):
        add(files, "a")
    assert not (tmp_path / "no.rel").exists()


def test_vacuum_keeps_the_newest_records(files):
    add(files, *(f"n{k}" for k in range(KEPT_RINGS + 4)))
    partial = file(files, 1).with_name(f".{1:020d}.json.{uuid4().hex}.partial")
    partial.touch()
    old = file(files, 1).stat().st_mtime - 2 * DAY_S
    for path in [partial, *(file(files, number) for number in (1, 2, KEPT_RINGS + 4))]:
        os.utime(path, (old, old))
    with closing(open_relation(files.root)) as relation:
        relation.vacuum(keep_s=0)
    left = sorted(path.name for path in file(files, 1).parent.iterdir())
    assert left == [Path(RING_NAMES.name(n)).name for n in range(3, KEPT_RINGS + 5)]
    assert newest_ring(files, 1) == newest_ring(files) == KEPT_RINGS + 4
    with closing(open_relation(files.root)) as relation:
        relation.vacuum(keep_s=0, orphans_s=-60)
    left = sorted(path.name for path in file(files, 1).parent.iterdir())
    assert left == [Path(RING_NAMES.name(n)).name for n in range(5, KEPT_RINGS + 5)]
    assert len(read_ring(files) or ()) == KEPT_RINGS + 4


def test_objects(object_location):
    pytest.importorskip("obstore", reason="needs pip install 'penstock[objects]'")
    files = made(object_location)
    assert read_ring(files) is None
    assert add(files, "a", "b").number == 2
    assert names(read_ring(files)) == ["a", "b"]
    content = files.get(RING_NAMES.name(2))
    assert content is not None
    files.put(RING_NAMES.name(2), content[:-9])
    with pytest.raises(FileError, match=r"s3://.*nodes/0+2.json cannot be read"):
        read_ring(files)
    assert add(files, "c").number == 3
    assert names(read_ring(files)) == ["a", "c"]
