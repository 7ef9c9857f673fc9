"""Reads the rows of a task: first all rows of the held side, then the other side's in parts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.host.relation.folder.sorting import Spool, scratch
from penstock.plan.query import other

from ..rows import from_slots, used_schema

#: Columns of the shuffled rows beside the slots: the shard; whether the row is of the side that
#: streams past the held rows; its place in its input.
SHARD, STREAMED, PLACE = "shard", "streamed", "place"


@dataclass(frozen=True)
class Rows:
    """Rows of one side.

    Parameters
    ----------
    table : pyarrow.Table
    place : ndarray of int64 or None
        Place of each row in its input, where the order matters.
    shard : int or None
        Their shard, where the rows name it.
    """

    table: pa.Table
    place: np.ndarray | None = None
    shard: int | None = None


@dataclass
class ShardReader:
    """Reads the rows of a partition by side.

    Parameters
    ----------
    batches : iterator of RecordBatch
        Rows of the held side before all others.
    held_side : str
    slots : mapping of side to mapping of column to slot
    schemas : mapping of side to pyarrow.Schema
    """

    batches: Iterator[pa.RecordBatch]
    held_side: str
    slots: Mapping[str, Mapping[str, str]]
    schemas: Mapping[str, pa.Schema]

    def held(self) -> Rows:
        """All rows of the held side; call it first."""
        held_batches: list[pa.RecordBatch] = []
        for batch in self.batches:
            count = batch.num_rows - batch.column(STREAMED).true_count
            if count:
                held_batches.append(batch.slice(0, count))
            if count < batch.num_rows:
                self.batches = chain([batch.slice(count)], self.batches)
                break
        return self._rows(self.held_side, held_batches)

    def parts(self, most: int | None) -> Iterator[Rows]:
        """The other side's rows, about ``most`` at a time; None gives all at once."""
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in self.batches:
            waiting.append(batch)
            rows += batch.num_rows
            if most is not None and rows >= most:
                yield self._rows(other(self.held_side), waiting)
                waiting, rows = [], 0
        if rows or most is None:
            yield self._rows(other(self.held_side), waiting)

    def _rows(self, side: str, batches: list[pa.RecordBatch]) -> Rows:
        slots, schema = self.slots[side], self.schemas[side]
        if not batches:
            return Rows(used_schema(slots, schema).empty_table())
        rows = pa.Table.from_batches(batches)
        shard = rows.column(SHARD)[0].as_py() if SHARD in rows.column_names else None
        place = None
        if PLACE in rows.column_names:
            # The shuffle may have reordered them.
            rows = rows.sort_by(PLACE)
            place = rows.column(PLACE).to_numpy()
        return Rows(from_slots(rows, slots, schema), place, shard)


def held_first(
    batches: Iterator[pa.RecordBatch], most: int, kept: ExitStack
) -> Iterator[pa.RecordBatch]:
    """Bring the held side's rows before the others, whatever their order.

    Parameters
    ----------
    batches : iterator of RecordBatch
    most : int
        Rows of the streamed side that wait in memory; more of them wait on disk.
    kept : ExitStack
        Whose end removes what is on disk.

    Raises
    ------
    FileError
    """
    waiting: list[pa.RecordBatch] = []
    rows, spool = 0, None
    for batch in batches:
        streamed = batch.column(STREAMED).to_numpy(zero_copy_only=False)
        if not streamed.all():
            yield batch.filter(pa.array(~streamed)) if streamed.any() else batch
        if not streamed.any():
            continue
        later = batch if streamed.all() else batch.filter(pa.array(streamed))
        if rows < most:
            waiting.append(later)
            rows += later.num_rows
            continue
        if spool is None:
            spool = Spool(kept.enter_context(scratch(tempfile.gettempdir())) / "rows", later.schema)
        spool.write(later)
    yield from waiting
    if spool is not None:
        yield from spool.batches()
