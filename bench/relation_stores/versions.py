"""Whether a store keeps versions, takes several writers, and lies in an object store: by trying."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from bench.relation_stores.key_values import Lmdb, Rocks
from bench.relation_stores.measure import STORES, isolated, reader
from bench.relation_stores.rows import Data, digest, rows_of
from bench.relation_stores.stores import Folder, Lance, RelationStore
from penstock.host.relation import RelationOptions, build, open_relation

_DATA = Data(20_000)
_MEMORY_BYTES = 1 << 24
#: Updates of each of two processes that race.
_UPDATES = 4
#: Seconds that one of them waits for the other one.
_TOGETHER_S = 120
_NONE = np.zeros(0, np.int64)


def _store(name: str, path: Path) -> RelationStore:
    return STORES[name](path, _MEMORY_BYTES)


def _built(name: str, folder: str) -> Path:
    path = Path(folder, name)
    isolated(_build, name, path)
    return path


def _build(name: str, path: Path) -> None:
    store = _store(name, path)
    store.build(reader(_DATA))
    store.close()


def _sum(store: RelationStore) -> tuple[int, int]:
    return digest(pa.Table.from_batches(list(store.scan())))


def _update(name: str, path: Path) -> str:
    """Change some rows, in a process that reads nothing else; returns what went wrong."""
    try:
        store = _store(name, path)
        store.update(*_DATA.changed())
        store.close()
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


def held(name: str) -> str:
    """Whether what was open before an update of another process still reads the same rows."""
    with TemporaryDirectory() as folder:
        path = _built(name, folder)
        store = _store(name, path)
        if isinstance(store, Rocks):
            store.reads_only = True
        if isinstance(store, Lmdb):
            pairs = store.pairs_from(b"\0")  # a snapshot is that of a transaction
            first = next(pairs)
            failed = isolated(_update, name, path)
            same = 1 + sum(1 for _ in pairs) == _DATA.rows and first is not None
        else:
            before = _sum(store)
            failed = isolated(_update, name, path)
            same = _sum(store) == before
        store.close()
        if failed:
            return f"no: {_short(failed)}"
        return "yes" if same else "no: rows change under the reader"


def numbered(name: str) -> str:
    """Whether an older version can be opened by its number after an update."""
    with TemporaryDirectory() as folder:
        path = _built(name, folder)
        store = _store(name, path)
        before = _sum(store)
        store.close()
        if name == Folder.name:
            relation = open_relation(path)
            first = relation.newest()
            assert not isolated(_update, name, path)
            rows = [r.batch for r in relation.version(first).batches(("id", "plan", "name"))]
        elif name == Lance.name:
            import lance

            first = lance.dataset(str(path)).version
            assert not isolated(_update, name, path)
            rows = lance.dataset(str(path), version=first).to_batches()
        else:
            return "no: versions have no names"
        return "yes" if digest(pa.Table.from_batches(list(rows))) == before else "no: other rows"


def _own(who: int, turn: int) -> np.ndarray:
    """Ids that one of the racing processes changes in one of its updates."""
    return 2 * np.arange(50) + 1000 * who + 100 * turn


def _renew(name: str, path: Path, who: int) -> str:
    """Update some keys of one's own several times, from when both processes have it open."""
    try:
        store = _store(name, path)
        next(iter(store.scan()))
        failed = ""
    except Exception as error:
        failed = str(error) or type(error).__name__
    path.with_name(f"{who} is there").touch()
    until = time.monotonic() + _TOGETHER_S
    while not path.with_name(f"{3 - who} is there").exists():
        if time.monotonic() > until:
            return "the other process is not there"
        time.sleep(0.01)
    if failed:
        return failed
    try:
        for turn in range(_UPDATES):
            rows = rows_of(_own(who, turn), salt=70)
            store.update(pa.Table.from_batches([rows]), _NONE)
        store.close()
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


