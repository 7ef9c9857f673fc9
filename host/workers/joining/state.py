"""The rows of a join on one of several workers."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise, takewhile
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
from .blocks import read_block, shipped_schema, with_places, write_block
from .pending import PendingRows
from .saved import SavedRows
from .sessions import PendingSessions
from .sharing import leaders
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
        #: What was taken back: the checkpoint that it is of, and what that wrote anew.
        self._restored: tuple[int, list[tuple[str, pa.RecordBatch]]] = (-1, [])
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
            for leader, own in enumerate(self._by_leader(side, rows)):
                if not own.num_rows:
                    continue
                if leader == self.rank:
                    self._pending.add(side, own)
                else:
                    blocks[leader].append(write_block(source, own))
        self.pending_bytes = 0
        return blocks

    def _by_leader(self, side: str, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        found = self._leaders(side, rows)
        order = np.argsort(found, kind="stable")
        cuts = np.searchsorted(found[order], np.arange(self.size + 1)).tolist()
        rows = rows.take(pa.array(order))
        return [rows.slice(first, last - first) for first, last in pairwise(cuts)]

    def _leaders(self, side: str, rows: pa.RecordBatch) -> np.ndarray:
        """Return the worker that each row belongs to."""
        places = rows.column(PLACE).to_numpy()
        if self._keys is None:
            return (places + rows.column(FEED).to_numpy()) % self.size
        known = side_columns(self.query, side, rows, sorted(self._keys.names(side)))
        return leaders(self._keys, side, known, places, self.size)

    def merge(self, sender: int, block: Any) -> int:
        """Take rows of another worker; returns their number.

        Raises
        ------
        MalformedError
        """
        source, rows = read_block(block, self._schemas)
        self._pending.add(self._sides[source], rows)
        return rows.num_rows

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
        head = _SAVED.pack(min(self._before, FOREVER - 1), is_over, self._saved.number)
        return [*earlier, head, *self._blocks(written), _ANEW, *self._blocks(anew)]

    def _held(self, side: str) -> list[tuple[pa.RecordBatch, np.ndarray]]:
        """Return the rows of a side that have a time, and their times."""
        held = [b for table in self._window.tables(side) for b in table.to_batches(_BLOCK_ROWS)]
        own = self.query.side(side)
        old = [(batch, read_times(own, batch).times) for batch in held]
        return [*old, *self._pending.with_time(side)]

    def _is_own(self, side: str, rows: pa.RecordBatch) -> np.ndarray:
        """Return which rows no other worker saves."""
        if self._keys is not None:
            return np.ones(rows.num_rows, bool)
        return self._leaders(side, rows) == self.rank

    def _blocks(self, rows: Iterable[tuple[str, pa.RecordBatch]]) -> list[Buffer]:
        return [write_block(self._sides.index(s), b) for s, b in rows if b.num_rows]

    def load(self, blocks: Iterable[Any], size_then: int) -> None:
        """Take back what one of ``size_then`` workers saved, as far as it belongs here now.

        Raises
        ------
        MalformedError
        """
        every = iter(blocks)
        time, is_over, number = _SAVED.unpack(next(every))
        self._before = max(self._before, FOREVER if is_over else time)
        for block in takewhile(len, every):
            self._pending.add(*self._led(block))
        newest, anew = self._restored
        if number >= newest:
            anew = [*(anew if number == newest else []), *map(self._led, every)]
            self._restored = number, anew

    def _led(self, block: Any) -> tuple[str, pa.RecordBatch]:
        """Read the rows of a block that belong here."""
        source, rows = read_block(block, self._schemas)
        side = self._sides[source]
        if self._keys is not None and self.size > 1:
            rows = self._by_leader(side, rows)[self.rank]
        return side, rows

    def _settle(self) -> None:
        """Let what was taken back of earlier steps be old."""
        (number, anew), self._restored = self._restored, (-1, [])
        if number >= 0 and not isinstance(self._pending, PendingSessions):
            taken, self._joined_to = self._pending.take(self._before)
            then = self._frontier(self._joined_to)
            for side, (timed, timeless) in taken.items():
                self._window.restore(then, side, timed)
                anew += [(side, batch) for batch in timeless.to_batches()]
        for side, batch in anew:
            self._pending.add(side, batch)

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
