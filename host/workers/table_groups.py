"""Groups or joins of whole tables, on several worker processes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from penstock.plan.window import FOREVER
from penstock.query.options import QueryOptions

from ..channel import Doorbell, ProcessGoneError, spin_seconds
from ..execute.trace import Trace
from ..metrics import Report
from .compiling import compiled
from .dealt import packed, pieces, projected
from .driver import Driver
from .driving import SOURCE, StreamDriver
from .job import Job
from .output_order import in_order
from .reporting import report_of
from .worker_loop import EPOCH_BYTES

#: Most pieces that wait per worker: enough that none runs dry.
_MOST_WAITING = 2
#: Seconds between looks at whether all workers are there.
_CHECK_S = 0.25
#: Seconds for which a worker may take nothing.
_LEASE_S = 600.0


class DealtTable:
    """Query over whole tables whose rows a driver deals; iterate once to run it and get its rows.

    Parameters
    ----------
    driver : StreamDriver
    schema : pyarrow.Schema
        Of output rows.
    aliases : iterable of str
        Of the tables.

    Attributes
    ----------
    arrived : dict of str to int
        Rows dealt so far, by alias.
    rows_out : int
        Output rows so far.
    """

    def __init__(self, driver: StreamDriver, schema: pa.Schema, aliases: Iterable[str]) -> None:
        self._driver, self.trace = driver, driver.trace
        self.schema = schema
        self.arrived = dict.fromkeys(aliases, 0)
        self.rows_out = 0
        self._gathered: list[pa.RecordBatch] = []
        driver.on_rows = self._on_rows

    @property
    def rows_in(self) -> int:
        """Rows dealt so far."""
        return sum(self.arrived.values())

    @property
    def timeless(self) -> int:
        """Rows without an event time, which are in no window."""
        return self._driver.statuses.sum("timeless")

    @property
    def filtered(self) -> int:
        """Rows that did not pass WHERE."""
        return self._driver.statuses.sum("filtered")

    def _on_rows(self, number: int, batch: pa.RecordBatch) -> None:
        self._gathered.append(batch)

    def _give(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that were gathered."""
        rows, self._gathered = self._gathered, []
        for batch in rows:
            self.rows_out += batch.num_rows
            yield batch

    def report(self) -> Report:
        """Return counts and state, for people and for metrics; from any thread."""
        late = dict.fromkeys(self.arrived, 0)
        return report_of(self._driver, self.rows_out, {}, self.arrived, late)


class WorkerTable(DealtTable):
    """Query over whole tables on worker processes.

    Parameters
    ----------
    text : str
        The query.
    tables : mapping of name to pyarrow.Table
    options : QueryOptions
    size : int
        Workers.
    ordered : bool
        Whether groups come by the time key, if there is one, and then by the others. Otherwise
        only each worker's do.
    trace : Trace, optional
    """

    _driver: Driver

    def __init__(
        self,
        text: str,
        tables: Mapping[str, pa.Table],
        options: QueryOptions,
        size: int,
        *,
        ordered: bool = False,
        device: str = "cpu",
        trace: Trace | None = None,
    ) -> None:
        trace = Trace() if trace is None else trace
        job = Job(
            text,
            {name: table.schema for name, table in tables.items()},
            options,
            size,
            ordered,
            0.0,
            EPOCH_BYTES,
            None,
            trace.on,
            True,
            device=device,
        )
        self._work = work = compiled(job)
        work.close()  # only workers read a relation
        job = replace(job, heavy=work.heavy(tables))
        self._tables, self._ordered = tables, ordered
        facts = job.facts(work.fingerprint)
        self._bell = Doorbell.create(spin_seconds(job.size))
        driver = Driver(
            job,
            facts,
            work.hidden,
            None,
            now=True,
            lease_s=_LEASE_S,
            bell=self._bell,
            trace=trace,
        )
        self._check_at = 0.0
        super().__init__(driver, work.output, (side.alias for side in work.sides))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        driver, parent = self._driver, self._driver.parent
        try:
            driver.start()
            for source in range(len(self._work.sides)):
                self._deal(source)
            parent.promise(SOURCE, FOREVER)
            parent.cut()
            while not parent.committed:
                self._turn()
                if not self._ordered:
                    yield from self._give()
            if self._ordered and self._gathered:
                self._gathered = [in_order(self._gathered, self.schema)]
            yield from self._give()
            driver.close()
        finally:
            driver.kill()
            self._bell.close()

    def _deal(self, source: int) -> None:
        """Deal the rows of a source, as its one feed."""
        side, schema = self._work.sides[source], self._work.dealt_schemas[source]
        parent = self._driver.parent
        for batch in self._tables[side.table].select(schema.names).to_batches():
            for piece in pieces(projected(batch, schema)):
                body = packed(piece)
                parent.push(source, self.arrived[side.alias], body, body.size)
                self.arrived[side.alias] += piece.num_rows
                while parent.waiting > _MOST_WAITING * self._driver.job.size:
                    self._turn()

    def _turn(self) -> None:
        """Do all that is possible, or wait until something is."""
        driver = self._driver
        now = time.monotonic()
        if now >= self._check_at:
            driver.check(now)
            self._check_at = now + _CHECK_S
        if driver.step(lambda: True):
            return
        try:
            self._bell.wait(lambda: driver.is_ready(True), _CHECK_S)
        except ProcessGoneError:
            self._check_at = 0.0

    def _on_rows(self, number: int, batch: pa.RecordBatch) -> None:
        self._driver.parent.poll()
        super()._on_rows(number, batch)
