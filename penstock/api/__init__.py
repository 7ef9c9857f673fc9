"""Queries over tables and streams: the calls of ``import penstock``."""

from __future__ import annotations

from penstock.host.execute.running import Running
from penstock.host.join.lookup.relation_source import relation
from penstock.host.join.stream import Flow
from penstock.host.join.stream.running_query import RunningQuery
from penstock.host.prune.sizes import Pruning
from penstock.host.workers import Checkpoint

from .explained import Explanation
from .explaining import explain
from .received import TableLike
from .streams import stream
from .tables import sql

__all__ = [
    "Checkpoint",
    "Explanation",
    "Flow",
    "Pruning",
    "Running",
    "RunningQuery",
    "TableLike",
    "explain",
    "relation",
    "sql",
    "stream",
]
