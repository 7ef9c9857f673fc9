"""Computes the output of a micro-batch in a task: one share of a step, over stored files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from penstock.errors import DeviceError
from penstock.host.device.base import Device
from penstock.host.execute.residence import BlockCache, Residence
from penstock.host.join.parts.groups import merged_groups
from penstock.host.join.step import Kept, Share, StepOutput
from penstock.host.rows.sides import Loaded, read_side
from penstock.host.rows.stretches import NamedBlock
from penstock.plan.window import FOREVER, NEVER

from ..blobs import blobs_of
from ..devices import stays_open
from ..metrics.figures import ShardFigures
from ..rows import in_batches
from .cell_index import counts_of
from .commit import BatchRecord, Part, StoredFile
from .figures import FigureRecords
from .routing import CellShare, Routing
from .spec import JoinSpec
from .store import Store

#: Blocks that this process keeps prepared; Spark reuses the process for later tasks.
_cache = BlockCache(0)


@dataclass(frozen=True)
class LaneParts:
    """Parts of each file that a lane reads: one of its home cells, and one of all other cells.

    So a part stays prepared while cells leave the lane and come back; what a plan brings to it is
    a part of its own.

    Parameters
    ----------
    routing : Routing
    lane : int
    """

    routing: Routing
    lane: int

    def parts_of(self, side: str, file: StoredFile) -> list[Part] | None:
        """The parts of a file of a side; None if it has no such cells, and is read whole."""
        if side not in self.routing.cell_of.sides:
            return None
        counts = counts_of(file, self.routing.cell_of.identity)
        if counts is None:
            return None
        starts = np.concatenate([[0], np.cumsum(counts)])
        parts = []
        for name, cells in self.names[side]:
            stretches = [(int(starts[a]), int(starts[b])) for a, b in cells]
            stretches = [(a, b) for a, b in stretches if b > a]
            if stretches:
                parts.append(Part(f"{file.name}/{name}", stretches))
        return parts

    @cached_property
    def names(self) -> dict[str, list[tuple[str, list[tuple[int, int]]]]]:
        """Names of parts and their stretches of cells, by side that has cells."""
        is_home = self.routing.homes == self.lane
        names = {}
        for side in self.routing.cell_of.sides:
            reads = self.routing.reads[side][self.lane]
            parts = []
            if (reads & is_home).any():
                parts.append((f"{self.lane} of {self.routing.lanes}", _stretches(is_home)))
            if (extra := reads & ~is_home).any():
                parts.append((np.packbits(extra).tobytes().hex(), _stretches(extra)))
            names[side] = parts
        return names


def _stretches(cells: np.ndarray) -> list[tuple[int, int]]:
    """Neighbouring cells of a set: first, and the one after the last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], cells, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def part_names(routing: Routing, commit: BatchRecord) -> list[str]:
    """Names of the parts of a commit's files, of all lanes."""
    identity, parts = routing.cell_of.identity, []
    lanes = [LaneParts(routing, lane) for lane in range(routing.lanes)]
    for side in routing.cell_of.sides:
        files = commit.blocks()[side]
        names = {name for lane in lanes for name, _ in lane.names[side]}
        celled = [file for file in files if file.cells and file.cells["of"] == identity]
        parts += [f"{file.name}/{name}" for file in celled for name in names]
    return parts


