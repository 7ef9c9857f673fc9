"""What runs in the tasks that merge the groups of all lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.host.parts.groups import merged_groups
from penstock.spark_bridge.batch.blobs import tables_of
from penstock.spark_bridge.compiled import Compiled
from penstock.spark_bridge.rows import cast_to


@dataclass(frozen=True)
class GroupMerge:
    """Merges the partial aggregates of some groups.

    Parameters
    ----------
    compiled : Compiled
    output : pyarrow.Schema
    output_rows : int
        Most rows of an output batch.
    """

    compiled: Compiled
    output: pa.Schema
    output_rows: int

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = merged_groups(self.compiled.query(), self.compiled.by_side())
        for table in tables_of(batches):
            groups.add(table)
        found = groups.finish()
        for at in range(0, found.num_rows, self.output_rows):
            yield cast_to(found.slice(at, self.output_rows), self.output)
