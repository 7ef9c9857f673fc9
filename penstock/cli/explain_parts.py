"""``penstock explain`` of a query that is more than one join."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

import pyarrow as pa

from penstock.host.join.lookup.source import RelationTable

from ..api.classify import Table
from ..api.table_query import How, TableQuery
from ..around.parts import Joined, Part
from ..plan.group_query import lookup_of
from ..plan.lookup import LookupPlan
from ..query.options import QueryOptions
from .explain_lookup import show_path
from .terminal import count, heading, line


def explain_parts(query: TableQuery, explain: Callable[[TableQuery], None]) -> None:
    """Print the parts of a query that is more than one join, and how each join is run.

    Which rows a part reads is known once those before it have run, so they run.
    """

    def join(text: str, tables: Mapping[str, Table], options: QueryOptions) -> pa.Table:
        part = TableQuery.classify(text, tables, options)
        if part.relation is None:
            explain(part)
        else:
            _show_lookup(part, *part.relation)
        return part.rows(How())

    query.run_parts(join, _show_part)


def _show_part(
    part: Part, reads: Mapping[str, pa.Table | RelationTable], calls: Mapping[str, str]
) -> None:
    """Print which engine runs a part of a query, over which tables."""
    heading(part.name)
    line("engine", "Penstock" if isinstance(part, Joined) else "DuckDB")
    for name, table in reads.items():
        is_stored = isinstance(table, RelationTable)
        line("looks up" if is_stored else "reads", f"{name}, {_size(table)}")
    line("text", part.text)
    for name, expression in calls.items():
        line(name, expression)


def _size(table: pa.Table | RelationTable) -> str:
    if isinstance(table, RelationTable):
        with closing(table.open()) as stored:
            version = stored.version(table.version)
            return f"version {version.number}, {count(version.rows)} rows"
    return f"{count(table.num_rows)} rows"


def _show_lookup(query: TableQuery, name: str, relation: RelationTable) -> None:
    """Print how a part of a query finds rows of a relation."""
    with closing(relation.open()) as stored:
        plan = LookupPlan(lookup_of(query.whole), name, stored.found_by)
        show_path(plan, stored.version(relation.version))
