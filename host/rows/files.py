"""Tables in files: Parquet, CSV, JSON lines and Arrow, read by column and written atomically."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from penstock.errors import FileError, PenstockError, SchemaError, limit_remedy

from ..store.atomic import atomic
from ..store.location import local_path, matched
from .formats import SUFFIXES, CsvFormat, format_of, formats

#: End of a message about a table in another place.
_REMEDY = "copy it here, or read it in Python and give the table to penstock.sql"
#: Files of one table: a column that one lacks is NULL, and numbers get the wider type.
_PROMOTED: Any = {"promote_options": "permissive"}
#: CSV files with commas and a header.
CSV = CsvFormat()


class FileWriter(Protocol):
    """The common interface of the three formats' writers."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class _Files:
    """The files of a table.

    Parameters
    ----------
    path : str or path
        A file, a folder, or a pattern with ``*``, ``?``, ``[`` or ``**``.
    csv : CsvFormat
    """

    def __init__(self, path: str | PathLike, csv: CsvFormat) -> None:
        self.path = local_path(path, _REMEDY)
        self.paths = matched(self.path)
        if not self.paths:
            raise FileError(f"no file matches {self.path}")
        if self.path.is_dir() and (inside := _text_files(self.path)):
            self.paths = inside
        kinds = {_kind(one) for one in self.paths}
        if len(kinds) > 1:
            shown = ", ".join(sorted(kinds))
            raise FileError(
                f"{self.path} has files of several formats: {shown}; give a pattern for one of them"
            )
        self.kind = kinds.pop()
        self._format = formats(csv)[self.kind]

    def schema(self) -> pa.Schema:
        schemas = [self._format.schema(one) for one in self.paths]
        return schemas[0] if len(schemas) == 1 else pa.unify_schemas(schemas, **_PROMOTED)

    def table(self, columns: Sequence[str] | None) -> pa.Table:
        tables = [self._format.table(one, columns) for one in self.paths]
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables, **_PROMOTED)
        if columns is None:
            return table
        for column in columns:
            if column not in table.schema.names:
                names = ", ".join(self.schema().names)
                raise SchemaError(f"{self.path} has no column {column}; it has {names}")
        return table.select(list(columns))

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        for one in self.paths:
            yield from self._format.batches(one, rows)


def _text_files(folder: Path) -> list[Path]:
    """Files of a folder, if all are CSV or all are JSON lines; hidden ones do not count."""
    inside = sorted(one for one in folder.rglob("[!._]*") if one.is_file())
    kinds = {format_of(one) for one in inside}
    return inside if kinds in ({"csv"}, {"json"}) else []


def _kind(path: Path) -> str:
    kind = "parquet" if path.is_dir() else format_of(path)
    if kind is None:
        raise FileError(f"cannot tell the format of {path}; name it {', '.join(sorted(SUFFIXES))}")
    return kind


@contextmanager
def _explained(named: str | PathLike, action: str) -> Iterator[None]:
    """Turn the libraries' errors into one sentence about this file."""
    path = local_path(named, _REMEDY)
    try:
        yield
    except FileNotFoundError:
        if action == "write":
            raise FileError(f"cannot write {path}: no files can be made in {path.parent}") from None
        raise FileError(f"there is no file {path}") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        if isinstance(error, PenstockError | MemoryError):
            raise
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        remedy = limit_remedy(error, "")
        raise FileError(f"cannot {action} {path}: {reason}{remedy and '; '}{remedy}") from None


def read_schema(path: str | PathLike, csv: CsvFormat = CSV) -> pa.Schema:
    """Schema of a table in files, without its rows where the format allows it.

    A folder is read as the Parquet files in it, as Spark writes them, or as the CSV files or JSON
    lines if it has no others. Files of one table may lack columns of each other, whose values are
    then NULL.
    """
    with _explained(path, "read"):
        return _Files(path, csv).schema()


def read_table(
    path: str | PathLike, columns: Sequence[str] | None = None, csv: CsvFormat = CSV
) -> pa.Table:
    """A table in files, as :func:`read_schema` finds them, or some of its columns.

    Raises
    ------
    FileError
        A file is missing, truncated, or of another format than its name says.
    SchemaError
        It lacks one of the columns.
    """
    with _explained(path, "read"):
        return _Files(path, csv).table(columns)


def read_batches(
    path: str | PathLike, rows: int, csv: CsvFormat = CSV
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Schema of a table in files, and its rows in batches of at most ``rows``.

    Raises
    ------
    FileError
        As for :func:`read_table`; also while the batches are read.
    """
    with _explained(path, "read"):
        files = _Files(path, csv)
        batches = files.batches(rows)
        if len(files.paths) > 1 or files.kind != "csv":
            return (schema := files.schema()), _explained_batches(path, batches, schema, rows)
        first = next(batches)  # types are those of the first block, as of all after it
        return first.schema, _explained_batches(path, batches, first.schema, rows)


def _explained_batches(
    path: str | PathLike, batches: Iterator[pa.RecordBatch], schema: pa.Schema, rows: int
) -> Iterator[pa.RecordBatch]:
    empty = schema.empty_table()
    with _explained(path, "read"):
        for batch in batches:
            part = pa.Table.from_batches([batch])
            if batch.schema.names != schema.names:
                part = pa.concat_tables([empty, part], **_PROMOTED)
            yield from part.cast(schema).to_batches(rows)


@contextmanager
def open_writer(path: str | PathLike, schema: pa.Schema) -> Iterator[FileWriter]:
    """Write a table file batch by batch; it appears under its name only once it is whole.

    Raises
    ------
    FileError
        The folder does not exist or cannot be written, or the disk is full.
    """
    path = local_path(path, _REMEDY)
    with _whole(path) as partial:
        kind = _kind(path)
        if kind == "json" or path.suffix.lower() == ".gz":
            raise FileError(f"cannot write {path}: name it .parquet, .csv or .arrow")
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
    path = local_path(path)
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
    with _whole(local_path(path)) as partial:
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


def _open(kind: str, path: Path, schema: pa.Schema) -> FileWriter:
    if kind == "parquet":
        return pq.ParquetWriter(path, schema, compression="zstd", compression_level=1)
    if kind == "csv":
        return pacsv.CSVWriter(str(path), schema)
    return pa.ipc.new_file(str(path), schema)
