"""Tables in files: read by column, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import FileError, SchemaError
from penstock.host.rows.files import open_writer, read_schema, read_table, write_text

TABLE = pa.table({"x": pa.array([1, 2, 3]), "s": ["a", "b", "c"]})
SUFFIXES = [".parquet", ".pq", ".csv", ".arrow", ".feather", ".ipc", ".PARQUET"]


def written(path: Path) -> Path:
    with open_writer(path, TABLE.schema) as writer:
        for batch in TABLE.to_batches(max_chunksize=2):
            writer.write_batch(batch)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"table{suffix}")
    assert read_table(path).equals(TABLE)
    assert read_table(str(path), ["s"]).equals(TABLE.select(["s"]))
    assert read_schema(path).names == ["x", "s"]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_a_missing_column_is_named(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"table{suffix}")
    with pytest.raises(SchemaError, match=f"{path} has no column y; it has x, s"):
        read_table(path, ["x", "y"])


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"table{suffix}")

    def fail() -> None:
        with open_writer(path, TABLE.schema) as writer:
            writer.write_batch(TABLE.to_batches()[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert read_table(path).equals(TABLE)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_a_truncated_file(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"table{suffix}")
    path.write_bytes(path.read_bytes()[: 40 if suffix != ".csv" else 0])
    with pytest.raises(FileError, match=f"cannot read {path}: "):
        read_table(path)
    with pytest.raises(FileError, match=f"cannot read {path}: "):
        read_schema(path)


def test_another_format_than_the_name_says(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    path.write_text("x,s\n1,a\n", encoding="utf-8")
    with pytest.raises(FileError, match="cannot read"):
        read_table(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no file"):
        read_table(tmp_path / "none.parquet")
    with pytest.raises(FileError, match="there is no folder"):
        written(tmp_path / "none" / "table.parquet")
    folder = tmp_path / "folder.parquet"
    folder.mkdir()
    with pytest.raises(FileError, match="it is a folder"):
        written(folder)


@pytest.mark.parametrize("name", ["table", "table.txt", "table.parquet.bak"])
def test_unknown_suffixes(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match="cannot tell the format of"):
        written(tmp_path / name)
    with pytest.raises(FileError, match="cannot tell the format of"):
        read_table(tmp_path / name)


def test_a_type_that_the_format_cannot_hold(tmp_path: Path) -> None:
    lists = pa.table({"x": pa.array([[1]], pa.list_(pa.int64()))})

    def write() -> None:
        with open_writer(tmp_path / "table.csv", lists.schema) as writer:
            writer.write_batch(lists.to_batches()[0])

    with pytest.raises(FileError, match="cannot write"):
        write()
    assert not list(tmp_path.iterdir())


def test_errors_of_the_body_are_not_blamed_on_the_file(tmp_path: Path) -> None:
    def fail() -> None:
        with open_writer(tmp_path / "table.parquet", TABLE.schema):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not list(tmp_path.iterdir())


def test_a_folder_of_parquet_files_is_read_as_one_table(tmp_path: Path) -> None:
    for part in range(2):
        pq.write_table(TABLE.slice(part, 1 + part), tmp_path / f"part-{part}.parquet")
    assert read_table(tmp_path).equals(TABLE)
    assert read_schema(tmp_path).names == ["x", "s"]


def test_text_appears_only_once_it_is_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "counts.json", "{}\n")
    assert [p.name for p in tmp_path.iterdir()] == ["counts.json"]
    assert (tmp_path / "counts.json").read_text(encoding="utf-8") == "{}\n"
    with pytest.raises(FileError, match="there is no folder"):
        write_text(tmp_path / "missing" / "counts.json", "")
    with pytest.raises(FileError, match="it is a folder"):
        write_text(tmp_path, "")
