"""What is done with rows beside a running query, a table at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from penstock.around.parts import Relational

from ..join.lookup.base import RelationJoin
from .engine import RelationalEngine


class RowStep(Protocol):
    """Makes rows of rows; one that fails has done nothing, and can be tried again."""

    def __call__(self, rows: pa.Table) -> pa.Table: ...

    def close(self) -> None: ...


class Computed:
    """Rows of a query of one table.

    Parameters
    ----------
    engine : RelationalEngine
        Shared by the steps of a stream, which closes it.
    part : Relational
    """

    def __init__(self, engine: RelationalEngine, part: Relational) -> None:
        self._engine, self.part = engine, part

    def __call__(self, rows: pa.Table) -> pa.Table:
        return self._engine.run(self.part.text, {self.part.reads[0]: rows})

    def close(self) -> None:
        """There is nothing to close."""


class LookedUp:
    """Rows with those of a relation that match them, all of one version of it.

    Parameters
    ----------
    open_join : callable
        Opens the join with the relation, which keeps the order of rows.
    close : callable
        Closes what the join works with.
    """

    def __init__(self, open_join: Callable[[], RelationJoin], close: Callable[[], None]) -> None:
        self._open_join, self.close = open_join, close
        self._lock = threading.Lock()
        self._join: RelationJoin | None = open_join()

    def __call__(self, rows: pa.Table) -> pa.Table:
        with self._lock:
            join, self._join = self._join or self._open_join(), None
            found = []
            for batch in rows.combine_chunks().to_batches():
                found += join.push(batch)
            found += join.finish()
            self._join = join  # one that failed has rows that nobody waits for
            return pa.Table.from_batches(found, join.schema)
