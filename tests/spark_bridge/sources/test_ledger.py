"""Batches in a folder, without Spark: what is visible, and when."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import DataError, FileError, SchemaError, UsageError
from penstock.spark_bridge.sources.ledger import Ledger, check_writer

SCHEMA = '{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{}}]}'


def rows(*values: int) -> list[pa.RecordBatch]:
    return [pa.record_batch([pa.array([v])], names=["x"]) for v in values]


def seen(ledger: Ledger) -> list[int]:
    return [
        value
        for writer in ledger.writers()
        for number in ledger.batches(writer)
        for file in ledger.files(writer, number)
        for batch in ledger.rows(file)
        for value in batch.column(0).to_pylist()
    ]


def stored(ledger: Ledger, tmp_path) -> int:
    return len([p for p in (tmp_path / "rows").rglob("*") if p.is_file()])


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(str(tmp_path))
    made.take_schema(SCHEMA)
    return made


def test_names():
    assert check_writer("a-1_B") == "a-1_B"
    for name in ("", "a/b", "..", "x" * 101):
        with pytest.raises(UsageError, match="option writer is letters"):
            check_writer(name)


def test_a_commit_is_what_makes_rows_visible(ledger, tmp_path):
    files = ledger.write("q", 0, 0, rows(1, 2))
    doubled = ledger.write("q", 0, 0, rows(1, 2))  # a speculative attempt, whose end is unknown
    assert ledger.write("q", 0, 1, rows()) == []
    assert seen(ledger) == []
    assert ledger.commit("q", 0, files)
    assert seen(ledger) == [1, 2]
    assert stored(ledger, tmp_path) == 1, doubled


def test_a_batch_counts_once(ledger, tmp_path):
    ledger.commit("q", 0, ledger.write("q", 0, 0, rows(1)))
    assert not ledger.commit("q", 0, ledger.write("q", 0, 0, rows(7)))
    assert seen(ledger) == [1]
    assert stored(ledger, tmp_path) == 1
    ledger.commit("other", 0, ledger.write("other", 0, 0, rows(2)))
    assert sorted(seen(ledger)) == [1, 2]


def test_what_is_given_up(ledger, tmp_path):
    files = ledger.write("q", 3, 0, rows(1))
    ledger.discard(files)
    ledger.discard(files)
    assert stored(ledger, tmp_path) == 0
    left = ledger.write("q", 3, 0, rows(5))  # of a driver that was killed before it could commit
    ledger.commit("q", 3, ledger.write("q", 3, 0, rows(5)))
    assert seen(ledger) == [5]
    assert stored(ledger, tmp_path) == 1, left


def test_numbers_rise(ledger):
    ledger.commit("q", 4, [])
    with pytest.raises(DataError, match="batch 2 of q comes after batch 4"):
        ledger.commit("q", 2, [])
    ledger.commit("q", 9, [])
    assert ledger.batches("q") == [4, 9]


def test_schemas(ledger, tmp_path):
    ledger.take_schema(SCHEMA.replace("true", "false"))
    with pytest.raises(SchemaError, match=r"have columns x long, and these rows have x string"):
        ledger.take_schema(SCHEMA.replace("long", "string"))
    with pytest.raises(FileError, match="no batches"):
        Ledger(str(tmp_path / "nowhere")).schema()


def test_damage(ledger, tmp_path):
    (file,) = ledger.write("q", 0, 0, rows(1))
    ledger.commit("q", 0, [file])
    (tmp_path / file.name).write_bytes(b"")
    with pytest.raises(FileError, match="restore the folder"):
        seen(ledger)
    (tmp_path / "commits" / "q" / "0.json").write_text("{")
    with pytest.raises(FileError, match="restore the folder"):
        seen(ledger)
