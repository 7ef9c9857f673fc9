"""Checkpoints of joins write each row once, and name what they wrote before."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.host.workers.joining import checkpoint_parts
from penstock.host.workers.records.folder import CheckpointFolder
from penstock.host.workers.records.record import Record
from tests.host.workers.kit.groups import comparable, numbered
from tests.host.workers.kit.joins import SCHEMA, opened, wanted
from tests.kit.effort import effort

QUERIES = {
    "keyed": "SELECT a.n AS i, b.n AS j FROM a FULL JOIN b ON a.k = b.k AND {}",
    "theta": "SELECT a.n AS i, b.n AS j FROM a LEFT JOIN b ON a.x < b.x - 60 AND {}",
}
NEAR = "b.t BETWEEN a.t - 20 AND a.t + 20"
ROWS = 40


def batch(place: int) -> pa.RecordBatch:
    """Rows of one time; two have none."""
    rng = np.random.default_rng(place)
    times = [None, None, *[10 * place] * (ROWS - 2)]
    numbers = range(place * ROWS, (place + 1) * ROWS)
    keys, x = rng.integers(0, 5, ROWS), rng.integers(-100, 100, ROWS)
    columns = [numbers, keys, [f"{n}" * 50 for n in numbers], times, x]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def newest(path: Path) -> Record:
    folder = CheckpointFolder(path)
    try:
        found = folder.newest()
    finally:
        folder.close()
    assert found is not None
    return found


def run(name: str, path: Path, places: range, workers: int = 2) -> dict[int, Any]:
    """Push to both sides, with a checkpoint behind each batch."""
    found: dict[int, Any] = {}
    with opened(QUERIES[name].format(NEAR), workers, checkpoint=path) as stream:
        for place in places:
            for source in "ab":
                stream.push(source, batch(place))
            stream.flush()
            found.update(numbered(stream))
        stream.stop()
    return found


def require_right(name: str, found: dict[int, Any], count: int) -> None:
    given = [batch(place) for place in range(count)]
    rows = comparable(pa.concat_tables(found.values()))
    query = QUERIES[name].format(NEAR)
    expected = wanted(query, given, given)
    assert rows == expected


def finish(name: str, path: Path, found: dict[int, Any], workers: int) -> None:
    with opened(QUERIES[name].format(NEAR), workers, checkpoint=path) as stream:
        found.update(numbered(stream))
        last = stream.close()
        found.update([] if last is None else [last])
        found.update(numbered(stream))


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_with_a_run_for_each_what_is_left_of_the_run_before_is_written_anew(
    name: str, tmp_path
) -> None:
    found: dict[int, Any] = {}
    for place in range(4):
        found.update(run(name, tmp_path, range(place, place + 1)))
    finish(name, tmp_path, found, 2)
    require_right(name, found, 4)


@pytest.mark.parametrize("name", ["keyed", pytest.param("theta", marks=pytest.mark.slow)])
def test_a_row_is_written_once_and_its_file_goes_when_the_row_does(name: str, tmp_path) -> None:
    found: dict[int, Any] = {}
    written: dict[str, tuple[int, int]] = {}
    count = effort(20, 10)
    with opened(QUERIES[name].format(NEAR), 2, checkpoint=tmp_path / "once") as stream:
        for place in range(count):
            for source in "ab":
                stream.push(source, batch(place))
            stream.flush()
            found.update(numbered(stream))
            for file in (tmp_path / "once").glob("*.state"):
                now = file.stat().st_ino, file.stat().st_size
                assert written.setdefault(file.name, now) == now
        by_rank = Counter(name.split("-")[2] for name in written)
        left = {file.name for file in (tmp_path / "once").glob("*.state")}
        last = stream.close()
        found.update([] if last is None else [last])
        found.update(numbered(stream))
    require_right(name, found, count)
    assert set(by_rank.values()) == {count}
    # Rows meet those of three batches, and lie in blocks that are merged: some are held longer.
    assert 6 <= len(left) <= 24
    sizes = [size for _, size in written.values()]
    assert max(sizes[4:]) < 2 * sorted(sizes)[len(sizes) // 2]


@pytest.mark.slow
def test_another_number_of_workers_reads_what_several_checkpoints_hold(tmp_path) -> None:
    for name in QUERIES:
        path = tmp_path / name
        found = run(name, path, range(4))
        record = newest(path)
        assert len(record.states) > record.size
        found.update(run(name, path, range(4, 5), workers=3))
        finish(name, path, found, 1)
        require_right(name, found, 5)


def test_many_files_are_written_as_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(checkpoint_parts, "MOST_FILES", 3)
    times = np.zeros(1, np.int64)
    rows = checkpoint_parts.SavedRows()
    earlier = []
    for place in range(9):
        earlier.append(rows.begin({"a": 0}))
        held = [row(number) for number in range(place + 1)]
        fresh = [rows.fresh("a", one, times, np.ones(1, bool)).num_rows for one in held]
        assert sum(fresh) == (1 if earlier[-1] else place + 1)
        rows.end()
    assert earlier == [[], [0], [0, 1], [], [3], [3, 4], [], [6], [6, 7]]


def row(place: int) -> pa.RecordBatch:
    columns = [pa.array([0], pa.uint32()), pa.array([place], pa.int64())]
    return pa.RecordBatch.from_arrays(columns, [checkpoint_parts.FEED, checkpoint_parts.PLACE])
