"""The archive of state, and how rows are compared."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather

ARCHIVE = Path(__file__).parent / "state.tar.xz"
#: Batches of each source that a checkpoint covers, and all there are.
BEFORE, ALL = 3, 5
#: Digits of floats that are compared, since a sum depends on the order of its rows.
_DIGITS = 9


def unpacked(folder: Path) -> Path:
    """Unpack what is kept; returns the folder."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def batches_of(folder: Path, source: str) -> list[pa.RecordBatch]:
    """Return the rows of a source in batches of one size."""
    table = feather.read_table(folder / f"{source}.arrow").combine_chunks()
    return table.to_batches(max_chunksize=table.num_rows // ALL)


def rows_of(tables: Sequence[pa.Table]) -> list[tuple[Any, ...]]:
    """Return the rows of tables in one order, by the names of their columns."""
    found = []
    for table in tables:
        columns = [table[name].to_pylist() for name in sorted(table.column_names)]
        found += [tuple(map(_plain, row)) for row in zip(*columns, strict=True)]
    return sorted(found, key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else value


def answer_of(folder: Path, name: str) -> list[tuple[Any, ...]]:
    """Return the rows that must follow."""
    return rows_of([feather.read_table(folder / "answers" / f"{name}.arrow")])
