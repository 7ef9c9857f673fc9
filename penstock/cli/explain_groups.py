"""``penstock explain`` of groups: their keys, who folds them, and when those of a stream leave."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.host.grouping import grouped_table

from ..errors import QueryError
from ..expr.node import Expr, Op, node, show, transform
from ..expr.tumbling import as_tumbling
from ..plan.closing import Grouped, require_closing, time_key
from ..plan.group_query import GroupQuery
from ..query.overflow import beyond_spark
from .terminal import count, heading, line


def explain_table(query: GroupQuery, table: pa.Table) -> None:
    """Print how one table is grouped."""
    source, names = query.source, query.names
    heading("query")
    origin = f" (table {source.table})" if source.table != source.alias else ""
    line("source", f"{source.alias}{origin}, {count(table.num_rows)} rows")
    if source.time is not None:
        line("  time", show(source.time, names))
    line("  filter", show(source.filter, names))
    if query.time_zone is not None:
        line("time zone", query.time_zone)
    for note in beyond_spark(query):
        line("arithmetic", note)
    show_groups(query, names)
    schema = grouped_table(query, table).schema
    line("output", ", ".join(f"{f.name}: {f.type}" for f in schema))
    heading("devices")
    line("none", "this process folds the rows as they come")


def show_groups(query: Grouped, names: Mapping[str, str]) -> None:
    """Print how groups come about, and when those of a stream leave.

    Parameters
    ----------
    names : mapping of side to str
        What the query calls each side; of a look-up both.
    """
    made = query.aggregation
    assert made is not None
    keys = [_key(_named(query, key), names) for key in made.keys]
    if made.session is not None:
        gap = f"{made.session.gap} {made.keys[made.session.key].type.unit}".rstrip()
        keys[made.session.key] = f"sessions of {keys[made.session.key]} with gaps of {gap} at most"
    by = f"by {', '.join(keys)}" if keys else "one"
    how = "the pairs are grouped on the host"
    if isinstance(query, GroupQuery):
        what = "each row" if query.lookup is None else "each pair that the look-up gives"
        how = f"{what} is folded into its group"
    elif made.side is not None:
        how = f"each row of {names[made.side]} is folded over its matches on the device"
    line("groups", f"{by}; {how}")
    try:
        require_closing(query)
    except QueryError as error:
        line("  in a stream", f"refused: {error}")
        return
    known = time_key(query)
    if made.session is not None:
        line("  in a stream", "leave when no later row can lie within the gap after their last one")
    elif known is not None:
        what = "row" if isinstance(query, GroupQuery) else "pair"
        line("  in a stream", f"leave when no later {what} can have their {keys[known.index]}")


def _named(query: Grouped, expr: Expr) -> Expr:
    """An expression over the tables that the query names, not over what a look-up gives."""
    if not isinstance(query, GroupQuery) or query.lookup is None:
        return expr
    select = dict(query.lookup.select)

    def rule(current: Expr, args: tuple[Expr, ...]) -> Expr:
        if current.op is Op.COLUMN:
            return select[current.attr[1]]
        return node(current.op, args, current.type, current.attr)

    return transform(expr, rule)


def _key(key: Expr, names: Mapping[str, str]) -> str:
    made = as_tumbling(key)
    if made is None:
        return show(key, names)
    unit = f" {made.size.type.unit}" if made.size.type.unit else ""
    return f"window({show(made.time, names)}, {show(made.size, names)}{unit})"
