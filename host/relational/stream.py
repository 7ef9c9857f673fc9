"""A running query with SQL of tables around it: on pushed batches, and on output rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock import arguments
from penstock.around.parts import PLACE, Closing, Relational, Words
from penstock.errors import UsageError
from penstock.plan.window import FOREVER, NEVER

from ..execute.stats import Stats
from ..join.lookup.lookup_join import RelationJoin
from ..join.step import moment_in
from ..join.stream import JoinStream, Span
from ..join.stream.running_query import RunningQuery
from ..join.stream.serial import behind, closed_error
from ..metrics import Report
from ..rows.received import one_batch
from ..windows.feeds import ONLY
from ..windows.source import Moment, sides_named
from .engine import RelationalEngine

if TYPE_CHECKING:
    from ..page.page import Page


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
    is_numbered : bool
        Whether the steps, or the query, read the places of rows in the order of their pushes.
    """

    alias: str
    table: str
    schema: pa.Schema
    steps: Sequence[RowStep]
    is_named: bool = True
    is_numbered: bool = False

    @property
    def pushed_as(self) -> str:
        """Name by which users push to the source."""
        return self.alias if self.is_named else self.table

    def rows(self, batch: pa.RecordBatch, first: int) -> pa.Table:
        """Return the rows that the running query gets for a batch whose first row has a place."""
        rows = pa.Table.from_batches([batch])
        if self.is_numbered:
            rows = rows.append_column(PLACE, pa.array(np.arange(first, first + len(batch))))
        for step in self.steps:
            rows = step(rows)
        return rows


