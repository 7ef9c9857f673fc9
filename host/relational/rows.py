"""A running query with SQL around it, on pushed batches and on output rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import pyarrow as pa

from penstock import arguments
from penstock.around.parts import Relational, Words
from penstock.errors import PenstockError, UsageError, warn_untaken

from ..join.stream.calls import behind
from ..join.stream.serial import closed_error
from ..metrics import MetricsServer, Report
from ..rows.received import one_batch
from ..windows.source import Moment, sides_named
from .engine import RelationalEngine
from .table_steps import Computed, RowStep


class RunningQuery(Protocol):
    """The methods that all running queries have."""

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
    """A source of a running query, with the steps for its batches.

    Parameters
    ----------
    alias : str
        The source in the running query.
    table : str
        The table that the user pushes, as the query names it.
    schema : Schema
        Schema of its batches.
    steps : sequence of RowStep
        Steps in order; empty if batches go to the query unchanged.
    is_named : bool
        Whether the alias names the table itself, not a subquery.
    """

    alias: str
    table: str
    schema: pa.Schema
    steps: Sequence[RowStep]
    is_named: bool = True

    @property
    def pushed_as(self) -> str:
        """Name by which users push to the source."""
        return self.alias if self.is_named else self.table

    def rows(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the rows that the running query gets for a batch."""
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
        Steps for each output row of the query, in order.
    after : Relational, optional
        SQL over the rows after these steps.
    schema : Schema
        Schema of the output.
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
        #: Rows that have left the query, and that its steps have not yet processed.
        self._left: pa.Table | None = None

    def _sides_of(self, source: str) -> dict[str, PreparedSide]:
        """Return the sides that a source means, by their names in the running query."""
        sides = sides_named(arguments.text("source", source), self._sides)
        if not sides:
            known = ", ".join(one.alias for one in self._sides)
            raise UsageError(f"unknown source {source}; the query has {known}")
        if not any(side.steps for side in sides):
            return {source: sides[0]}  # the query resolves the name to the same sides
        return {side.alias: side for side in sides}

    def push(self, source: str, batch: Any) -> None:
        """Push to the query; computing the source's rows may fail, too."""
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
            by_name = {name: sides[name].rows(batch) for name in behind(sides, self.inner.pushed)}
            for name, rows in by_name.items():
                push(name, rows)

    def pushed(self, source: str) -> int:
        """Number of batches of a source that have been taken."""
        return min(self.inner.pushed(name) for name in self._sides_of(source))

    def advance(self, source: str, time_: Moment) -> None:
        """Promise that no later row of a source has a time below ``time_``."""
        for name in self._sides_of(source):
            self.inner.advance(name, time_)

    def poll(self) -> pa.Table:
        """Return the rows since the last call, each once.

        Raises
        ------
        PenstockError
            The query fails; or a later step fails, and the rows wait for another call.
        """
        with self._words.spoken(), self._turn:
            rows = self.inner.poll()
            if self._is_closed:
                return self.schema.empty_table()
            return self._output(self._left_by(rows))

    def _left_by(self, rows: pa.Table) -> pa.Table:
        """Add rows from the query to the waiting ones; return all after the steps."""
        self._left = rows if self._left is None else pa.concat_tables([self._left, rows])
        processed = self._left
        for step in self._behind:
            processed = step(processed)
        return processed

    def _output(self, rows: pa.Table) -> pa.Table:
        """Return the output for rows after the steps, and forget the waiting rows."""
        if self._after is not None:
            rows = self._after(rows)
        output = rows.rename_columns(self.schema.names).cast(self.schema)
        self._left = None
        return output

    def close(self) -> pa.Table:
        """End the stream and return the rows not yet polled; errors as for :meth:`poll`."""
        with self._words.spoken(), self._turn:
            rows = self.inner.close()
            if self._is_closed:
                return self.schema.empty_table()
            last = self._output(self._last(rows))
            self._release()
            return last

    def _last(self, rows: pa.Table) -> pa.Table:
        """Return the last rows of the query after the steps."""
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
        """Wait until the query has ``rows`` rows to poll; return whether it has."""
        return self.inner.wait(rows, timeout_s)

    def flush(self) -> None:
        """Wait until the results of all pushed rows can be polled."""
        self.inner.flush()

    def late(self) -> Mapping[str, pa.Table]:
        """Return late rows by source, with the pushed columns that the steps keep."""
        late = self.inner.late()
        by_source: dict[str, pa.Table] = {}
        for side in self._sides:
            rows = late[side.alias]
            names = [name for name in side.schema.names if name in rows.column_names]
            by_source.setdefault(side.pushed_as, rows.select(names))
        return by_source

    def report(self) -> Report:
        """Report the state of the query."""
        return self.inner.report()

    def serve_metrics(self, port: int = 0) -> MetricsServer:
        """Serve the metrics of the query."""
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
        except PenstockError as failure:
            if error is None:
                raise
            error.add_note(f"Closing the stream failed, too: {failure}")
        finally:
            self._release()
