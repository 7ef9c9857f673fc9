"""State of one worker in a join: append state in the words of paper 2, never folded."""

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
from .blocks import BlockKind, read_block, shipped_schema, with_places, write_block, write_loads
from .checkpoint_parts import Parts
from .heavy import HeavyCells
from .held import HeldRows
from .runs import OwnRuns, Runs
from .sharing import Placing, side_for_all


class JoinState:
    """Rows of one worker in a join: rows that it joins, and rows to send to other workers.

    With keys, each row goes to the leader of its key, which joins all rows of that key. Without
    keys, each row goes to all workers, and each joins a share of the rows with all rows.

    Parameters
    ----------
    query : JoinQuery
    keys : RoutingKeys or None
    dealt_schemas : sequence of pyarrow.Schema
        Of dealt batches, left and right.
    output : pyarrow.Schema
    rank, size : int
        This worker, and how many there are.
    device : callable
        Opens the device that the joins run on, when it is first needed.
    heavy : sequence of int
        Cells that are heavy from the beginning.
    runs : Runs, optional
        Maker of the window's runs, if other workers have the same rows.
    """

    def __init__(
        self,
        query: JoinQuery,
        keys: RoutingKeys | None,
        dealt_schemas: Sequence[pa.Schema],
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
        self._schemas = [shipped_schema(one) for one in dealt_schemas]
        self._held = HeldRows(query, self._schemas, runs or OwnRuns())
        #: Rows since the last seal, by side.
        self._folded: dict[str, list[pa.RecordBatch]] = {LEFT: [], RIGHT: []}
        #: Counts of its joins.
        self.pairs = Stats("workers")
        for_all = None if keys is None else side_for_all(query)
        self._heavy = HeavyCells(rank, size, for_all, heavy)
        self._placing = Placing(self.query, keys, rank, size, self._heavy)
        self._parts = Parts(self._held, self._placing, self._heavy, self._schemas)
        #: Blocks that the next seal sends to all others: held rows of cells that became heavy.
        self._moving: list[Buffer] = []
        #: Rows of cells that became heavy, sent by the workers that held them.
        self._moved: list[pa.RecordBatch] = []
        self._residence = Residence(uuid.uuid4().hex, BlockCache(1 << 62))
        self.pending_bytes = 0

    @cached_property
    def _device(self) -> Device:
        return self._open_device()

    # Input.

    def fold(self, batch: pa.RecordBatch, feed: int = 0, first: int = 0) -> FoldedRows:
        """Take dealt rows, except the rows that WHERE leaves out.

        Parameters
        ----------
        feed : int
            Number of the feed: even of the left side, odd of the right one.
        first : int
            Number of the first row in its feed.

        Raises
        ------
        DataError
            A value is off its declared grid.
        """
        source = feed % len(self._sides)
        side = self.query.side(self._sides[source])
        rows = with_places(batch, self._schemas[source], feed, first)
        passing = self._passing(side.side, rows)
        if len(passing) < rows.num_rows:
            rows = rows.take(pa.array(passing))
        timeless = 0
        if rows.num_rows and side.time is not None:
            times = read_times(side, rows)
            if times.rows is not None:
                timeless = rows.num_rows - len(times.rows)
                if self.query.kind is JoinKind.INNER:  # they meet nothing
                    rows = rows.take(pa.array(times.rows))
        if rows.num_rows:
            self._folded[side.side].append(rows)
        self.pending_bytes += batch.nbytes
        return FoldedRows(rows.num_rows, batch.num_rows - len(passing), timeless)

    def _passing(self, name: str, batch: pa.RecordBatch) -> np.ndarray:
        """Return which rows pass the filter of a side."""
        side, every = self.query.side(name), counting(batch.num_rows)
        if side.filter is ops.TRUE:
            return every
        names = sorted(column for _, column in columns(side.filter))
        known = side_columns(self.query, name, batch, names)
        return filtered(side, SideRows(every, every, known)).row

    def seal(self) -> list[list[Buffer]]:
        """End the epoch: return its rows as blocks by receiver; rows led here become pending."""
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
            leaders = self._placing.leaders(side, rows)
            self._heavy.count(leaders.loads)
            for leader, places in enumerate(leaders.places_by_worker(self.size)):
                if not len(places):
                    continue
                led = rows.take(pa.array(places))
                if leader == self.rank:
                    self._held.pending.add(side, led)
                else:
                    blocks[leader].append(write_block(source, led))
        if self._placing.is_by_key and self.size > 1:
            self._add_for_all(blocks)
        self.pending_bytes = 0
        return blocks

    def _add_for_all(self, blocks: list[list[Buffer]]) -> None:
        """Add the blocks that all others get: loads, and rows of cells that became heavy."""
        for_all = [write_loads(report)] if (report := self._heavy.report()) else []
        for_all += self._moving
        self._moving = []
        for receiver in {*range(self.size)} - {self.rank}:
            blocks[receiver] += for_all

    def merge(self, sender: int, block: Any) -> int:
        """Take a block of another worker; returns its number of rows.

        Raises
        ------
        MalformedError
        """
        kind, source, body = read_block(block, self._schemas)
        if kind is BlockKind.LOADS:
            self._heavy.take_report(sender, body)
            return 0
        if kind is BlockKind.MOVED:
            self._moved.append(body)
        else:
            self._held.pending.add(self._sides[source], body)
        return body.num_rows

    # Output.

    def release(self, limit: Limit) -> pa.RecordBatch:
        """Trigger: join pending rows below a time with the window; returns the output rows.

        Raises
        ------
        DataError, DeviceError
        """
        self._settle()
        held = self._held
        then, now = held.begin(int(max(min(limit, FOREVER), held.before)))
        batches: list[pa.RecordBatch] = []
        if held.window.has_rows:
            batches = list(self._step(then, now))
        held.window.end(now)
        if not batches:
            return pa.RecordBatch.from_pylist([], self.schema)
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

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
        """Decide which cells become heavy: at a cut all workers know the same loads."""
        self._settle()
        cells, side = self._heavy.cut(), self._heavy.side
        if not cells or side is None:
            return
        for batch, _ in self._held.timed(side):
            leaders = self._placing.leaders(side, batch)
            is_led = leaders.worker == self.rank
            is_moved = np.isin(leaders.cells, cells) & leaders.is_copied & is_led
            rows = batch.filter(pa.array(is_moved))
            if rows.num_rows:
                self._moving.append(write_block(self._sides.index(side), rows, is_moved=True))

    def save(self) -> list[Buffer | int]:
        """Return this worker's part of a checkpoint: each row is saved by one worker only."""
        self._settle()
        return self._parts.save()

    def load(self, blocks: Iterable[Any], size_then: int) -> None:
        """Load a worker's saved part; rows that belong elsewhere now are dropped."""
        self._parts.load(blocks)

    def _settle(self) -> None:
        """Hold the rows that were loaded from checkpoints, or copied from other workers."""
        self._parts.settle()
        moved, self._moved = self._moved, []
        if moved and self._heavy.side is not None:
            self._held.take_over(self._heavy.side, pa.Table.from_batches(moved))

    def trim(self) -> None:
        """Do nothing: rows that no later row can meet are gone already."""

    @property
    def entries(self) -> int:
        """Number of rows held."""
        return self._held.rows

    @property
    def nbytes(self) -> int:
        """Bytes of rows held, and of rows folded since the last seal."""
        folded = sum(b.nbytes for batches in self._folded.values() for b in batches)
        return self._held.nbytes + folded
