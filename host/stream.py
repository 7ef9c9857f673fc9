"""A join of two streams, pushed batch by batch, exact for any batch cut."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError, SchemaError, UsageError
from penstock.host.admission import FOREVER
from penstock.host.device.base import Device
from penstock.host.engine import Match, Promises, open_engine
from penstock.host.output import Restorer
from penstock.host.sides import Arrival, filtered, read_side
from penstock.host.source import Moment, Source, Span, check_names
from penstock.host.stats import Stats
from penstock.query.plan import LEFT, RIGHT, JoinQuery, other


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
    close_device : bool
        Whether closing the stream closes the device.
    """

    def __init__(
        self,
        query: JoinQuery,
        schemas: Mapping[str, pa.Schema],
        device: Device,
        *,
        disorder: Span | Mapping[str, Span] = 0,
        band: bool = True,
        close_device: bool = False,
    ) -> None:
        query.require_pairs("a stream")
        self.query = query
        self.device = device
        self.close_device = close_device
        self.stats = Stats(device.name)
        self.stats.late = {s.alias: 0 for s in query.sides}
        self.schemas = {s.side: schemas[s.table] for s in query.sides}
        self.restorer = Restorer(query, self.schemas)
        check_names(disorder, query.sides)
        self.inputs = {s.side: Source(s, disorder) for s in query.sides}
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
        before = copy(own.admission)
        late = np.zeros(0, dtype=np.int64)
        if own.side.time is not None:
            on_time = own.admission.admit(rows.time)
            late = rows.row[~on_time]
            rows = rows if on_time.all() else rows.pick(np.flatnonzero(on_time))
        try:
            new = Arrival.of(self.query, own.side.side, filtered(own.side, rows), batch)
            found = self._engine.step(new, self._promises())
        except PenstockError:
            own.admission = before
            raise
        if len(late):
            self._late[own.side.alias].append(batch.take(pa.array(late)))
            self.stats.late[own.side.alias] += len(late)
        self._collect(found)

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
            if self.close_device:
                self.device.close()
            self._closed = True
            self.stats.stop()
        return self.poll()

    def __enter__(self) -> JoinStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _open_input(self, source: str) -> Source:
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
