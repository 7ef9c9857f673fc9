"""Joins batches of rows with a relation in a fixed amount of memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Columns, Vector, evaluate_columns
from penstock.expr.node import Op, walk
from penstock.plan.lookup import GROUP, LookupPlan, SoughtKey

from ...device.base import Device
from ...execute.stats import Stats
from ...lookup.algorithm import Algorithm
from ...lookup.cache import KeyGroups
from ...lookup.lookup import Answers, Counts, Lookup
from ...lookup.memory import MemorySplit
from ...metrics import Latency
from ...prune.sizes import DEFAULT_PRUNING, Pruning
from ...relation.border import Relation, Version
from ...rows.columns import load
from .answer import Answering, in_group
from .rows import StreamRows

#: Rows of the stream that are answered together: many share the cost of a join.
ANSWERED = 1 << 16


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
        self.options = options or LookupOptions()
        sought = plan.sought
        assert sought is not None, "the scan path has a join of its own"
        self._sought: tuple[SoughtKey, ...] = sought
        names = {
            leaf.attr[1] for leaf in walk(*(one.value for one in sought)) if leaf.op is Op.COLUMN
        }
        self._key_columns = sorted(names)
        self._schema = schema
        self._inner_columns = list(plan.query.columns_of(plan.inner.side))
        self._inner_columns = [name for name in self._inner_columns if name != GROUP]
        self._inner_schema = pa.schema([relation.schema.field(c) for c in self._inner_columns])
        self._answering = Answering(
            plan,
            schema,
            self._inner_schema,
            devices,
            ordered=self.options.ordered,
            pruning=self.options.pruning,
        )
        self._rows = StreamRows()
        self._answered: list[Answers] = []
        self._answered_rows = self._answered_bytes = 0
        self.rows_in = self.batches_in = self.null_keys = 0
        #: Numbers, hashes and validity of keys of rows that were not looked up yet.
        self._incoming: deque[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = deque()
        self.version = relation.version(self.options.version)
        self._open(self.version)

    def _open(self, version: Version, known: Lookup | None = None) -> None:
        """Look up in a version from now on, with what is known of the one before."""
        index, options = version.index, self.options
        self._row_bytes = row_bytes(self._schema)
        split = MemorySplit.of(
            options.memory_bytes,
            index.memory_bytes,
            self._row_bytes,
            keeps_rows=options.algorithm.keeps_rows,
            goes_on=known is not None,
            filter_bytes=version.filter_bytes if options.algorithm is Algorithm.AUTO else 0,
        )
        self._room = split.rows_of(self._row_bytes)
        if known is None:
            width = version.bytes / max(1, version.rows)
            keys = int(split.cache / max(1.0, width))
            cache = options.algorithm.cache(self._inner_schema, split.cache, keys)
        else:
            cache = known.cache
            cache.drop(version.changed_since(self.version.number))
        keyed = slice(0, len(index.first))
        choice = options.algorithm.choice(index.bytes[keyed], index.rows[keyed], split.pages)
        lacks = version.lacks if split.filter else None
        counts = None if known is None else known.counts
        self.lookup = Lookup(index, cache, choice, counts, lacks)
        self.version, self.split = version, split

    @property
    def counts(self) -> Counts:
        """What was looked up so far."""
        return self.lookup.counts

    @property
    def waiting(self) -> int:
        """Rows that wait for a page."""
        return self.lookup.waiting.rows

    @property
    def cached(self) -> int:
        """Keys whose rows are kept."""
        return len(self.lookup.cache)

    def memory_bytes(self) -> dict[str, int]:
        """Main memory by purpose."""
        return {
            "index": self.split.index,
            "filters": self.split.filter,
            "pages": self.split.pages,
            "kept rows": self.lookup.cache.used_bytes,
            "waiting rows": self._held_bytes,
        }

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._answering.schema

    @property
    def stats(self) -> Stats:
        """Counts of the devices' work."""
        return self._answering.stats

    # -- rows in ----------------------------------------------------------------------------------

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows; gives the output of those that were answered meanwhile.

        All rows of the batch meet the same version of the relation.
        """
        if self.options.refresh:
            yield from self.meet(self.relation.newest())
        self._accept(batch)
        yield from self._admit()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Answer all rows that wait."""
        yield from self._admit()
        yield from self._read_until(0)
        yield from self._give()

    def end(self) -> Iterator[pa.RecordBatch]:
        """Answer all rows; give the groups that all rows of the stream make."""
        yield from self.finish()
        yield from self._answering.end()

    def use(self, devices: Sequence[Device]) -> None:
        """Let other devices do the work from now on."""
        self.devices = self._answering.devices = devices

    def partial(self) -> pa.Table:
        """Partial aggregates of all rows that were answered, to be merged elsewhere."""
        return self._answering.partial()

    def meet(self, number: int) -> Iterator[pa.RecordBatch]:
        """Let later rows meet a version; gives the output of rows that waited for the one before.

        Raises
        ------
        FileError
            The version is gone or damaged.
        """
        if number != self.version.number:
            version = self.relation.version(number)
            yield from self._admit()
            yield from self._read_until(0)
            self._open(version, self.lookup)

    def _accept(self, batch: pa.RecordBatch) -> None:
        """Take rows, all or none."""
        side = self.plan.outer
        loaded = load(batch, self._key_columns, self.plan.query.scale_of(side.side), side.alias)
        columns = {(side.side, name): vector for name, vector in loaded.items()}
        keys = [_key_values(one, columns, batch.num_rows) for one in self._sought]
        hashes, valid = self.relation.key_hash(keys, batch.num_rows)
        ids = self._rows.add(batch)
        self.rows_in += len(ids)
        self.batches_in += 1
        if self._latency is not None:
            self._latency.arrived(ids, time.monotonic())
        self._room = self.split.rows_of(batch.nbytes / max(1, batch.num_rows))
        step = min(ANSWERED, self._room)
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            self._incoming.append((ids[part], hashes[part], None if valid is None else valid[part]))

    def _admit(self) -> Iterator[pa.RecordBatch]:
        """Look up the rows that were taken; a page that cannot be read leaves them for later."""
        while self._incoming:
            ids, hashes, valid = self._incoming[0]
            yield from self._read_until(max(0, self._room - len(ids)))
            self._incoming.popleft()
            if valid is not None:
                none = ids[~valid]
                self.null_keys += len(none)
                self._take(Answers(none, np.full(len(none), -1), self._no_groups()))
                ids, hashes = ids[valid], hashes[valid]
            self._take(self.lookup.admit(ids, hashes))
            if self.options.ordered:
                yield from self._read_until(0)
                yield from self._give()
            yield from self._fit()

    def _fit(self) -> Iterator[pa.RecordBatch]:
        """Let rows leave until those that are held fit into their share of memory."""
        while self._held_bytes > self.split.rows and (self._answered or self.lookup.waiting.rows):
            if not self._answered:
                yield from self._read_once()
            yield from self._give()

    @property
    def _held_bytes(self) -> int:
        return self._rows.nbytes + self._answered_bytes + self.lookup.waiting.memory_bytes

    def _read_until(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Read pages until so many rows wait at most."""
        while self.lookup.occupied > rows:
            yield from self._read_once()

    def _read_once(self) -> Iterator[pa.RecordBatch]:
        pages = self.lookup.next_pages()
        sought = self.lookup.sought(pages)
        read = self.version.read(pages, self._inner_columns, sought)
        self._take(self.lookup.arrived(pages, read))
        if self._answered_rows >= ANSWERED and not self.options.ordered:
            yield from self._give()

    # -- rows out ---------------------------------------------------------------------------------

    def _take(self, answers: Answers) -> None:
        if len(answers.ids):
            groups = answers.groups
            if groups.batch.num_rows > groups.counts.sum():  # others' rows are not kept
                groups = groups.pick(np.arange(len(groups)))
            self._answered.append(Answers(answers.ids, answers.group, groups))
            self._answered_rows += len(answers.ids)
            self._answered_bytes += groups.batch.nbytes

    def _give(self) -> Iterator[pa.RecordBatch]:
        """Join the rows that were answered with what they may match."""
        if not self._answered:
            return
        parts = self._answered
        firsts = np.cumsum([0, *(len(part.groups) for part in parts)])
        group = np.concatenate(
            [
                np.where(part.group < 0, -1, part.group + by)
                for part, by in zip(parts, firsts, strict=False)
            ]
        )
        groups = KeyGroups.concat([part.groups for part in parts])
        ids = np.concatenate([part.ids for part in parts])
        rows = self._rows.rows(ids)
        candidates = in_group(groups.batch, np.repeat(np.arange(len(groups)), groups.counts))
        answer = self._answering.begin(rows, ids, group)
        # All of it or nothing, so that a device that fails loses no row and doubles none.
        made = [*answer.add(candidates), *answer.finish()]
        self._rows.drop(ids)
        self._answered, self._answered_rows, self._answered_bytes = [], 0, 0
        yield from made
        if self._latency is not None:
            self._latency.left(ids, time.monotonic())

    def _no_groups(self) -> KeyGroups:
        return KeyGroups.none(self._inner_schema)


def _key_values(sought: SoughtKey, columns: Columns, rows: int) -> Vector:
    """Values of a key column that rows of the stream look up; NULL where there is none."""
    found = evaluate_columns(sought.value, columns, rows)
    if sought.factor == 1 and not sought.constant:
        return found
    values = found.values.astype(object) - sought.constant
    whole = (values % sought.factor == 0).astype(bool)
    return Vector(values // sought.factor, whole if found.valid is None else found.valid & whole)


def row_bytes(schema: pa.Schema) -> float:
    """About how many bytes a row takes."""
    return max(1.0, sum(_width(field.type) for field in schema))


def _width(dtype: pa.DataType) -> int:
    """About how many bytes a value takes."""
    try:
        return max(1, dtype.bit_width // 8)
    except ValueError:
        return 32
