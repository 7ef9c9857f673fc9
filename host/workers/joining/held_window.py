"""Window of a worker in a join: the rows of this step, and older rows that later ones may meet."""

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
from ...keys.hashing import hash_values
from ...rows.sides import Loaded, SideRows, counting, read_side
from ...rows.stretches import NamedBlock
from .pending import DueRows
from .runs import Runs, SortedRun

#: A block is merged with the one before unless that has so many times its rows: this keeps few.
_GROWTH = 2


#: Marks per key, at least: one in so many rows is picked in vain. Bits of the number of marks, at
#: least and at most: a processor's cache holds them.
_MARKS, _LEAST_BITS, _MOST_BITS = 16, 10, 22
#: By what factor old rows must outnumber new ones for marking keys to be worth it.
_WORTH = 4

#: Upper half of the hash of each row's key, and which rows have a key; None if all do.
Keys = tuple[np.ndarray, np.ndarray | None]


class CommonKeys:
    """Hashes of the keys by which rows of both sides can match.

    Parameters
    ----------
    keys : RoutingKeys
    """

    def __init__(self, keys: RoutingKeys) -> None:
        self._keys = keys

    def hashed(self, side: str, rows: SideRows) -> Keys:
        """Return the hashed keys of rows of a side."""
        hashes, valid = hash_values(self._keys.side_keys(side), rows.columns, len(rows))
        return (hashes >> np.uint64(32)).astype(np.uint32), valid


def is_worth(few: int, many: int) -> bool:
    """Whether there are so many old rows that picking them by the keys of few new ones pays."""
    return _WORTH * few < many


