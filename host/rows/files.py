"""Tables in files: Parquet, CSV and Arrow, read by column and written atomically."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryFile
from typing import Protocol

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from penstock.errors import FileError, PenstockError, SchemaError

from . import parquet
from .atomic import atomic

_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


class Writer(Protocol):
    """The common interface of the three formats' writers."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def _format(path: Path) -> str:
    found = "parquet" if path.is_dir() else _SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise FileError(f"cannot tell the format of {path}; name it {', '.join(sorted(_SUFFIXES))}")
    return found


@contextmanager
def _explained(path: Path, what: str) -> Iterator[None]:
    """Turn the libraries' errors into one sentence about this file."""
    try:
        yield
    except FileNotFoundError:
        if what == "write":
            raise FileError(f"cannot write {path}: no files can be made in {path.parent}") from None
        raise FileError(f"there is no file {path}") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        if isinstance(error, PenstockError | MemoryError):
            raise
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise FileError(f"cannot {what} {path}: {reason}") from None


def read_schema(path: str | PathLike) -> pa.Schema:
    """Schema of a table file, without its rows where the format allows it.

    A folder is read as the Parquet files in it, as Spark writes them.
    """
    path = Path(path)
    with _explained(path, "read"):
        kind = _format(path)
        if kind == "parquet":
            return parquet.read_schema(path)
        if kind == "arrow":
            with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
                return reader.schema
        return pacsv.read_csv(path).schema


def read_table(path: str | PathLike, columns: Sequence[str] | None = None) -> pa.Table:
    """A table file, or some of its columns.

    Raises
    ------
    FileError
        The file is missing, truncated, or of another format than its name says.
    SchemaError
        It lacks one of the columns.
    """
    path = Path(path)
    with _explained(path, "read"):
        kind = _format(path)
        if columns is not None:
            _check_columns(path, columns)
        if kind == "parquet":
            return parquet.read_table(path, columns)
        if kind == "arrow":
            with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
                table = reader.read_all()
        else:
            table = pacsv.read_csv(path)
        return table if columns is None else table.select(list(columns))


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    names = read_schema(path).names
    for column in columns:
        if column not in names:
            raise SchemaError(f"{path} has no column {column}; it has {', '.join(names)}")


@contextmanager
def open_writer(path: str | PathLike, schema: pa.Schema) -> Iterator[Writer]:
    """Write a table file batch by batch; it appears under its name only once it is whole.

    Raises
    ------
    FileError
        The folder does not exist or cannot be written, or the disk is full.
    """
    with _whole(Path(path)) as partial:
        kind = _format(Path(path))
        writer = _open(kind, partial, schema)
        try:
            yield writer
        finally:
            writer.close()


def check_writable(path: str | PathLike) -> None:
    """Check that a file can be written, before the work whose result it will hold.

    Raises
    ------
    FileError
        It is a folder, or its folder does not exist or takes no files.
    """
    path = Path(path)
    with _explained(path, "write"):
        _check_place(path)
        with TemporaryFile(dir=path.parent):
            pass


def write_text(path: str | PathLike, text: str) -> None:
    """Write a text file in UTF-8; it appears under its name only once it is whole.

    Raises
    ------
    FileError
        The folder does not exist or cannot be written, or the disk is full.
    """
    with _whole(Path(path)) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to; the file gets its own name if nothing fails."""
    with _explained(path, "write"):
        _check_place(path)
        with atomic(path) as partial:
            yield partial


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise FileError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {path.parent}")


def _open(kind: str, path: Path, schema: pa.Schema) -> Writer:
    if kind == "parquet":
        return pq.ParquetWriter(path, schema, compression="zstd", compression_level=1)
    if kind == "csv":
        return pacsv.CSVWriter(str(path), schema)
    return pa.ipc.new_file(str(path), schema)
