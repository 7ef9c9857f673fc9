"""The rows of a join that a worker holds: of this step, and those that later ones may meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, RIGHT, JoinQuery, other
from penstock.plan.ranges import place
from penstock.plan.routing_keys import RoutingKeys, routing_keys
from penstock.plan.window import FOREVER, NEVER

from ...join.step import Frontier, Kept, RowBlock, needed
from ...rows.sides import Loaded, SideRows, counting, read_side
from ...rows.stretches import NamedBlock
from .pending import Due
from .runs import Run, Runs
from .sharing import key_hashes

#: Blocks of a side that are small beside the one before are merged with it: then there are few.
_GROWTH = 2


#: Marks for each of the few, at least: one in so many of the many is found in vain. Of all, at
#: most so many that a processor's cache holds them.
_MARKS, _LEAST_BITS, _MOST_BITS = 16, 10, 22
#: How many times as many the many must be for the search to be worth it.
_WORTH = 4

#: The upper half of the hash of a key of each row, and which rows have one; None if all do.
Keys = tuple[np.ndarray, np.ndarray | None]


class CommonKeys:
    """Finds rows by their keys.

    Parameters
    ----------
    keys : RoutingKeys
    """

    def __init__(self, keys: RoutingKeys) -> None:
        self._keys = keys

    def of(self, side: str, rows: SideRows) -> Keys:
        """Return the keys of rows of a side."""
        hashes, valid = key_hashes(self._keys, side, rows.columns, len(rows))
        return (hashes >> np.uint64(32)).astype(np.uint32), valid


def is_worth(few: int, many: int) -> bool:
    """Whether so many rows are to be searched for keys of so few."""
    return _WORTH * few < many


class KeyMarks:
    """The keys of a few rows.

    Parameters
    ----------
    few : Keys
    """

    def __init__(self, few: Keys) -> None:
        hashes, valid = few
        bits = (_MARKS * len(hashes)).bit_length()
        self._shift = np.uint32(32 - min(max(bits, _LEAST_BITS), _MOST_BITS))
        self._marks = np.zeros(1 << (32 - int(self._shift)), bool)
        self._marks[(hashes if valid is None else hashes[valid]) >> self._shift] = True

    def find(self, many: Keys) -> np.ndarray:
        """Return the places of rows that have such a key, ascending, and of some that have not."""
        hashes, valid = many
        found = self._marks[hashes >> self._shift]
        return np.flatnonzero(found if valid is None else found & valid)


@dataclass(frozen=True)
class _Held:
    """A block of rows in the order of time, and what retention asks of it."""

    about: RowBlock
    block: NamedBlock
    run: Run
    side: str
    common: CommonKeys | None

    @property
    def table(self) -> pa.Table:
        return self.run.table

    def between(self, low: int, high: int) -> Loaded:
        return Loaded.of_block(self.block, self.table, low, high)

    @cached_property
    def _keys(self) -> Keys:
        assert self.common is not None
        return self.common.of(self.side, self.block.rows)

    def marked(self, low: int, high: int, marks: KeyMarks) -> Loaded:
        """Return rows with ``low <= time <= high`` that may have one of some keys."""
        rows, (hashes, valid) = self.block.rows, self._keys
        own = slice(place(rows.time, low), place(rows.time, high, after=True))
        found = own.start + marks.find((hashes[own], None if valid is None else valid[own]))
        if 2 * len(found) > own.stop - own.start:
            return self.between(low, high)
        chosen = replace(rows.pick(found), row=counting(len(found)))
        return Loaded(self.table.take(pa.array(found)), chosen, rows.pick(slice(0)))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows, if they are this worker's, and of what is read of them."""
        rows = self.block.rows
        arrays = [rows.time, *(vector.values for vector in rows.columns.values())]
        arrays += [own for own in self.__dict__.get("_keys", ()) if own is not None]
        read = sum(array.nbytes for array in arrays if not self.run.has(array))
        return read + (self.table.nbytes if self.run.is_own else 0)


