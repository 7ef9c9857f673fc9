"""``penstock explain`` of a query with a relation: how its rows are found, and their cost."""

from __future__ import annotations

from contextlib import closing

from penstock.host.join.lookup.base import row_bytes
from penstock.host.join.lookup.reach import Reach
from penstock.host.join.lookup.source import RelationTable
from penstock.host.lookup.memory import kept_keys, split_of
from penstock.host.lookup.zipf import top_share
from penstock.host.relation.border import Version

from ..api.classify import columns_of
from ..api.table_query import TableQuery
from ..expr.node import show
from ..plan.group_query import GroupQuery, lookup_of
from ..plan.lookup import LookupPlan
from ..plan.shown import group_facts
from .terminal import count, facts, heading, line

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
