"""Takes in the new rows of a micro-batch, in a task: separates late rows, filters, writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.host.join.step import Frontier, RowBlock
from penstock.host.keys.prepare import check
from penstock.host.rows.sides import Loaded, read_side
from penstock.plan.plan import plan
from penstock.plan.query import LEFT, RIGHT
from penstock.plan.window import NEVER

from ..routing_cells import CellOf
from .cell_index import index_of
from .commit import StoredFile
from .planning import KeySample, sample
from .routing import cells_to_write, wanted_cells
from .spec import IS_RIGHT, JoinSpec
from .store import TIME, Store


@dataclass(frozen=True)
class IntakeReport:
    """Rows of one side that a task has taken in.

    Parameters
    ----------
    side : str
    arrived : int
        Rows.
    latest : int
        Largest time among them; ``NEVER`` if none has a time.
    files : mapping of str to StoredFile
        By field of :class:`BatchRecord`; a field without rows is left out.
    sample : KeySample, optional
        Of the key of a band whose cells have no bounds yet.
    """

    side: str
    arrived: int
    latest: int
    files: Mapping[str, StoredFile]
    sample: KeySample | None = None

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> IntakeReport:
        """Read a report from a dictionary."""
        files = {kind: StoredFile(**one) for kind, one in values["files"].items()}
        sampled = values["sample"] and KeySample(**values["sample"])
        return IntakeReport(**{**values, "files": files, "sample": sampled})


@dataclass(frozen=True)
class Ingest:
    """Takes in rows of one micro-batch.

    Parameters
    ----------
    spec : JoinSpec
    store : Store
    batch : int
    watermarks : mapping of side to int
        Watermarks before this batch; rows below them are late.
    cells : CellOf, optional
        Cells of the rows, where they are known.
    """

    spec: JoinSpec
    store: Store
    batch: int
    watermarks: Mapping[str, int]
    cells: CellOf | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
        """Write the rows of one partition; gives an :class:`IntakeReport`, as a dict, per side.

        Raises
        ------
        DataError
            A value breaks a promise made about it, or a key cannot be computed of it.
        FileError
        """
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return
        rows, is_right = pa.Table.from_batches(filled), pc.field(IS_RIGHT)
        for side, side_rows in ((LEFT, rows.filter(~is_right)), (RIGHT, rows.filter(is_right))):
            if side_rows.num_rows:
                table = self.spec.side_table(side, side_rows).combine_chunks()
                yield asdict(self._side(side, table))

    def _side(self, side: str, table: pa.Table) -> IntakeReport:
        frontier = Frontier(self.spec.query(), self.watermarks)
        intake = admit(frontier, side, table)
        loaded, files = intake.loaded, {}
        if len(intake.late):
            files["late"] = self._stored(table, intake.late)
        if len(loaded.rows):
            cell_of = cells_to_write(self.spec, self.cells, side, len(loaded.rows))
            files["new"] = write(self.store, self.batch, frontier, side, loaded, cell_of)
        if len(loaded.timeless):
            files["timeless"] = self._stored(table, loaded.timeless.row)
        wanted, sampled = wanted_cells(self.spec), None
        if wanted is not None and self.cells is None:
            sampled = sample(wanted, side, loaded.rows)
        return IntakeReport(side, table.num_rows, intake.latest, files, sampled)

    def _stored(self, table: pa.Table, rows: np.ndarray) -> StoredFile:
        """Store rows as they came, without their times."""
        return self.store.add(self.batch, table.take(pa.array(rows)), RowBlock(len(rows), 0, 0))


@dataclass(frozen=True)
class IngestedRows:
    """Rows of a micro-batch of one source.

    Parameters
    ----------
    loaded : Loaded
        Rows that take part; rows without a time only if the join preserves them.
    late : ndarray of int64
        Positions in the table of late rows, ascending.
    latest : int
        Largest time; ``NEVER`` if no row has a time.
    """

    loaded: Loaded
    late: np.ndarray
    latest: int


def admit(frontier: Frontier, name: str, table: pa.Table) -> IngestedRows:
    """Separate late rows: those below their source's watermark before the micro-batch.

    Raises
    ------
    DataError
        A value breaks a promise made about it, or a key cannot be computed of it.
    """
    query, side = frontier.query, frontier.query.side(name)
    read = read_side(query, side, table)
    times = read.timed.time
    on_time = times >= frontier.watermarks[name]
    late = np.sort(read.timed.row[~on_time])
    if len(late):
        read = replace(read, timed=read.timed.pick(np.flatnonzero(on_time)))
    loaded = Loaded.of_table(side, table, read)
    for form in (one.form for one in plan(query).evaluations.values()):
        rows = loaded.rows
        check(form, rows.columns, len(rows), window=form.window == name)
    if name not in frontier.plan.decided_once:
        loaded = loaded.pick(slice(None))
    return IngestedRows(loaded, late, int(times.max()) if len(times) else NEVER)


def write(
    store: Store,
    batch: int,
    frontier: Frontier,
    side: str,
    loaded: Loaded,
    cell_of: CellOf | None = None,
) -> StoredFile:
    """Store the rows of one side, at least one, in a new file.

    Parameters
    ----------
    store : Store
    batch : int
        The latest micro-batch that they come from.
    frontier : Frontier
    side : str
    loaded : Loaded
    cell_of : CellOf, optional
        Rows are stored in the order of their cells, and then of time.
    """
    rows, table, group = loaded.rows, loaded.table, None
    if frontier.grouping is not None and side in frontier.plan.decided_once:
        group = int(frontier.grouping.keys(rows.columns, len(rows)).max())
    block, index = RowBlock(len(rows), int(rows.time[0]), int(rows.time[-1]), group), None
    if cell_of is not None:
        cells = cell_of.of_columns(side, rows.columns, len(rows))
        index = index_of(cell_of.identity, cells, cell_of.cells + 1)
        rows = rows.pick(np.argsort(cells, kind="stable"))
    if len(rows) < table.num_rows or np.any(rows.row[1:] < rows.row[:-1]):
        table = table.take(pa.array(rows.row))
    timed = table.add_column(0, pa.field(TIME, pa.int64(), nullable=False), [rows.time])
    return store.add(batch, timed, block, index)
