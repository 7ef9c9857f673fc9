"""Layout of a relation: the order of its rows, and the pages they go into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.errors import DataError, SchemaError

from ...rows.plain import plain_type
from ...rows.received import fitted
from ...store.file_store import FileStore
from ..key_hash import KeyHash
from .keys import doubled, shown_key
from .records import RelationRecord
from .segment import HASH_COLUMN, PageSegment, SegmentRecord, SegmentWriter, has_bounds
from .sorting import Sorter, Spool, scratch
from .zorder import MOST_COLUMNS, ClusterSample, places

if TYPE_CHECKING:
    from .version import FolderVersion

_ORDER = "\0order"


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Schema in which rows are stored: plain values in place of dictionaries, runs and views."""
    return pa.schema([field.with_type(plain_type(field.type)) for field in schema])


def _can_be_key(dtype: pa.DataType) -> bool:
    texts = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    is_number = pa.types.is_integer(dtype) or pa.types.is_decimal(dtype)
    return has_bounds(dtype) or is_number or dtype in texts


def checked_schema(
    schema: pa.Schema, key: Sequence[str], cluster: Sequence[str], where: str
) -> pa.Schema:
    """Check that rows of this schema can be stored; returns the schema in which they are.

    Raises
    ------
    SchemaError
    """
    names = schema.names
    if not names:
        raise SchemaError(f"{where} has no columns")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"{where} has two columns {twice}; rename one")
    for use, columns in (("key", key), ("cluster", cluster)):
        for name in columns:
            if name not in names:
                raise SchemaError(
                    f"{where} has no column {name}, which {use} names; it has {', '.join(names)}"
                )
    stored = stored_schema(schema)
    for name in key:
        if not _can_be_key(stored.field(name).type):
            raise SchemaError(
                f"{where}.{name} is {stored.field(name).type}, which cannot be a key; use a column "
                "of numbers, text, bytes, times or booleans"
            )
    for name in cluster:
        if not has_bounds(stored.field(name).type):
            raise SchemaError(
                f"{where}.{name} is {stored.field(name).type}, by which rows cannot be clustered; "
                "use a column of numbers or times"
            )
    if len(cluster) > MOST_COLUMNS:
        raise SchemaError(
            f"rows of {where} are clustered by {len(cluster)} columns, but pages are apart in at "
            f"most {MOST_COLUMNS}; choose those that most queries compare"
        )
    return stored


