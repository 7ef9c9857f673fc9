"""Joins batches of rows with a relation in a fixed amount of memory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError
from penstock.expr import ops
from penstock.expr.columns import evaluate_columns
from penstock.expr.node import Expr, Op, walk
from penstock.plan.lookup import GROUP, LookupPlan
from penstock.plan.query import JoinQuery
from penstock.types import int_of

from ...device.base import Device
from ...execute.running import Running
from ...execute.stats import Stats
from ...lookup.algorithm import Algorithm
from ...lookup.cache import Groups
from ...lookup.lookup import Answers, Lookup
from ...lookup.memory import MemorySplit
from ...metrics import Latency
from ...prune.sizes import DEFAULT_PRUNING, Pruning
from ...relation.border import Relation, Version
from ...rows.columns import load
from ..table.table_join import TableJoin
from .rows import StreamRows

#: Rows of the stream that are answered together: many share the cost of a join.
ANSWERED = 1 << 16
#: Hidden column with the number of a row of the stream, by which an ordered output is sorted.
NUMBER = "\0number"

_GROUP = pa.field(GROUP, pa.int64(), nullable=False)
_NUMBER = pa.field(NUMBER, pa.int64(), nullable=False)


@dataclass(frozen=True)
class LookupOptions:
    """How a lookup runs.

    Parameters
    ----------
    memory_bytes : int
        For the relation's index, pages, kept rows and waiting rows.
    algorithm : Algorithm
    refresh : bool
        Whether each batch meets the newest version; False keeps that of the start, or the one that
        :meth:`LookupJoin.meet` names.
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


