"""Compilation of a job's query, which each member does for itself."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace

from penstock.errors import BeyondError
from penstock.plan.group_query import GroupQuery
from penstock.query.compiler import compile_select

from .job import Job
from .joining.work import JoinWork
from .states import GroupWork
from .work import Work


def compiled(job: Job) -> Work:
    """Compile the query of a job; the result is to be closed.

    Raises
    ------
    QueryError
        It cannot be compiled, or shared between workers.
    FileError
        The relation cannot be read.
    """
    schemas, options = dict(job.schemas), job.options
    with ExitStack() as opened:
        stored = None
        if job.relation is not None:
            name, table = job.relation
            stored = opened.enter_context(closing(table.open()))
            schemas[name] = stored.schema
            options = replace(options, relation=name)
        try:
            query = compile_select(job.text, schemas, options)
        except BeyondError as error:
            raise BeyondError(
                f"{error}; workers compute nothing by DuckDB: leave workers and checkpoint out, or "
                "compute it before or after the query"
            ) from None
        if isinstance(query, GroupQuery):
            opened.pop_all()  # the relation is the work's
            return GroupWork(job, query, stored)
        return JoinWork(job, query)
