"""Queries of a table, or a stream, and a relation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.host.device.base import Device, device_list
from penstock.host.device.registry import open_device
from penstock.host.emit.tables import joined_schema
from penstock.host.grouping import GroupStream, grouped_table
from penstock.host.join.lookup.base import LookupOptions
from penstock.host.join.lookup.opening import open_lookup
from penstock.host.join.lookup.source import (
    RelationTable,
    lookup_table,
    relations_of,
    without_relations,
)
from penstock.host.join.lookup.stream import LookupStream
from penstock.host.join.stream import Flow, Span
from penstock.host.relation.border import Relation
from penstock.host.relational.steps import LookedUp
from penstock.host.state import GroupState

from ..plan.group_query import GroupQuery
from ..plan.lookup import LookupPlan
from ..query.compiler import compile_select
from ..query.options import QueryOptions
from .given import TableLike, as_table, using


def columns_of(table: pa.Table | pa.Schema | RelationTable) -> pa.Schema:
    """The columns of a table, whatever stands for it.

    Raises
    ------
    FileError
        It is a relation that cannot be opened.
    """
    if isinstance(table, RelationTable):
        with closing(table.open()) as stored:
            return stored.schema
    return table.schema if isinstance(table, pa.Table) else table


def schema_with_relation(
    query: str,
    schemas: Mapping[str, pa.Schema],
    looked_up: tuple[str, RelationTable],
    options: QueryOptions,
) -> pa.Schema:
    """Columns of what :func:`table_with_relation` gives of tables with these columns."""
    name, given = looked_up
    with closing(given.open()) as stored:
        compiled, plan = _plan(query, schemas, name, stored, options)
        sides = {plan.outer.side: schemas[plan.outer.table], plan.inner.side: stored.schema}
    schema = joined_schema(plan.query, sides)
    return schema if compiled is None else GroupState(compiled, schema).schema


def table_with_relation(
    query: str,
    tables: Mapping[str, TableLike],
    looked_up: tuple[str, RelationTable],
    options: QueryOptions,
    device: str | Device | Sequence[Device],
    lookup: LookupOptions,
) -> pa.Table:
    """Join a table with a relation, or group what its rows look up.

    Parameters
    ----------
    looked_up : (str, RelationTable)
        The relation among the tables, and its name in the query.

    Raises
    ------
    PenstockError
        As for :func:`penstock.sql`.
    """
    name, given = looked_up
    loaded = {one: as_table(one, table) for one, table in tables.items() if one != name}
    schemas = {one: table.schema for one, table in loaded.items()}
    with closing(given.open()) as stored, using(device) as opened:
        compiled, plan = _plan(query, schemas, name, stored, options)
        if compiled is None:
            return lookup_table(plan, loaded, stored, device_list(opened), lookup)
        table, once = loaded[plan.outer.table], replace(lookup, refresh=False, ordered=True)
        join = open_lookup(plan, table.schema, stored, device_list(opened), once)
        groups = grouped_table(compiled, table, join)
        return pa.Table.from_batches(groups, groups.schema)


def stream_with_relation(
    query: str,
    schemas: Mapping[str, Any],
    looked_up: tuple[str, RelationTable],
    options: QueryOptions,
    device: str | Device | Sequence[Device],
    flow: Flow,
    disorder: Span | Mapping[str, Span],
    trace: bool,
) -> LookupStream | GroupStream:
    """Open a running join with a relation, or groups of what a stream looks up.

    Parameters
    ----------
    looked_up : (str, RelationTable)
        The relation among the schemas, and its name in the query.

    Raises
    ------
    PenstockError
        As for :func:`penstock.stream`.
    """
    name, given = looked_up
    own = {one: schema for one, schema in schemas.items() if one != name}
    lookup = given.options(
        flow.memory_bytes, ordered=flow.running.ordered, pruning=flow.running.sizes
    )
    with ExitStack() as opened:  # the stream closes it all, once there is one
        stored = opened.enter_context(closing(given.open()))
        compiled, plan = _plan(query, own, name, stored, options)
        is_named = isinstance(device, str)
        devices = device_list(opened.enter_context(open_device(device)) if is_named else device)
        schema = own[plan.outer.table]
        if compiled is None:
            made = LookupStream(plan, schema, stored, devices, lookup, flow, close_device=is_named)
            opened.pop_all()
            return made
        join = open_lookup(plan, schema, stored, devices, replace(lookup, ordered=True))
        owned = ExitStack()
        groups = GroupStream(
            compiled,
            schema,
            disorder=disorder,
            flow=flow,
            trace=trace,
            lookup=join,
            owned=[owned.close],
        )
        owned.push(opened.pop_all())
        return groups


def look_up(
    query: str,
    given: Mapping[str, pa.Schema | RelationTable],
    options: QueryOptions,
    device: str | Device | Sequence[Device],
    flow: Flow,
) -> LookedUp:
    """Open a join of the rows of another part of a query with a relation.

    Parameters
    ----------
    given : mapping of name to Schema or RelationTable
        Columns of these rows, and the relation.
    options : QueryOptions
        With the relation's name.
    device, flow
        As for :func:`stream_with_relation`.

    Raises
    ------
    PenstockError
        As for :func:`penstock.stream`.
    """
    ((name, relation),) = relations_of(given).items()
    schemas = without_relations(given)
    lookup = relation.options(flow.memory_bytes, ordered=True, pruning=flow.running.sizes)
    with ExitStack() as opened:  # the step closes it all, once there is one
        stored = opened.enter_context(closing(relation.open()))
        _, plan = _plan(query, schemas, name, stored, options)
        plan.require_per_row()
        devices = device_list(opened.enter_context(using(device)))
        schema = schemas[plan.outer.table]
        owned = ExitStack()
        step = LookedUp(partial(open_lookup, plan, schema, stored, devices, lookup), owned.close)
        owned.push(opened.pop_all())
        return step


def _plan(
    query: str,
    schemas: Mapping[str, pa.Schema],
    name: str,
    stored: Relation,
    options: QueryOptions,
) -> tuple[GroupQuery | None, LookupPlan]:
    """Compile a query of a table, or a stream, and the relation of this name.

    Groups of looked-up pairs are a query of their own, above the look-up.
    """
    options = replace(options, relation=name)
    compiled = compile_select(query, {**schemas, name: stored.schema}, options)
    if not isinstance(compiled, GroupQuery):
        return None, LookupPlan(compiled, name, stored.found_by)
    assert compiled.lookup is not None
    return compiled, LookupPlan(compiled.lookup, name, stored.found_by)
