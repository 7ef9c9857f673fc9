"""Merges the groups of all shards, in tasks of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.host.join.parts.groups import merged_groups

from .blobs import tables_of
from .compiled import Compiled
from .rows import in_batches


def merge(
    compiled: Compiled, output: pa.Schema, output_rows: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Groups of partial aggregates, as Spark is to have them.

    Parameters
    ----------
    compiled : Compiled
    output : pyarrow.Schema
    output_rows : int
        Most rows of an output batch.
    batches : iterator of RecordBatch
        Rows of :func:`.blobs.blobs_of`.
    """
    groups = merged_groups(compiled.query(), compiled.by_side())
    for table in tables_of(batches):
        groups.add(table)
    yield from in_batches(groups.finish(), output, output_rows)
