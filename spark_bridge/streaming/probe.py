"""What a task does for the output of a micro-batch: one lane of a step, over stored files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import pyarrow as pa

from penstock.errors import DeviceError
from penstock.host.completeness.admission import FOREVER, NEVER
from penstock.host.device.base import Device
from penstock.host.resident.residence import Residence
from penstock.host.sides import Loaded, read_side
from penstock.host.stats import Stats
from penstock.host.stepwise import Kept, Share, Step
from penstock.host.stretches import NamedBlock
from penstock.query.plan import JoinQuery
from penstock.spark_bridge.metrics.figures import LaneFigures
from penstock.spark_bridge.metrics.records import FigureRecords
from penstock.spark_bridge.streaming.commit import Commit, StoredFile
from penstock.spark_bridge.streaming.resident import residence
from penstock.spark_bridge.streaming.spec import JoinSpec
from penstock.spark_bridge.streaming.store import RowStore, Store


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
        self.new = cache(self.new)  # read once per task

    def old(self, side: str, low: int, high: int) -> Loaded:
        files = [f for f in self.commit.old[side] if f.high >= low and f.low <= high]
        return self._timed(side, files, low, high, [])

    def new(self, side: str) -> Loaded:
        timeless = [self.store.read(f) for f in self.commit.timeless[side]]
        return self._timed(side, self.commit.new[side], NEVER, FOREVER, timeless)

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
    """Gives the output of a commit.

    Parameters
    ----------
    spec : JoinSpec
    store : Store
    commit : Commit
    records : FigureRecords, optional
        Gets what a lane has done.
    """

    def __init__(
        self, spec: JoinSpec, store: Store, commit: Commit, records: FigureRecords | None = None
    ) -> None:
        self.spec, self.store, self.commit = spec, store, commit
        self.records = records

    def run(self, share: Share) -> Iterator[pa.RecordBatch]:
        """What one lane gives.

        Raises
        ------
        DataError, DeviceError, FileError
        """
        spec, store, commit = self.spec, self.store, self.commit

        def rows(home: Residence | None) -> StoredRows:
            return StoredRows(spec, store, commit, home)

        def done(stats: Stats) -> None:
            if self.records is not None:
                self.records.put_lane(commit.batch, LaneFigures.of(share.lane, stats))

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
        step = Step(
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
