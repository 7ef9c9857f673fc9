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

#: What a relation can be made of.
Rows = pa.Table | pa.RecordBatch | pa.RecordBatchReader | str | PathLike

#: Rows of a batch; what is in memory besides what is sorted.
BATCH_ROWS = 1 << 16


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


def source_of(rows: Rows, name: str = "the table", csv: CsvFormat = CSV) -> RowSource:
    """Open rows; ``csv`` is for files of that format.

    Raises
    ------
    FileError
    UsageError
        They are no table, stream of Arrow batches, or path.
    """
    if isinstance(rows, str | PathLike):
        schema, batches = read_batches(rows, BATCH_ROWS, csv)
        return RowSource(str(rows), schema, batches)
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
