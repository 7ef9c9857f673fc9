"""What each store takes, every step in a process of its own: its memory is that step's."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa

from bench.relation_stores.key_values import Lmdb, Rocks
from bench.relation_stores.rows import SCHEMA, Data, digest
from bench.relation_stores.stores import Folder, Lance, RelationStore, bytes_of

STORES = {kind.name: kind for kind in (Folder, Lance, Lmdb, Rocks)}

#: Keys of a lookup, and how many lookups a process makes after its first one.
KEYS, LOOKUPS = 20_000, 5
#: Boxes of a lookup by place, and the share of the area that each has.
BOXES, BOX_SHARE = 100, 1e-4
#: Rows of the relation with which a process becomes warm: what it loads and compiles.
_WARM_ROWS = 2_000


@dataclass(frozen=True)
class Scale:
    """Sizes of a run.

    Parameters
    ----------
    rows : int
    memory_bytes : int
        For building and for caches, where a store can be told.
    rounds : int
        Turns of the contenders.
    """

    rows: int
    memory_bytes: int
    rounds: int


@dataclass
class Spent:
    """What a step took.

    Parameters
    ----------
    seconds, cpu_s : float
        By the clock, and of all threads of the process.
    peak_bytes : int
        Most main memory above what the idle process had, file-backed pages included.
    """

    seconds: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0


@contextmanager
def spent() -> Iterator[Spent]:
    """Measures what happens within."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that from now on
    idle = _memory("VmRSS")
    result = Spent()
    clock, cpu = time.monotonic(), time.process_time()
    yield result
    result.seconds, result.cpu_s = time.monotonic() - clock, time.process_time() - cpu
    result.peak_bytes = _memory("VmHWM") - idle


def _memory(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def isolated(step: Callable, *args):
    """Run a step in a fresh process; returns what it returns."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(step, args)


def warm(name: str) -> None:
    """Load and compile all that a store uses."""
    data = Data(_WARM_ROWS)
    with TemporaryDirectory() as folder:
        for by_place in (False, True):
            path = Path(folder, str(by_place))
            build(STORES[name](path, 1 << 24, by_place=by_place), reader(data))
            store = STORES[name](path, 1 << 24, by_place=by_place)
            if by_place:
                store.within(data.boxes(1, BOX_SHARE)[0])
            else:
                store.get(data.keys(100, 1))
                list(store.scan())
                store.update(*data.changed())
                store.get(data.keys(100, 1))
            store.close()


def reader(data: Data) -> pa.RecordBatchReader:
    """All rows, made as they are read."""
    return pa.RecordBatchReader.from_batches(SCHEMA, data.batches())


def build(store: RelationStore, rows: pa.RecordBatchReader) -> None:
    """Store all rows, and close."""
    store.build(rows)
    store.close()


def opened(name: str, folder: Path, scale: Scale, *, by_place: bool = False) -> RelationStore:
    path = folder / f"{name}-{'places' if by_place else 'ids'}-{scale.rows}"
    return STORES[name](path, scale.memory_bytes, by_place=by_place)


def built(name: str, folder: Path, scale: Scale, by_place: bool) -> tuple[Spent, int]:
    """What a build takes, and the bytes on disk."""
    warm(name)
    store = opened(name, folder, scale, by_place=by_place)
    with open(folder / f"rows-{scale.rows}.arrows", "rb") as file, spent() as result:
        build(store, pa.ipc.open_stream(file))
    return result, bytes_of(store.path)


def looked_up(name: str, folder: Path, scale: Scale, absent: bool) -> tuple[Spent, list]:
    """What a lookup takes, the median of some after the first one, and sums of the rows.

    Absent keys lie between those that are there.
    """
    warm(name)
    data, store = Data(scale.rows), opened(name, folder, scale)
    times, sums, peak = [], [], 0
    for seed in range(LOOKUPS + 1):
        keys = data.keys(KEYS, seed) + absent
        with spent() as one:
            rows = store.get(keys)
        times.append(one)
        peak = max(peak, one.peak_bytes)
        sums.append(digest(rows))
        del rows
    store.close()
    found = times[1:]
    seconds, cpu_s = median(t.seconds for t in found), median(t.cpu_s for t in found)
    return Spent(seconds, cpu_s, peak), sums


def scanned(name: str, folder: Path, scale: Scale) -> tuple[Spent, tuple[int, int]]:
    """What reading all rows takes, and their sum, which is not counted."""
    warm(name)
    store = opened(name, folder, scale)
    rows = total = 0
    with spent() as result:
        away = Spent()
        for batch in store.scan():
            clock, cpu = time.monotonic(), time.process_time()
            count, one = digest(batch)
            rows, total = rows + count, (total + one) % (1 << 64)
            away.seconds += time.monotonic() - clock
            away.cpu_s += time.process_time() - cpu
    result.seconds -= away.seconds
    result.cpu_s -= away.cpu_s
    store.close()
    return result, (rows, total)


def updated(name: str, folder: Path, scale: Scale) -> tuple[Spent, int]:
    """What an update takes, and by how many bytes the files grow."""
    warm(name)
    store, change = opened(name, folder, scale), Data(scale.rows).changed()
    before = bytes_of(store.path)
    with spent() as result:
        store.update(*change)
        store.close()
    return result, bytes_of(store.path) - before


def boxed(name: str, folder: Path, scale: Scale) -> tuple[Spent, list]:
    """What looking up all boxes takes after the first one, and sums of the ids."""
    warm(name)
    store = opened(name, folder, scale, by_place=True)
    boxes = Data(scale.rows).boxes(BOXES + 1, BOX_SHARE)
    sums = [int(store.within(boxes[0]).sum())]
    with spent() as result:
        for box in boxes[1:]:
            ids = store.within(box)
            sums.append((len(ids), int(ids.sum())))
    store.close()
    return result, sums
