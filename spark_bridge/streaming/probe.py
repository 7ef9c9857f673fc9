"""Computes the output of a micro-batch in a task: one shard of a step, over stored files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from penstock.errors import DeviceError
from penstock.host.device.base import Device
from penstock.host.execute.residence import Residence
from penstock.host.execute.stats import Stats
from penstock.host.join.step import Kept, MicroBatch, Share
from penstock.host.rows.sides import Loaded, read_side
from penstock.host.rows.stretches import NamedBlock
from penstock.plan.query import JoinQuery
from penstock.plan.window import FOREVER, NEVER

from ..metrics.figures import ShardFigures
from .commit import Commit, StoredFile
from .figures import FigureRecords
from .resident import residence
from .spec import JoinSpec
from .store import RowStore, Store


class StoredRows(Kept):
    """The rows that one commit names.

    Parameters
    ----------
    spec : JoinSpec
    store : RowStore
    commit : Commit
    residence : Residence, optional
        Where blocks are kept; each file is one.
    """

    def __init__(
        self,
        spec: JoinSpec,
        store: RowStore,
        commit: Commit,
        residence: Residence | None = None,
    ) -> None:
        self.spec, self.store, self.commit = spec, store, commit
        self.residence = residence
        self.query = spec.query()
        self._new: dict[str, Loaded] = {}

    def old(self, side: str, low: int, high: int) -> Loaded:
        files = [f for f in self.commit.old[side] if f.high >= low and f.low <= high]
        return self._timed(side, files, low, high, [])

    def new(self, side: str) -> Loaded:
        if side not in self._new:  # read once per task
            timeless = [self.store.read(f) for f in self.commit.timeless[side]]
            own = self.commit.new[side]
            self._new[side] = self._timed(side, own, NEVER, FOREVER, timeless)
        return self._new[side]

    def _timed(
        self, side: str, files: Sequence[StoredFile], low: int, high: int, others: list[pa.Table]
    ) -> Loaded:
        """Rows of files between two times, and other rows."""
        if self.residence is None:
            tables = [self.store.between(f, low, high) for f in files]
            return load(self.spec, self.query, side, [*tables, *others])
        parts = [Loaded.of_block(*self.block(side, f), low, high) for f in files]
        return Loaded.concat([load(self.spec, self.query, side, others), *parts])

    def block(self, side: str, file: StoredFile) -> tuple[NamedBlock, pa.Table]:
        """A file as a block, and its rows without the column of their time."""
        assert self.residence is not None

        def made() -> tuple[NamedBlock, pa.Table]:
            loaded = load(self.spec, self.query, side, [self.store.between(file, NEVER, FOREVER)])
            return NamedBlock(file.name, loaded.rows), loaded.table

        return self.residence.cache.block(self.residence.scope, file.name, made)


def load(spec: JoinSpec, query: JoinQuery, side: str, tables: Sequence[pa.Table]) -> Loaded:
    """Stored rows of one side; they have passed the side's filter already."""
    none = spec.side_schema(side).empty_table()
    table = pa.concat_tables([none, *tables]).combine_chunks()
    read = read_side(query, query.side(side), table)
    return Loaded(table, read.timed.in_time_order(), read.timeless)


class Probe:
    """Computes the output of a commit.

    Parameters
    ----------
    spec : JoinSpec
    store : Store
    commit : Commit
    records : FigureRecords, optional
        Gets what a shard has done.
    """

    def __init__(
        self, spec: JoinSpec, store: Store, commit: Commit, records: FigureRecords | None = None
    ) -> None:
        self.spec, self.store, self.commit = spec, store, commit
        self.records = records

    def run(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Output rows of one shard.

        Raises
        ------
        DataError, DeviceError, FileError
        """
        spec, store, commit = self.spec, self.store, self.commit

        def rows(home: Residence | None) -> StoredRows:
            return StoredRows(spec, store, commit, home)

        def done(stats: Stats) -> None:
            if self.records is not None:
                self.records.put_shard(commit.batch, ShardFigures.of(share.lane, stats))

        yield from run_step(spec, store.scope, commit, rows, done, share)


def run_step(
    spec: JoinSpec,
    scope: str,
    commit: Commit,
    rows: Callable[[Residence | None], Kept],
    done: Callable[[Stats], None],
    share: Share | None = None,
) -> Iterator[pa.RecordBatch]:
    """Output rows of a step, on the device of the task that calls.

    Parameters
    ----------
    spec : JoinSpec
    scope : str
        Within which names of the commit's files are unique.
    commit : Commit
    rows : callable
        What the step reads, by where blocks are kept.
    done : callable
        Gets the counts of the step after its last row.
    share : Share, optional
        All of it by default.

    Raises
    ------
    DataError, DeviceError, FileError
    """

    def run(device: Device) -> Iterator[pa.RecordBatch]:
        home = residence(spec, scope, device)
        if home is not None:
            home.keep(device, [f.name for own in commit.blocks().values() for f in own])
        step = MicroBatch(
            spec.query(),
            device,
            commit.before,
            commit.after,
            pruning=spec.pruning,
            residence=home,
        )
        for batch in step.run(rows(home), share or Share()):
            yield from spec.output_batches(batch)
        done(step.stats)

    with spec.device.opened() as device:
        given = False
        try:
            for batch in run(device):
                given = True
                yield batch
        except DeviceError as error:
            cpu = spec.device.instead_of(device, str(error))
            # Rows that have left would leave again; then Spark has to run the task again.
            if cpu is None or given:
                raise
            yield from run(cpu)
