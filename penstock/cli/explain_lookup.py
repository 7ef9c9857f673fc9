"""``penstock explain`` of a query with a relation: how its rows are found, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from penstock.host.join.lookup.base import row_bytes
from penstock.host.join.lookup.reach import Reach
from penstock.host.join.lookup.source import RelationTable
from penstock.host.lookup.memory import kept_keys, split_of
from penstock.host.lookup.zipf import top_share
from penstock.host.relation.border import Version

from ..expr.node import show
from ..plan.group_query import GroupQuery, lookup_of
from ..plan.lookup import LookupPlan
from ..uses import Entrance
from .explain_groups import show_groups
from .inputs import Asked
from .lookup import one_of
from .terminal import count, heading, line

#: Exponents of Zipf distributions for which the share of keys in memory is shown.
_EXPONENTS = (0.0, 0.8, 1.0, 1.2)


def show_path(plan: LookupPlan, version: Version) -> None:
    """Print how rows of a relation are found."""
    if plan.sought_keys is None:
        bounds = ", ".join(sorted(Reach(plan, version.index).bounded))
        line("by scanning", f"pages are pruned by {bounds or 'nothing: all pages are read'}")
        return
    names = plan.query.names
    found = zip(plan.key, plan.sought_keys, strict=True)
    line("by key", ", ".join(f"{column} = {sought.text(names)}" for column, sought in found))


def explain_lookup(
    asked: Asked,
    entrance: Entrance,
    relations: Mapping[str, RelationTable],
    memory_bytes: int | None,
) -> None:
    """Print layout, path, shares of memory and expected hits.

    Raises
    ------
    QueryError
        The query is more than a join with a relation.
    """
    name, relation = one_of(relations)
    with closing(relation.open()) as stored:
        query = asked.compiled(entrance, {name: stored.schema}, relation=name)
        found = lookup_of(query.query)
        plan, version = LookupPlan(found, name, stored.found_by), stored.version(relation.version)
        names = found.names
        heading("query")
        line("stream", f"{plan.outer.alias}, filter {show(plan.outer.filter, names)}")
        line("relation", f"{plan.inner.alias}, filter {show(plan.inner.filter, names)}")
        line("join", f"{found.kind.value.lower()}")
        line("condition", f"{show(found.predicate, names)}")
        if isinstance(query.query, GroupQuery):
            show_groups(query.query, names)
        heading("relation")
        order = ", ".join(stored.cluster or stored.key)
        how = "clustered by" if stored.cluster else "by the hash of"
        size = version.bytes / 1e6
        line("version", f"{version.number}, {count(version.rows)} rows")
        line("pages", f"{count(len(version.index))}, {size:.1f} MB, {how} {order}")
        heading("path")
        options = relation.options(memory_bytes, ordered=False, pruning=None)
        width = row_bytes(query.files.source(plan.outer.table).schema)
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
