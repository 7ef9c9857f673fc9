"""A streaming join as it travels to the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.host.prune.sizes import DEFAULT_PRUNING, Pruning
from penstock.plan.query import JoinQuery

from ..compiled import Compiled
from ..devices import DeviceChoice
from ..rows import cast_to, from_slots, used_schema

#: Column of the rows on their way to the tasks that says which side they are of.
IS_RIGHT = "is_right"


@dataclass(frozen=True)
class JoinSpec:
    """The join as the tasks know it.

    Parameters
    ----------
    compiled : Compiled
    disorder : mapping of side to int
        How far below its source's largest time a row may lie, in the window's unit.
    slots : mapping of side to mapping of column to slot
        Where a column is found in the rows that Spark sends.
    output : pyarrow.Schema
    device : DeviceChoice
    pruning : Pruning or None
    batch_rows : int
        Most rows of a batch that goes to Spark.
    resident_bytes : int, optional
        Of blocks that a worker keeps prepared; None to keep none, on devices either.
    idle_s : float, optional
        Seconds after which a source that sends nothing no longer holds back the other one.
    """

    compiled: Compiled
    disorder: Mapping[str, int]
    slots: Mapping[str, Mapping[str, str]]
    output: pa.Schema
    device: DeviceChoice
    pruning: Pruning | None = DEFAULT_PRUNING
    batch_rows: int = 1 << 16
    resident_bytes: int | None = None
    idle_s: float | None = None

    def query(self) -> JoinQuery:
        """The compiled query, over tables named by side."""
        return self.compiled.query()

    def side_table(self, side: str, rows: pa.Table) -> pa.Table:
        """Rows of one side as they came from Spark, with the columns that the query needs."""
        return from_slots(rows, self.slots[side], self.compiled.by_side()[side])

    def side_schema(self, side: str) -> pa.Schema:
        """Of the columns of one side that the query needs."""
        return used_schema(self.slots[side], self.compiled.by_side()[side])

    @property
    def names(self) -> dict[str, str]:
        """The query's alias of each side."""
        return self.query().names

    def output_batches(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Output rows with Spark's types, in batches of bounded size."""
        cast = cast_to(batch, self.output)
        for at in range(0, cast.num_rows, self.batch_rows):
            yield cast.slice(at, self.batch_rows)