def raced(name: str) -> str:
    """Whether two processes can update at the same time, and nothing is lost."""
    with TemporaryDirectory() as folder:
        path = _built(name, folder)
        with ThreadPoolExecutor(2) as pool:
            failed = list(pool.map(lambda who: isolated(_renew, name, path, who), (1, 2)))
        ids = np.concatenate(
            [
                2 * np.arange(50) + 1000 * who + 100 * turn
                for who in (1, 2)
                for turn in range(_UPDATES)
            ]
        )
        store = _store(name, path)
        all_there = digest(store.get(ids)) == digest(rows_of(ids, salt=70))
        store.close()
        if any(failed):
            return f"no: {_short(next(f for f in failed if f))}"
        return "yes" if all_there else "no: updates are lost"


def remote(name: str) -> str:
    """Whether it can be built, updated and read in an object store, of moto here."""
    if name not in (Folder.name, Lance.name):
        return "no: files of one machine"
    from tests.kit.object_server import BUCKET, CREDENTIALS, served_objects

    os.environ.update(CREDENTIALS)
    upserts, gone = _DATA.changed()
    with served_objects() as options, TemporaryDirectory() as folder:
        here = _store(name, _built(name, folder))
        here.update(upserts, gone)
        wanted = _sum(here)
        here.close()
        if name == Folder.name:
            location = f"s3://{BUCKET}/r.rel?{options}"
            build(reader(_DATA), location, RelationOptions(key=("id",))).update(
                upserts, pa.table({"id": gone})
            )
            version = open_relation(location).version()
            rows = [r.batch for r in version.batches(("id", "plan", "name"))]
        else:
            import lance

            address = dict(pair.split("=") for pair in options.split("&"))["endpoint_override"]
            place, how = f"s3://{BUCKET}/r.lance", {
                "endpoint": f"http://{address}", "allow_http": "true", "region": "us-east-1",
                "access_key_id": "test", "secret_access_key": "test",
            }  # fmt: skip
            made = lance.write_dataset(reader(_DATA), place, storage_options=how)
            merge = made.merge_insert("id")
            merge.when_matched_update_all().when_not_matched_insert_all().execute(upserts)
            made.delete(f"id IN ({','.join(map(str, gone.tolist()))})")
            rows = list(lance.dataset(place, storage_options=how).to_batches())
        return "yes" if digest(pa.Table.from_batches(rows)) == wanted else "no: other rows"


def flipped(name: str) -> str:
    """Whether a flipped bit in the stored rows is an error."""
    with TemporaryDirectory() as folder:
        path = _built(name, folder)
        files = [file for file in (path, *path.rglob("*")) if file.is_file()]
        file = max(files, key=lambda one: one.stat().st_size)
        content = bytearray(file.read_bytes())
        # In a name, if names are stored as they are.
        sought = next(_DATA.batches()).column("name")[5_000].as_py().encode()
        content[max(content.find(sought), 0) or len(content) // 2] ^= 1
        file.write_bytes(content)
        return isolated(_noticed, name, path)


def _noticed(name: str, path: Path) -> str:
    """Which reads of all rows fail."""
    keys = np.concatenate([batch.column("id").to_numpy() for batch in _DATA.batches()])
    store, failed = _store(name, path), []
    for way, read in (("lookups", lambda: store.get(keys)), ("scans", lambda: _sum(store))):
        try:
            read()
        except Exception:
            failed.append(way)
    if len(failed) == 1:
        return f"of {failed[0]} only"
    return "yes" if failed else "no: other rows"


def _short(message: str) -> str:
    return message.strip().splitlines()[0].split(": /")[0][:60]


VERSION_ROWS: dict[str, Callable[[str], str]] = {
    "a reader keeps its version while another process updates": held,
    "an older version is opened by its number": numbered,
    "two processes update at the same time": raced,
    "in an object store": remote,
    "a flipped bit is an error": flipped,
}
