"""What a worker folds rows into: groups, or groups of what the rows look up."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.errors import QueryError
from penstock.plan.group_query import GroupQuery
from penstock.plan.lookup import LookupPlan
from penstock.query.compiler import compile_select

from ..device.registry import open_device
from ..emit.groups.closing import Limit
from ..join.lookup.base import RelationJoin
from ..join.lookup.opening import open_lookup
from ..relation.border import Relation
from ..state import FoldedRows, GroupState
from .dealt import dealt_schema
from .job import Job
from .output_order import with_keys

#: Numbers that each row leaves to what it looks up, which are the rows that ``min_by`` takes the
#: first of: a batch gives fewer rows than so many times its own.
_MATCHES = 1 << 12


class TableState(GroupState):
    """The groups of a table: all leave at once, those of no row among them."""

    _is_over = False

    def release(self, limit: Limit) -> pa.RecordBatch:
        if self._is_over:  # called by finish()
            return super().release(limit)
        self._is_over = True
        return self.finish()


class LookupState:
    """Groups of looked-up rows; each batch is looked up as a whole before it is folded.

    Parameters
    ----------
    groups : GroupState
        Of the rows that ``lookup`` gives.
    lookup : RelationJoin
        Ordered.
    """

    def __init__(self, groups: GroupState, lookup: RelationJoin) -> None:
        self._groups, self._lookup = groups, lookup
        self._pending_bytes = 0

    def fold(self, batch: pa.RecordBatch, feed: int = 0, first: int = 0) -> FoldedRows:
        """Look rows up, and fold what is found."""
        place, rows, filtered, timeless = first * _MATCHES, 0, 0, 0
        for answers in (self._lookup.push(batch), self._lookup.finish()):
            for found in answers:
                folded = self._groups.fold(found, feed, place)
                place += found.num_rows
                rows += folded.rows
                filtered += folded.filtered
                timeless += folded.without_time
        self._pending_bytes += batch.nbytes
        return FoldedRows(rows, filtered, timeless)

    def seal(self) -> list[list[memoryview]]:
        """As of :class:`~penstock.host.state.GroupState`, as all that follow."""
        self._pending_bytes = 0
        return self._groups.seal()

    def merge(self, sender: int, block: Any) -> int:
        return self._groups.merge(sender, block)

    def release(self, limit: Limit) -> pa.RecordBatch:
        return self._groups.release(limit)

    def save(self) -> list[memoryview]:
        return self._groups.save()

    def load(self, blocks: Iterable[Any], size_then: int) -> int:
        return self._groups.load(blocks, size_then)

    def trim(self) -> None:
        self._groups.trim()

    @property
    def pending_bytes(self) -> int:
        return max(self._pending_bytes, self._groups.pending_bytes)

    @property
    def entries(self) -> int:
        return self._groups.entries

    @property
    def nbytes(self) -> int:
        return self._groups.nbytes

    @property
    def schema(self) -> pa.Schema:
        return self._groups.schema


class OpenQuery:
    """A job's query, compiled, with the relation that its rows are looked up in, if there is one.

    Parameters
    ----------
    job : Job

    Attributes
    ----------
    query : GroupQuery
    dealt : pyarrow.Schema
        Of the columns that workers get.

    Raises
    ------
    QueryError
        It joins two streams, or cannot be compiled.
    FileError
        The relation cannot be read.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._owned = ExitStack()
        self._stored: Relation | None = None
        self._plan: LookupPlan | None = None
        schemas, options = dict(job.schemas), job.options
        with ExitStack() as opened:
            if job.relation is not None:
                name, table = job.relation
                self._stored = stored = opened.enter_context(closing(table.open()))
                schemas[name] = stored.schema
                options = replace(options, relation=name)
            found = compile_select(job.text, schemas, options)
            if not isinstance(found, GroupQuery):
                raise QueryError(
                    "workers group what they are dealt, and this query has no groups of one table "
                    "or stream; leave workers and checkpoint out, and join on the lanes of "
                    "devices: device="
                )
            if job.relation is not None and self._stored is not None:
                assert found.lookup is not None
                self._plan = LookupPlan(found.lookup, job.relation[0], self._stored.found_by)
            self.query = with_keys(found) if job.ordered else found
            pushed = job.schemas[found.source.table]
            outer = None if self._plan is None else self._plan.outer.side
            self.dealt = dealt_schema(self.query, pushed, outer)
            self._owned.push(opened.pop_all())

    def state(self, rank: int) -> GroupState | LookupState:
        """Make the state of a worker.

        Raises
        ------
        QueryError
            A key cannot be grouped.
        """
        made = partial(
            TableState if self._job.is_table else GroupState,
            self.query,
            rank=rank,
            size=self._job.size,
            ordered=self._job.ordered,
        )
        if self._plan is None or self._stored is None or self._job.relation is None:
            return made(self.dealt)
        options = self._job.relation[1].options(None, ordered=True, pruning=None)
        device = self._owned.enter_context(open_device("cpu", threads=1))
        lookup = open_lookup(self._plan, self.dealt, self._stored, [device], options)
        return LookupState(made(lookup.schema), lookup)

    def close(self) -> None:
        """Close the relation."""
        self._owned.close()


def output_of(query: GroupQuery, whole: pa.Schema, ordered: bool) -> pa.Schema:
    """Return the columns that callers get, without those that the order needs."""
    return pa.schema(list(whole)[: len(whole) - ordered * len(query.aggregation.keys)])
