"""Takes the new rows of a micro-batch in, in a task: separates late ones, filters, writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.host.join.step import Frontier
from penstock.host.keys.prepare import check
from penstock.host.rows.sides import Loaded, read_side
from penstock.plan.plan import plan
from penstock.plan.query import LEFT, RIGHT, JoinQuery, Side
from penstock.plan.window import NEVER

from .commit import StoredFile
from .spec import IS_RIGHT, JoinSpec
from .store import TIME, RowStore


@dataclass(frozen=True)
class Report:
    """Files that a task has written of one side.

    Parameters
    ----------
    side : str
    part : int
        Partition of the micro-batch, which orders the rows of one batch.
    arrived : int
        Rows.
    latest : int
        Largest time among them, the least number there is if none has a time.
    rows, timeless, late : StoredFile or None
    """

    side: str
    part: int
    arrived: int
    latest: int = NEVER
    rows: StoredFile | None = None
    timeless: StoredFile | None = None
    late: StoredFile | None = None

    @staticmethod
    def of(values: Mapping) -> Report:
        """From a dictionary."""
        read = dict(values)
        for kind in ("rows", "timeless", "late"):
            read[kind] = None if values[kind] is None else StoredFile(**values[kind])
        return Report(**read)


class Ingest:
    """Takes rows of one micro-batch in.

    Parameters
    ----------
    spec : JoinSpec
    store : RowStore
    batch : int
    promises : mapping of side to int
        What was promised before this batch; rows below it are late.
    """

    def __init__(
        self, spec: JoinSpec, store: RowStore, batch: int, promises: Mapping[str, int]
    ) -> None:
        self.spec, self.store, self.batch = spec, store, batch
        self.promises = promises

    def run(self, batches: Iterable[pa.RecordBatch], part: int) -> Iterator[dict]:
        """Write the rows of one partition; gives a :class:`Report` per side.

        Raises
        ------
        DataError
            A value breaks a promise made about it, or a key cannot be computed of it.
        FileError
        """
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return
        rows, query = pa.Table.from_batches(filled), self.spec.query()
        is_right = pc.field(IS_RIGHT)
        for side, own in ((LEFT, rows.filter(~is_right)), (RIGHT, rows.filter(is_right))):
            if own.num_rows:
                table = self.spec.side_table(side, own).combine_chunks()
                yield asdict(self._side(query, query.side(side), table, part))

    def _side(self, query: JoinQuery, side: Side, table: pa.Table, part: int) -> Report:
        frontier = Frontier(query, self.promises)
        taken = admitted(frontier, side, table)
        report = Report(side.side, part, table.num_rows, taken.latest)
        if len(taken.late):
            report = replace(report, late=self._stored(table.take(pa.array(taken.late))))
        loaded = taken.loaded
        if len(loaded.rows):
            report = replace(report, rows=write(self.store, self.batch, frontier, side, loaded))
        if len(loaded.timeless):
            stored = self._stored(table.take(pa.array(loaded.timeless.row)))
            report = replace(report, timeless=stored)
        return report

    def _stored(self, table: pa.Table) -> StoredFile:
        return StoredFile(*self.store.add(self.batch, table), table.num_rows)


@dataclass(frozen=True)
class Admitted:
    """Rows of a micro-batch of one source.

    Parameters
    ----------
    loaded : Loaded
        Those that take part; without a time only those that leave alone.
    late : ndarray of int64
        Rows of the table that came too late, ascending.
    latest : int
        Largest time, the least number there is if no row has a time.
    """

    loaded: Loaded
    late: np.ndarray
    latest: int


def admitted(frontier: Frontier, side: Side, table: pa.Table) -> Admitted:
    """Separate late rows: those below the promise of their own source before the micro-batch.

    Raises
    ------
    DataError
        A value breaks a promise made about it, or a key cannot be computed of it.
    """
    query = frontier.query
    read = read_side(query, side, table)
    times = read.timed.time
    on_time = times >= frontier.promises[side.side]
    late = np.sort(read.timed.row[~on_time])
    if len(late):
        read = replace(read, timed=read.timed.pick(np.flatnonzero(on_time)))
    loaded = Loaded.of(side, table, read)
    for form in (one.form for one in plan(query).evaluations.values()):
        own = loaded.rows
        check(form, own.columns, len(own), window=form.window == side.side)
    if side.side not in frontier.plan.decided_once:
        loaded = loaded.pick(slice(None))
    return Admitted(loaded, late, int(times.max()) if len(times) else NEVER)


def write(
    store: RowStore, batch: int, frontier: Frontier, side: Side, loaded: Loaded
) -> StoredFile:
    """Keep rows of one side; there is at least one with a time.

    Parameters
    ----------
    store : RowStore
    batch : int
        The micro-batch that they come from, or the latest of them.
    frontier : Frontier
    side : Side
    loaded : Loaded
    """
    rows, table, group = loaded.rows, loaded.table, None
    if frontier.grouping is not None and side.side in frontier.plan.decided_once:
        group = int(frontier.grouping.keys(rows.columns, len(rows)).max())
    if len(rows) < table.num_rows or np.any(rows.row[1:] < rows.row[:-1]):
        table = table.take(pa.array(rows.row))
    timed = table.add_column(0, pa.field(TIME, pa.int64(), nullable=False), [rows.time])
    added = store.add(batch, timed)
    return StoredFile(*added, len(rows), int(rows.time[0]), int(rows.time[-1]), group)
