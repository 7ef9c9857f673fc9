"""Files of a user in the folders of a bridge: whatever is removed there is Penstock's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock import kept_code
from penstock.plan.query import LEFT, RIGHT
from penstock.private_folder import private_folder
from penstock.sim.local_spark import cluster
from penstock.spark_bridge.streaming.commit import BatchRecord
from penstock.spark_bridge.streaming.store import FIGURE_NAMES, FIGURES, Store
from tests.kit.foreign import ForeignFiles
from tests.spark_bridge.streaming.test_store import added


def test_state_of_a_stream(tmp_path) -> None:
    foreign, store = ForeignFiles(), Store(str(tmp_path))
    store.make()
    foreign.put(tmp_path / "batches", "0-0.json")  # figures of a shard have such a name
    assert store.latest() is None
    kept = [added(store, batch, 1) for batch in range(3)]
    commits = [BatchRecord(batch=b, new={LEFT: [kept[b]], RIGHT: []}) for b in range(3)]
    for commit in commits:
        store.put(commit)
        store.files.put_json(f"{FIGURES}/{commit.batch}.json", {})
    for folder in ("", "rows", "batches", FIGURES):
        foreign.put(tmp_path / folder, "²-a.arrow", "²")
    store.clean(commits[2], commits[1])
    FIGURE_NAMES.keep_from(store.files, 2)
    foreign.require_untouched()
    own = {p.name for p in tmp_path.rglob("*.json") if p.is_file() and p not in foreign}
    assert own == {"1.json", "2.json", "latest.json"}


def test_a_cache(tmp_path) -> None:
    foreign, path, name = ForeignFiles(), tmp_path / "cache", "f.<locals>.g-" + "0" * 32
    with private_folder(path) as folder:
        folder.write(name, bytes(100))
        Path(path, f".{name}.{'0' * 16}.part").touch()
        foreign.put(path)
        folder.trim(0, kept_code._FORM)
    foreign.require_untouched()
    assert [p for p in path.iterdir() if p not in foreign] == []


@pytest.mark.parametrize("folder", cluster._OWN)
def test_folders_of_a_cluster(tmp_path, folder) -> None:
    own = {
        "conf": ["master.conf", "worker-2.json"],
        "logs": ["worker-12.log", "server.log"],
        "work": ["app-20260101000000-0000/1/stderr", "driver-20260101000000-12345/stdout"],
        "scratch": ["spark-01234567-89ab-cdef-0123-456789abcdef/x"],
    }[folder]
    for name in own:
        Path(tmp_path, name).parent.mkdir(parents=True, exist_ok=True)
        Path(tmp_path, name).touch()
    foreign = ForeignFiles()
    foreign.put(tmp_path, "spark-defaults.conf", "my.log", "worker-1.zip")
    Path(tmp_path, "worker-1.d").mkdir()
    cluster._OWN[folder].clear_trees(tmp_path)
    foreign.require_untouched()
    assert set(os.listdir(tmp_path)) - {p.name for p in foreign} == {"worker-1.d"}