class RelationLayout:
    """Arranges and writes rows of a relation.

    Parameters
    ----------
    files : FileStore
    record : RelationRecord
    name : str
        Name of the relation in messages.
    folder : Path or None
        Folder for sorting on disk; None for the system's folder of temporary files.
    """

    def __init__(
        self, files: FileStore, record: RelationRecord, name: str, folder: Path | None
    ) -> None:
        self._files, self.record, self.name, self._folder = files, record, name, folder
        self.key_hash = KeyHash(record.hash)
        self.by_hash = bool(record.key) and not record.cluster
        self.schema = record.schema
        hidden = [pa.field(HASH_COLUMN, pa.uint64())] if record.key else []
        self.page_schema = pa.schema([*hidden, *record.schema])
        self.removed_schema = pa.schema([*hidden, *(record.schema.field(k) for k in record.key)])

    @property
    def key_schema(self) -> pa.Schema:
        """The columns of the key."""
        return pa.schema([self.schema.field(name) for name in self.record.key])

    def rows_of(self, version: FolderVersion) -> Iterator[pa.RecordBatch]:
        """All rows of a version, of ``page_schema``, in its order."""
        for rows in version.batches():
            columns = rows.batch.columns
            if self.record.key:
                columns = [pa.array(rows.hashes), *columns]
            yield pa.RecordBatch.from_arrays(columns, schema=self.page_schema)

    def segment(
        self, record: SegmentRecord, *, removed: bool = False, is_delta: bool = False
    ) -> PageSegment:
        """Open a segment of rows, or of keys whose rows were removed."""
        schema = self.removed_schema if removed else self.page_schema
        return PageSegment(self._files, record, schema, is_delta=is_delta)

    def conform(self, batch: pa.RecordBatch, where: str, schema: pa.Schema) -> pa.RecordBatch:
        """Rows with the columns and types of a schema.

        Raises
        ------
        SchemaError, DataError
            A type does not hold its values, or a column that never is NULL is.
        """
        columns = []
        for field in schema:
            column = fitted(batch.column(field.name), field, where, f"in {self.name} it is")
            if column.null_count and not field.nullable:
                raise DataError(
                    f"{where}.{field.name} holds NULL, but the schema of {self.name} says that it "
                    "never does; mend the rows, or build the relation anew"
                )
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def hashed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the column of their hashes in front, if there is a key."""
        if not self.record.key:
            return batch
        hashes = self.key_hash.of_rows(batch, self.record.key, self.name)
        field = pa.field(HASH_COLUMN, pa.uint64())
        return pa.RecordBatch.from_arrays(
            [pa.array(hashes), *batch.columns], schema=pa.schema([field, *batch.schema])
        )

    def without_key(self, batch: pa.RecordBatch) -> np.ndarray | None:
        """Whether each row has NULL in its key, as booleans; None if no row has."""
        nulls = [batch.column(name) for name in self.record.key if batch.column(name).null_count]
        if not nulls:
            return None
        is_null = np.zeros(batch.num_rows, bool)
        for column in nulls:
            is_null |= column.is_null().to_numpy(zero_copy_only=False)
        return is_null

    def write(
        self, batches: Iterable[pa.RecordBatch], memory_bytes: int, *, is_sorted: bool = False
    ) -> SegmentRecord:
        """Write a segment of rows.

        Parameters
        ----------
        batches : iterable of RecordBatch
            Of ``page_schema``.
        memory_bytes : int
        is_sorted : bool
            Whether rows come in their order already.

        Raises
        ------
        FileError, DataError
        """
        with scratch(self._folder or gettempdir()) as folder:
            if self.by_hash:
                return self._by_hash(batches, folder, memory_bytes, is_sorted)
            return self._clustered(batches, folder, memory_bytes)

    def write_removed(self, keys: pa.RecordBatch) -> SegmentRecord:
        """Write a segment of removed keys, of ``removed_schema``."""
        order = np.argsort(keys.column(0).to_numpy(), kind="stable")
        page_bytes = self.record.page_bytes
        with SegmentWriter(self._files, self.removed_schema, page_bytes, by_hash=True) as out:
            out.write(keys.take(pa.array(order)))
            return out.finish()

    def _by_hash(
        self,
        batches: Iterable[pa.RecordBatch],
        folder: Path,
        memory_bytes: int,
        is_sorted: bool,
    ) -> SegmentRecord:
        keyless = Spool(folder / "keyless", self.page_schema)
        sorter = Sorter(folder, self.page_schema, memory_bytes)

        def keyed() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                missing = self.without_key(batch)
                if missing is None:
                    yield batch
                    continue
                keyless.write(batch.filter(pa.array(missing)))
                yield batch.filter(pa.array(~missing))

        ordered = keyed()
        if not is_sorted:
            for batch in ordered:
                sorter.write(batch)
            ordered = sorter.batches()
        check = self._check_unique if self.record.unique else None
        page_bytes = self.record.page_bytes
        with SegmentWriter(
            self._files, self.page_schema, page_bytes, by_hash=True, check=check
        ) as out:
            for batch in ordered:
                out.write(batch)
            out.end_of_keys()
            for batch in keyless.batches():
                out.write(batch)
            return out.finish()

    def _check_unique(self, rows: pa.RecordBatch) -> None:
        key = self.record.key
        columns = [rows.column(name) for name in key]
        row = doubled(columns, rows.column(0).to_numpy())
        if row is not None:
            raise DataError(
                f"{self.name} is unique, but several rows have the key "
                f"{shown_key(key, columns, row)}; leave out all but one, or build the relation "
                "without unique"
            )

    def _clustered(
        self, batches: Iterable[pa.RecordBatch], folder: Path, memory_bytes: int
    ) -> SegmentRecord:
        splits = self.record.splits
        schema = pa.schema([pa.field(_ORDER, pa.uint64()), *self.page_schema])
        sorter = Sorter(folder, schema, memory_bytes)
        for batch in batches:
            place = pa.array(places(batch, splits))
            sorter.write(pa.RecordBatch.from_arrays([place, *batch.columns], schema=schema))
        page_bytes = self.record.page_bytes
        with SegmentWriter(self._files, self.page_schema, page_bytes, by_hash=False) as out:
            for batch in sorter.batches():
                columns = batch.columns[1:]
                out.write(pa.RecordBatch.from_arrays(columns, schema=self.page_schema))
            return out.finish()


def with_splits(
    record: RelationRecord, batches: Iterable[pa.RecordBatch], folder: Path
) -> tuple[RelationRecord, Iterator[pa.RecordBatch]]:
    """Find the values that split a cluster's columns; rows are spooled to disk meanwhile."""
    sample = ClusterSample(record.cluster)
    spool = Spool(folder / "unordered", record.schema)
    for batch in batches:
        sample.add(batch)
        spool.write(batch)
    return replace(record, splits=sample.splits()), spool.batches()