class JoinWindow(Kept):
    """The rows of both sides.

    Steps follow each other in time, so the blocks of a side do, too.

    Parameters
    ----------
    query : JoinQuery
        Whose tables are named by side.
    runs : Runs
        Makes the rows of each block, or knows who has made them.
    """

    def __init__(self, query: JoinQuery, runs: Runs) -> None:
        self.query, self._runs = query, runs
        keys = routing_keys(query.predicate)
        self._common = None if keys is None or keys.band is not None else CommonKeys(keys)
        self._held: dict[str, list[_Held]] = {LEFT: [], RIGHT: []}
        self._new: dict[str, Loaded] = {}
        self._entering: dict[str, _Held] = {}
        self._made = 0

    def old(self, side: str, low: int, high: int) -> Loaded:
        return self._together(side, [one.between(low, high) for one in self._at(side, low, high)])

    def _at(self, side: str, low: int, high: int) -> list[_Held]:
        return [one for one in self._held[side] if one.about.low <= high and one.about.high >= low]

    def _together(self, side: str, parts: list[Loaded]) -> Loaded:
        none = self._new[side].pick(slice(0))
        return Loaded.concat([none, *parts]) if parts else none.unnamed()

    def met(self, side: str, low: int, high: int, meeting: Loaded) -> Loaded:
        own, few = self._at(side, low, high), len(meeting.rows)
        if self._common is None or not is_worth(few, sum(one.about.rows for one in own)):
            return self.old(side, low, high)
        marks = KeyMarks(self._common.of(other(side), meeting.rows))
        return self._together(side, [one.marked(low, high, marks) for one in own])

    def new(self, side: str) -> Loaded:
        return self._new[side]

    def begin(self, side: str, timed: Due, timeless: pa.Table) -> None:
        """Take the new rows of a side, which pass its filter.

        Parameters
        ----------
        timed, timeless
            Rows with a time, and others.
        """
        made = self._load(side, timed.rows.num_rows, timed.in_order)
        loaded = made.between(NEVER, FOREVER)
        if timeless.num_rows:
            table = timeless.combine_chunks()
            alone = read_side(self.query, self.query.side(side), table).timeless
            rest = Loaded(table, loaded.rows.pick(slice(0)), alone)
            loaded = Loaded.concat([rest, loaded])
        self._new[side] = loaded
        self._entering[side] = made

    def _load(self, side: str, count: int, make: Callable[[], pa.Table]) -> _Held:
        """Make a block of so many rows in the order of time."""
        self._made += 1
        run = self._runs.run(self._made, count, lambda: make().combine_chunks())
        rows = read_side(self.query, self.query.side(side), run.table).timed
        about = RowBlock(0, FOREVER, NEVER)
        if count := len(rows):
            about = RowBlock(count, int(rows.time[0]), int(rows.time[-1]))
        return _Held(about, NamedBlock(f"rows {self._made}", rows), run, side, self._common)

    def end(self, frontier: Frontier) -> None:
        """The step is over: its rows are old, and those are forgotten that no step needs."""
        for side, made in self._entering.items():
            if made.about.rows:
                self._held[side].append(self._grouped(frontier, side, made))
        kept = needed(frontier, {s: [one.about for one in own] for s, own in self._held.items()})
        for side, own in self._held.items():
            staying = [one for one, keep in zip(own, kept[side], strict=True) if keep]
            self._held[side] = self._merged(frontier, side, staying)
        self._new, self._entering = {}, {}

    def _merged(self, frontier: Frontier, side: str, held: list[_Held]) -> list[_Held]:
        """Merge small blocks into those before them."""
        while len(held) > 1 and held[-2].about.rows < _GROWTH * held[-1].about.rows:
            tables = [one.table for one in held[-2:]]
            count = sum(table.num_rows for table in tables)
            merged = self._load(side, count, partial(pa.concat_tables, tables))
            held[-2:] = [self._grouped(frontier, side, merged)]
        return held

    def _grouped(self, frontier: Frontier, side: str, made: _Held) -> _Held:
        """Note the largest time key of a block, where rows wait for their groups."""
        if frontier.grouping is None or side not in frontier.plan.decided_once:
            return made
        rows = made.block.rows
        group = int(frontier.grouping.keys(rows.columns, len(rows)).max())
        return replace(made, about=replace(made.about, group=group))

    def restore(self, frontier: Frontier, side: str, timed: Due) -> None:
        """Take back rows of steps before the frontier, in place of those that are held."""
        if count := timed.rows.num_rows:
            made = self._load(side, count, timed.in_order)
            self._held[side] = [self._grouped(frontier, side, made)]

    def tables(self, side: str) -> Sequence[pa.Table]:
        """Return the old rows of a side, in the order of time."""
        return [one.table for one in self._held[side]]

    @property
    def has_rows(self) -> bool:
        """Whether there are rows, old or new."""
        new = any(len(one.rows) or len(one.timeless) for one in self._new.values())
        return new or any(self._held.values())

    @property
    def names(self) -> list[str]:
        """Names of all blocks."""
        held = [one for own in self._held.values() for one in own]
        return [one.block.name for one in [*held, *self._entering.values()]]

    @property
    def rows(self) -> int:
        """Old rows."""
        return sum(one.about.rows for own in self._held.values() for one in own)

    @property
    def nbytes(self) -> int:
        """Bytes of the old rows, without those of runs of other workers, and of what is read."""
        return sum(one.nbytes for own in self._held.values() for one in own)
