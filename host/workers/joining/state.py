"""The rows of a join on one of several workers."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, RIGHT, JoinKind, JoinQuery, columns, named_by_side
from penstock.plan.routing_keys import RoutingKeys
from penstock.plan.window import FOREVER, NEVER

from ...device.base import Device
from ...emit.groups.closing import Limit
from ...execute.residence import Residence
from ...execute.resident_cache import BlockCache
from ...execute.stats import Stats
from ...grouping.event_times import read_times
from ...join.step import Frontier, MicroBatch, Share
from ...rows.counting import counting
from ...rows.sides import SideRows, filtered, side_columns
from ...state import FoldedRows
from ..output_order import FEED, PLACE
from ..protocol.border import Buffer
from .blocks import Head, read_block, shipped_schema, with_places, write_block, write_loads
from .heavy import HeavyCells
from .pending import PendingRows, order_of
from .saved import SavedRows
from .sessions import PendingSessions
from .sharing import Led, led, side_for_all
from .window import JoinWindow

#: Of a saved state: the time up to which its rows have been joined, whether it has ended, and which
#: of this worker's checkpoints it is of.
_SAVED = struct.Struct("<q?3xI")
#: Between blocks of rows that are written once, and those that each checkpoint writes anew.
_ANEW = b""
#: Rows of a saved block.
_BLOCK_ROWS = 1 << 18


class JoinState:
    """The rows that one worker holds: those that it joins, and those for other workers.

    With keys, each row goes to the worker that leads its key, which joins all rows of that key.
    Without keys, each row goes to all workers: each joins a share of the rows with all rows.

    Parameters
    ----------
    query : JoinQuery
    keys : RoutingKeys or None
    dealt : sequence of pyarrow.Schema
        Of the batches, left and right.
    output : pyarrow.Schema
    rank, size : int
        This worker, and how many there are.
    device : callable
        Opens what the joins run on, when it is first needed.
    heavy : sequence of int
        Cells whose keys are heavy from the beginning.
    """

    def __init__(
        self,
        query: JoinQuery,
        keys: RoutingKeys | None,
        dealt: Sequence[pa.Schema],
        output: pa.Schema,
        rank: int,
        size: int,
        device: Callable[[], Device],
        heavy: Sequence[int] = (),
    ) -> None:
        self.query = query.by_event_time
        self.rank, self.size = rank, size
        self.schema = output
        self._keys, self._open_device = keys, device
        self._sides = (LEFT, RIGHT)
        self._schemas = [shipped_schema(one) for one in dealt]
        self._joined = replace(query, sessions=None)
        self._named = named_by_side(self._joined)
        self._window = JoinWindow(self._named)
        made = PendingRows if query.sessions is None else PendingSessions
        self._pending = made(query, self._schemas)
        #: Rows since the last seal, by side.
        self._folded: dict[str, list[pa.RecordBatch]] = {LEFT: [], RIGHT: []}
        #: What its joins have counted.
        self.pairs = Stats("workers")
        #: Time up to which rows have been joined, on the clock, and as the join has it.
        self._before = self._joined_to = NEVER
        self._saved = SavedRows()
        for_all = None if keys is None else side_for_all(query)
        self._heavy = HeavyCells(rank, size, for_all, heavy)
        #: Blocks for all others, for the next seal: what was held of a cell that became heavy.
        self._moving: list[Buffer] = []
        #: Rows of earlier steps that others have sent.
        self._moved: list[pa.RecordBatch] = []
        #: Blocks that were taken back, and the checkpoint that each part is of.
        self._restored: list[tuple[int, list[Any]]] = []
        self._residence = Residence(uuid.uuid4().hex, BlockCache(1 << 62))
        self.pending_bytes = 0

    @cached_property
    def _device(self) -> Device:
        return self._open_device()

    # What comes.

    def fold(self, batch: pa.RecordBatch, feed: int = 0, first: int = 0) -> FoldedRows:
        """Take rows that were dealt here, but those that WHERE leaves out.

        Parameters
        ----------
        feed : int
            Even of the left side, odd of the right one.
        first : int
            Number of the first row in its feed.

        Raises
        ------
        DataError
            A value is off its declared grid.
        """
        source = feed % len(self._sides)
        own = self.query.side(self._sides[source])
        rows = with_places(batch, self._schemas[source], feed, first)
        passing = self._passing(own.side, rows)
        if len(passing) < rows.num_rows:
            rows = rows.take(pa.array(passing))
        timeless = 0
        if rows.num_rows and own.time is not None:
            times = read_times(own, rows)
            if times.rows is not None:
                timeless = rows.num_rows - len(times.rows)
                if self.query.kind is JoinKind.INNER:  # they meet nothing
                    rows = rows.take(pa.array(times.rows))
        if rows.num_rows:
            self._folded[own.side].append(rows)
        self.pending_bytes += batch.nbytes
        return FoldedRows(rows.num_rows, batch.num_rows - len(passing), timeless)

    def _passing(self, side: str, batch: pa.RecordBatch) -> np.ndarray:
        """Return which rows pass the filter of a side."""
        own, every = self.query.side(side), counting(batch.num_rows)
        names = sorted(name for _, name in columns(own.filter))
        if not names:
            return every
        known = side_columns(self.query, side, batch, names)
        return filtered(own, SideRows(every, every, known)).row

    def seal(self) -> list[list[Buffer]]:
        """End the epoch: blocks of its rows by receiver; what stays here is taken at once."""
        blocks: list[list[Buffer]] = [[] for _ in range(self.size)]
        for source, side in enumerate(self._sides):
            batches, self._folded[side] = self._folded[side], []
            if not batches:
                continue
            rows = pa.concat_batches(batches)
            if self._keys is None or self.size == 1:
                self._pending.add(side, rows)
                if self.size > 1:
                    block = write_block(source, rows)
                    for receiver in {*range(self.size)} - {self.rank}:
                        blocks[receiver].append(block)
                continue
            found = self._led(side, rows)
            self._heavy.count(found.cells)
            for leader in range(self.size):
                own = rows.take(pa.array(found.of(leader)))
                if not own.num_rows:
                    continue
                if leader == self.rank:
                    self._pending.add(side, own)
                else:
                    blocks[leader].append(write_block(source, own))
        if self._keys is not None and self.size > 1:
            self._tell(blocks)
        self.pending_bytes = 0
        return blocks

    def _led(self, side: str, rows: pa.RecordBatch) -> Led:
        """Return which worker each row belongs to, where each key has a leader."""
        assert self._keys is not None
        places = rows.column(PLACE).to_numpy()
        known = side_columns(self.query, side, rows, sorted(self._keys.names(side)))
        return led(self._keys, side, known, places, self.size, self._heavy)

    def _tell(self, blocks: list[list[Buffer]]) -> None:
        """Send all others what they are to know of loads, and rows of cells that became heavy."""
        found = [write_loads(told)] if (told := self._heavy.tell()) else []
        found += self._moving
        self._moving = []
        for receiver in {*range(self.size)} - {self.rank}:
            blocks[receiver] += found

    def merge(self, sender: int, block: Any) -> int:
        """Take rows of another worker; returns their number.

        Raises
        ------
        MalformedError
        """
        head, source, body = read_block(block, self._schemas)
        if head is Head.LOADS:
            self._heavy.hear(sender, body)
            return 0
        if head is Head.MOVED:
            self._moved.append(body)
        else:
            self._pending.add(self._sides[source], body)
        return body.num_rows

    # What leaves.

    def release(self, limit: Limit) -> pa.RecordBatch:
        """Join the rows below a time with those before them; returns what that decides.

        Raises
        ------
        DataError, DeviceError
        """
        self._settle()
        after = int(max(min(limit, FOREVER), self._before))
        window = self._window
        taken, time = self._pending.take(after)
        now = self._frontier(time)
        for side, rows in taken.items():
            window.begin(side, *rows)
        found: list[pa.RecordBatch] = []
        if window.has_rows:
            found = list(self._step(now))
        window.end(now)
        self._before, self._joined_to = after, time
        if not found:
            return pa.RecordBatch.from_pylist([], self.schema)
        return found[0] if len(found) == 1 else pa.concat_batches(found)

    def _step(self, now: Frontier) -> Iterator[pa.RecordBatch]:
        self._residence.keep(self._device, self._window.names)
        step = MicroBatch(
            self._joined,
            self._device,
            self._frontier(self._joined_to).watermarks,
            now.watermarks,
            residence=self._residence,
        )
        share = Share() if self._keys is not None else Share(self.rank, self.size)
        yield from step.run(self._window, share)
        self.pairs.count(step.stats)

    def _frontier(self, time: int) -> Frontier:
        return Frontier(self._named, dict.fromkeys(self._sides, time))

    # Checkpoints.

    def save(self) -> list[Buffer | int]:
        """Return what this worker holds, without what others hold, too.

        Rows with a time are in the blocks of one checkpoint; those that follow name it as long as
        such rows are held.
        """
        self._settle()
        is_over = self._before == FOREVER
        pending = self._pending
        if isinstance(pending, PendingSessions):  # its rows leave in the order of sessions
            earlier = self._saved.begin({})
            written, anew = [], [(s, b) for s in self._sides for b in pending.batches(s)]
        else:
            held = {side: self._held(side) for side in self._sides}
            first = {s: min(int(t.min()) for _, t in own) for s, own in held.items() if own}
            earlier = self._saved.begin(first)
            written = [
                (side, self._saved.fresh(side, rows, times, self._is_own(side, rows)))
                for side, own in held.items()
                for rows, times in own
            ]
            anew = [
                (side, rows.filter(pa.array(self._is_own(side, rows))))
                for side in self._sides
                for rows in pending.without_time(side)
            ]
        self._saved.end()
        self._moving += self._moved_by(self._heavy.cut())
        head = _SAVED.pack(min(self._before, FOREVER - 1), is_over, self._saved.number)
        head += np.array(self._heavy.cells, "<i8").tobytes()
        return [*earlier, head, *self._blocks(written), _ANEW, *self._blocks(anew)]

    def _moved_by(self, cells: Sequence[int]) -> list[Buffer]:
        """Return the rows that go to all others, as these cells have become heavy."""
        side, found = self._heavy.side, []
        if not cells or side is None:
            return []
        for batch, _ in self._held(side):
            own = self._led(side, batch)
            chosen = np.isin(own.cells, cells) & own.is_copied & (own.worker == self.rank)
            rows = batch.filter(pa.array(chosen))
            if rows.num_rows:
                found.append(write_block(self._sides.index(side), rows, is_moved=True))
        return found

    def _held(self, side: str) -> list[tuple[pa.RecordBatch, np.ndarray]]:
        """Return the rows of a side that have a time, and their times."""
        held = [b for table in self._window.tables(side) for b in table.to_batches(_BLOCK_ROWS)]
        own = self.query.side(side)
        old = [(batch, read_times(own, batch).times) for batch in held]
        return [*old, *self._pending.with_time(side)]

    def _is_own(self, side: str, rows: pa.RecordBatch) -> np.ndarray:
        """Return which rows no other worker saves."""
        if self._keys is None:
            return self._share_of(rows) == self.rank
        if not self._heavy.cells:
            return np.ones(rows.num_rows, bool)
        found = self._led(side, rows)
        return ~found.is_copied | (found.worker == self.rank)

    def _share_of(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return the worker that saves each row that all hold."""
        return (rows.column(PLACE).to_numpy() + rows.column(FEED).to_numpy()) % self.size

    def _blocks(self, rows: Iterable[tuple[str, pa.RecordBatch]]) -> list[Buffer]:
        return [write_block(self._sides.index(s), b) for s, b in rows if b.num_rows]

    def load(self, blocks: Iterable[Any], size_then: int) -> None:
        """Take back what one of ``size_then`` workers saved, as far as it belongs here now."""
        head, *rest = blocks
        time, is_over, number = _SAVED.unpack_from(head)
        self._before = max(self._before, FOREVER if is_over else time)
        self._heavy.begin(np.frombuffer(head, "<i8", offset=_SAVED.size).tolist())
        # Read later: which rows belong here is known once all parts have told of heavy cells.
        self._restored.append((number, rest))

    def _settle(self) -> None:
        """Put rows where they belong that were taken back, or that others had."""
        restored, self._restored = self._restored, []
        newest = max((number for number, _ in restored), default=0)
        anew: list[tuple[str, pa.RecordBatch]] = []
        for number, blocks in restored:
            every = iter(blocks)
            for block in takewhile(len, every):
                self._pending.add(*self._belonging(block))
            if number == newest:
                anew += map(self._belonging, every)
        if restored and not isinstance(self._pending, PendingSessions):
            taken, self._joined_to = self._pending.take(self._before)
            then = self._frontier(self._joined_to)
            for side, (timed, timeless) in taken.items():
                self._window.restore(then, side, timed)
                anew += [(side, batch) for batch in timeless.to_batches()]
        for side, batch in anew:
            self._pending.add(side, batch)
        moved, self._moved = self._moved, []
        if moved and self._heavy.side is not None:
            self._take_over(self._heavy.side, pa.Table.from_batches(moved))

    def _belonging(self, block: Any) -> tuple[str, pa.RecordBatch]:
        """Read the rows of a block that belong here."""
        _, source, rows = read_block(block, self._schemas)
        side = self._sides[source]
        if self._keys is not None and self.size > 1:
            rows = rows.take(pa.array(self._led(side, rows).of(self.rank)))
        return side, rows

    def _take_over(self, side: str, rows: pa.Table) -> None:
        """Hold rows that another worker holds, too: they were joined there, or wait there."""
        own = self.query.side(side)
        is_old = read_times(own, rows).times < self._before
        for batch in rows.filter(pa.array(~is_old)).combine_chunks().to_batches():
            self._pending.add(side, batch)
        if is_old.any():
            held = pa.concat_tables([*self._window.tables(side), rows.filter(pa.array(is_old))])
            order = order_of(held, read_times(own, held).times)
            then = self._frontier(self._joined_to)
            self._window.restore(then, side, held.take(pa.array(order)))

    def trim(self) -> None:
        """Give nothing back: rows that no later one can meet are gone already."""

    @property
    def entries(self) -> int:
        """Rows held."""
        return self._window.rows + self._pending.rows

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held, and of those for others."""
        folded = sum(b.nbytes for own in self._folded.values() for b in own)
        return self._window.nbytes + self._pending.nbytes + folded
