"""Rows that a relation is made of, batch by batch: from memory, from a stream, from files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from penstock.errors import FileError, UsageError

from ...rows.files import read_schema

#: What a relation can be made of.
Rows = pa.Table | pa.RecordBatch | pa.RecordBatchReader | str | PathLike

#: Rows of a batch; what is in memory besides what is sorted.
BATCH_ROWS = 1 << 16
#: Bytes of text of which the types of a CSV file's columns are told.
_CSV_BYTES = 1 << 22


@dataclass(frozen=True)
class RowSource:
    """Rows, to be read once.

    Parameters
    ----------
    name : str
        For messages.
    schema : Schema
    batches : iterator of RecordBatch
    """

    name: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def source_of(rows: Rows, name: str = "the table") -> RowSource:
    """Open rows.

    Raises
    ------
    FileError
    UsageError
        They are no table, stream of Arrow batches, or path.
    """
    if isinstance(rows, str | PathLike):
        return _of_file(Path(rows))
    given: Any = rows
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        return RowSource(name, given.schema, _short(given.to_batches(max_chunksize=BATCH_ROWS)))
    if not isinstance(given, pa.RecordBatchReader):
        if not hasattr(given, "__arrow_c_stream__"):
            raise UsageError(
                f"a relation is made of a table, a stream of Arrow batches or a file, not "
                f"{type(given).__name__}"
            )
        given = pa.RecordBatchReader.from_stream(given)
    return RowSource(name, given.schema, _short(given))


def _short(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _of_file(path: Path) -> RowSource:
    kind = path.suffix.lower()
    if kind == ".csv":
        return _of_csv(path)
    schema = read_schema(path)
    batches = _arrow_batches(path) if kind in (".arrow", ".ipc", ".feather") else _parquet(path)
    return RowSource(str(path), schema, _explained(path, _cast(_short(batches), schema)))


def _cast(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch if batch.schema.types == schema.types else batch.cast(schema)


def _arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _parquet(path: Path) -> Iterator[pa.RecordBatch]:
    # Microseconds for timestamps of the oldest form, as where tables are read.
    for file in pq.ParquetDataset(path).files:
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
            yield from opened.iter_batches(batch_size=BATCH_ROWS)


def _of_csv(path: Path) -> RowSource:
    try:
        options = pacsv.ReadOptions(block_size=_CSV_BYTES)
        reader = pacsv.open_csv(path, read_options=options)
    except FileNotFoundError:
        raise FileError(f"there is no file {path}") from None
    except (OSError, pa.ArrowException) as error:
        raise FileError(f"cannot read {path}: {error}") from None
    return RowSource(str(path), reader.schema, _explained(path, _short(reader)))


def _explained(path: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, FileError | MemoryError):
            raise
        reason = str(error).splitlines()[0]
        raise FileError(f"cannot read {path}: {reason}") from None
