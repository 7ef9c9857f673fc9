"""Tests the whole predicate, on the host, for pairs that a device found by a part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.plan.query import JoinQuery

from ..execute.chunk import Chunk
from ..execute.pairs import Pairs
from ..windows.probe import Probe
from .restore import Restorer, base_rows


class PairTester:
    """Keeps the pairs for which a query's predicate is TRUE.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables.
    """

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        self._restorer = Restorer(query, schemas, [("match", query.predicate)])

    def tested(self, chunk: Chunk) -> Chunk:
        """Return the chunk with only the matches among its pairs."""
        probe = chunk.order.bound.probe
        return replace(chunk, pairs=tuple(self._matches(probe, pairs) for pairs in chunk.pairs))

    def _matches(self, probe: Probe, pairs: Pairs) -> Pairs:
        if not len(pairs):
            return pairs
        rows = self._restorer.restore(base_rows(probe.stream, probe.window, pairs))
        is_match = pc.fill_null(rows.column(0), False)
        return pairs.pick(is_match.to_numpy(zero_copy_only=False))
