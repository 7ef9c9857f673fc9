"""The join of a task's rows with a relation; runs in a Python worker."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from penstock.errors import FileError
from penstock.host.device.base import Device
from penstock.host.join.lookup.lookup_join import LookupOptions, RelationJoin
from penstock.host.join.lookup.opening import open_lookup
from penstock.host.join.lookup.relation_source import RelationTable
from penstock.host.lookup.nodes.client import NodesRelation
from penstock.host.relation import Relation
from penstock.plan.lookup import LookupPlan
from penstock.plan.query import JoinQuery, other

from ..blobs import blobs_of
from ..compiled import Compiled
from ..conf import Conf
from ..devices import DeviceChoice
from ..metrics.lookups import TaskFigures, without_figures
from ..rows import from_slots, in_batches, used_schema
from ..spark_task import partition
from .versions import FixedVersion, OwnSnapshot, PinnedVersion

#: Schema of rows of which a query uses no column: Arrow batches of no columns have no rows.
SOME_COLUMN = pa.schema([("some", pa.bool_())])


class KeptJoins:
    """Joins that no task uses, the longest unused first."""

    def __init__(self) -> None:
        self._joins: OrderedDict[Hashable, RelationJoin] = OrderedDict()
        self._is_frozen = False

    def take(self, key: Hashable) -> RelationJoin | None:
        """Remove a kept join for use by one task; None if there is none."""
        return self._joins.pop(key, None)

    def keep(self, key: Hashable, join: RelationJoin, most_bytes: int) -> None:
        """Keep a join that has answered all of its rows.

        Parameters
        ----------
        key : hashable
        join : RelationJoin
        most_bytes : int
            That all kept joins may use; the longest unused ones go.
        """
        self._joins.pop(key, None)
        self._joins[key] = join
        while sum(one.options.memory_bytes for one in self._joins.values()) > most_bytes:
            _, oldest = self._joins.popitem(last=False)
            oldest.relation.close()
            self._is_frozen = False
        if not self._is_frozen:
            self._is_frozen = True
            _freeze()


def _freeze() -> None:
    """Exempt all objects that are alive now from garbage collection.

    Spark's workers collect garbage after each task, which looks at all modules and takes longer
    than the join of 50,000 rows. A join that goes must not be among the frozen objects.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


#: The kept joins of this process, which Spark reuses for many tasks.
KEPT = KeptJoins()


def group_keys(query: JoinQuery) -> list[str]:
    """Columns of partial aggregates that name a group."""
    assert query.aggregation is not None
    return [f"key {k}" for k in range(len(query.aggregation.keys))]


@dataclass(frozen=True)
class LookupTask:
    """The join of a DataFrame's partitions with a relation.

    Parameters
    ----------
    compiled : Compiled
        With the relation's schema among the schemas.
    inner : str
        The relation's side.
    relation : RelationTable
    relation_id : str
        Of the relation that the driver has seen.
    slots : mapping of column to name
        The name of each column of the stream in the rows that come from Spark.
    options : LookupOptions
    versions : FixedVersion or PinnedVersion
    output : pyarrow.Schema
        Of the result; not used for partial aggregates, which leave as blobs.
    device : DeviceChoice
    conf : Conf
    buckets : int or None
        Tasks that merge groups; None if rows leave as they are.
    arcs : int or None
        Lanes, each of which has the rows of an arc of the hash; None if rows are where they were.
    is_watched : bool
        Whether figures follow the rows, for :func:`~..metrics.lookups.observe`.
    """

    compiled: Compiled
    inner: str
    relation: RelationTable
    relation_id: str
    slots: Mapping[str, str]
    options: LookupOptions
    versions: FixedVersion | PinnedVersion | OwnSnapshot
    output: pa.Schema
    device: DeviceChoice
    conf: Conf
    buckets: int | None = None
    arcs: int | None = None
    is_watched: bool = False

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join the rows of one partition."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        with self.device.open() as device, self._join(device) as join:
            figures = TaskFigures.begin(join)
            for batch in chain([first], filled):
                for rows in self._rows(batch):
                    yield from self._for_spark(join.push(rows))
            yield from self._for_spark(join.finish())
            if self.buckets is not None:
                keys = group_keys(join.plan.query)
                for partial in join.partial().combine_chunks().to_batches():
                    yield from blobs_of(partial, keys, self.buckets)
            if self.is_watched:
                yield figures.row(join, self.output)

    @contextmanager
    def _join(self, device: Device) -> Iterator[RelationJoin]:
        """Yield the join of this task, and keep it for later tasks unless it fails."""
        is_kept = self.conf.resident
        # What is kept of an arc is of no use to another one.
        arc = None if self.arcs is None else (self.arcs, partition())
        known = self.compiled, self.relation, self.relation_id, self.options, self.buckets, arc
        key = repr(known)
        join = KEPT.take(key) if is_kept else None
        stored = self._open() if join is None else join.relation
        # The folder has the versions of what nodes serve.
        versioned = stored.folder if isinstance(stored, NodesRelation) else stored
        try:
            number = self.versions.choose(versioned, self.relation_id)
            if join is None:
                join = self.new(stored, number, device)
            else:
                join.use([device])
                for _ in join.meet(number):
                    pass  # no row waits
            yield join
        except BaseException:
            stored.close()
            raise
        if is_kept:
            KEPT.keep(key, join, self.conf.resident_bytes)
        else:
            stored.close()

    def _open(self) -> Relation:
        """Open the relation that the driver has seen.

        Raises
        ------
        FileError
            There is another one in its place, or none that this executor can read.
        """
        stored = self.relation.open()
        if stored.id != self.relation_id:
            stored.close()
            raise FileError(
                f"{stored.name} was built anew since the query was planned; plan it again, and a "
                "streaming query with the same checkpoint goes on with the new relation"
            )
        return stored

    @property
    def used_schema(self) -> pa.Schema:
        """Columns of the stream that the query uses; a column of its own if there are none."""
        if not self.slots:
            return SOME_COLUMN
        return used_schema(self.slots, self.compiled.by_side()[other(self.inner)])

    def new(self, stored: Relation, number: int, device: Device) -> RelationJoin:
        """Open a join whose rows meet a version.

        Raises
        ------
        QueryError, UsageError, FileError
        """
        plan = LookupPlan(self.compiled.query(), self.inner, stored.found_by)
        options = replace(self.options, version=number)
        return open_lookup(plan, self.used_schema, stored, [device], options)

    def _rows(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Rows from Spark with the names and types of the stream's columns."""
        if not self.slots:
            return [batch.cast(SOME_COLUMN)]
        schema = self.compiled.by_side()[other(self.inner)]
        return from_slots(pa.Table.from_batches([batch]), self.slots, schema).to_batches()

    def _for_spark(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                most = self.conf.fitting_rows(batch.nbytes / batch.num_rows)
                for rows in in_batches(batch, self.output, most):
                    yield without_figures(rows) if self.is_watched else rows
