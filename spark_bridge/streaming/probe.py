"""What a task does for the output of a micro-batch: one lane of a step, over stored files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import pyarrow as pa

from penstock.host.completeness.admission import FOREVER, NEVER
from penstock.host.sides import Loaded, read_side
from penstock.host.stepwise import Kept, Share, Step
from penstock.query.plan import JoinQuery
from penstock.spark_bridge.streaming.commit import Commit
from penstock.spark_bridge.streaming.spec import JoinSpec
from penstock.spark_bridge.streaming.store import RowStore, Store


class StoredRows(Kept):
    """The rows that one commit names.

    Parameters
    ----------
    spec : JoinSpec
    store : RowStore
    commit : Commit
    """

    def __init__(self, spec: JoinSpec, store: RowStore, commit: Commit) -> None:
        self.spec, self.store, self.commit = spec, store, commit
        self.query = spec.query()
        self.new = cache(self.new)  # read once per task

    def old(self, side: str, low: int, high: int) -> Loaded:
        files = [f for f in self.commit.old[side] if f.high >= low and f.low <= high]
        return self._loaded(side, [self.store.between(f, low, high) for f in files])

    def new(self, side: str) -> Loaded:
        commit = self.commit
        timed = [self.store.between(f, NEVER, FOREVER) for f in commit.new[side]]
        timeless = [self.store.read(f) for f in commit.timeless[side]]
        return self._loaded(side, [*timed, *timeless])

    def _loaded(self, side: str, tables: Sequence[pa.Table]) -> Loaded:
        return load(self.spec, self.query, side, tables)


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
    """

    def __init__(self, spec: JoinSpec, store: Store, commit: Commit) -> None:
        self.spec, self.store, self.commit = spec, store, commit

    def run(self, share: Share) -> Iterator[pa.RecordBatch]:
        """What one lane gives.

        Raises
        ------
        DataError, DeviceError, FileError
        """
        commit = self.commit
        with self.spec.device.opened() as device:
            step = Step(
                self.spec.query(), device, commit.before, commit.after, pruning=self.spec.pruning
            )
            for batch in step.run(StoredRows(self.spec, self.store, commit), share):
                yield from self.spec.output_batches(batch)
