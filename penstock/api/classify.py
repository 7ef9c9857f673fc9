"""Classify a query by its text: one join, groups of one table, a look-up, or several parts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from penstock.host.emit.open_delivery import joined_schema
from penstock.host.join.lookup.relation_source import RelationTable, relation_of
from penstock.host.state import GroupState

from ..errors import BeyondError
from ..plan.group_query import GroupQuery, lookup_of
from ..plan.lookup import require_complete
from ..plan.query import JoinQuery
from ..query.compiler import compile_select, one_or_beyond
from ..query.options import QueryOptions
from ..types import marked
from .received import TableFiles

#: A table, or a relation in its place.
Table = pa.Table | TableFiles | RelationTable
#: Columns of a table, or a relation in its place.
Columns = pa.Schema | RelationTable


def columns_of(table: Table | Columns) -> pa.Schema:
    """Columns of a table, or of the relation or schema in its place.

    Raises
    ------
    FileError
        The relation or file cannot be opened.
    """
    if isinstance(table, RelationTable):
        with closing(table.open()) as stored:
            return stored.schema
    return table.schema if isinstance(table, pa.Table | TableFiles) else table


def classify(
    text: str,
    schemas: Mapping[str, pa.Schema],
    options: QueryOptions,
    relations: Mapping[str, RelationTable],
    *,
    ends: bool = True,
) -> JoinQuery | GroupQuery | BeyondError:
    """Say which kind of query a text is.

    Parameters
    ----------
    schemas : mapping of table to Schema
        With the columns of relations.
    relations : mapping of table to RelationTable
    ends : bool
        Whether the inputs end: they are tables, not streams.

    Raises
    ------
    QueryError
        The query is wrong, whatever kind it is.
    SchemaError
        A column has a type that cannot be used as the query does.
    """

    def compiled() -> JoinQuery | GroupQuery:
        relation = relation_of(relations)
        chosen = options if relation is None else replace(options, relation=relation[0])
        return one_query(text, schemas, chosen, ends=ends)

    return one_or_beyond(compiled)


def one_query(
    text: str, schemas: Mapping[str, pa.Schema], options: QueryOptions, *, ends: bool = True
) -> JoinQuery | GroupQuery:
    """Compile one join, or groups of one table, all of whose output Penstock computes.

    Parameters
    ----------
    schemas : mapping of table to Schema
        With the columns of the relation that ``options`` name, if any.
    ends : bool
        Whether the inputs end: they are tables, not streams.

    Raises
    ------
    BeyondError
        The query is more than that, or has groups of which a stream never knows that they are
        complete.
    QueryError, SchemaError
        As for :func:`classify`.
    """
    query = compile_select(text, schemas, options)
    if query.aggregation is not None:
        output_schema(query, schemas)
    if isinstance(query, JoinQuery) and query.nearest is not None and not ends:
        raise BeyondError("the nearest rows of a stream are ranked once its window has closed")
    if not ends:
        require_complete(query, options.relation)
    return query


def output_schema(query: JoinQuery | GroupQuery, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """Schema of a query's output rows, given the schemas of its tables; see :func:`marked`.

    Raises
    ------
    QueryError
        No type holds an aggregate.
    """
    if isinstance(query, GroupQuery) and query.lookup is None:
        pairs = schemas[query.source.table]
    else:
        join = lookup_of(query)
        pairs = joined_schema(join, {side.side: schemas[side.table] for side in join.sides})
    schema = GroupState(query, pairs).schema if isinstance(query, GroupQuery) else pairs
    values = query.select if query.aggregation is None else query.aggregation.select
    items = zip(schema, values, strict=True)
    return pa.schema([marked(field, value.type) for field, (_, value) in items])
