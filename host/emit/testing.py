"""Tests pairs, on the host, that a device found by less than the whole predicate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.plan.query import JoinQuery

from ..execute.chunk import Chunk
from ..execute.pairs import Pairs
from ..windows.probe import Probe
from .delivery import Delivery, RowDelivery
from .restore import Restorer


class PairTester:
    """Leaves the pairs for which a query's predicate is TRUE.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Of the base tables.
    """

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        self._restorer = Restorer(query, schemas, [("match", query.predicate)])

    def tested(self, chunk: Chunk) -> Chunk:
        """The chunk with the matches among its pairs."""
        probe = chunk.order.bound.probe
        return replace(chunk, pairs=tuple(self._matches(probe, own) for own in chunk.pairs))

    def _matches(self, probe: Probe, pairs: Pairs) -> Pairs:
        if not len(pairs):
            return pairs
        rows = RowDelivery.picked(probe.stream, probe.window, pairs)
        is_match = pc.fill_null(self._restorer.restore(rows).column(0), False)
        return pairs.pick(is_match.to_numpy(zero_copy_only=False))


def with_tester(made: Delivery, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> Delivery:
    """The delivery, which tests pairs if the query asks for it."""
    if query.tests_pairs:
        made.tester = PairTester(query, schemas)
    return made
