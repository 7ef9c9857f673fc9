"""Records of many batches: folded together, and read meanwhile."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.errors import DataError, FileError
from penstock.spark_bridge.sources import records as module
from penstock.spark_bridge.sources.ledger import Ledger
from penstock.spark_bridge.sources.records import BatchFile, Records


@pytest.fixture
def records(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SPAN", 4)
    monkeypatch.setattr(module, "NEXT_SPAN", 3)
    return Records(str(tmp_path), "q")


def files_of(batch: int) -> list[BatchFile]:
    return [BatchFile(f"rows/q/{batch}/{k}", batch, k) for k in range(batch % 3)]


def fill(records: Records, numbers) -> None:
    for number in numbers:
        records.put(number, files_of(number))
        records.fold()


def stored(records: Records) -> list[Path]:
    return [p for p in Path(records.folder).rglob("*") if p.is_file()]


def test_the_number_of_files_is_bounded(records):
    fill(records, range(600))
    assert records.between(-1, None) == {n: files_of(n) for n in range(600)}
    # Fewer than 8 of their own, and fewer than 6 of each of 5 levels.
    assert len(stored(records)) < 8 + 5 * 6
    assert records.latest() == 599
    # A reader goes on from within a file.
    for after, last in [(-1, 0), (0, 1), (100, 399), (597, 598), (3, 3), (598, None), (700, None)]:
        wanted = range(after + 1, 1 + (599 if last is None else last))
        assert records.between(after, last) == {n: files_of(n) for n in wanted}
    assert records.is_there(0)
    assert not records.is_there(600)


def test_numbers_with_gaps(records):
    numbers = [n * n for n in range(50)]
    fill(records, numbers)
    assert list(records.between(-1, None)) == numbers
    assert list(records.between(100, 400)) == [n for n in numbers if 100 < n <= 400]
    assert not records.is_there(5)


def test_a_batch_that_was_folded_counts_once(records):
    ledger = Ledger(records.folder)
    for number in range(30):
        assert ledger.commit("q", number, files_of(number))
    before = stored(records)
    assert not ledger.commit("q", 2, [BatchFile("other", 1, 1)])
    assert ledger.files("q", 2) == files_of(2)
    assert stored(records) == before
    assert ledger.batches("q") == list(range(30))
    assert ledger.files("q", 30) == []
    ledger.commit("gaps", 0, [])
    ledger.commit("gaps", 9, [])
    with pytest.raises(DataError, match="batch 5 of gaps comes after batch 9"):
        ledger.commit("gaps", 5, [])


class Killed(BaseException):
    """What no handler catches."""


def test_killed_at_any_moment(records, monkeypatch):
    """Before each link, which makes a file, and each removal of one."""
    link, unlink, left = os.link, os.unlink, [10**9]

    def counted(function):
        def run(path, *args, **kwargs):
            if not str(path).endswith(".partial") or function is link:
                left[0] -= 1
                if left[0] < 0:
                    raise Killed
            return function(path, *args, **kwargs)

        return run

    monkeypatch.setattr(os, "link", counted(link))
    monkeypatch.setattr(os, "unlink", counted(unlink))
    batch = kills = 0
    for after in [*range(25), *range(25, 0, -1)]:
        left[0] = after
        try:
            while True:
                fill(records, [batch])
                batch += 1
        except Killed:
            kills += 1
            left[0] = 10**9
        # The batch may be there, or not; what was there is.
        found = records.between(-1, None)
        assert found in [{n: files_of(n) for n in range(k)} for k in (batch, batch + 1)]
        batch = len(found)
    assert kills == 50
    fill(records, range(batch, batch + 40))
    assert records.between(-1, None) == {n: files_of(n) for n in range(batch + 40)}
    assert len(stored(records)) < 60


def test_read_while_they_are_folded(records):
    """Each reader sees the batches from the first on, without a gap."""
    last = 120

    def read() -> int:
        count = seen = 0
        while seen < last:
            found = records.between(seen - 3, None)
            assert list(found) == list(range(max(seen - 2, 0), max(found, default=-1) + 1))
            assert all(files == files_of(n) for n, files in found.items())
            assert max(found, default=-1) >= seen - 1
            count, seen = count + 1, len(records.between(-1, None))
        return count

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        fill(records, range(last))
        assert all(one.result(60) > 1 for one in readers)


def test_damage(records):
    fill(records, range(30))
    folded = next(Path(records.folder, "folded", "q", "1").glob("*.json"))
    folded.write_text("{")
    with pytest.raises(FileError, match=r"cannot be read: .*restore the folder from a backup"):
        records.between(-1, None)
    folded.write_text("[]")
    with pytest.raises(FileError, match="restore the folder"):
        records.between(-1, None)
