"""Files that are lost or damaged: each read says so, names the file, and says what to do."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import FileError
from penstock.host.relation import FolderRelation, RelationOptions, build, open_relation
from penstock.host.store import file_store
from penstock.host.store.file_store import FileStore
from tests.host.relation.model import row_list

ROWS = 400
REMEDY = r"restore the relation from a backup, or build it anew"


def rows(first: int, end: int) -> pa.Table:
    names = [None if n % 5 == 0 else f"name {n}" for n in range(first, end)]
    keys = pa.array([None if n % 50 == 7 else n for n in range(first, end)], pa.int64())
    lists = pa.array([[n] * (n % 3) for n in range(first, end)])
    return pa.table({"id": keys, "name": names, "at": range(first, end), "list": lists})


@pytest.fixture
def relation(tmp_path: Path) -> FolderRelation:
    options = RelationOptions(key=("id",), page_bytes=1024)
    made = build(rows(0, ROWS), str(tmp_path / "r"), options)
    made.update(deletes=rows(20, 27), compact=False)
    return made


def read_all(relation: FolderRelation) -> Counter:
    version = relation.version()
    found = version.read(np.arange(len(version.index)), relation.schema.names)
    return Counter(row_list(found.batch))


def data_file(relation: FolderRelation, end: str = "pages") -> Path:
    record = relation.version().record.base
    return Path(relation.name, "data", f"{record.name}.{end}")


def test_every_bit_counts(relation):
    """A flipped bit anywhere in a page is found when the page is read, and by check."""
    whole = read_all(relation)
    path = data_file(relation)
    content = path.read_bytes()
    version = relation.version()
    sizes = version._base.bytes_of(slice(None))
    starts = np.cumsum(sizes) - sizes
    page = len(sizes) // 2
    start, end = int(starts[page]), int(starts[page] + sizes[page])
    # All of the metadata, and some of the values and of what pads them.
    places = [*range(start, start + 64), *range(start + 64, end, 37), end - 1]
    for place in places:
        flipped = bytearray(content)
        flipped[place] ^= 1 << (place % 8)
        with path.open("r+b") as file:
            file.write(flipped)
        with pytest.raises(FileError, match=rf"{path}: page {page} is not what was .*{REMEDY}"):
            version.read(np.array([page]), ["at"])
    assert [REMEDY in line and f"page {page} " in line for line in relation.check()] == [True]
    others = np.delete(np.arange(len(version.index)), page)
    assert version.read(others, ["at"]).batch.num_rows < version.rows
    path.write_bytes(content)
    assert read_all(relation) == whole


def test_pages_that_changed_places(relation):
    path = data_file(relation)
    sizes = relation.version()._base.bytes_of(slice(None))
    same = next(k for k in range(len(sizes) - 1) if sizes[k] == sizes[k + 1])
    content = path.read_bytes()
    start, size = int(sizes[:same].sum()), int(sizes[same])
    first, second = content[start : start + size], content[start + size : start + 2 * size]
    swapped = content[:start] + second + first + content[start + 2 * size :]
    path.write_bytes(swapped)
    with pytest.raises(FileError, match=f"page {same} is not what was written"):
        relation.version().read(np.array([same]), ["id"])


@pytest.mark.parametrize("left", [0, 1, 7, 500, -1, -8, -1000])
def test_truncated_pages(relation, left):
    path = data_file(relation)
    size = path.stat().st_size
    os.truncate(path, left % size)
    version = relation.version()
    with pytest.raises(FileError, match=rf"it is truncated: it ends at byte .*{REMEDY}"):
        version.read(np.arange(len(version.index)), ["id"])
    if left < 0:  # what is whole is read
        assert version.read(np.array([0]), ["id"]).batch.num_rows
    assert any("truncated" in line for line in relation.check())


def test_a_version_in_use_outlives_vacuum(relation):
    older = relation.version(1)
    first = older.read(np.arange(len(older.index)), ["id"])
    relation.compact()
    other = open_relation(relation.name)
    other.vacuum(keep_s=0)
    assert other.numbers() == [3]
    again = older.read(np.arange(len(older.index)), ["id"])
    assert again.batch.equals(first.batch)
    with pytest.raises(FileError, match=r"version 1 of .* is gone; versions there are 3\. Keep"):
        other.version(1)


def test_what_a_vacuum_leaves_between_two_versions_is_whole(relation):
    """A pinned version keeps those behind it listed, whose rows nobody needs."""
    assert relation.pin("query", 1) == 2
    for number in (ROWS + 1, ROWS + 2):
        relation.append(rows(number, number + 3), compact=False)
        relation.compact()
    assert relation.vacuum(keep_s=0).files == 2
    again = open_relation(relation.name)
    assert again.numbers() == [2, 3, 4, 5, 6]
    assert again.readable() == [2, 3, 6]
    assert list(again.check()) == []
    with pytest.raises(FileError, match=r"version 4 of .* is gone; versions there are 2, 3, 6\. K"):
        again.version(4)
    assert len(again.version(6).changed_since(2)) == 4


@pytest.mark.parametrize("lost", ["pinned", "changed", "newest"])
@pytest.mark.parametrize("end", ["pages", "index"])
def test_lost_files_behind_a_pin(relation, lost, end):
    relation.pin("query", 1)
    relation.append(rows(ROWS + 1, ROWS + 2), compact=False)
    relation.compact()
    segment = {
        "pinned": relation.version(2).record.base,
        "changed": relation.version(3).record.changed_segments[0],
        "newest": relation.version(4).record.base,
    }[lost]
    Path(relation.name, "data", f"{segment.name}.{end}").unlink()
    assert any("is gone" in line for line in open_relation(relation.name).check())


@pytest.mark.parametrize("end", ["pages", "index"])
def test_lost_files(relation, end):
    data_file(relation, end).unlink()
    again = open_relation(relation.name)
    with pytest.raises(FileError, match=rf"{end} is gone; restore the relation from a backup"):
        read_all(again)
    assert any("is gone" in line for line in relation.check())


@pytest.mark.parametrize("place", [0, 9, 200, -1, -40])
def test_damaged_index(relation, place):
    path = data_file(relation, "index")
    content = bytearray(path.read_bytes())
    content[place] ^= 16
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"index is not what was written: its checksum is .*re"):
        read_all(open_relation(relation.name))
    os.truncate(path, 100)
    with pytest.raises(FileError, match=r"index is not what was written"):
        read_all(open_relation(relation.name))


def test_lost_and_damaged_records(relation, tmp_path):
    newest = Path(relation.name, "versions", f"{2:020d}.json")
    content = newest.read_text()
    newest.write_text(content.replace('"rows": ', '"rows": 1', 1))
    with pytest.raises(FileError, match=r"checksum does not fit its content; restore"):
        open_relation(relation.name).version()
    assert open_relation(relation.name).version(1).rows == ROWS
    newest.unlink()
    for lose in (lambda: None, newest.mkdir):
        lose()
        # No older rows in silence; nor for a program that has it open, nor to a writer.
        for use in (
            lambda: open_relation(relation.name),
            relation.newest,
            lambda: relation.append(rows(500, 510)),
        ):
            with pytest.raises(FileError, match=r"version 2 of .*, the newest one, is gone"):
                use()
    newest.rmdir()
    note = Path(relation.name, "newest.json")
    kept = note.read_text()
    note.unlink()
    assert open_relation(relation.name).newest() == 1  # as a relation of an earlier release
    with pytest.raises(FileError, match=r"has no version 2; versions there are 1"):
        open_relation(relation.name).version(2)
    note.write_text(kept)
    newest.write_text(content)
    assert open_relation(relation.name).append(rows(500, 510)) == 3
    relation.vacuum(keep_s=0)
    assert json.loads(note.read_text())["values"]["version"] == relation.newest() == 3
    note.unlink()
    newest.with_name(f"{3:020d}.json").unlink()
    newest.write_text(content)
    shutil.move(newest, Path(newest).with_name(f"{3:020d}.json"))
    with pytest.raises(FileError, match=r"it is a copy of versions/0{19}2.json"):
        open_relation(relation.name).version(3)
    shutil.rmtree(newest.parent)
    with pytest.raises(FileError, match=r"has no version in versions; restore .* build it anew"):
        open_relation(relation.name)
    manifest = Path(relation.name, "relation.json")
    content = manifest.read_text()
    manifest.write_text(content[:50])
    with pytest.raises(FileError, match=r"relation.json cannot be read: .*restore"):
        open_relation(relation.name)
    manifest.unlink()
    with pytest.raises(FileError, match=r"there is no relation at .*relation.json is missing; bu"):
        open_relation(relation.name)
    with pytest.raises(FileError, match=r"there is no relation at"):
        open_relation(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("format", 3, r"has format 3, and this release reads format 2; read it with the release"),
        ("hash", "crc", r"ordered by the hash crc, which this release does not know"),
    ],
)
def test_relations_of_other_releases(relation, field, value, message):
    files = FileStore(relation.name, lost="", again="")
    values = json.loads(Path(relation.name, "relation.json").read_text())["values"]
    files.put_json("relation.json", {**values, field: value})
    with pytest.raises(FileError, match=message):
        open_relation(relation.name)


def test_built_anew_while_open(relation, tmp_path):
    kept = relation.version()
    shutil.rmtree(relation.name)
    other = pa.table({"id": [1, 2], "other": [1, 2]})
    build(other, relation.name, RelationOptions(key=("id",)))
    for _ in range(2):
        with pytest.raises(FileError, match=r"was built with another schema since it was opened"):
            relation.version()
    # The files of this one are open.
    assert kept.read(np.arange(len(kept.index)), ["id"]).batch.num_rows == kept.rows
    relation.close()
    with pytest.raises(FileError, match="was closed; open it again to read it"):
        kept.read(np.arange(len(kept.index)), ["id"])
    relation = open_relation(relation.name)
    relation.version()
    shutil.rmtree(relation.name)
    build(other, relation.name, RelationOptions(key=("id",)))
    with pytest.raises(FileError, match=r"was built anew since it was opened; open it again"):
        relation.version()


def test_an_update_stays_though_it_cannot_be_compacted(relation, monkeypatch, caplog):
    def fails(**_):
        raise FileError("no space")

    monkeypatch.setattr(relation, "compact", fails)
    assert relation.append(rows(500, 900)) == 3
    assert relation.version().rows == ROWS - 7 + 400
    assert "is not compacted: no space" in caplog.text


class _Full:
    """A disk that is full after some bytes, in whatever way it is written."""

    def __init__(self, room: int) -> None:
        self.room = room

    def take(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def disk(monkeypatch):
    """Let the disk become full."""

    def fill(room: int) -> None:
        full = _Full(room)
        write = Path.write_bytes

        def write_bytes(path, content):
            full.take(len(content))
            return write(path, content)

        def opened(path, mode="r", **options):
            file = open(path, mode, **options)  # noqa: SIM115
            if "w" not in mode:
                return file
            return _Limited(file, full)

        monkeypatch.setattr(Path, "write_bytes", write_bytes)
        monkeypatch.setattr(file_store, "open", opened, raising=False)

    return fill


class _Limited:
    def __init__(self, file, full: _Full) -> None:
        self._file, self._full = file, full

    def write(self, content) -> int:
        self._full.take(len(content))
        return self._file.write(content)

    def flush(self) -> None:
        self._file.flush()

    def __enter__(self):
        return self

    def __exit__(self, *raised) -> None:
        self._file.close()


def names_in(folder: str) -> set[str]:
    return {str(path) for path in Path(folder).rglob("*")}


@pytest.mark.parametrize("room", [0, 2000, 20_000, 30_000])
def test_a_full_disk_leaves_nothing(tmp_path, disk, room, monkeypatch):
    options = RelationOptions(key=("id",), page_bytes=1024)
    disk(room)
    with pytest.raises(FileError, match=r"cannot write .*: No space left on device; free or add"):
        build(rows(0, ROWS), str(tmp_path / "r"), options)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert build(rows(0, ROWS), str(tmp_path / "r"), options).version().rows == ROWS


@pytest.mark.parametrize("room", [0, 500, 3000, 7000])
@pytest.mark.parametrize("step", ["append", "update", "compact"])
def test_a_full_disk_keeps_the_last_version(relation, disk, step, room, monkeypatch):
    before, there = read_all(relation), names_in(relation.name)
    disk(room)
    calls = {
        "append": lambda: relation.append(rows(500, 650)),
        "update": lambda: relation.update(rows(100, 107), rows(200, 207).select(["id"])),
        "compact": relation.compact,
    }
    least = {"append": 20_000, "update": 5_000, "compact": 30_000}
    if room < least[step]:
        with pytest.raises(FileError, match="No space left on device; free or add space"):
            calls[step]()
        assert names_in(relation.name) == there
        assert relation.newest() == 2
        assert read_all(open_relation(relation.name)) == before
    monkeypatch.undo()
    calls[step]()
    assert relation.newest() >= 3
    assert list(relation.check()) == []
