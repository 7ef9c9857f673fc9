"""What joins of two whole tables share: reading, checking and ordering the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import DataError, QueryError
from penstock.plan.forms import JoinForm
from penstock.plan.plan import Evaluation, plan
from penstock.plan.query import JoinQuery, Side

from ...device.base import Device
from ...execute.residence import Residence
from ...execute.stats import Stats
from ...execute.window_probe import WindowProbe, window_probe
from ...prune.sizes import DEFAULT_PRUNING, Pruning
from ...rows.sides import Loaded, SideRows, read_side
from ...rows.stretches import Stretch
from ...windows.admission import Admission
from ...windows.source import Source, Span, check_names


@dataclass(frozen=True)
class RangeJoin:
    """One direction of a join: stream tuples with ranges into the other side.

    ``start`` and ``end`` are int64 of shape (stream tuples,).
    """

    evaluation: Evaluation
    start: np.ndarray
    end: np.ndarray

    @property
    def form(self) -> JoinForm:
        return self.evaluation.form

    @property
    def pairs(self) -> int:
        return int((self.end - self.start).sum())


class TableJoin(ABC):
    """Joins two tables on a device; iterate to get the output.

    Parameters
    ----------
    query : JoinQuery
    tables : mapping of table name to pyarrow.Table or Loaded
    device : Device
    band : bool
        False switches band form off, to compare with the general form.
    disorder : int, timedelta, or mapping of alias to either, optional
        How far out of order the rows of a table may be; any order by default.
    pruning : Pruning or None
        None evaluates every pair that the window admits.
    probing : mapping of side to slice, optional
        Which tuples of a side probe, by place in the order of time; all by default. The others are
        only met.
    residence : Residence, optional
        Where blocks of the tables' rows are kept from join to join.
    on_progress : callable, optional
        Called with (pairs evaluated or pruned, pairs to evaluate at most) after each device result.

    Raises
    ------
    DataError
        A time is NULL where the order of rows depends on it, a value is off its declared grid, or
        a row lies further behind than ``disorder``.
    DeviceError
        The device cannot run the predicate.
    """

    #: Pairs that the window admits.
    pairs_in_window: int
    #: What is evaluated; the window-join operator has its own way.
    joins: list[RangeJoin]

    def __init__(
        self,
        query: JoinQuery,
        tables: Mapping[str, pa.Table | Loaded],
        device: Device,
        *,
        band: bool = True,
        disorder: Span | Mapping[str, Span] | None = None,
        pruning: Pruning | None = DEFAULT_PRUNING,
        probing: Mapping[str, slice] | None = None,
        residence: Residence | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._check(query)
        if query.is_rows and (query.left.time is None or query.right.time is None):
            raise QueryError(
                "ROWS of a table are its latest in time: name the time column of both tables "
                "with time (or push batches in order of arrival to a stream)"
            )
        check_names(disorder, query.sides)
        self.query = query
        self.plan = plan(query, band=band)
        self.device = device
        self.pruning = pruning
        self.names = query.names
        self.stats = Stats(device.name)
        self.on_progress = on_progress
        self.probing = dict(probing or {})
        self.residence = residence
        self.stretches: dict[str, tuple[Stretch, ...]] = {}
        self.tables: dict[str, pa.Table] = {}
        self.sides: dict[str, SideRows] = {}
        self.timeless: dict[str, SideRows] = {}
        for side in query.sides:
            loaded = self._loaded(side, tables[side.table], disorder)
            self.tables[side.side] = loaded.table
            self.sides[side.side] = loaded.rows
            self.timeless[side.side] = loaded.timeless
            self.stretches[side.side] = loaded.stretches
        self._prepare()

    def _loaded(
        self, side: Side, table: pa.Table | Loaded, disorder: Span | Mapping[str, Span] | None
    ) -> Loaded:
        if isinstance(table, Loaded):
            return table
        table = table.combine_chunks()
        read = read_side(self.query, side, table)
        if disorder is not None:
            check_order(Source(side, disorder), read.timed)
        return Loaded.of(side, table, read)

    @abstractmethod
    def _check(self, query: JoinQuery) -> None:
        """Refuse a query of another kind, before any row is read."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make of the rows that were read what the join needs, ``pairs_in_window`` included."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Schema of the output."""

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    @property
    def pairs_to_evaluate(self) -> int:
        """Predicate tests of the whole join, at most."""
        return self.pairs_in_window

    def window_probe(self, evaluation: Evaluation) -> AbstractContextManager[WindowProbe]:
        """The window of an evaluation, ready to be probed."""
        window = evaluation.form.window
        return window_probe(
            evaluation,
            self.sides[window],
            self.stretches[window],
            self.device,
            self.stats,
            names=self.names,
            residence=self.residence,
            pruning=self.pruning,
        )

    def ranges_of(self, side: str) -> tuple[np.ndarray, np.ndarray]:
        """All that each row of a side meets: one range of the other side's rows."""
        return self.only_probing(
            side, *self.query.window.met(side, {s: rows.time for s, rows in self.sides.items()})
        )

    def only_probing(
        self, side: str, start: np.ndarray, end: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ranges of a side's tuples, empty for those that do not probe; both still ascend."""
        first, last, _ = self.probing.get(side, slice(None)).indices(len(start))
        if last <= first:
            return np.zeros_like(start), np.zeros_like(end)
        start, end = start.copy(), end.copy()
        start[:first] = end[:first] = start[first]
        start[last:] = end[last:] = end[last - 1]
        return start, end

    def progressed(self) -> None:
        """Tell the caller how far it is."""
        if self.on_progress is not None:
            done = self.stats.pairs_evaluated + self.stats.pairs_pruned
            self.on_progress(min(done, self.pairs_to_evaluate), self.pairs_to_evaluate)


def check_order(source: Source, rows: SideRows) -> None:
    """Refuse a table whose rows are further out of order than declared.

    Raises
    ------
    DataError
    """
    admission = Admission(source.disorder)
    on_time = admission.admit(rows.time)
    if on_time.all():
        return
    first = int(np.argmin(on_time))
    behind = int(rows.time[:first].max()) - int(rows.time[first])
    raise DataError(
        f"{admission.late} rows of {source.side.alias} are further out of order than the "
        f"declared disorder of {admission.disorder}: row {int(rows.row[first])} is {behind} "
        "behind; raise disorder, or leave it out to sort the table"
    )
