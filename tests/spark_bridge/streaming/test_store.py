"""Files of a streaming join: whole or not there, and clear errors when something is gone."""

from __future__ import annotations

import errno
import os
import resource
import signal

import pyarrow as pa
import pytest

from penstock.errors import FileError
from penstock.query.plan import LEFT, RIGHT
from penstock.spark_bridge.streaming.commit import Commit, StoredFile
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
    name, size = store.add(batch, rows(*times))
    return StoredFile(name, size, len(times), times[0], times[-1])


def test_rows_between_times(store):
    file = added(store, 0, 1, 3, 3, 7)
    assert store.read(file).num_rows == 4
    assert store.between(file, 3, 6).to_pydict() == {"x": [1, 2]}
    assert store.between(file, 0, 9).to_pydict() == {"x": [0, 1, 2, 3]}


def test_a_record_is_read_as_it_was_written(store):
    commit = Commit(
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
    before = Commit(batch=1, new={LEFT: [kept[0]], RIGHT: []})
    commit = Commit(batch=2, new={LEFT: [kept[1]], RIGHT: []})
    for one in (Commit(batch=0), before, commit):
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
    commit = Commit(batch=0, new={LEFT: [file], RIGHT: []})
    with pytest.raises(FileError, match="begin anew with another checkpointLocation"):
        store.check(commit)
    with pytest.raises(FileError, match="restore the folder from a backup"):
        store.read(file)


def test_a_full_disk_leaves_nothing_behind(store, monkeypatch):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(FileError, match="free or add space and start the query again") as got:
            store.add(0, rows(*range(10_000)))
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
