"""Folders of batches that earlier versions of Penstock wrote: they are read, and not written.

``batches/`` beside this file is one. Its writer ``first`` committed batches 0 to 10, of which 4 has
no rows, and folded after 2 records instead of 100. Batch 11, and all of the writer ``never``, were
not committed.
"""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import FileError, UsageError
from penstock.spark_bridge import register
from penstock.spark_bridge.sources.batches import BatchFolder

FOLDER = str(Path(__file__).parent / "batches")
QUERY = "8f3c2a8e-0c7b-4b0e-9d5f-3a0f5d7f6f11"
FIRST = [n for n in range(22) if n // 2 != 4]
REFUSED = r'only reads folders .* write with format\("delta"\).* CAST them'


def numbers(folder: BatchFolder, writer: str, *bounds: int | None) -> dict[int, list[int]]:
    """Values of column n by batch."""
    return {
        batch: [n for f in files for rows in folder.rows(f) for n in rows.column("n").to_pylist()]
        for batch, files in folder.between(writer, *bounds).items()
    }


def test_records_that_are_alone_and_folded():
    folder = BatchFolder.at(f"file://{FOLDER}")
    assert folder.writers() == [QUERY, "first"]
    assert [folder.latest(writer) for writer in (*folder.writers(), "never")] == [5, 10, None]
    whole = {b: [] if b == 4 else [2 * b, 2 * b + 1] for b in range(11)}
    assert numbers(folder, "first") == whole
    assert list(numbers(folder, "first")) == list(range(11))
    for after, last in ((-1, 0), (1, 2), (2, 8), (4, None), (8, 9), (10, None)):
        cut = {b: rows for b, rows in whole.items() if after < b <= (10 if last is None else last)}
        assert numbers(folder, "first", after, last) == cut
    assert numbers(folder, QUERY) == {3: [103, 203], 5: [105, 205]}


def test_files_that_are_no_records(tmp_path):
    path = shutil.copytree(FOLDER, tmp_path / "batches")
    shutil.copytree(path / "commits/first", path / "commits/first.bak")
    for name in (
        "commits/first/7-mine.json",
        "commits/first/٣.json",
        "folded/first/1/1-2.json.old",
    ):
        (path / name).write_text("mine")
    folder = BatchFolder.at(str(path))
    assert folder.writers() == [QUERY, "first"]
    assert list(numbers(folder, "first")) == list(range(11))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("commits/first/9.json", "{"),
        ("folded/first/2/0-3.json", "[]"),
        ("rows/first/0/*.parquet", ""),
    ],
)
def test_damage(tmp_path, name, text):
    path = shutil.copytree(FOLDER, tmp_path / "batches")
    (file,) = path.glob(name)
    file.write_text(text)
    with pytest.raises(FileError, match=r"cannot be read: .*restore the folder from a backup"):
        numbers(BatchFolder.at(str(path)), "first")


def test_no_folder(tmp_path):
    with pytest.raises(FileError, match=r"no batches in .* that an earlier version of Penstock"):
        BatchFolder.at(str(tmp_path)).schema()
    for path, why in (("s3://bucket/rows", "driver and workers share"), ("rows", "the whole path")):
        with pytest.raises(UsageError, match=why):
            BatchFolder.at(path)


def test_read_in_spark(spark):
    register(spark)
    rows = spark.read.format("penstock_batches").load(FOLDER).toArrow().sort_by("n").to_pylist()
    assert [row["n"] for row in rows] == [*FIRST, 103, 105, 203, 205]
    assert all(row["took"] == timedelta(milliseconds=row["n"]) for row in rows)
    assert all(row["name"] == (f"row {row['n']}" if row["n"] % 3 else None) for row in rows)


@pytest.mark.slow
def test_read_as_a_stream(spark, tmp_path):
    """A query that read some batches before goes on after them."""
    register(spark)
    path = shutil.copytree(FOLDER, tmp_path / "batches")
    later = path / "commits/first/10.json"
    text = later.read_text()

    def read() -> None:
        stream = spark.readStream.format("penstock_batches").load(str(path)).select("n")
        writer = stream.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.start(str(tmp_path / "seen")).awaitTermination(120)

    def seen() -> list[int]:
        return sorted(spark.read.parquet(str(tmp_path / "seen")).toArrow().column(0).to_pylist())

    later.unlink()
    read()
    assert seen() == [*FIRST[:-2], 103, 105, 203, 205]
    later.write_text(text)
    read()
    assert seen() == [*FIRST, 103, 105, 203, 205]


def test_nothing_is_written(spark, tmp_path):
    register(spark)
    path = tmp_path / "batches"
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match=REFUSED):
            spark.range(1).write.format("penstock_batches").mode(mode).save(str(path))
    source = spark.readStream.format("rate").load()
    writer = source.writeStream.format("penstock_batches").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match=REFUSED):
        writer.start(str(path)).awaitTermination(120)
    assert not path.exists()
