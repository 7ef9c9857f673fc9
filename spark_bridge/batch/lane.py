"""What runs in a Spark task: one lane of a join, from Arrow batches to Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.query.compiler import compile_query
from penstock.query.plan import LEFT, RIGHT, JoinQuery, Side
from penstock.spark_bridge.devices import DeviceChoice

#: Columns of the shuffled rows beside the slots: which side a row is of, and its place in it.
IS_RIGHT, PLACE = "is_right", "place"

#: Rows of one batch that goes to Spark. The JVM holds a whole batch; larger ones are not faster.
BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class LaneJoin:
    """A join as it travels to the tasks: the text, and what it was compiled with.

    Compiled expressions do not travel: equal nodes must be one object within a process.

    Parameters
    ----------
    text : str
    schemas : mapping of table name to pyarrow.Schema
    options : mapping
        Keyword arguments of :func:`penstock.query.compiler.compile_query`.
    slots : mapping of side to mapping of column to slot
        Where a column is found in the shuffled rows.
    output : pyarrow.Schema
    device : DeviceChoice
    """

    text: str
    schemas: Mapping[str, pa.Schema]
    options: Mapping[str, Any]
    slots: Mapping[str, Mapping[str, str]]
    output: pa.Schema
    device: DeviceChoice

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join the rows of one partition."""
        from penstock.host.batch import BatchJoin

        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return
        rows = pa.Table.from_batches(filled)
        query = compile_query(self.text, self.schemas, **self.options)
        is_right = pc.field(IS_RIGHT)
        tables = {
            LEFT: self._side(query.left, rows.filter(~is_right)),
            RIGHT: self._side(query.right, rows.filter(is_right)),
        }
        with self.device.opened() as device:
            for batch in BatchJoin(named_by_side(query), tables, device):
                for at in range(0, batch.num_rows, BATCH_ROWS):
                    yield self._output(batch.slice(at, BATCH_ROWS))

    def _side(self, side: Side, rows: pa.Table) -> pa.Table:
        if PLACE in rows.column_names:
            # The shuffle brings the pieces of a side in any order.
            rows = rows.sort_by(PLACE)
        slots = self.slots[side.side]
        fields = [self.schemas[side.table].field(name) for name in slots]
        arrays = [
            rows.column(slot).cast(field.type)
            for slot, field in zip(slots.values(), fields, strict=True)
        ]
        return pa.table(arrays, schema=pa.schema(fields))

    def _output(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            column.cast(field.type)
            for column, field in zip(batch.columns, self.output, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)


def named_by_side(query: JoinQuery) -> JoinQuery:
    """The query over tables named by side: in a self-join the sides have different rows here."""
    left, right = (replace(side, table=side.side) for side in query.sides)
    return replace(query, left=left, right=right)
