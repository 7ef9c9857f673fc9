"""The rows of a join on one of several workers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expr import ops
from penstock.plan.query import LEFT, RIGHT, JoinKind, JoinQuery, columns
from penstock.plan.routing_keys import RoutingKeys
from penstock.plan.window import FOREVER

from ...device.base import Device
from ...emit.groups.closing import Limit
from ...execute.residence import BlockCache, Residence
from ...execute.stats import Stats
from ...grouping.event_times import read_times
from ...join.step import Frontier, Share, StepOutput
from ...rows.sides import SideRows, counting, filtered, side_columns
from ...state import FoldedRows
from ..protocol.border import Buffer
from .blocks import Head, read_block, shipped_schema, with_places, write_block, write_loads
from .checkpoint_parts import Parts
from .heavy import HeavyCells
from .held import HeldRows
from .runs import OwnRuns, Runs
from .sharing import Placing, side_for_all


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
    runs : Runs, optional
        Of the rows in the window, where other workers have the same.
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
        runs: Runs | None = None,
    ) -> None:
        self.query = query.by_event_time
        self.rank, self.size = rank, size
        self.schema = output
        self._open_device = device
        self._sides = (LEFT, RIGHT)
        self._schemas = [shipped_schema(one) for one in dealt]
        self._held = HeldRows(query, self._schemas, runs or OwnRuns())
        #: Rows since the last seal, by side.
        self._folded: dict[str, list[pa.RecordBatch]] = {LEFT: [], RIGHT: []}
        #: What its joins have counted.
        self.pairs = Stats("workers")
        for_all = None if keys is None else side_for_all(query)
        self._heavy = HeavyCells(rank, size, for_all, heavy)
        self._placing = Placing(self.query, keys, rank, size, self._heavy)
        self._parts = Parts(self._held, self._placing, self._heavy, self._schemas)
        #: Blocks for all others, for the next seal: what was held of a cell that became heavy.
        self._moving: list[Buffer] = []
        #: Rows of earlier steps that others have sent.
        self._moved: list[pa.RecordBatch] = []
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
        if own.filter is ops.TRUE:
            return every
        names = sorted(name for _, name in columns(own.filter))
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
            if not self._placing.is_by_key or self.size == 1:
                self._held.pending.add(side, rows)
                if self.size > 1:
                    block = write_block(source, rows)
                    for receiver in {*range(self.size)} - {self.rank}:
                        blocks[receiver].append(block)
                continue
            found = self._placing.led(side, rows)
            self._heavy.count(found.loads)
            for leader, places in enumerate(found.of_all(self.size)):
                if not len(places):
                    continue
                own = rows.take(pa.array(places))
                if leader == self.rank:
                    self._held.pending.add(side, own)
                else:
                    blocks[leader].append(write_block(source, own))
        if self._placing.is_by_key and self.size > 1:
            self._tell(blocks)
        self.pending_bytes = 0
        return blocks

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
            self._held.pending.add(self._sides[source], body)
        return body.num_rows

    # What leaves.

    def release(self, limit: Limit) -> pa.RecordBatch:
        """Join the rows below a time with those before them; returns what that decides.

        Raises
        ------
        DataError, DeviceError
        """
        self._settle()
        held = self._held
        then, now = held.begin(int(max(min(limit, FOREVER), held.before)))
        found: list[pa.RecordBatch] = []
        if held.window.has_rows:
            found = list(self._step(then, now))
        held.window.end(now)
        if not found:
            return pa.RecordBatch.from_pylist([], self.schema)
        return found[0] if len(found) == 1 else pa.concat_batches(found)

    def _step(self, then: Frontier, now: Frontier) -> Iterator[pa.RecordBatch]:
        held = self._held
        self._residence.keep(self._device, held.window.names)
        step = StepOutput(
            held.joined, self._device, then.watermarks, now.watermarks, residence=self._residence
        )
        share = Share() if self._placing.is_by_key else Share(self.rank, self.size)
        yield from step.run(held.window, share)
        self.pairs.count(step.stats)

    # Cuts.

    def cut(self) -> None:
        """Decide which cells are heavy from here on: all workers know the same now."""
        self._settle()
        cells, side = self._heavy.cut(), self._heavy.side
        if not cells or side is None:
            return
        for batch, _ in self._held.timed(side):
            own = self._placing.led(side, batch)
            is_moved = np.isin(own.cells, cells) & own.is_copied & (own.worker == self.rank)
            rows = batch.filter(pa.array(is_moved))
            if rows.num_rows:
                self._moving.append(write_block(self._sides.index(side), rows, is_moved=True))

    def save(self) -> list[Buffer | int]:
        """Return what this worker holds, without what others hold, too."""
        self._settle()
        return self._parts.save()

    def load(self, blocks: Iterable[Any], size_then: int) -> None:
        """Take back what a worker saved, as far as it belongs here now."""
        self._parts.load(blocks)

    def _settle(self) -> None:
        """Put rows where they belong that were taken back, or that others had."""
        self._parts.settle()
        moved, self._moved = self._moved, []
        if moved and self._heavy.side is not None:
            self._held.take_over(self._heavy.side, pa.Table.from_batches(moved))

    def trim(self) -> None:
        """Give nothing back: rows that no later one can meet are gone already."""

    @property
    def entries(self) -> int:
        """Rows held."""
        return self._held.rows

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held, and of those for others."""
        folded = sum(b.nbytes for own in self._folded.values() for b in own)
        return self._held.nbytes + folded
