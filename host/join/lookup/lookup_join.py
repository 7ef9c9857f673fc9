"""The common base of joins with a relation, for all ways to find its rows."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.plan.lookup import GROUP, LookupPlan

from ...device.base import Device
from ...execute.stats import Stats
from ...lookup.algorithm import Algorithm
from ...lookup.lookup import Counts
from ...lookup.memory import MemorySplit
from ...metrics import Latency
from ...prune.sizes import DEFAULT_PRUNING, Pruning
from ...relation.border import Relation, Version
from .answer import Answering

#: Bytes of a row's group, and of its part of what says which values are NULL.
GROUP_BYTES = 10


@dataclass(frozen=True)
class LookupOptions:
    """How a join with a relation runs.

    Parameters
    ----------
    memory_bytes : int
        For the relation's index, pages, kept rows and waiting rows.
    algorithm : Algorithm
    refresh : bool
        Whether each batch meets the newest version; False keeps that of the start, or the one that
        :meth:`RelationJoin.meet` names.
    ordered : bool
        Whether the output is in the order of the stream's rows.
    pruning : Pruning, optional
        As for :class:`~..table.table_join.TableJoin`.
    version : int, optional
        The version of the start; by default the newest one.
    """

    memory_bytes: int = 128 << 20
    algorithm: Algorithm = Algorithm.AUTO
    refresh: bool = True
    ordered: bool = False
    pruning: Pruning | None = DEFAULT_PRUNING
    version: int | None = None


class RelationJoin(ABC):
    """Joins the rows of a stream with a relation's rows in a fixed amount of memory.

    Parameters
    ----------
    plan : LookupPlan
    schema : pyarrow.Schema
        Of the stream's batches.
    relation : Relation
    devices : sequence of Device
    options : LookupOptions, optional
    latency : Latency, optional
        Learns when rows come and when they are answered.

    Attributes
    ----------
    version : Version
        That rows which come now meet.
    split : MemorySplit
    rows_in, batches_in : int
        What was taken so far.
    null_keys : int
        Rows whose key is NULL.

    Raises
    ------
    QueryError
        A key column is compared with a value of another type.
    UsageError
        The memory is too small.
    """

    version: Version
    split: MemorySplit

    def __init__(
        self,
        plan: LookupPlan,
        schema: pa.Schema,
        relation: Relation,
        devices: Sequence[Device],
        options: LookupOptions | None = None,
        *,
        latency: Latency | None = None,
    ) -> None:
        self.plan, self.relation = plan, relation
        self.options = options or LookupOptions()
        self._latency = latency
        self._row_bytes = row_bytes(schema)
        self.rows_in = self.batches_in = self.null_keys = 0
        self._inner_schema = inner_schema(plan, relation)
        self._inner_columns = self._inner_schema.names
        relation.check_used(self._inner_columns)
        self._answering = Answering(
            plan,
            schema,
            self._inner_schema,
            devices,
            ordered=self.options.ordered,
            pruning=self.options.pruning,
        )
        self._start()
        self._open(relation.version(self.options.version), goes_on=False)

    @abstractmethod
    def _start(self) -> None:
        """Make what the join keeps beside, before a version is open."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._answering.schema

    @property
    def stats(self) -> Stats:
        """Counts of the devices' work."""
        return self._answering.stats

    @property
    def devices(self) -> Sequence[Device]:
        """Devices that do the work."""
        return self._answering.devices

    def use(self, devices: Sequence[Device]) -> None:
        """Let other devices do the work from now on."""
        self._answering.devices = devices

    @property
    @abstractmethod
    def counts(self) -> Counts:
        """Counts of the lookups so far."""

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Rows that wait for pages of the relation."""

    @property
    @abstractmethod
    def cached(self) -> int:
        """Keys whose rows are kept."""

    @property
    @abstractmethod
    def _kept_bytes(self) -> int:
        """Bytes of rows of the relation that are kept."""

    @property
    @abstractmethod
    def _held_bytes(self) -> int:
        """Bytes of rows of the stream that are not answered yet."""

    def memory_bytes(self) -> dict[str, int]:
        """Main memory by purpose."""
        return {
            "index": self.split.index,
            "filters": self.split.filter,
            "pages": self.split.pages,
            "kept rows": self._kept_bytes,
            "waiting rows": self._held_bytes,
        }

    # -- rows in ----------------------------------------------------------------------------------

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows; give the output of rows answered meanwhile.

        All rows of the batch meet the same version of the relation.
        """
        if self.options.refresh:
            yield from self.meet(self.relation.newest())
        self._accept(batch)
        yield from self._make_room()

    def meet(self, number: int) -> Iterator[pa.RecordBatch]:
        """Let later rows meet a version; gives the output of rows that waited for the one before.

        Raises
        ------
        FileError
            The version is gone or damaged.
        """
        if number != self.version.number:
            version = self.relation.version(number)
            yield from self._settle()
            self.version.settled()
            self._open(version, goes_on=True)

    @abstractmethod
    def _open(self, version: Version, *, goes_on: bool) -> None:
        """Let rows meet a version from now on; ``goes_on`` unless it is the first one."""

    @abstractmethod
    def _accept(self, batch: pa.RecordBatch) -> None:
        """Take rows, all or none."""

    def _arrived(self, ids: np.ndarray) -> None:
        """Count rows of a batch that was taken, by their numbers."""
        self.rows_in += len(ids)
        self.batches_in += 1
        if self._latency is not None:
            self._latency.arrived(ids, time.monotonic())

    @abstractmethod
    def _make_room(self) -> Iterator[pa.RecordBatch]:
        """Answer rows until the waiting ones fit into their share of memory."""

    # -- rows out ---------------------------------------------------------------------------------

    @abstractmethod
    def _settle(self) -> Iterator[pa.RecordBatch]:
        """Let all rows that were taken meet the version that is open."""

    @abstractmethod
    def finish(self) -> Iterator[pa.RecordBatch]:
        """Answer all rows that wait."""

    def _counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of the output, counted as they leave."""
        for batch in batches:
            self.stats.rows += batch.num_rows
            yield batch

    def _left(self, ids: np.ndarray) -> None:
        """Note that rows were answered."""
        if self._latency is not None:
            self._latency.left(ids, time.monotonic())

    def end(self) -> Iterator[pa.RecordBatch]:
        """Answer all rows; give the groups that all rows of the stream make."""
        yield from self.finish()
        yield from self._counted(self._answering.end())

    def partial(self) -> pa.Table:
        """Partial aggregates of all rows that were answered, to be merged elsewhere."""
        return self._answering.partial()


def inner_schema(plan: LookupPlan, relation: Relation) -> pa.Schema:
    """The columns of the relation that a plan needs."""
    names = [name for name in plan.query.columns_of(plan.inner.side) if name != GROUP]
    # A query may need the relation's number of matches only; one column gives it.
    return pa.schema([relation.schema.field(c) for c in names or relation.schema.names[:1]])


def kept_row_bytes(plan: LookupPlan, relation: Relation) -> float:
    """About how many bytes a row of the relation takes where all of it is kept for scans."""
    # Prepared keys and codes have 8 bytes, however narrow the column.
    widths = (max(8, _width(field.type)) for field in inner_schema(plan, relation))
    return sum(widths) + GROUP_BYTES


def row_bytes(schema: pa.Schema) -> float:
    """About how many bytes a row takes."""
    return max(1.0, sum(_width(field.type) for field in schema))


def _width(dtype: pa.DataType) -> int:
    """About how many bytes a value takes."""
    try:
        return max(1, dtype.bit_width // 8)
    except ValueError:
        return 32
