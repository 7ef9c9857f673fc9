"""Joined rows that wait until their groups are complete, such as an outer join's.

A micro-batch writes its joined rows into files, then its record, which names them and says below
which value groups are complete. Its output is computed from such files alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from penstock.around.parts import Closing
from penstock.host.join.step import Frontier, RowBlock, moment_in
from penstock.plan.window import FOREVER, NEVER

from ..rows import cast_to
from ..stream_frame import After
from ..types import arrow_schema, spark_schema
from .commit import BatchRecord, StoredFile
from .compaction import FileMerge
from .spec import JoinSpec
from .store import TIME, Store

#: Value of rows without one: the largest that a file has room for.
_LAST = FOREVER - 1


@dataclass(frozen=True)
class WaitRule:
    """Rule for rows that wait until their groups are complete; see :meth:`StreamFrame.waits`."""

    closing: Closing
    text: str
    of_joined: After
    valued: After

    def schema(self, spark: SparkSession, spec: JoinSpec) -> pa.Schema:
        """Columns of the rows."""
        none = spark.createDataFrame([], spark_schema(spec.output))
        return arrow_schema(self.of_joined(none).schema)

    def closed(self, spark: SparkSession, spec: JoinSpec, commit: BatchRecord) -> int:
        """Compute the value below which groups are complete after a batch."""
        query = spec.query()
        side = next(s for s in query.sides if query.names[s.side] == self.closing.alias)
        below = Frontier(query, commit.after).complete_below(side.side)
        if below in (NEVER, FOREVER):
            return below
        schema = self.schema(spark, spec)
        row = {field.name: pa.nulls(1, field.type) for field in schema}
        time = schema.field(self.closing.column).type
        row[self.closing.column] = moment_in(query, side, below, time)
        first = spark.createDataFrame(pa.table(row, schema), spark_schema(schema))
        return int(_numbers(self.valued(first).toArrow().column(-1))[0])


def store_waiting(store: Store, batch: int, valued: pa.Table) -> Iterator[StoredFile]:
    """Write rows, whose last column is the value by which their groups close, into files.

    Those without a value, whose groups are complete once the sources end, have a file of their own.
    """
    has_value = valued.column(-1).is_valid()
    rows = valued.select(range(valued.num_columns - 1))
    none = pc.call_function("invert", [has_value])
    for is_own, values in (
        (has_value, _numbers(valued.column(-1).drop_null())),
        (none, np.full(pc.call_function("sum", [none]).as_py() or 0, _LAST)),
    ):
        if len(values):
            yield _add(store, batch, rows.filter(is_own), values)


def merge_waiting(store: Store, batch: int, merge: FileMerge) -> StoredFile | None:
    """Merge files, without the rows of groups that are complete; None if no row is left."""
    tables = [store.read(file) for file in merge.files if file.high >= merge.low]
    if not tables:
        return None
    table = pa.concat_tables(tables)
    values = table.column(TIME).to_numpy()
    is_open = values >= merge.low
    return _add(store, batch, table.remove_column(0).filter(pa.array(is_open)), values[is_open])


def _add(store: Store, batch: int, rows: pa.Table, values: np.ndarray) -> StoredFile:
    order = np.argsort(values, kind="stable")
    values = values[order]
    field = pa.field(TIME, pa.int64(), nullable=False)
    table = rows.take(pa.array(order)).add_column(0, field, [pa.array(values)])
    return store.add(batch, table, RowBlock(len(values), int(values[0]), int(values[-1])))


def read_closed(
    store: Store, commit: BatchRecord, schema: pa.Schema, file: StoredFile
) -> Iterator[pa.RecordBatch]:
    """Rows of a file whose groups are complete with a batch and were not before it."""
    low, below = commit.closed
    high = below if below == FOREVER else below - 1
    for batch in store.between(file, low, high).combine_chunks().to_batches():
        yield cast_to(batch, schema)


def closed_files(commit: BatchRecord) -> list[StoredFile]:
    """Files that have rows of groups that are complete with a batch and were not before it."""
    low, below = commit.closed
    is_last = below == FOREVER
    files = [f for f in commit.waiting if f.high >= low and (f.low < below or is_last)]
    return files if low < below else []


def _numbers(values: pa.ChunkedArray) -> np.ndarray:
    """Times, days or integers as integers."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    return values.cast(pa.int64()).to_numpy()
