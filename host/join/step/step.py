"""Steps of a join: the rows that one reads, and its output, or a share of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expr.columns import evaluate_all
from penstock.plan.plan import Output
from penstock.plan.query import LEFT, RIGHT, JoinKind, JoinQuery, TimeWindow, named_by_side, other
from penstock.plan.window import FOREVER, NEVER

from ...device.base import Device
from ...execute.residence import Residence
from ...execute.stats import Stats
from ...keys.hashing import hash_groups
from ...prune.sizes import DEFAULT_PRUNING, Pruning
from ...routing.base import cells_of_hashes
from ...rows.sides import Loaded, SideRows
from ...windows.probe import Watermarks
from ..parts.groups import part_join
from ..parts.join import HeldSide
from ..table.table_join import TableJoin
from .frontier import Frontier


class Kept(ABC):
    """The rows that a step reads."""

    @abstractmethod
    def old(self, side: str, low: int, high: int) -> Loaded:
        """Return rows of earlier steps with ``low <= time <= high``."""

    def met(self, side: str, low: int, high: int, meeting: Loaded) -> Loaded:
        """Return rows of :meth:`old`: at least all that rows of ``meeting`` can meet."""
        return self.old(side, low, high)

    @abstractmethod
    def new(self, side: str) -> Loaded:
        """Return the rows of this step, including those without a time."""


@dataclass(frozen=True)
class Share:
    """Part ``lane`` of ``lanes`` of the rows that probe."""

    lane: int = 0
    lanes: int = 1

    def cut(self, first: int, last: int) -> slice:
        """Return this share of the places ``[first, last)``."""
        count = max(0, last - first)
        cuts = (count * k // self.lanes for k in (self.lane, self.lane + 1))
        return slice(*(first + cut for cut in cuts))

    def chosen(self, side: str, rows: SideRows) -> slice | np.ndarray:
        """Return this share of a side's rows, which probe a time window."""
        return self.cut(0, len(rows))

    def grouped(self, side: str, rows: SideRows, groups: np.ndarray) -> np.ndarray:
        """Return the indices of this share's rows, for output that waits for a whole group.

        Parameters
        ----------
        side : str
        rows : SideRows
        groups : ndarray of uint64, shape (rows,)
            A hash of each row's group.
        """
        return np.flatnonzero(cells_of_hashes(groups, self.lanes) == self.lane)

    def places(self, side: str, rows: SideRows) -> np.ndarray:
        """Return a place for each row, which tells rows of a group apart in every share."""
        return np.arange(len(rows))


#: The share of a single lane.
ALL = Share()


class StepOutput:
    """The output of a join between two watermarks of each source.

    Parameters
    ----------
    query : JoinQuery
        Accepted by :meth:`.JoinPlan.require_stepwise`.
    before, after : mapping of side to int
        Watermarks before the new rows, and with them.
    pruning : Pruning or None
        None evaluates every pair that the window admits.
    residence : Residence, optional
        Keeps blocks of rows for the next step.

    Attributes
    ----------
    stats : Stats
        Counts of all joins so far.
    """

    def __init__(
        self,
        query: JoinQuery,
        device: Device,
        before: Watermarks,
        after: Watermarks,
        *,
        pruning: Pruning | None = DEFAULT_PRUNING,
        residence: Residence | None = None,
    ) -> None:
        self.query = named_by_side(query)
        self.device = device
        self.before = Frontier(self.query, before)
        self.after = Frontier(self.query, after)
        self.pruning = pruning
        self.residence = residence
        self.stats = Stats(device.name)

    def run(self, kept: Kept, share: Share = ALL) -> Iterator[pa.RecordBatch]:
        """Give the output of this step.

        Parameters
        ----------
        share : Share
            The shares of all lanes together give the whole output, each row once.

        Raises
        ------
        DataError, DeviceError
        """
        steps = _OverTime if isinstance(self.query.window, TimeWindow) else _OverRows
        for join in steps(self, kept, share).joins():
            yield from join
            self.stats.rows += join.stats.rows
            self.stats.count(join.stats)
        self.stats.stop()

    def partials(self, kept: Kept, share: Share) -> Iterator[pa.RecordBatch]:
        """Give partial aggregates of the groups whose rows are in several shares.

        They are rows of :attr:`.PartialGroups.schema`, to be merged elsewhere. The share says which
        rows; the groups of all others are given by :meth:`run`.

        Raises
        ------
        DataError, DeviceError
        """
        yield from _OverTime(self, kept, share).partials()
        self.stats.stop()