class KeyMarks:
    """Bitmap of the keys of a few rows, by which many rows are picked.

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
        """Return the places of rows with a marked key, ascending, and of some others."""
        hashes, valid = many
        is_marked = self._marks[hashes >> self._shift]
        return np.flatnonzero(is_marked if valid is None else is_marked & valid)


@dataclass(frozen=True)
class _Held:
    """A block of one side's rows in the order of time, with the facts that retention needs."""

    about: RowBlock
    block: NamedBlock
    run: SortedRun
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
        return self.common.hashed(self.side, self.block.rows)

    def marked(self, low: int, high: int, marks: KeyMarks) -> Loaded:
        """Return rows with ``low <= time <= high`` that may have a marked key."""
        rows, (hashes, valid) = self.block.rows, self._keys
        span = slice(place(rows.time, low), place(rows.time, high, after=True))
        at = span.start + marks.find((hashes[span], None if valid is None else valid[span]))
        if 2 * len(at) > span.stop - span.start:
            return self.between(low, high)
        chosen = replace(rows.pick(at), row=counting(len(at)))
        return Loaded(self.table.take(pa.array(at)), chosen, rows.pick(slice(0)))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows, unless another worker has made them, and of columns read from them."""
        rows = self.block.rows
        arrays = [rows.time, *(vector.values for vector in rows.columns.values())]
        arrays += [array for array in self.__dict__.get("_keys", ()) if array is not None]
        read = sum(array.nbytes for array in arrays if not self.run.has(array))
        return read + (self.table.nbytes if self.run.is_own else 0)


class JoinWindow(Kept):
    """Rows of both sides: new ones of this step, and old ones in blocks in the order of time.

    Steps follow each other in time, so the blocks of a side do, too.

    Parameters
    ----------
    query : JoinQuery
        Whose tables are named by side.
    runs : Runs
        Makes the rows of each block, or maps them if another worker has.
    """

    def __init__(self, query: JoinQuery, runs: Runs) -> None:
        self.query, self._runs = query, runs
        keys = routing_keys(query.predicate)
        self._common = None if keys is None or keys.band is not None else CommonKeys(keys)
        self._held: dict[str, list[_Held]] = {LEFT: [], RIGHT: []}
        self._new: dict[str, Loaded] = {}
        self._entering: dict[str, _Held] = {}
        self._block_count = 0

    def old(self, side: str, low: int, high: int) -> Loaded:
        return self._together(side, [one.between(low, high) for one in self._at(side, low, high)])

    def _at(self, side: str, low: int, high: int) -> list[_Held]:
        return [one for one in self._held[side] if one.about.low <= high and one.about.high >= low]

    def _together(self, side: str, parts: list[Loaded]) -> Loaded:
        none = self._new[side].pick(slice(0))
        return Loaded.concat([none, *parts]) if parts else none.unnamed()

    def met(self, side: str, low: int, high: int, meeting: Loaded) -> Loaded:
        blocks, few = self._at(side, low, high), len(meeting.rows)
        if self._common is None or not is_worth(few, sum(one.about.rows for one in blocks)):
            return self.old(side, low, high)
        marks = KeyMarks(self._common.hashed(other(side), meeting.rows))
        return self._together(side, [one.marked(low, high, marks) for one in blocks])

    def new(self, side: str) -> Loaded:
        return self._new[side]

    def begin(self, side: str, timed: DueRows, timeless: pa.Table) -> None:
        """Load the new rows of a side for a step.

        Parameters
        ----------
        timed, timeless
            Rows with a time, and others.
        """
        held = self._load(side, timed.rows.num_rows, timed.in_order)
        loaded = held.between(NEVER, FOREVER)
        if timeless.num_rows:
            table = timeless.combine_chunks()
            alone = read_side(self.query, self.query.side(side), table).timeless
            unmatched = Loaded(table, loaded.rows.pick(slice(0)), alone)
            loaded = Loaded.concat([unmatched, loaded])
        self._new[side] = loaded
        self._entering[side] = held

    def _load(self, side: str, count: int, make: Callable[[], pa.Table]) -> _Held:
        """Make a block of ``count`` rows in the order of time, or map another worker's."""
        self._block_count += 1
        run = self._runs.run(self._block_count, count, lambda: make().combine_chunks())
        rows = read_side(self.query, self.query.side(side), run.table).timed
        about = RowBlock(0, FOREVER, NEVER)
        if count := len(rows):
            about = RowBlock(count, int(rows.time[0]), int(rows.time[-1]))
        return _Held(about, NamedBlock(f"rows {self._block_count}", rows), run, side, self._common)

    def end(self, frontier: Frontier) -> None:
        """End the step: its rows become old, and blocks that no later step needs are dropped."""
        for side, entering in self._entering.items():
            if entering.about.rows:
                self._held[side].append(self._grouped(frontier, side, entering))
        about = {side: [one.about for one in blocks] for side, blocks in self._held.items()}
        kept = needed(frontier, about)
        for side, blocks in self._held.items():
            staying = [one for one, keep in zip(blocks, kept[side], strict=True) if keep]
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

    def _grouped(self, frontier: Frontier, side: str, held: _Held) -> _Held:
        """Note the largest time key of a block, where rows wait for their groups."""
        if frontier.grouping is None or side not in frontier.plan.decided_once:
            return held
        rows = held.block.rows
        group = int(frontier.grouping.keys(rows.columns, len(rows)).max())
        return replace(held, about=replace(held.about, group=group))

    def restore(self, frontier: Frontier, side: str, timed: DueRows) -> None:
        """Replace the old rows of a side by rows of steps before the frontier."""
        if count := timed.rows.num_rows:
            held = self._load(side, count, timed.in_order)
            self._held[side] = [self._grouped(frontier, side, held)]

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
        held = [one for blocks in self._held.values() for one in blocks]
        return [one.block.name for one in [*held, *self._entering.values()]]

    @property
    def rows(self) -> int:
        """Number of old rows."""
        return sum(one.about.rows for blocks in self._held.values() for one in blocks)

    @property
    def nbytes(self) -> int:
        """Bytes of old rows, without other workers' runs, and of columns read from all."""
        return sum(one.nbytes for blocks in self._held.values() for one in blocks)
