"""Files of a streaming join: whole or not there, and clear errors when something is gone."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal

import pyarrow as pa
import pytest

from penstock.errors import FileError
from penstock.host.join.step import RowBlock
from penstock.host.store.checksums import checksum
from penstock.plan.query import LEFT, RIGHT
from penstock.spark_bridge.streaming.commit import BatchRecord, StoredFile
from penstock.spark_bridge.streaming.store import TIME, Store


def rows(*times: int) -> pa.Table:
    schema = pa.schema([pa.field(TIME, pa.int64(), nullable=False), pa.field("x", pa.int32())])
    return pa.table([pa.array(times, pa.int64()), list(range(len(times)))], schema=schema)


@pytest.fixture
def store(tmp_path):
    made = Store(str(tmp_path / "state"))
    made.make()
    return made


def added(store: Store, batch: int, *times: int) -> StoredFile:
    return store.add(batch, rows(*times), RowBlock(len(times), times[0], times[-1]))


def test_rows_between_times(store):
    file = added(store, 0, 1, 3, 3, 7)
    assert store.read(file).num_rows == 4
    assert store.between(file, 3, 6).to_pydict() == {"x": [1, 2]}
    assert store.between(file, 0, 9).to_pydict() == {"x": [0, 1, 2, 3]}


def test_a_record_is_read_as_it_was_written(store):
    commit = BatchRecord(
        batch=3,
        before={LEFT: -(2**63), RIGHT: 5},
        after={LEFT: 7, RIGHT: 9},
        old={LEFT: [added(store, 1, 1)], RIGHT: []},
        new={LEFT: [], RIGHT: [added(store, 3, 2, 4)]},
        late_rows={LEFT: 2, RIGHT: 0},
    )
    store.put(commit)
    assert store.commit(3) == commit
    assert store.latest() == commit
    assert store.commit(2) is None


def test_clean_keeps_what_two_records_name(store):
    kept = [added(store, 1, 1), added(store, 2, 2)]
    added(store, 1, 5)  # of an attempt that failed
    added(store, 0, 0)
    later = added(store, 3, 9)
    before = BatchRecord(batch=1, new={LEFT: [kept[0]], RIGHT: []})
    commit = BatchRecord(batch=2, new={LEFT: [kept[1]], RIGHT: []})
    for one in (BatchRecord(batch=0), before, commit):
        store.put(one)
    store.clean(commit, before)
    names = set(os.listdir(os.path.join(store.folder, "rows")))
    assert names == {file.name for file in (*kept, later)}
    assert store.commit(0) is None
    assert store.commit(1) == before


@pytest.mark.parametrize("damage", ["gone", "short"])
def test_a_lost_file_is_an_error_that_says_what_to_do(store, damage):
    file = added(store, 0, 1, 2)
    path = os.path.join(store.folder, "rows", file.name)
    if damage == "gone":
        os.unlink(path)
    else:
        os.truncate(path, 100)
    commit = BatchRecord(batch=0, new={LEFT: [file], RIGHT: []})
    with pytest.raises(FileError, match="begin anew with another checkpointLocation"):
        store.check(commit)
    with pytest.raises(FileError, match="restore the folder from a backup"):
        store.read(file)


def test_a_full_disk_leaves_nothing_behind(store, monkeypatch):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(FileError, match=r"\(ulimit -f\) and start the query again") as got:
            store.add(0, rows(*range(10_000)), RowBlock(10_000, 0, 9_999))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert got.value.__cause__.errno == errno.EFBIG
    assert os.listdir(os.path.join(store.folder, "rows")) == []
    added(store, 0, 1)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="all workers can write"):
        Store(str(tmp_path / "file" / "state")).make()


def three_batches(store: Store) -> list[BatchRecord]:
    """Records of three batches, of files of one size."""
    files = [added(store, k, k, k + 1) for k in range(3)]
    assert len({file.bytes for file in files}) == 1
    commits = [BatchRecord(batch=k, new={LEFT: [files[k]], RIGHT: []}) for k in range(3)]
    for commit in commits:
        store.put(commit)
    return commits


def path_of(store: Store, name: str) -> str:
    return os.path.join(store.folder, name)


def test_rows_that_are_not_those_that_were_written(store):
    files = [commit.new[LEFT][0] for commit in three_batches(store)]
    paths = [path_of(store, f"rows/{file.name}") for file in files]
    os.rename(paths[0], paths[0] + "x")
    os.rename(paths[1], paths[0])
    os.rename(paths[0] + "x", paths[1])
    for file in files[:2]:
        with pytest.raises(FileError, match=r"is not what was written: its checksum .* restore"):
            store.read(file)
    assert store.between(files[2], 3, 3).to_pydict() == {"x": [1]}  # summed once
    stat = os.stat(paths[2])
    with open(paths[2], "r+b") as file:
        file.seek(-stat.st_size // 2, os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(paths[2], ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(FileError, match="is not what was written"):
        store.read(files[2])


def test_a_file_is_summed_once_and_when_it_changes(store, monkeypatch):
    file = added(store, 0, 1, 2)
    summed = []
    monkeypatch.setattr(
        "penstock.host.store.file_store.checksum",
        lambda content: summed.append(1) or checksum(content),
    )
    for _ in range(3):
        store.read(file)
    assert len(summed) == 1
    path = path_of(store, f"rows/{file.name}")
    with open(path, "rb") as old:
        content = old.read()
    with open(path, "wb") as new:
        new.write(content)
    assert store.read(file).num_rows == 2
    assert len(summed) == 2


@pytest.mark.parametrize("of", [0, 1])
def test_a_copy_of_another_record_ends(store, of):
    three_batches(store)
    shutil.copy(path_of(store, f"batches/{of}.json"), path_of(store, "batches/2.json"))
    with pytest.raises(FileError, match=rf"batches/2.json .*a copy of batches/{of}.json; restore"):
        store.latest()


@pytest.mark.parametrize("name", ["batches/2.json", "latest.json"])
def test_a_record_that_was_edited(store, name):
    three_batches(store)
    with open(path_of(store, name), "r+") as file:
        text = file.read()
        file.seek(text.rindex("2"))
        file.write("1")
    with pytest.raises(FileError, match=rf"{name} cannot be read: its checksum does not fit"):
        store.latest()
    with open(path_of(store, name), "w") as file:
        json.dump({"batch": 2}, file)
    with pytest.raises(FileError, match="it has no checksum"):
        store.latest()


def test_a_lost_note_of_the_latest_batch(store):
    commits = three_batches(store)
    store.clean(commits[2], commits[1])
    os.unlink(path_of(store, "latest.json"))
    with pytest.raises(FileError, match=r"latest.json is gone; restore"):
        store.latest()