class _Joins(ABC):
    """The table joins that make up a step."""

    def __init__(self, step: StepOutput, kept: Kept, share: Share) -> None:
        self.step, self.kept, self.share = step, kept, share
        self.query = step.query

    def joins(self) -> Iterator[TableJoin]:
        plan = self.step.after.plan
        if plan.output is Output.PAIRS:
            yield from self.pairs()
        for side in plan.decided_once:
            yield from self.once(side)

    @abstractmethod
    def pairs(self) -> Iterator[TableJoin]:
        """Make joins that give each pair whose later row is new in this step."""

    @abstractmethod
    def once(self, side: str) -> Iterator[TableJoin]:
        """Make joins for the rows of a side whose output is final since this step."""

    def pairs_of(self, tables: dict[str, Loaded], **options: Any) -> TableJoin:
        """Make a join that gives pairs; tables are by side."""
        return self._table_join(replace(self.query, kind=JoinKind.INNER), tables, **options)

    def rows_of(self, side: str, tables: dict[str, Loaded], **options: Any) -> TableJoin:
        """Make a join that gives rows of a side, or their groups."""
        about = side if self.query.aggregation is None else None
        return self._table_join(self.query, tables, about=about, **options)

    def _table_join(self, query: JoinQuery, tables: dict[str, Loaded], **options: Any) -> TableJoin:
        step = self.step
        options |= {"pruning": step.pruning, "residence": step.residence}
        return TableJoin(query, tables, step.device, **options)

    def timeless(self, side: str) -> Loaded:
        """Return new rows without a time: they meet nothing, and one lane decides them."""
        new = self.kept.new(side)
        none = new.pick(slice(0))
        return replace(none, timeless=new.timeless) if self.share.lane == 0 else none


