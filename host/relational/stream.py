"""A running query with SQL of tables around it: on batches that come, and on rows that leave."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from penstock.around.parts import Closing, Relational
from penstock.errors import UsageError
from penstock.plan.window import FOREVER, NEVER

from ..grouping import GroupStream
from ..join.stream import JoinStream, Span
from ..metrics import MetricsServer, Report
from ..windows.feeds import ONLY
from ..windows.source import Moment
from .engine import RelationalEngine


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
    parts : sequence of Relational
        One after the other; none if the batches are taken as they are.
    """

    alias: str
    table: str
    schema: pa.Schema
    parts: Sequence[Relational]


class PreparedStream:
    """A running query whose sources, or output rows, are computed row by row beside it.

    Parameters
    ----------
    inner : JoinStream or GroupStream
    sides : sequence of PreparedSide
    after : Relational, optional
        What is done with its rows.
    schema : Schema
        Of the output.
    engine : RelationalEngine
        Closed with the stream.

    Notes
    -----
    Where ``after`` makes groups, pairs wait here until their groups are complete, and these are
    made when rows are polled.
    """

    def __init__(
        self,
        inner: JoinStream | GroupStream,
        sides: Sequence[PreparedSide],
        after: Relational | None,
        schema: pa.Schema,
        engine: RelationalEngine,
    ) -> None:
        self.inner = inner
        self.schema = schema
        self._sides = sides
        self._after = after
        self._engine = engine
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._is_closed = False
        #: Pairs whose groups are not complete.
        self._held: pa.Table | None = None

    def _sides_of(self, source: str) -> list[PreparedSide]:
        """Sides of an alias, or of a table; a table that is joined with itself is both."""
        for name in ("alias", "table"):
            found = [one for one in self._sides if getattr(one, name).lower() == source.lower()]
            if found:
                return found
        known = ", ".join(one.alias for one in self._sides)
        raise UsageError(f"unknown source {source}; the query has {known}")

    def push(self, source: str, batch: pa.RecordBatch | pa.Table, *, feed: str = ONLY) -> None:
        """As :meth:`JoinStream.push`; what a query computes of one side's rows may fail, too."""
        for side in self._sides_of(source):
            rows = (
                pa.table(batch) if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
            )
            for part in side.parts:
                rows = self._run(part, rows)
            self.inner.push(side.alias, rows, feed=feed)

    def _run(self, part: Relational, rows: pa.Table) -> pa.Table:
        with self._lock:
            return self._engine.run(part.text, {part.reads[0]: rows})

    def _given(self, rows: pa.Table) -> pa.Table:
        if self._after is not None:
            rows = self._run(self._after, rows)
        return rows.rename_columns(self.schema.names).cast(self.schema)

    def poll(self) -> pa.Table:
        """As :meth:`JoinStream.poll`."""
        if self._after is None or self._after.closing is None:
            return self._given(self.inner.poll())
        return self._given(self._complete(self._after.closing))

    def _complete(self, closing: Closing) -> pa.Table:
        """Take the pairs of the groups that are complete."""
        assert isinstance(self.inner, JoinStream)
        with self._turn:
            # Before the rows, since what comes between belongs to the next turn.
            below = self.inner.complete_below(closing.alias)
            self.inner.flush()
            rows = self._with_held(self.inner.poll())
            if below is None or not NEVER < below < FOREVER or not rows.num_rows:
                self._held = rows
                return rows.slice(0, 0)
            time = rows.schema.field(closing.column).type
            end = pa.scalar(below, pa.int64()).cast(time)
            none = {field.name: pa.nulls(1, field.type) for field in rows.schema}
            probe = pa.table({**none, closing.column: pa.array([end], time)}, rows.schema)
            first_open = self._values(closing, probe)[0]
            is_closed = self._below(closing, rows, first_open)
            self._held = rows.filter(pc.call_function("invert", [is_closed]))
            return rows.filter(is_closed)

    def _below(self, closing: Closing, rows: pa.Table, end: pa.Scalar) -> pa.ChunkedArray:
        """Whether the groups of rows are below one; not those without a time."""
        below = pc.call_function("less", [self._values(closing, rows), end])
        return pc.call_function("coalesce", [below, pa.scalar(False)])

    def _values(self, closing: Closing, rows: pa.Table) -> pa.ChunkedArray:
        with self._lock:
            assert self._after is not None
            return self._engine.run(closing.text, {self._after.reads[0]: rows}).column(0)

    def _with_held(self, rows: pa.Table) -> pa.Table:
        return rows if self._held is None else pa.concat_tables([self._held, rows])

    def close(self) -> pa.Table:
        """As :meth:`JoinStream.close`."""
        rows = self.inner.close()
        if self._is_closed:
            return self.schema.empty_table()
        last = self._given(self._with_held(rows))
        self._is_closed, self._held = True, None
        with self._lock:
            self._engine.close()
        return last

    def register(self, source: str, feed: str, disorder: Span | None = None) -> None:
        """As :meth:`JoinStream.register`."""
        for side in self._sides_of(source):
            self.inner.register(side.alias, feed, disorder)

    def deregister(self, source: str, feed: str) -> None:
        """As :meth:`JoinStream.deregister`."""
        for side in self._sides_of(source):
            self.inner.deregister(side.alias, feed)

    def pushed(self, source: str, feed: str | None = None) -> int:
        """As :meth:`JoinStream.pushed`."""
        return min(self.inner.pushed(side.alias, feed) for side in self._sides_of(source))

    def advance(self, source: str, time_: Moment, *, feed: str = ONLY) -> None:
        """As :meth:`JoinStream.advance`."""
        for side in self._sides_of(source):
            self.inner.advance(side.alias, time_, feed=feed)

    def wait(self, rows: int, timeout_s: float) -> bool:
        """As :meth:`JoinStream.wait`; it is rows of the join that count."""
        return self.inner.wait(rows, timeout_s)

    def flush(self) -> None:
        """As :meth:`JoinStream.flush`."""
        self.inner.flush()

    def late(self) -> Mapping[str, pa.Table]:
        """As :meth:`JoinStream.late`, with the columns that were pushed and are still there."""
        found = self.inner.late()
        for side in self._sides:
            if side.alias in found:
                rows = found[side.alias]
                names = [name for name in side.schema.names if name in rows.column_names]
                found[side.alias] = rows.select(names)
        return found

    def report(self) -> Report:
        """As :meth:`JoinStream.report`."""
        return self.inner.report()

    def serve_metrics(self, port: int = 0) -> MetricsServer:
        """As :meth:`JoinStream.serve_metrics`."""
        return self.inner.serve_metrics(port)

    def failures(self) -> dict[str, int]:
        """As :meth:`JoinStream.failures`."""
        return self.inner.failures()

    def parked(self) -> list[str]:
        """As :meth:`JoinStream.parked`."""
        return self.inner.parked()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
