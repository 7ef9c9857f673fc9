"""A streaming join as it travels to the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.host.pruning.sizes import DEFAULT_PRUNING, Pruning
from penstock.query.compiler import compile_query
from penstock.query.plan import JoinQuery, named_by_side
from penstock.spark_bridge.devices import DeviceChoice

#: Column of the rows on their way to the tasks that says which side they are of.
IS_RIGHT = "is_right"


@dataclass(frozen=True)
class JoinSpec:
    """The query's text and what it was compiled with; expressions do not travel.

    Parameters
    ----------
    text : str
    schemas : mapping of table name to pyarrow.Schema
    options : mapping
        Keyword arguments of :func:`penstock.query.compiler.compile_query`.
    tables : mapping of side to str
        Names of the tables that feed the sides.
    disorder : mapping of side to int
        How far below its source's largest time a row may lie, in the window's unit.
    slots : mapping of side to mapping of column to slot
        Where a column is found in the rows that Spark sends.
    output : pyarrow.Schema
    device : DeviceChoice
    pruning : Pruning or None
    batch_rows : int
        Most rows of a batch that goes to Spark.
    """

    text: str
    schemas: Mapping[str, pa.Schema]
    options: Mapping[str, Any]
    tables: Mapping[str, str]
    disorder: Mapping[str, int]
    slots: Mapping[str, Mapping[str, str]]
    output: pa.Schema
    device: DeviceChoice
    pruning: Pruning | None = DEFAULT_PRUNING
    batch_rows: int = 1 << 16

    def query(self) -> JoinQuery:
        """The compiled query, over tables named by side."""
        # A task's process runs many tasks of a query. Inside, since its cache is meant.
        from penstock.spark_bridge.streaming.spec import compiled

        return compiled(self.text, _Hashed(self.schemas), _Hashed(self.options))

    def side_table(self, side: str, rows: pa.Table) -> pa.Table:
        """Rows of one side as they came from Spark, with the columns that the query needs."""
        schema = self.side_schema(side)
        slots = self.slots[side].values()
        arrays = [
            rows.column(slot).cast(field.type) for slot, field in zip(slots, schema, strict=True)
        ]
        return pa.table(arrays, schema=schema)

    def side_schema(self, side: str) -> pa.Schema:
        """Of the columns of one side that the query needs."""
        schema = self.schemas[self.tables[side]]
        return pa.schema([schema.field(name) for name in self.slots[side]])

    @property
    def names(self) -> dict[str, str]:
        """What the query calls each side."""
        return self.query().names

    def output_batches(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Output rows with Spark's types, in batches of bounded size."""
        arrays = [
            column.cast(field.type)
            for column, field in zip(batch.columns, self.output, strict=True)
        ]
        cast = pa.RecordBatch.from_arrays(arrays, schema=self.output)
        for at in range(0, cast.num_rows, self.batch_rows):
            yield cast.slice(at, self.batch_rows)


@dataclass(frozen=True)
class _Hashed:
    """Something that is equal to what looks the same."""

    value: Any

    def __hash__(self) -> int:
        return hash(repr(self.value))


@lru_cache(maxsize=16)
def compiled(text: str, schemas: _Hashed, options: _Hashed) -> JoinQuery:
    """A query of this process."""
    return named_by_side(compile_query(text, schemas.value, **options.value))