class _OverTime(_Joins):
    """Joins over a time window: rows meet if their times lie within given offsets."""

    def pairs(self) -> Iterator[TableJoin]:
        new = {side: self._mine(side, self.kept.new(side)) for side in (LEFT, RIGHT)}
        for side, probing in new.items():
            yield from self._met(side, probing, self._reached(side, probing))
        yield from self._met(LEFT, new[LEFT], self.kept.new(RIGHT))

    def _met(self, side: str, probing: Loaded, window: Loaded) -> Iterator[TableJoin]:
        if len(probing.rows) and len(window.rows):
            yield self.pairs_of({side: probing, other(side): window})

    def once(self, side: str) -> Iterator[TableJoin]:
        decided = self._decided(side)
        alone = self.timeless(side)
        if not len(decided.rows) and not len(alone.timeless):
            return
        window = Loaded.concat([self._reached(side, decided), self.kept.new(other(side))])
        if self.query.aggregation is not None and not len(window.rows):
            return
        if len(alone.timeless):
            decided = Loaded.concat([alone, decided]).unnamed()
        yield self.rows_of(side, {side: decided, other(side): window})

    def _decided(self, side: str) -> Loaded:
        """Return this lane's share of the rows whose output is final since this step."""
        before, after, new = self.step.before, self.step.after, self.kept.new(side)
        if after.grouping is None:
            high = after.closed(side) - 1
            old = self.kept.old(side, before.closed(side), high)
            return self._mine(side, Loaded.concat([old, new.between(NEVER, high)]))
        rows = self._complete(side)
        return rows.pick(self.share.grouped(side, rows.rows, self._groups(side, rows.rows)))

    def _complete(self, side: str) -> Loaded:
        """Return the rows whose groups have become complete in this step."""
        before, after, new = self.step.before, self.step.after, self.kept.new(side)
        rows = Loaded.concat([self.kept.old(side, NEVER, FOREVER), new.pick(slice(None))])
        now = after.complete(rows.rows) & ~before.complete(rows.rows)
        return rows.pick(np.flatnonzero(now)).unnamed()

    def partials(self) -> Iterator[pa.RecordBatch]:
        """Join the rows of this share, and fold what they meet into partial aggregates."""
        (side,) = self.step.after.plan.decided_once
        rows = self._complete(side)
        chosen = self.share.grouped(side, rows.rows, self._groups(side, rows.rows))
        probing = rows.pick(chosen)
        window = Loaded.concat([self._reached(side, probing), self.kept.new(other(side))])
        if not len(probing.rows) or not len(window.rows):
            return
        tables = {side: _table(probing), other(side): _table(window)}
        held = HeldSide(
            self.query, side, tables[side], place=self.share.places(side, rows.rows)[chosen]
        )
        schemas = {name: table.schema for name, table in tables.items()}
        kind = part_join(self.query)
        join = kind(self.query, held, schemas, self.step.device, pruning=self.step.pruning)
        places = self.share.places(other(side), window.rows)
        yield from join.add(tables[other(side)], places)
        yield from join.finish()
        self.step.stats.count(join.stats)

    def _groups(self, side: str, rows: SideRows) -> np.ndarray:
        """Return a hash of each row's group, by the group keys that the side has."""
        assert self.query.aggregation is not None
        keys = [key for key in self.query.aggregation.keys if key.sides <= {side}]
        return hash_groups(evaluate_all(keys, rows.columns, len(rows)), len(rows))

    def _mine(self, side: str, rows: Loaded) -> Loaded:
        """Return this lane's share of probing rows, which are no window tuples."""
        return rows.pick(self.share.chosen(side, rows.rows)).unnamed()

    def _reached(self, side: str, probing: Loaded) -> Loaded:
        """Return rows of earlier steps that rows of a side can meet."""
        assert isinstance(self.query.window, TimeWindow)
        first, last = FOREVER, NEVER
        if len(probing.rows):
            first, last = self.query.window.reach(other(side), *probing.rows.time[[0, -1]].tolist())
        return self.kept.met(other(side), first, last, probing)


def _table(loaded: Loaded) -> pa.Table:
    """Return the loaded rows of a table, in the order of time."""
    return loaded.table.take(pa.array(loaded.rows.row)).combine_chunks()


class _OverRows(_Joins):
    """Joins over ROWS: rows meet the latest rows of the other side, in one order of time."""

    def pairs(self) -> Iterator[TableJoin]:
        tables = self._released()
        probing = {}
        for side, loaded in tables.items():
            first = self.step.before.count(loaded.rows.time)
            probing[side] = self.share.cut(first, len(loaded.rows))
        if any(part.stop > part.start for part in probing.values()):
            yield self.pairs_of(tables, probing=probing)

    def once(self, side: str) -> Iterator[TableJoin]:
        tables = self._released()
        times = tables[side].rows.time
        first = self.step.before.closed_rows(side, times)
        mine = self.share.cut(first, self.step.after.closed_rows(side, times))
        if mine.stop > mine.start:
            yield self.rows_of(side, tables, probing={side: mine})

    def _released(self) -> dict[str, Loaded]:
        """Return all rows whose place in the order is known."""
        high = self.step.after.released - 1
        return {
            side: Loaded.concat(
                [self.kept.old(side, NEVER, high), self.kept.new(side).between(NEVER, high)]
            )
            for side in (LEFT, RIGHT)
        }