class LookupJoin:
    """Joins the rows of a stream with those of a relation that have their key.

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

    Raises
    ------
    QueryError
        A key column is compared with a value of another type.
    UsageError
        The memory is too small.
    """

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
        self.plan, self.relation, self.devices = plan, relation, devices
        self._latency = latency
        self.stats = Stats("+".join(one.name for one in devices))
        self.options = options or LookupOptions()
        sought = plan.sought
        if sought is None:
            raise UsageError("the scan path is not built yet")
        self._sought: tuple[Expr, ...] = sought
        names = {leaf.attr[1] for leaf in walk(*sought) if leaf.op is Op.COLUMN}
        self._key_columns = sorted(names)
        self._schema = schema
        self._query = self._numbered() if self.options.ordered else plan.query
        self._inner_columns = list(plan.query.columns_of(plan.inner.side))
        self._inner_columns = [name for name in self._inner_columns if name != GROUP]
        self._inner_schema = pa.schema([relation.schema.field(c) for c in self._inner_columns])
        self._rows = StreamRows()
        self._answered: list[Answers] = []
        self._answered_rows = 0
        self.rows_in = self.null_keys = 0
        self.version = relation.version(self.options.version)
        self._open(self.version)

    def _open(self, version: Version, known: Lookup | None = None) -> None:
        """Look up in a version from now on, with what is known of the one before."""
        index, options = version.index, self.options
        self._row_bytes = max(1.0, sum(_width(field.type) for field in self._schema))
        split = MemorySplit.of(
            options.memory_bytes,
            index.memory_bytes,
            self._row_bytes,
            keeps_rows=options.algorithm.keeps_rows,
        )
        self._room = split.rows_of(self._row_bytes)
        if known is None:
            width = version.bytes / max(1, version.rows)
            keys = int(split.cache / max(1.0, width))
            cache = options.algorithm.cache(self._inner_schema, split.cache, keys)
        else:
            cache = known.cache
            cache.drop(version.changed_since(self.version.number))
        choice = options.algorithm.choice(index.bytes[: len(index.first)], split.pages)
        self.lookup = Lookup(index, cache, choice, None if known is None else known.counts)
        self.version, self.split = version, split

    def memory_bytes(self) -> dict[str, int]:
        """Main memory by purpose."""
        return {
            "index": self.split.index,
            "pages": self.split.pages,
            "kept rows": self.lookup.cache.used_bytes,
            "waiting rows": self._rows.nbytes + self.lookup.waiting.memory_bytes,
        }

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._join(self._empty_rows(), self._no_groups()).schema

    # -- rows in ----------------------------------------------------------------------------------

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows; gives the output of those that were answered meanwhile.

        All rows of the batch meet the same version of the relation.
        """
        if self.options.refresh:
            yield from self.meet(self.relation.newest())
        for start in range(0, batch.num_rows, ANSWERED):
            yield from self._push(batch.slice(start, ANSWERED))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Answer all rows that wait."""
        yield from self._read_until(0)
        yield from self._give()

    def meet(self, number: int) -> Iterator[pa.RecordBatch]:
        """Let later rows meet a version; gives the output of rows that waited for the one before.

        Raises
        ------
        FileError
            The version is gone or damaged.
        """
        if number != self.version.number:
            version = self.relation.version(number)
            yield from self._read_until(0)
            self._open(version, self.lookup)

    def _push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        side = self.plan.outer
        loaded = load(batch, self._key_columns, self.plan.query.scale_of(side.side), side.alias)
        columns = {(side.side, name): vector for name, vector in loaded.items()}
        keys = [evaluate_columns(expr, columns, batch.num_rows) for expr in self._sought]
        hashes, valid = self.relation.key_hash(keys, batch.num_rows)
        ids = self._rows.add(batch)
        self.rows_in += len(ids)
        if self._latency is not None:
            self._latency.arrived(ids, time.monotonic())
        if valid is not None:
            none = ids[~valid]
            self.null_keys += len(none)
            self._take(Answers(none, np.full(len(none), -1), self._no_groups()))
            ids, hashes = ids[valid], hashes[valid]
        yield from self._read_until(max(0, self._room - len(ids)))
        self._take(self.lookup.admit(ids, hashes))
        if self.options.ordered:
            yield from self._read_until(0)
            yield from self._give()

    def _read_until(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Read pages until so many rows wait at most."""
        while self.lookup.occupied > rows:
            pages = self.lookup.next_pages()
            read = self.version.read(pages, self._inner_columns)
            self._take(self.lookup.arrived(pages, read))
            if self._answered_rows >= ANSWERED and not self.options.ordered:
                yield from self._give()

    # -- rows out ---------------------------------------------------------------------------------

    def _take(self, answers: Answers) -> None:
        if len(answers.ids):
            used, group = np.unique(answers.group, return_inverse=True)
            if len(used) and used[0] < 0:
                group, used = group - 1, used[1:]
            groups = answers.groups.pick(used)
            self._answered.append(Answers(answers.ids, group, groups))
            self._answered_rows += len(answers.ids)

    def _give(self) -> Iterator[pa.RecordBatch]:
        """Join the rows that were answered with what they may match."""
        if not self._answered:
            return
        parts, self._answered, self._answered_rows = self._answered, [], 0
        firsts = np.cumsum([0, *(len(part.groups) for part in parts)])
        group = np.concatenate(
            [
                np.where(part.group < 0, -1, part.group + by)
                for part, by in zip(parts, firsts, strict=False)
            ]
        )
        groups = Groups.concat([part.groups for part in parts])
        ids = np.concatenate([part.ids for part in parts])
        rows = self._rows.take(ids).append_column(_GROUP, pa.array(group))
        if self.options.ordered:
            rows = rows.append_column(_NUMBER, pa.array(ids))
        join = self._join(rows, groups)
        if self.options.ordered:
            table = pa.Table.from_batches(join, join.schema)
            yield from table.sort_by(NUMBER).drop_columns([NUMBER]).to_batches()
        else:
            yield from join
        self._note(join.stats)
        if self._latency is not None:
            self._latency.left(ids, time.monotonic())

    def _note(self, stats: Stats) -> None:
        """Add the work of a join to that of those before."""
        self.stats.rows += stats.rows
        self.stats.pairs_evaluated += stats.pairs_evaluated
        self.stats.pairs_pruned += stats.pairs_pruned

    def candidates(self, groups: Groups) -> pa.Table:
        """Rows of the relation, with the number of their group."""
        of_row = np.repeat(np.arange(len(groups)), groups.counts)
        return pa.Table.from_batches([groups.batch]).append_column(_GROUP, pa.array(of_row))

    def _join(self, rows: pa.Table, groups: Groups) -> TableJoin:
        plan = self.plan
        return TableJoin(
            self._query,
            {plan.outer.table: rows, plan.inner.table: self.candidates(groups)},
            self.devices,
            pruning=self.options.pruning,
            running=Running(ordered=self.options.ordered),
        )

    def _numbered(self) -> JoinQuery:
        query = self.plan.query
        number = ops.column(self.plan.outer.side, NUMBER, int_of(64, nullable=False))
        return replace(query, select=(*query.select, (NUMBER, number)))

    def _no_groups(self) -> Groups:
        return Groups.none(self._inner_schema)

    def _empty_rows(self) -> pa.Table:
        return self._schema.empty_table().append_column(_GROUP, pa.array([], pa.int64()))


def _width(dtype: pa.DataType) -> int:
    """About how many bytes a value takes."""
    try:
        return max(1, dtype.bit_width // 8)
    except ValueError:
        return 32
