"""One worker: the state of groups that a worker folds rows into, alone."""

from __future__ import annotations

import pyarrow as pa

from bench.workers.jobs import Job
from penstock.host.state import GroupState
from penstock.plan.group_query import GroupQuery
from penstock.query.compiler import compile_select


def compiled(job: Job) -> GroupQuery:
    """The job's query, ready to be folded."""
    query = compile_select(job.sql, {job.stream: job.schema})
    assert isinstance(query, GroupQuery)
    return query


def folded(job: Job, batches: list[pa.RecordBatch]) -> GroupState:
    """The state of all groups of batches."""
    state = GroupState(compiled(job), job.schema)
    first = 0
    for batch in batches:
        state.fold(batch, feed=0, first=first)
        first += batch.num_rows
    return state


def given(state: GroupState) -> pa.Table:
    """All groups of a state, which forgets them."""
    return pa.Table.from_batches([state.finish()])
