"""Commands of queries that are more than one join."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from time import monotonic
from typing import Any

import pyarrow as pa

from penstock.host.device.registry import open_device
from penstock.host.execute.trace import Trace
from penstock.host.grouping import GroupedTable, grouped_table
from penstock.host.join.lookup.source import RelationTable, relation_of, without_relations
from penstock.host.join.table.table_join import TableJoin

from ..api.around import Table, run_parts
from ..api.lookups import columns_of, table_with_relation
from ..api.tables import sql
from ..around.parts import Joined, Part
from ..errors import QueryError
from ..plan.group_query import GroupQuery, lookup_of
from ..plan.lookup import LookupPlan
from ..plan.query import JoinQuery
from ..query.compiler import compile_select
from ..query.options import QueryOptions
from ..uses import Entrance
from . import inputs
from .explain_lookup import show_path
from .output import OutputArguments, run, show
from .terminal import count, heading, line, note


def run_in_parts(
    asked: inputs.Asked,
    relations: Mapping[str, RelationTable],
    output: OutputArguments,
    options: Mapping[str, Any],
) -> None:
    """Run a query that is more than one join.

    Parameters
    ----------
    options : mapping of str to value
        Of :func:`penstock.sql`, beside those of the query.
    """
    began = monotonic()
    chosen = asked.options.chosen()
    own = {name: value for name, value in vars(chosen).items() if value not in (None, {})}
    found = sql(asked.query, {**asked.tables(), **relations}, **own, **options)
    first = run(found.to_batches(), found.schema, output, Trace(False))
    seconds = monotonic() - began
    if output.out is None:
        show(first, found.num_rows)
    where = "" if output.out is None else f" -> {output.out}"
    note(f"{count(found.num_rows)} rows{where} in {seconds:.3f} s, run in parts")


def explain_parts(
    asked: inputs.Asked,
    entrance: Entrance,
    relations: Mapping[str, RelationTable],
    explain: Callable[[JoinQuery | GroupQuery, Mapping[str, pa.Table]], None],
    why: QueryError,
) -> None:
    """Print the parts of a query that is more than one join, and how each join of them is run.

    What a part reads is known once those before it have run, so they run.
    """

    def join(text: str, given: Mapping[str, Table], options: QueryOptions) -> pa.Table:
        looked_up = relation_of(given)
        if looked_up is not None:
            _show_lookup(text, given, looked_up, options)
            lookup = looked_up[1].options()
            return table_with_relation(text, given, looked_up, options, "cpu", lookup)
        tables = without_relations(given)
        query = compile_select(text, {n: t.schema for n, t in tables.items()}, options)
        explain(query, tables)
        with open_device("cpu") as device:
            rows: TableJoin | GroupedTable
            if isinstance(query, GroupQuery):
                rows = grouped_table(query, tables[query.source.table])
            else:
                rows = TableJoin(query, tables, device)
            return pa.Table.from_batches(rows, rows.schema)

    tables = {**asked.tables(), **relations}
    chosen = asked.options.chosen(entrance=entrance)
    run_parts(asked.query, tables, chosen, join, why, _show_part)


def _show_part(part: Part, reads: Mapping[str, Table], calls: Mapping[str, str]) -> None:
    """Print which engine runs a part of a query, over what."""
    heading(part.name)
    line("engine", "Penstock" if isinstance(part, Joined) else "DuckDB")
    for name, table in reads.items():
        is_stored = isinstance(table, RelationTable)
        line("looks up" if is_stored else "reads", f"{name}, {_size(table)}")
    line("text", part.text)
    for name, expression in calls.items():
        line(name, expression)


def _size(table: Table) -> str:
    if isinstance(table, RelationTable):
        with closing(table.open()) as stored:
            version = stored.version(table.version)
            return f"version {version.number}, {count(version.rows)} rows"
    return f"{count(table.num_rows)} rows"


def _show_lookup(
    text: str,
    given: Mapping[str, Table],
    looked_up: tuple[str, RelationTable],
    options: QueryOptions,
) -> None:
    """Print how a part of a query finds rows of a relation."""
    name, table = looked_up
    schemas = {one: columns_of(rows) for one, rows in given.items()}
    query = lookup_of(compile_select(text, schemas, options))
    with closing(table.open()) as stored:
        show_path(LookupPlan(query, name, stored.found_by), stored.version(table.version))
