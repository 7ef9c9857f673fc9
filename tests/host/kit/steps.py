"""Joins played in steps, and compared with the join of the whole tables."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa

import penstock
from penstock.host.device.base import Device
from penstock.host.execute.residence import Residence
from penstock.host.join.step import Frontier, Kept, RowBlock, Share, StepOutput, needed
from penstock.host.rows.sides import Loaded, SideRows, read_side
from penstock.host.rows.stretches import NamedBlock
from penstock.plan.plan import plan
from penstock.plan.query import LEFT, RIGHT, JoinQuery, named_by_side
from penstock.plan.window import FOREVER, NEVER
from tests.host.kit.streams import SCHEMA, STARTS, Feed

TIME = {"a": "t", "b": "t"}


class Memory(Kept):
    """Blocks of rows in memory, of which only those are kept that retention asks for."""

    def __init__(self, query: JoinQuery) -> None:
        self.query = named_by_side(query)
        #: Blocks that were made, and their rows.
        self.made = self.rows = 0
        self.blocks: dict[str, list[tuple[RowBlock, Loaded]]] = {LEFT: [], RIGHT: []}
        self.now: dict[str, Loaded] = {}

    def old(self, side: str, low: int, high: int) -> Loaded:
        none = self.now[side].pick(slice(0))
        parts = [loaded.between(low, high) for _, loaded in self.blocks[side]]
        return Loaded.concat([none, *parts])

    def new(self, side: str) -> Loaded:
        return self.now[side]

    def take_in(self, side: str, loaded: Loaded) -> None:
        """New rows of a side: those with a time are a block."""
        rows = loaded.rows
        if len(rows):
            # A block's rows are those of its table, one by one.
            table = loaded.table.take(pa.array(rows.row)).combine_chunks()
            rows = SideRows(np.arange(len(rows)), rows.time, rows.columns)
            self.made += 1
            self.rows += len(rows)
            named = Loaded.of_block(NamedBlock(f"block {self.made}", rows), table, NEVER, FOREVER)
            timeless = replace(loaded, rows=rows.pick(slice(0)))
            loaded = Loaded.concat([timeless, named])
        self.now[side] = loaded

    def names(self) -> list[str]:
        """Names of all blocks."""
        every = [one for own in self.blocks.values() for _, one in own] + list(self.now.values())
        return [stretch.block.name for one in every for stretch in one.stretches]

    def end(self, frontier: Frontier) -> None:
        """The step has ended: its rows are old, and what no step needs is forgotten."""
        for side, loaded in self.now.items():
            rows = loaded.rows
            if len(rows):
                group = None
                if frontier.grouping is not None and side in frontier.plan.decided_once:
                    group = int(frontier.grouping.keys(rows.columns, len(rows)).max())
                block = RowBlock(len(rows), int(rows.time[0]), int(rows.time[-1]), group)
                self.blocks[side].append((block, loaded.pick(slice(None))))
        kept = needed(frontier, {s: [b for b, _ in own] for s, own in self.blocks.items()})
        self.blocks = {
            side: [one for one, keep in zip(own, kept[side], strict=True) if keep]
            for side, own in self.blocks.items()
        }


def played(
    query: JoinQuery,
    feeds: dict[str, Feed],
    device: Device,
    rng: Random,
    lanes: int,
    residence: Residence | None = None,
) -> tuple[list[tuple], dict[str, list[pa.RecordBatch]], Memory]:
    """All steps; the output, the admitted rows, and what is kept at the end."""
    plan(query).require_stepwise()
    memory = Memory(query)
    watermarks = {LEFT: NEVER, RIGHT: NEVER}
    todo = {LEFT: feeds["a"].batches(), RIGHT: feeds["b"].batches()}
    admitted: dict[str, list[pa.RecordBatch]] = {LEFT: [], RIGHT: []}
    found: list[tuple] = []
    end = False
    while not end:
        end = not any(todo.values())
        after = dict.fromkeys(watermarks, FOREVER) if end else dict(watermarks)
        for side, feed in zip((LEFT, RIGHT), feeds.values(), strict=True):
            count = rng.randint(0, 3)
            batches, todo[side] = todo[side][:count], todo[side][count:]
            table = pa.Table.from_batches(batches, SCHEMA).combine_chunks()
            own = memory.query.side(side)
            read = read_side(memory.query, own, table)
            if not end and len(read.timed):
                after[side] = max(watermarks[side], int(read.timed.time.max()) - feed.disorder)
            on_time = np.flatnonzero(read.timed.time >= watermarks[side])
            kept = np.sort(np.concatenate([read.timed.row[on_time], read.timeless.row]))
            admitted[side].append(table.take(pa.array(kept)).combine_chunks())
            read = read_side(memory.query, own, admitted[side][-1])
            memory.take_in(side, Loaded.of_table(own, admitted[side][-1], read))
        if residence is not None:
            residence.keep(device, memory.names())
        step = StepOutput(query, device, watermarks, after, residence=residence)
        for lane in range(lanes):
            for batch in step.run(memory, Share(lane, lanes)):
                found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        watermarks = after
        memory.end(Frontier(memory.query, watermarks))
    return found, admitted, memory


def check(
    query: JoinQuery,
    options: dict,
    seed: int,
    lanes: int,
    device: Device,
    *,
    residence: Residence | None = None,
    reference: Device | None = None,
) -> Memory:
    """Play random streams of a query, and compare; gives what is kept at the end."""
    rng = Random(seed)
    start = rng.choice(STARTS)
    feeds = {name: Feed.drawn(rng, 40, start) for name in "ab"}
    if query.is_rows:  # each row needs a place
        for feed in feeds.values():
            feed.rows = [(n, start if t is None else t, x) for n, t, x in feed.rows]
    found, admitted, memory = played(query, feeds, device, rng, lanes, residence)
    tables = {
        name: pa.concat_tables([pa.Table.from_batches([], SCHEMA), *own])
        for name, own in zip("ab", admitted.values(), strict=True)
    }
    options = {"time": TIME, "device": reference or device, **options}
    whole = penstock.sql(query.text, tables, **options)
    expected = list(zip(*(column.to_pylist() for column in whole.columns), strict=True))
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    return memory
