"""A running query with SQL of tables around it: on batches that come, and rows that leave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import pyarrow as pa

from penstock import arguments
from penstock.around.parts import Relational
from penstock.around.words import Words
from penstock.errors import PenstockError, UsageError
from penstock.untaken import warn_untaken

from ..join.stream.calls import behind
from ..join.stream.serial import closed_error
from ..metrics import MetricsServer, Report
from ..rows.received import one_batch
from ..windows.source import Moment, sides_named
from .engine import RelationalEngine
from .steps import Computed, RowStep


class RunningQuery(Protocol):
    """A running query, as far as all have it."""

    def push(self, source: str, batch: Any) -> None: ...
    def pushed(self, source: str) -> int: ...
    def advance(self, source: str, time_: Moment) -> None: ...
    def poll(self) -> pa.Table: ...
    def wait(self, rows: int, timeout_s: float) -> bool: ...
    def flush(self) -> None: ...
    def late(self) -> dict[str, pa.Table]: ...
    def report(self) -> Report: ...
    def serve_metrics(self, port: int = 0) -> MetricsServer: ...
    def close(self) -> pa.Table: ...


@dataclass(frozen=True)
class PreparedSide:
    """What is done with the batches of a source.

    Parameters
    ----------
    alias : str
        The source in the running query.
    table : str
        The table that the user pushes, as the query names it.
    schema : Schema
        Of its batches.
    steps : sequence of RowStep
        One after the other; none if the batches are taken as they are.
    is_named : bool
        Whether the alias is that of the table itself, not of a subquery.
    """

    alias: str
    table: str
    schema: pa.Schema
    steps: Sequence[RowStep]
    is_named: bool = True

    @property
    def pushed_as(self) -> str:
        """What users call the source."""
        return self.alias if self.is_named else self.table

    def rows(self, batch: pa.RecordBatch) -> pa.Table:
        """What the running query gets of a batch."""
        rows = pa.Table.from_batches([batch])
        for step in self.steps:
            rows = step(rows)
        return rows


Inner = TypeVar("Inner", bound=RunningQuery)


class PreparedRows(Generic[Inner]):
    """A running query whose sources, or output rows, are computed row by row beside it.

    Parameters
    ----------
    inner : Inner
        The query.
    sides : sequence of PreparedSide
    behind : sequence of RowStep
        Steps that each row of the query passes, in order.
    after : Relational, optional
        The SQL over the rows that have passed them.
    schema : Schema
        Of the output.
    engine : RelationalEngine
        Closed with the stream.
    words : Words
        The user's words, for errors.
    """

    def __init__(
        self,
        inner: Inner,
        sides: Sequence[PreparedSide],
        behind: Sequence[RowStep],
        after: Relational | None,
        schema: pa.Schema,
        engine: RelationalEngine,
        words: Words,
    ) -> None:
        self.inner = inner
        self.schema = schema
        self._sides = sides
        self._behind = behind
        self._after = None if after is None else Computed(engine, after)
        self._engine = engine
        self._words = words
        self._turn = threading.Lock()
        self._both = threading.Lock()
        self._is_closed = False
        #: Rows that have left the query, and are not yet what is behind it makes of them.
        self._left: pa.Table | None = None

    def _sides_of(self, source: str) -> dict[str, PreparedSide]:
        """Return the sides that a source means, by their names in the running query."""
        sides = sides_named(arguments.text("source", source), self._sides)
        if not sides:
            known = ", ".join(one.alias for one in self._sides)
            raise UsageError(f"unknown source {source}; the query has {known}")
        if not any(side.steps for side in sides):
            return {source: sides[0]}  # there it means the same sides
        return {side.alias: side for side in sides}

    def push(self, source: str, batch: Any) -> None:
        """As that of the query; what it computes of one side's rows may fail, too."""
        self._push(source, batch, self.inner.push)

    def _push(
        self,
        source: str,
        batch: Any,
        push: Callable[[str, pa.Table], None],
    ) -> None:
        """Push to all sides of a source; none gets anything if it cannot be computed."""
        sides = self._sides_of(source)
        if self._is_closed:
            raise closed_error()
        batch = one_batch(batch, next(iter(sides.values())).schema, source)
        # A push may wait for room that the rows of another source make.
        with self._words.spoken(), self._both if len(sides) > 1 else nullcontext():
            found = {name: sides[name].rows(batch) for name in behind(sides, self.inner.pushed)}
            for name, rows in found.items():
                push(name, rows)

    def pushed(self, source: str) -> int:
        """How many batches of a source have been taken."""
        return min(self.inner.pushed(name) for name in self._sides_of(source))

    def advance(self, source: str, time_: Moment) -> None:
        """As that of the query."""
        for name in self._sides_of(source):
            self.inner.advance(name, time_)

    def poll(self) -> pa.Table:
        """Return the rows since the last call, each once.

        Raises
        ------
        PenstockError
            As that of the query; or what is behind it cannot be computed, or looked up: the rows
            wait for another call.
        """
        with self._words.spoken(), self._turn:
            rows = self.inner.poll()
            if self._is_closed:
                return self.schema.empty_table()
            return self._given(self._left_by(rows))

    def _left_by(self, rows: pa.Table) -> pa.Table:
        """What is done with each of the rows that leave the query."""
        self._left = rows if self._left is None else pa.concat_tables([self._left, rows])
        made = self._left
        for step in self._behind:
            made = step(made)
        return made

    def _given(self, rows: pa.Table) -> pa.Table:
        """The output; what has left the query is done with."""
        if self._after is not None:
            rows = self._after(rows)
        given = rows.rename_columns(self.schema.names).cast(self.schema)
        self._left = None
        return given

    def close(self) -> pa.Table:
        """End the stream, and return the rows not yet polled; errors are those of :meth:`poll`."""
        with self._words.spoken(), self._turn:
            rows = self.inner.close()
            if self._is_closed:
                return self.schema.empty_table()
            last = self._given(self._last(rows))
            self._release()
            return last

    def _last(self, rows: pa.Table) -> pa.Table:
        """What the last rows that leave the query give."""
        return self._left_by(rows)

    def _release(self) -> None:
        """Close what the stream owns."""
        if not self._is_closed:
            self._is_closed = True
            with ExitStack() as owned:
                owned.callback(self._engine.close)
                for step in (*self._behind, *(step for side in self._sides for step in side.steps)):
                    owned.callback(step.close)

    def wait(self, rows: int, timeout_s: float) -> bool:
        """As that of the query, of whose rows so many are waited for."""
        return self.inner.wait(rows, timeout_s)

    def flush(self) -> None:
        """As that of the query."""
        self.inner.flush()

    def late(self) -> Mapping[str, pa.Table]:
        """As that of the query, with the columns that were pushed and are still there."""
        late = self.inner.late()
        found: dict[str, pa.Table] = {}
        for side in self._sides:
            rows = late[side.alias]
            names = [name for name in side.schema.names if name in rows.column_names]
            found.setdefault(side.pushed_as, rows.select(names))
        return found

    def report(self) -> Report:
        """As that of the query."""
        return self.inner.report()

    def serve_metrics(self, port: int = 0) -> MetricsServer:
        """As that of the query."""
        return self.inner.serve_metrics(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            warn_untaken(self.close(), error)
        except PenstockError as own:
            if error is None:
                raise
            error.add_note(f"Closing the stream failed, too: {own}")
        finally:
            self._release()
