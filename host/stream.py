"""A join of two streams, pushed batch by batch, exact for any batch cut."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaError, UsageError
from penstock.expr.evaluate import evaluate
from penstock.expr.node import Op, walk
from penstock.host.admission import FOREVER, Admission
from penstock.host.device.base import Device
from penstock.host.engine import Match, Promises, open_engine
from penstock.host.output import Restorer
from penstock.host.sides import Arrival, filtered, read_side
from penstock.host.stats import Stats
from penstock.query.plan import LEFT, RIGHT, JoinQuery, Side, other
from penstock.types import UNIT_NS

#: A time or span: a number in the unit of the source's time column, or a datetime object.
Moment = int | datetime.datetime
Span = int | datetime.timedelta


class JoinStream:
    """A running join.

    Parameters
    ----------
    query : JoinQuery
    schemas : mapping of table name to pyarrow.Schema
    device : Device
    disorder : int, timedelta, or mapping of source to either
        How far a row's time may lie below the largest time before it in its source; rows further
        below are late. An integer is in the unit of the source's time column.
    band : bool
        False switches band form off.
    """

    def __init__(
        self,
        query: JoinQuery,
        schemas: Mapping[str, pa.Schema],
        device: Device,
        *,
        disorder: Span | Mapping[str, Span] = 0,
        band: bool = True,
    ) -> None:
        self.query = query
        self.stats = Stats(device.name)
        self.stats.late = {s.alias: 0 for s in query.sides}
        self.schemas = {s.side: schemas[s.table] for s in query.sides}
        self.restorer = Restorer(query, self.schemas)
        self.inputs = {s.side: _Input(s, disorder) for s in query.sides}
        self._engine = open_engine(query, device, self.stats, band=band)
        self._results: list[pa.RecordBatch] = []
        self._late: dict[str, list[pa.RecordBatch]] = {s.alias: [] for s in query.sides}
        self._closed = False

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self.restorer.schema

    def push(self, source: str, batch: pa.RecordBatch | pa.Table) -> None:
        """Give the next rows of a source, in order of arrival.

        Parameters
        ----------
        source : str
            Alias or table name of one side.
        batch : RecordBatch or Table

        Raises
        ------
        UsageError
            The source is unknown, or the stream is closed.
        SchemaError
            The batch lacks a column, or a column changed its type.
        DataError
            A value breaks a promise made about it. Nothing of the batch has been taken then.
        """
        own = self._open_input(source)
        batch = _one_batch(batch, self.schemas[own.side.side], source)
        rows = read_side(self.query, own.side, batch)
        if own.side.time is not None:
            on_time = own.admission.admit(rows.time)
            if not on_time.all():
                late = batch.take(pa.array(rows.row[~on_time]))
                self._late[own.side.alias].append(late)
                self.stats.late[own.side.alias] += late.num_rows
                rows = rows.pick(np.flatnonzero(on_time))
        new = Arrival.of(self.query, own.side.side, filtered(own.side, rows), batch)
        self._collect(self._engine.step(new, self._promises()))

    def advance(self, source: str, time: Moment) -> None:
        """Signal that no later row of the source has a time below ``time``.

        Parameters
        ----------
        time : int or datetime
            An integer is in the unit of the source's time column. A signal older than an earlier
            one changes nothing.
        """
        own = self._open_input(source)
        own.admission.signal(own.moment(time))
        self._collect(self._engine.step(None, self._promises()))

    def poll(self) -> pa.Table:
        """The joined rows since the last call, each once, in no particular order."""
        table = pa.Table.from_batches(self._results, self.schema)
        self._results = []
        return table

    def late(self) -> dict[str, pa.Table]:
        """Rows per source that came too late and joined nothing, since the last call.

        ``stats.late`` keeps their number.
        """
        found = {}
        for own in self.inputs.values():
            alias = own.side.alias
            found[alias] = pa.Table.from_batches(self._late[alias], self.schemas[own.side.side])
            self._late[alias] = []
        return found

    def close(self) -> pa.Table:
        """End both sources, and give the rows not yet polled. A second call gives none."""
        if not self._closed:
            for own in self.inputs.values():
                own.admission.signal(FOREVER)
            self._collect(self._engine.step(None, self._promises()))
            self._engine.close()
            self._closed = True
            self.stats.stop()
        return self.poll()

    def __enter__(self) -> JoinStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _open_input(self, source: str) -> _Input:
        if self._closed:
            raise UsageError("the stream is closed; open a new one")
        for attribute in ("alias", "table"):
            found = [
                i
                for i in self.inputs.values()
                if getattr(i.side, attribute).lower() == source.lower()
            ]
            if len(found) == 1:
                return found[0]
        names = " and ".join(i.side.alias for i in self.inputs.values())
        raise UsageError(f"unknown source {source!r}; the query joins {names}")

    def _promises(self) -> Promises:
        return {side: own.admission.promise for side, own in self.inputs.items()}

    def _collect(self, found: list[Match]) -> None:
        for match in found:
            window = other(match.stream)
            rows = {match.stream: match.i, window: np.arange(len(match.i))}
            tables = {match.stream: match.stream_rows, window: match.window_rows}
            batch = self.restorer.restore(tables, rows[LEFT], rows[RIGHT])
            self.stats.rows += batch.num_rows
            self._results.append(batch)
        self.stats.stop()


class _Input:
    """One source: its side and its promise."""

    def __init__(self, side: Side, disorder: Span | Mapping[str, Span]) -> None:
        self.side = side
        self.column = None
        if side.time is not None:
            self.column = next(leaf for leaf in walk(side.time) if leaf.op is Op.COLUMN)
        if isinstance(disorder, Mapping):
            disorder = disorder.get(side.alias, disorder.get(side.table, 0))
        self.admission = Admission(self.span(disorder))

    def span(self, span: Span) -> int:
        """A span in the window's unit."""
        if isinstance(span, datetime.timedelta):
            span = self._counted(span // datetime.timedelta(microseconds=1), "disorder")
        if span < 0:
            raise UsageError(f"disorder of {self.side.alias} must not be negative, not {span}")
        return self._in_window_unit(span) - self._in_window_unit(0)

    def moment(self, time: Moment) -> int:
        """A time in the window's unit."""
        if self.side.time is None:
            raise UsageError(
                f"{self.side.alias} has no time column, so its time cannot advance; its rows "
                "are joined in the order of arrival"
            )
        if isinstance(time, datetime.datetime):
            if time.tzinfo is None:
                time = time.replace(tzinfo=datetime.UTC)
            since = time - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            time = self._counted(since // datetime.timedelta(microseconds=1), "time")
        return min(max(self._in_window_unit(time), -FOREVER), FOREVER)

    def _counted(self, micros: int, what: str) -> int:
        unit = "" if self.column is None else self.column.type.unit
        if not unit:
            raise UsageError(
                f"the time of {self.side.alias} is a plain integer; give {what} as an integer"
            )
        return micros * 1000 // UNIT_NS[unit]

    def _in_window_unit(self, time: int) -> int:
        if self.side.time is None or self.column is None:
            return time
        return evaluate(self.side.time, {self.column.attr: time})


def _one_batch(batch: pa.RecordBatch | pa.Table, schema: pa.Schema, source: str) -> pa.RecordBatch:
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            raise SchemaError(f"a batch of {source} has no column {field.name}")
        if batch.schema.field(index).type != field.type:
            raise SchemaError(
                f"column {field.name} of a batch of {source} is {batch.schema.field(index).type}, "
                f"but the stream was opened with {field.type}"
            )
    batch = batch.select(schema.names)
    if isinstance(batch, pa.Table):
        parts = batch.combine_chunks().to_batches()
        batch = parts[0] if parts else pa.RecordBatch.from_pylist([], schema=batch.schema)
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
