"""Steps that process rows before or after a running query, a table at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from penstock.around.parts import Relational

from ..join.lookup.lookup_join import RelationJoin
from .engine import RelationalEngine


class RowStep(Protocol):
    """Turns rows into rows; a failed call has no effect and can be repeated."""

    def __call__(self, rows: pa.Table) -> pa.Table: ...

    def close(self) -> None: ...


class Computed:
    """Runs a query of one table on the rows.

    Parameters
    ----------
    engine : RelationalEngine
        Shared by the steps of a stream; the stream closes it.
    part : Relational
    """

    def __init__(self, engine: RelationalEngine, part: Relational) -> None:
        self._engine, self.part = engine, part

    def __call__(self, rows: pa.Table) -> pa.Table:
        return self._engine.run(self.part.text, {self.part.reads[0]: rows})

    def close(self) -> None:
        """Do nothing: the engine belongs to the stream."""


class LookedUp:
    """Joins rows with the matching rows of a relation, all from one version of it.

    Parameters
    ----------
    open_join : callable
        Opens the join with the relation, which keeps the order of rows.
    close : callable
        Closes the join's resources.
    """

    def __init__(self, open_join: Callable[[], RelationJoin], close: Callable[[], None]) -> None:
        self._open_join, self.close = open_join, close
        self._lock = threading.Lock()
        self._join: RelationJoin | None = open_join()

    def __call__(self, rows: pa.Table) -> pa.Table:
        with self._lock:
            join, self._join = self._join or self._open_join(), None
            batches = []
            for batch in rows.combine_chunks().to_batches():
                batches += join.push(batch)
            batches += join.finish()
            self._join = join  # not kept after a failure: it holds rows that nobody waits for
            return pa.Table.from_batches(batches, join.schema)
