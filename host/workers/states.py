"""GROUP BY on workers: groups of rows, or of the rows that a look-up gives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.errors import QueryError, UsageError
from penstock.plan.group_query import GroupQuery, require_closing, time_key
from penstock.plan.lookup import LookupPlan
from penstock.plan.query import LEFT
from penstock.plan.window import FOREVER

from ..device.registry import open_device
from ..emit.groups.closing import GroupClosing, Limit
from ..grouping.intake import GroupIntake
from ..join.lookup.lookup_join import RelationJoin
from ..join.lookup.opening import open_lookup
from ..relation.border import Relation
from ..state import FoldedRows, GroupState
from ..windows.source import Span
from .dealt import dealt_schema, needed_columns
from .job import Job
from .members import fingerprint
from .output_order import with_keys, without_hidden
from .work import Work

#: Row numbers reserved for the answers to each row, by which ``min_by`` decides ties: a batch has
#: fewer answers than so many times its rows.
_MATCHES = 1 << 12


def table_limit(time: int) -> Limit:
    """Return the limit below which groups of a table are complete: none before its end."""
    return math.inf if time == FOREVER else -math.inf


class TableState(GroupState):
    """Groups of a table, which are released all at once; a group without rows is among them."""

    _interprets = True
    _is_over = False

    def release(self, limit: Limit) -> pa.RecordBatch:
        if self._is_over:  # called by finish()
            return super().release(limit)
        self._is_over = True
        return self.finish()


class LookupState:
    """Groups of looked-up rows: each batch is looked up as a whole, and the answers are folded.

    Parameters
    ----------
    groups : GroupState
        Of the answers of ``lookup``.
    lookup : RelationJoin
        Ordered.
    answers : Counter of int, optional
        Answers so far to the rows of each feed, by which they are numbered, if no other worker
        gets rows of it and nothing is saved. Otherwise numbers are reserved for each row.
    """

    def __init__(
        self, groups: GroupState, lookup: RelationJoin, answers: Counter[int] | None = None
    ) -> None:
        self._groups, self._lookup, self._answers = groups, lookup, answers
        self._pending_bytes = 0
        #: After an error: whether the look-up has taken the batch, and what is folded of it.
        self._is_taken = False
        self._folded = FoldedRows(0, 0, 0)
        self._place = 0

    def fold(self, batch: pa.RecordBatch, feed: int = 0, first: int = 0) -> FoldedRows:
        """Look rows up, and fold the answers.

        Raises
        ------
        FileError
            The relation cannot be read. Another call with the same rows goes on.
        """
        if not self._is_taken:
            self._folded = FoldedRows(0, 0, 0)
            self._place = first * _MATCHES if self._answers is None else self._answers[feed]
            before = self._lookup.batches_in
            try:
                self._fold(self._lookup.push(batch), feed)
            finally:
                self._is_taken = self._lookup.batches_in > before
        self._fold(self._lookup.finish(), feed)
        self._is_taken = False
        if self._answers is not None:
            self._answers[feed] = self._place
        self._pending_bytes += batch.nbytes
        return self._folded

    def _fold(self, answers: Iterable[pa.RecordBatch], feed: int) -> None:
        for answer in answers:
            folded, so_far = self._groups.fold(answer, feed, self._place), self._folded
            self._place += answer.num_rows
            self._folded = FoldedRows(
                so_far.rows + folded.rows,
                so_far.filtered + folded.filtered,
                so_far.without_time + folded.without_time,
            )

    def seal(self) -> list[list[memoryview]]:
        """End the epoch; like all methods below, as :class:`~penstock.host.state.GroupState`."""
        self._pending_bytes = 0
        return self._groups.seal()

    def merge(self, sender: int, block: Any) -> int:
        return self._groups.merge(sender, block)

    def release(self, limit: Limit) -> pa.RecordBatch:
        return self._groups.release(limit)

    def cut(self) -> None:
        self._groups.cut()

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


class GroupWork(Work):
    """Compiled GROUP BY over one source, with the relation of its look-up, if there is one.

    Parameters
    ----------
    job : Job
    query : GroupQuery
        As compiled with ``stored``.
    stored : Relation or None
        Owned.

    Raises
    ------
    QueryError
        Groups would never be complete, or a key cannot be grouped.
    UsageError
        A device is given.
    """

    def __init__(self, job: Job, query: GroupQuery, stored: Relation | None) -> None:
        if job.device != "cpu":
            raise UsageError(
                "device is given, but the query is over one table: workers fold its groups "
                "themselves, and take no device; leave device out"
            )
        self._job = job
        self._owned = ExitStack()
        self._stored = stored
        self._plan: LookupPlan | None = None
        with ExitStack() as opened:
            if stored is not None and job.relation is not None:
                opened.enter_context(closing(stored))
                assert query.lookup is not None
                self._plan = LookupPlan(query.lookup, job.relation[0], stored.found_by)
            self.query = with_keys(query) if job.ordered else query
            self._closing = None if job.is_table else _closing(self.query)
            pushed = job.schemas[query.source.table]
            outer = None if self._plan is None else self._plan.outer.side
            self.sides = (self.query.entry,)
            self.dealt_schemas = (dealt_schema(pushed, needed_columns(self.query, outer)),)
            self.hidden = self.state(0).schema
            self.output = without_hidden(self.hidden)
            self.fingerprint = fingerprint(self.query)
            self._owned.push(opened.pop_all())

    def intake(self, disorder: Span | Mapping[str, Span], idle_s: float | None) -> GroupIntake:
        schema = self._job.schemas[self.query.source.table]
        return GroupIntake(self.query, schema, disorder=disorder, idle_s=idle_s)

    def limit(self, time: int) -> Limit:
        return table_limit(time) if self._closing is None else self._closing.limit({LEFT: time})

    def state(self, rank: int) -> GroupState | LookupState:
        make_groups = partial(
            TableState if self._job.is_table else GroupState,
            self.query,
            rank=rank,
            size=self._job.size,
            ordered=self._job.ordered,
        )
        (schema,) = self.dealt_schemas
        if self._plan is None or self._stored is None or self._job.relation is None:
            return make_groups(schema)
        options = self._job.relation[1].options(None, ordered=True, pruning=None)
        device = self._owned.enter_context(open_device("cpu", threads=1))
        lookup = open_lookup(self._plan, schema, self._stored, [device], options)
        return LookupState(make_groups(lookup.schema), lookup)

    def close(self) -> None:
        self._owned.close()


def _closing(query: GroupQuery) -> GroupClosing:
    """Return the rule by which groups are complete.

    Raises
    ------
    QueryError
        They never are, or each row completes its group.
    """
    require_closing(query)
    key = time_key(query)
    if key is None:
        raise QueryError(
            "workers need groups that follow the event time, and these are complete with each "
            "row: leave workers and checkpoint out, and one process gives them at once, or add "
            f"window({query.source.alias}.t, ...) to GROUP BY"
        )
    return GroupClosing(query, key)
