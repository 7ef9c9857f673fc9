"""Joins one shard in a Spark task, from Arrow batches to Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import DeviceError
from penstock.host.device.base import Device
from penstock.host.join.parts.groups import GroupParts, part_join
from penstock.host.join.parts.join import ExistenceParts, HeldSide, PartJoin
from penstock.host.join.table.nearest_join import NearestJoin
from penstock.host.prune.sizes import pruning_sizes
from penstock.plan.query import JoinQuery, other

from ..blobs import blobs_of
from ..compiled import Compiled
from ..conf import Conf
from ..devices import DeviceChoice
from ..rows import cast_to, in_batches
from .reader import ShardReader, held_first
from .shards import Stretch


@dataclass(frozen=True)
class ShardJoin:
    """The join of one shard's rows, as it travels to its task.

    Parameters
    ----------
    compiled : Compiled
    held : str
        The side whose rows the shard holds.
    slots : mapping of side to mapping of column to slot
        The slot of each column in the shuffled rows.
    output : pyarrow.Schema
        Of the result; not used for groups, which leave as blobs.
    device : DeviceChoice
    conf : Conf
    is_mixed : bool
        Whether rows of both sides come in any order; otherwise held rows come first.
    existence : bool
        Whether only held rows without a match are wanted: the second half of a full join.
    owned : sequence of Stretch, optional
        For ROWS, times of each shard's own rows.
    buckets : int
        Tasks that merge groups.
    """

    compiled: Compiled
    held: str
    slots: Mapping[str, Mapping[str, str]]
    output: pa.Schema
    device: DeviceChoice
    conf: Conf
    is_mixed: bool = False
    existence: bool = False
    owned: Sequence[Stretch] | None = None
    buckets: int = 1

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join the rows of one partition."""
        query, schemas = self.compiled.query(), self.compiled.by_side()
        with ExitStack() as kept:
            yield from self._joined(query, schemas, self._reader(iter(batches), schemas, kept))

    def _reader(
        self, batches: Iterator[pa.RecordBatch], schemas: Mapping[str, pa.Schema], kept: ExitStack
    ) -> ShardReader:
        if self.is_mixed:
            batches = held_first(batches, self.conf.part_rows, kept)
        return ShardReader(batches, self.held, self.slots, schemas)

    def _joined(
        self,
        query: JoinQuery,
        schemas: Mapping[str, pa.Schema],
        reader: ShardReader,
    ) -> Iterator[pa.RecordBatch]:
        held = reader.held()
        # Spark waits until every batch is read.
        whole = query.is_rows or query.nearest is not None
        parts = reader.parts(None if whole else self.conf.part_rows)
        if not held.table.num_rows:
            for _ in parts:
                pass
            return
        if query.nearest is not None:
            tables = {self.held: held.table, other(self.held): next(parts).table}
            for batch in NearestJoin(query, tables):
                yield from in_batches(batch, self.output, self.conf.output_rows)
            return
        owned = None if self.owned is None or held.shard is None else self.owned[held.shard]
        side = HeldSide(query, self.held, held.table, owned=owned, place=held.place)
        del held
        with self.device.open() as device:
            join = self._join(query, side, schemas, device)
            for part in parts:
                self._bound(join, part.table)
                try:
                    for batch in join.add(part.table, part.place):
                        yield from self._for_spark(join, batch)
                except DeviceError as error:
                    # Another join can take over only if this one has evaluated nothing.
                    cpu = self.device.instead_of(device, str(error))
                    if cpu is None or join.stats.pairs_evaluated:
                        raise
                    join = self._join(query, side, schemas, cpu)
                    self._bound(join, part.table)
                    for batch in join.add(part.table, part.place):
                        yield from self._for_spark(join, batch)
            for batch in join.finish():
                yield from self._for_spark(join, batch)

    def _join(
        self, query: JoinQuery, held: HeldSide, schemas: Mapping[str, pa.Schema], device: Device
    ) -> PartJoin:
        kind = ExistenceParts if self.existence else part_join(query)
        pruning = pruning_sizes(self.conf.pruning)
        rows = self.conf.output_rows
        return kind(query, held, schemas, device, output_rows=rows, pruning=pruning)

    def _bound(self, join: PartJoin, part: pa.Table) -> None:
        """Bound the rows of an output batch by ``output_bytes``, given the rows of both sides."""
        used = 0.0
        for side, table in ((self.held, join.held.rows.table), (other(self.held), part)):
            columns = join.query.output_columns_of(side)
            if table.num_rows and columns:
                used += table.select(list(columns)).nbytes / table.num_rows
        join.output_rows = self.conf.fitting_rows(used)

    def _for_spark(self, join: PartJoin, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if isinstance(join, GroupParts):
            yield from blobs_of(batch, join.groups.keys, self.buckets)
            return
        yield cast_to(batch, self.output)
