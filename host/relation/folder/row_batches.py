"""Rows that a relation is made of, batch by batch: from memory, from a stream, from files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any

import pyarrow as pa

from penstock.errors import UsageError

from ...rows.files import CSV, read_batches
from ...rows.formats import CsvFormat

#: Inputs from which a relation can be built.
Rows = pa.Table | pa.RecordBatch | pa.RecordBatchReader | str | PathLike

#: Rows of a batch, which is in memory besides the rows being sorted.
BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class RowSource:
    """Rows, to be read once.

    Parameters
    ----------
    name : str
        Name of the rows in messages.
    schema : Schema
    batches : iterator of RecordBatch
    """

    name: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def source_of(rows: Rows, name: str = "the table", csv: CsvFormat = CSV) -> RowSource:
    """Open rows; ``csv`` is for files of that format.

    Raises
    ------
    FileError
    UsageError
        The rows are no table, stream of Arrow batches, or path.
    """
    if isinstance(rows, str | PathLike):
        schema, batches = read_batches(rows, BATCH_ROWS, csv)
        return RowSource(str(rows), schema, batches)
    reader: Any = rows
    if isinstance(reader, pa.RecordBatch):
        reader = pa.Table.from_batches([reader])
    if isinstance(reader, pa.Table):
        return RowSource(name, reader.schema, _short(reader.to_batches(max_chunksize=BATCH_ROWS)))
    if not isinstance(reader, pa.RecordBatchReader):
        if not hasattr(reader, "__arrow_c_stream__"):
            raise UsageError(
                f"a relation is made of a table, a stream of Arrow batches or a file, not "
                f"{type(reader).__name__}"
            )
        reader = pa.RecordBatchReader.from_stream(reader)
    return RowSource(name, reader.schema, _short(reader))


def _short(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)
