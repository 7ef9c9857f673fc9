"""Instructions for worker processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.query.options import QueryOptions

from ..join.lookup.relation_source import RelationTable
from .members import facts
from .records.part_files import PartFile


@dataclass(frozen=True)
class Job:
    """A query for workers, with options; each member compiles it, and they compare the result.

    Parameters
    ----------
    text : str
    schemas : mapping of table name to pyarrow.Schema
    options : QueryOptions
    size : int
        Workers.
    ordered : bool
        Whether output rows carry hidden columns that decide their order.
    latency_s : float
    epoch_bytes : int
    folder : Path or None
        Folder of checkpoints.
    traces : bool
    is_table : bool
        Whether the input is a table: it ends, so groups need no time key, and no row is late.
    relation : (str, RelationTable), optional
        Name and place of the relation in which rows are looked up.
    device : str
        Device that each worker opens for a join, perhaps with options: ``name?option=value``.
    heavy : tuple of int
        Heavy cells of a join: workers share each from the beginning.
    spare_bytes : int, optional
        Bytes of a worker's state beyond which it frees the memory of released groups.
    """

    text: str
    schemas: Mapping[str, pa.Schema]
    options: QueryOptions
    size: int
    ordered: bool
    latency_s: float
    epoch_bytes: int
    folder: Path | None
    traces: bool
    is_table: bool = False
    relation: tuple[str, RelationTable] | None = None
    spare_bytes: int | None = None
    device: str = "cpu"
    heavy: tuple[int, ...] = ()

    def facts(self, compiled: str) -> dict[str, str]:
        """Return what must be the same on all members, given the compiled query's fingerprint."""
        settings = {
            "workers": self.size,
            "ordered": self.ordered,
            "latency_s": self.latency_s,
            "epoch_bytes": self.epoch_bytes,
            "checkpoint": self.folder,
            "device": self.device,
            "relation": None if self.relation is None else self.relation[1].shown,
            "version": None if self.relation is None else self.relation[1].version,
        }
        return facts(self.text, compiled, self.schemas, settings)


@dataclass(frozen=True)
class WorkerStart:
    """Instructions by which one worker begins.

    Parameters
    ----------
    job : Job
    rank, incarnation : int
    number : int
        Of the last record, 0 without one.
    promises : mapping of feed to time
        Promises in that record.
    states : tuple of PartFile
        State parts of that record, written by ``size_then`` workers.
    size_then : int
    """

    job: Job
    rank: int
    incarnation: int
    number: int
    promises: Mapping[int, int]
    states: tuple[PartFile, ...]
    size_then: int