class PreparedStream(RunningQuery[pa.Table]):
    """A running query with SQL of tables before it, over pushed rows, or behind it.

    Parameters
    ----------
    inner : RunningQuery
        The query.
    sides : sequence of PreparedSide
    behind : sequence of RowStep
        Steps for each output row of the query, in order.
    after : Relational, optional
        SQL over the rows after these steps. Where it makes groups, output rows of the join wait
        here until the watermarks complete their groups; ``poll`` then makes the groups.
    schema : Schema
        Schema of the output.
    engine : RelationalEngine
        Closed with the stream.
    words : Words
        Names of the user's query, which replace those of its parts in errors.
    """

    def __init__(
        self,
        inner: RunningQuery[pa.Table],
        sides: Sequence[PreparedSide],
        behind: Sequence[RowStep],
        after: Relational | None,
        schema: pa.Schema,
        engine: RelationalEngine,
        words: Words,
    ) -> None:
        self.inner, self.trace = inner, inner.trace
        self._schema = schema
        self._sides = sides
        self._behind = behind
        self._after = None if after is None else Computed(engine, after)
        self._engine = engine
        self._words = words
        self._turn = threading.Lock()
        self._both = threading.Lock()
        self._numbering = threading.Lock()
        #: Rows that have been pushed.
        self._numbered = 0
        self._is_closed = False
        #: Rows that have left the query, and that its steps have not yet processed.
        self._left: pa.Table | None = None
        #: Pairs whose groups are not complete.
        self._held: pa.Table | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def _sides_of(self, source: str) -> dict[str, PreparedSide]:
        """Return the sides that a source means, by their names in the running query."""
        sides = sides_named(arguments.text("source", source), self._sides)
        if not sides:
            known = ", ".join(one.alias for one in self._sides)
            raise UsageError(f"unknown source {source}; the query has {known}")
        if not any(side.steps for side in sides):
            return {source: sides[0]}  # the query resolves the name to the same sides
        return {side.alias: side for side in sides}

    def register(self, source: str, feed: str, disorder: Span | None = None) -> None:
        for name in self._sides_of(source):
            self.inner.register(name, feed, disorder)

    def deregister(self, source: str, feed: str) -> None:
        for name in self._sides_of(source):
            self.inner.deregister(name, feed)

    def push(self, source: str, batch: Any, *, feed: str = ONLY) -> None:
        """Push to all sides of a source; none gets anything if its rows cannot be computed."""
        sides = self._sides_of(source)
        if self._is_closed:
            raise closed_error()
        batch = one_batch(batch, next(iter(sides.values())).schema, source)
        # A push may wait for room that the rows of another source make.
        with self._words.spoken(), self._both if len(sides) > 1 else nullcontext():
            with self._numbering:
                first, self._numbered = self._numbered, self._numbered + batch.num_rows
            names = behind(sides, self.inner.pushed)
            by_name = {name: sides[name].rows(batch, first) for name in names}
            for name, rows in by_name.items():
                self.inner.push(name, rows, feed=feed)

    def pushed(self, source: str, feed: str | None = None) -> int:
        return min(self.inner.pushed(name, feed) for name in self._sides_of(source))

    def advance(self, source: str, time_: Moment, *, feed: str = ONLY) -> None:
        for name in self._sides_of(source):
            self.inner.advance(name, time_, feed=feed)

    def poll(self) -> pa.Table:
        with self._words.spoken(), self._turn:
            closing = None if self._after is None else self._after.part.closing
            if closing is not None and not self._is_closed:
                closed, held = self._complete(closing)
                output = self._output(closed)
                self._held = held
                return output
            rows = self.inner.poll()
            if self._is_closed:
                return self.schema.empty_table()
            return self._output(self._last(rows))

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

    def _last(self, rows: pa.Table) -> pa.Table:
        """Return the pairs that wait, and after them rows of the query with all steps done."""
        processed = self._left_by(rows)
        return processed if self._held is None else pa.concat_tables([self._held, processed])

    def _complete(self, closing: Closing) -> tuple[pa.Table, pa.Table]:
        """Return the pairs of complete groups, and all other pairs."""
        assert isinstance(self.inner, JoinStream)
        # Before the rows: pairs that come in between belong to the next call.
        below = self.inner.complete_below(closing.alias)
        self.inner.flush()
        rows = self._last(self.inner.poll())
        if below is None or not NEVER < below < FOREVER or not rows.num_rows:
            return rows.slice(0, 0), rows
        query = self.inner.query
        side = next(one for one in query.sides if one.alias.lower() == closing.alias.lower())
        end = moment_in(query, side, below, rows.schema.field(closing.column).type)
        none = {field.name: pa.nulls(1, field.type) for field in rows.schema}
        probe = pa.table({**none, closing.column: end}, rows.schema)
        first_open = self._values(closing, probe)[0]
        is_closed = self._below(closing, rows, first_open)
        return rows.filter(is_closed), rows.filter(pc.call_function("invert", [is_closed]))

    def _below(self, closing: Closing, rows: pa.Table, end: pa.Scalar) -> pa.Array:
        """Flag rows whose group is below ``end``, and rows without a time if no group has them."""
        times = rows[closing.column]
        has_time = pc.call_function("is_valid", [times])
        values = self._values(closing, rows.filter(has_time))
        below = pc.call_function("less", [values, end]).combine_chunks()
        timeless = pa.array(np.full(len(times), closing.drops_timeless))
        return pc.call_function("replace_with_mask", [timeless, has_time.combine_chunks(), below])

    def _values(self, closing: Closing, rows: pa.Table) -> pa.ChunkedArray:
        assert self._after is not None
        return self._engine.run(closing.text, {self._after.part.reads[0]: rows}).column(0)

    def close(self) -> pa.Table:
        with self._words.spoken(), self._turn:
            rows = self.inner.close()
            if self._is_closed:
                return self.schema.empty_table()
            last = self._output(self._last(rows))
            self._free()
            return last

    def _free(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            with ExitStack() as owned:
                owned.callback(self._engine.close)
                for step in (*self._behind, *(step for side in self._sides for step in side.steps)):
                    owned.callback(step.close)

    def wait(self, rows: int, timeout_s: float) -> bool:
        """Wait until the query within has ``rows`` rows to poll; return whether it has."""
        return self.inner.wait(rows, timeout_s)

    def flush(self) -> None:
        self.inner.flush()

    def late(self) -> dict[str, pa.Table]:
        """Return late rows by source, with the pushed columns that the steps keep."""
        late = self.inner.late()
        by_source: dict[str, pa.Table] = {}
        for side in self._sides:
            rows = late[side.alias]
            names = [name for name in side.schema.names if name in rows.column_names]
            by_source.setdefault(side.pushed_as, rows.select(names))
        return by_source

    def report(self) -> Report:
        return self.inner.report()

    def page(self, port: int = 0, **options: Any) -> Page:
        return self.inner.page(port, **options)

    @property
    def stats(self) -> Stats:
        return self.inner.stats

    def failures(self) -> dict[str, int]:
        return self.inner.failures()

    def parked(self) -> list[str]:
        return self.inner.parked()