@dataclass(frozen=True)
class StoredRows(Kept):
    """The rows that one commit names.

    Parameters
    ----------
    spec : JoinSpec
    store : Store
    commit : BatchRecord
    residence : Residence, optional
        Where blocks are kept prepared; each file, or part of one, is a block.
    parts : LaneParts, optional
        Parts of each file to read; by default all.
    new_rows : dict of side to Loaded
        New rows that have been read.
    """

    spec: JoinSpec
    store: Store
    commit: BatchRecord
    residence: Residence | None = None
    parts: LaneParts | None = None
    new_rows: dict[str, Loaded] = field(default_factory=dict)

    def old(self, side: str, low: int, high: int) -> Loaded:
        files = [f for f in self.commit.old[side] if f.high >= low and f.low <= high]
        return self._timed(side, files, low, high, [])

    def new(self, side: str) -> Loaded:
        if side not in self.new_rows:  # read once per task
            timeless = [self.store.read(f) for f in self.commit.timeless[side]]
            stored = self.commit.new[side]
            self.new_rows[side] = self._timed(side, stored, NEVER, FOREVER, timeless)
        return self.new_rows[side]

    def _timed(
        self, side: str, files: Sequence[StoredFile], low: int, high: int, more: list[pa.Table]
    ) -> Loaded:
        """Rows of files with ``low <= time <= high``, and other tables of rows."""
        pieces = [(f, part) for f in files for part in self._parts(side, f)]
        if self.residence is None:
            tables = [self.store.between(f, low, high, part) for f, part in pieces]
            return load(self.spec, side, [*tables, *more])
        blocks = [Loaded.of_block(*self.block(side, *piece), low, high) for piece in pieces]
        return Loaded.concat([load(self.spec, side, more), *blocks])

    def _parts(self, side: str, file: StoredFile) -> Sequence[Part | None]:
        """Parts of a file to read; None stands for the whole file."""
        parts = None if self.parts is None else self.parts.parts_of(side, file)
        return [None] if parts is None else parts

    def block(
        self, side: str, file: StoredFile, part: Part | None = None
    ) -> tuple[NamedBlock, pa.Table]:
        """A file, or a part of it, as a block, and its rows without the column of their time."""
        assert self.residence is not None
        name = file.name if part is None else part.name

        def read() -> tuple[NamedBlock, pa.Table]:
            loaded = load(self.spec, side, [self.store.between(file, NEVER, FOREVER, part)])
            return NamedBlock(name, loaded.rows), loaded.table

        return self.residence.cache.block(self.residence.scope, name, read)


def load(spec: JoinSpec, side: str, tables: Sequence[pa.Table]) -> Loaded:
    """Stored rows of one side; they have passed the side's filter already."""
    table, query = spec.whole(side, tables), spec.query()
    read = read_side(query, query.side(side), table)
    return Loaded(table, read.timed.in_time_order(), read.timeless)


def run_share(
    spec: JoinSpec,
    store: Store,
    commit: BatchRecord,
    share: Share,
    records: FigureRecords | None = None,
    *,
    is_partial: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Output rows of one share of a commit; its figures go to the records.

    With ``is_partial``, the partial aggregates of groups in several lanes, as rows of
    :func:`.blobs.blobs_of` with a bucket for each lane.

    Raises
    ------
    DataError, DeviceError, FileError
    """

    rows, names = partial(StoredRows, spec, store, commit), [file.name for file in commit.kept()]
    routing = Routing.from_record(spec, commit)
    if routing is not None:
        share = CellShare(share.lane, share.lanes, routing=routing, is_partial=is_partial)
        rows = partial(rows, parts=LaneParts(routing, share.lane))
        names += part_names(routing, commit)
    give = _partials if is_partial else _output

    def run(device: Device) -> Iterator[pa.RecordBatch]:
        home = _residence(spec, store.scope, device)
        if home is not None:
            home.keep(device, names)  # blocks that a later step may read
        watermarks = commit.before, commit.after
        step = StepOutput(spec.query(), device, *watermarks, pruning=spec.pruning, residence=home)
        yield from give(step, rows(home), share, spec)
        if records is not None:
            number = share.lane + (share.lanes if is_partial else 0)
            records.put_shard(commit.batch, ShardFigures.from_stats(number, step.stats))

    with spec.device.open() as device:
        is_begun = False
        try:
            for batch in run(device):
                is_begun = True
                yield batch
        except DeviceError as error:
            cpu = spec.device.instead_of(device, str(error))
            # The CPU device would give all rows again; if some are out, Spark must repeat the task.
            if cpu is None or is_begun:
                raise
            yield from run(cpu)


def _output(step: StepOutput, rows: Kept, share: Share, spec: JoinSpec) -> Iterator[pa.RecordBatch]:
    for batch in step.run(rows, share):
        yield from in_batches(batch, spec.output, spec.device.conf.output_rows)


def _partials(
    step: StepOutput, rows: Kept, share: Share, spec: JoinSpec
) -> Iterator[pa.RecordBatch]:
    keys = merged_groups(spec.query(), spec.compiled.by_side()).keys
    for batch in step.partials(rows, share):
        yield from blobs_of(batch, keys, share.lanes)


def _residence(spec: JoinSpec, scope: str, device: Device) -> Residence | None:
    """Return the residence of a query's blocks in this process; None if it keeps none."""
    if not spec.device.conf.resident:
        return None
    _cache.most_bytes = spec.device.conf.resident_bytes
    return Residence(scope, _cache, device_stays=stays_open(device))
