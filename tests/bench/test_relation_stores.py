"""Stores of relations give the same rows, before and after an update."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench.relation_stores.measure import BOX_SHARE, STORES, build, reader
from bench.relation_stores.rows import PLACES, Data, digest, rows_of
from bench.relation_stores.zorder import codes, intervals

for package in ("lance", "lmdb", "rocksdict"):
    if find_spec(package) is None:
        pytest.skip(f"needs {package}: pip install 'penstock[dev]'", allow_module_level=True)

DATA = Data(3_000)
MEMORY_BYTES = 1 << 24


def apart(work: Callable[[str, Path], None], name: str, folder: Path) -> None:
    """Run in a process of its own: a process that has loaded Lance warns whenever it forks."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(work, name, folder).result(timeout=300)


@pytest.mark.parametrize("name", list(STORES))
def test_rows_are_those_of_the_generator(name, tmp_path):
    apart(check_rows, name, tmp_path)


@pytest.mark.parametrize("name", list(STORES))
def test_rows_of_a_box(name, tmp_path):
    apart(check_boxes, name, tmp_path)


def check_rows(name: str, folder: Path) -> None:
    path = folder / "ids"
    build(STORES[name](path, MEMORY_BYTES), reader(DATA))
    store = STORES[name](path, MEMORY_BYTES)
    keys = DATA.keys(500, seed=1)
    whole = pa.Table.from_batches(list(DATA.batches()))
    assert digest(pa.Table.from_batches(list(store.scan()))) == digest(whole)
    assert digest(store.get(keys)) == digest(rows_of(keys))
    assert digest(store.get(keys + 1))[0] == 0
    upserts, gone = DATA.changed()
    store.update(upserts, gone)
    kept = whole.filter(pa.array(~np.isin(whole["id"], [*gone, *upserts["id"].to_numpy()])))
    assert digest(pa.Table.from_batches(list(store.scan()))) == digest(
        pa.concat_tables([kept, upserts])
    )
    assert digest(store.get(gone))[0] == 0
    store.close()


def check_boxes(name: str, folder: Path) -> None:
    path = folder / "places"
    build(STORES[name](path, MEMORY_BYTES, by_place=True), reader(DATA))
    store = STORES[name](path, MEMORY_BYTES, by_place=True)
    rows = pa.Table.from_batches(list(DATA.batches()))
    ids, x, y = (rows[column].to_numpy() for column in ("id", "x", "y"))
    for box in DATA.boxes(5, 100 * BOX_SHARE):
        inside = (x >= box[0]) & (x <= box[1]) & (y >= box[2]) & (y <= box[3])
        assert sorted(store.within(box)) == sorted(ids[inside])
    store.close()


def test_codes_of_a_box_are_covered():
    random = np.random.default_rng(1)
    for box in DATA.boxes(20, BOX_SHARE):
        low_x, high_x, low_y, high_y = np.clip(box, 0, PLACES - 1)
        x, y = random.integers(low_x, high_x + 1, 50), random.integers(low_y, high_y + 1, 50)
        found = intervals(box)
        assert found == sorted(found)
        for code in codes(x, y).tolist():
            assert any(low <= code < high for low, high in found)
