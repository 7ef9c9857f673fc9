"""Parquet files of a Delta table, written by tasks; the driver adds them to the table's log."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date, datetime
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from penstock.errors import FileError
from penstock.host.store.atomic import atomic
from penstock.host.store.file_store import explained

from ..rows import cast_to
from .store import AGAIN

#: Most characters of a text that is kept as the least or largest of a file.
_TEXT = 64


@dataclass(frozen=True)
class DataFile:
    """A file that a task wrote.

    Parameters
    ----------
    name : str
        Within the table's folder.
    bytes : int
    values : dict
        Of the partition columns, as Delta's log has them; None is NULL.
    stats : str
        Number of rows, least and largest values, as Delta's log has them.
    """

    name: str
    bytes: int
    values: dict[str, str | None]
    stats: str


@dataclass(frozen=True)
class DataFiles:
    """Writes the rows of a task, a file per value of the partition columns.

    No other attempt of a task uses the names, and nobody reads the files before the commit.

    Parameters
    ----------
    location : str
        Folder of the table, or its address in an object store.
    storage : dict
        Options of the object store.
    schema : pyarrow.Schema
        Of the rows.
    by : tuple of str
        Partition columns, by which the rows of each task are sorted.
    """

    location: str
    storage: dict[str, str]
    schema: pa.Schema
    by: tuple[str, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write all rows; yield each file as JSON, for :meth:`read`."""
        rows = (cast_to(batch, self.schema) for batch in batches if batch.num_rows)
        runs = chain.from_iterable(self._runs(batch) for batch in rows)
        for values, parts in groupby(runs, key=lambda run: run[0]):
            file = self._write(values, (part for _, part in parts))
            yield pa.record_batch([pa.array([json.dumps(asdict(file))])], names=["text"])

    @staticmethod
    def read(text: str) -> DataFile:
        return DataFile(**json.loads(text))

    def _runs(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple, pa.RecordBatch]]:
        """Cut a batch into runs of rows with equal partition columns; leave these columns out."""
        columns = batch.drop_columns(list(self.by)) if self.by else batch
        keys = [_texts(batch.column(name)) for name in self.by]
        at = 0
        for values, same in groupby(zip(*keys, strict=True) if keys else [()] * len(columns)):
            count = sum(1 for _ in same)
            yield values, columns.slice(at, count)
            at += count

    def _write(self, values: tuple, parts: Iterable[pa.RecordBatch]) -> DataFile:
        name = f"part-{uuid.uuid4().hex}.parquet"
        schema = pa.schema([field for field in self.schema if field.name not in self.by])
        metadata: list[pq.FileMetaData] = []
        with (
            self._opened(name) as (sink, size),
            pq.ParquetWriter(
                sink,
                schema,
                compression="zstd",
                compression_level=1,
                store_schema=False,
                metadata_collector=metadata,
            ) as out,
        ):
            for part in parts:
                out.write_batch(part)
        partition = dict(zip(self.by, values, strict=True))
        return DataFile(name, size(), partition, json.dumps(_stats(metadata[0], schema)))

    @contextmanager
    def _opened(self, name: str) -> Iterator[tuple[Any, Any]]:
        """Open a new file; yield its sink, and a function that then gives its size."""
        if is_folder(self.location):
            path = Path(self.location, name)
            with _new_file(path) as partial:
                yield partial, lambda: path.stat().st_size
            return
        store = table_files(self.location, self.storage)
        try:
            with store.open_output_stream(name) as sink:
                yield sink, lambda: store.get_file_info(name).size
        except OSError as error:
            why = str(error).splitlines()[0]
            raise FileError(f"cannot write {name} of {self.location}: {why}; {AGAIN}") from error


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """A name to write a new file under; when complete, it survives a crash of the machine.

    Raises
    ------
    FileError
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"cannot make {path.parent}: {error.strerror}; choose a path that the driver and all "
            "workers can write"
        ) from error
    with explained(str(path), AGAIN), atomic(path, replace=False, durable=True) as partial:
        yield partial


def table_files(location: str, storage: dict[str, str]) -> fs.FileSystem:
    """All that lies in a table's folder, or at its address in an object store."""
    from deltalake.fs import DeltaStorageHandler

    return fs.PyFileSystem(DeltaStorageHandler(location, storage))


def is_folder(location: str) -> bool:
    """Whether a table's files are in a file system."""
    return "://" not in location


def _texts(column: pa.Array) -> list[str | None]:
    """Values of a partition column as Delta's log has them."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))  # in UTC, without naming it
    # Delta has no empty text here.
    return [text or None for text in column.cast(pa.string()).to_pylist()]


def _stats(file: pq.FileMetaData, schema: pa.Schema) -> dict[str, Any]:
    """Row count and each column's least and largest value, by which readers pass a file over."""
    least: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for at in range(file.num_columns):
        name = file.schema.column(at).path
        if name not in schema.names or not _has_order(schema.field(name).type):
            continue
        groups = [file.row_group(k).column(at).statistics for k in range(file.num_row_groups)]
        if any(one is None or one.null_count is None for one in groups):
            continue
        nulls[name] = sum(one.null_count for one in groups)
        with_values = [one for one in groups if one.has_min_max]
        is_known = len(with_values) == sum(one.num_values > 0 for one in groups)
        if not (with_values and is_known):
            continue
        try:
            low = min(one.min for one in with_values)
            high = max(one.max for one in with_values)
        except (OverflowError, ValueError):  # a time that Python cannot hold
            continue
        if not (isinstance(low, str) and max(len(low), len(high)) > _TEXT):
            least[name], largest[name] = _json_value(low), _json_value(high)
    return {
        "numRecords": file.num_rows,
        "minValues": least,
        "maxValues": largest,
        "nullCount": nulls,
    }


def _has_order(dtype: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp, pa.types.is_string)
    return any(kind(dtype) for kind in kinds)


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else "Z"
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + zone
    return value.isoformat() if isinstance(value, date) else value
