"""What a child is told to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.query.options import QueryOptions

from ..join.lookup.relation_source import RelationTable
from .members import facts
from .records.parts import PartFile


@dataclass(frozen=True)
class Job:
    """A query for workers, before it is compiled: each member does that, and they compare.

    Parameters
    ----------
    text : str
    schemas : mapping of table name to pyarrow.Schema
    options : QueryOptions
    size : int
        Workers.
    ordered : bool
        Whether rows carry their keys along.
    latency_s : float
    epoch_bytes : int
    folder : Path or None
        Of checkpoints.
    traces : bool
    is_table : bool
        Whether rows end, and groups with them: then any keys will do, and no row is late.
    relation : (str, RelationTable), optional
        Name and place of what rows are looked up in.
    device : str
        That each worker opens for a join, perhaps with options: ``name?option=value``.
    heavy : tuple of int
        Cells of keys of a join that workers share from the beginning.
    spare_bytes : int, optional
        Bytes of a worker's state beyond which it keeps no memory of groups that have left.
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
    """How a worker begins.

    Parameters
    ----------
    job : Job
    rank, incarnation : int
    number : int
        Of the last record, 0 without one.
    promises : mapping of feed to time
        Of that record.
    states : tuple of PartFile
        Of that record, whose ``size_then`` workers wrote them.
    size_then : int
    """

    job: Job
    rank: int
    incarnation: int
    number: int
    promises: Mapping[int, int]
    states: tuple[PartFile, ...]
    size_then: int
