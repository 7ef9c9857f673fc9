"""``penstock explain`` of a query in parts, or with a relation: its parts, how rows are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

import pyarrow as pa

from penstock.host.join.lookup.base import row_bytes
from penstock.host.join.lookup.reach import Reach
from penstock.host.join.lookup.source import RelationTable
from penstock.host.lookup.memory import kept_keys, split_of
from penstock.host.lookup.zipf import top_share
from penstock.host.relation.border import Version

from ..api.classify import Table, columns_of
from ..api.table_query import How, TableQuery
from ..around.parts import Joined, Part
from ..expr.node import show
from ..plan.group_query import GroupQuery, lookup_of
from ..plan.lookup import LookupPlan
from ..plan.shown import group_facts
from ..query.options import QueryOptions
from .terminal import count, facts, heading, line


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


#: Exponents of Zipf distributions for which the share of keys in memory is shown.
_EXPONENTS = (0.0, 0.8, 1.0, 1.2)


def show_path(plan: LookupPlan, version: Version) -> None:
    """Print how rows of a relation are found."""
    if plan.sought_keys is None:
        bounds = ", ".join(sorted(Reach(plan, version.index).bounded))
        line("by scanning", f"pages are pruned by {bounds or 'nothing: all pages are read'}")
        return
    names = plan.query.names
    keys = zip(plan.key, plan.sought_keys, strict=True)
    line("by key", ", ".join(f"{column} = {value.text(names)}" for column, value in keys))


def explain_lookup(
    table_query: TableQuery, name: str, relation: RelationTable, memory_bytes: int | None
) -> None:
    """Print layout, path, shares of memory and expected hits of a join with a relation.

    Raises
    ------
    QueryError
        A key column is compared with a value of another type.
    """
    query = table_query.whole
    join = lookup_of(query)
    with closing(relation.open()) as stored:
        plan, version = LookupPlan(join, name, stored.found_by), stored.version(relation.version)
        names = join.names
        heading("query")
        line("stream", f"{plan.outer.alias}, filter {show(plan.outer.filter, names)}")
        line("relation", f"{plan.inner.alias}, filter {show(plan.inner.filter, names)}")
        line("join", f"{join.kind.value.lower()}")
        line("condition", f"{show(join.predicate, names)}")
        if isinstance(query, GroupQuery):
            facts(group_facts(query, names))
        heading("relation")
        order = ", ".join(stored.cluster or stored.key)
        how = "clustered by" if stored.cluster else "by the hash of"
        size = version.bytes / 1e6
        line("version", f"{version.number}, {count(version.rows)} rows")
        line("pages", f"{count(len(version.index))}, {size:.1f} MB, {how} {order}")
        heading("path")
        options = relation.options(memory_bytes, ordered=False, pruning=None)
        width = row_bytes(columns_of(table_query.tables[plan.outer.table]))
        algorithm = None if plan.sought_keys is None else options.algorithm
        split = split_of(version, options.memory_bytes, width, algorithm)
        show_path(plan, version)
        if plan.sought_keys is not None:
            line("algorithm", str(options.algorithm))
        parts = (f"{part} {size / 1e6:.1f} MB" for part, size in vars(split).items() if size)
        line("memory", ", ".join(parts))
        if split.cache:
            kept = kept_keys(version, split.cache)
            shares = "   ".join(
                f"{top_share(kept, version.rows, s):.0%} at exponent {s:g}" for s in _EXPONENTS
            )
            line("hits", f"{shares}, by the Zipf exponent of the stream's keys")
