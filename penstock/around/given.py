"""Checks names of tables and columns that come with a query, and puts in values of parameters."""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from ..errors import QueryError
from ..query.compiler import time_columns
from ..query.constants import param
from ..query.dialect import Penstock
from ..query.options import QueryOptions
from ..query.sources import table_of


def name_tables(tree: exp.Query, known: Collection[str]) -> None:
    """Put the name under which a table is given, perhaps its alias, into the tree itself.

    Raises
    ------
    QueryError
        A table is not given.
    """
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier):
            name, alias = table_of(table, known), table.alias_or_name
            if name.lower() != table.name.lower():
                table.set("this", exp.to_identifier(name, quoted=True))
                table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))


def check_names(tree: exp.Query, schemas: Mapping[str, pa.Schema], options: QueryOptions) -> None:
    """Refuse options of tables or columns that are not there.

    Raises
    ------
    QueryError
    """
    tables: dict[str, pa.Schema | None] = {}
    for table in tree.find_all(exp.Table, exp.Subquery):
        alike = [one for name, one in schemas.items() if name.lower() == table.name.lower()]
        schema = alike[0] if alike and isinstance(table, exp.Table) else None
        tables |= {name.lower(): schema for name in (table.name, table.alias) if name}
    times, _ = time_columns(options.time or {})
    for option, columns_by_name in (("time", times), ("unique", options.unique or {})):
        for name, columns in columns_by_name.items():
            if name.lower() not in tables:
                listed = ", ".join(tables)
                raise QueryError(f"{option} is given for {name}, but the query has {listed}")
            schema = tables[name.lower()]
            known = None if schema is None else {one.lower() for one in schema.names}
            for column in [columns] if isinstance(columns, str) else columns:
                if known is not None and column.lower() not in known:
                    raise QueryError(f"{option}: unknown column {column} in {name}")


#: Nodes, SELECTs, and expressions one in another, of a query in parts, at most. Each node takes
#: some 300 us here and in DuckDB, a SELECT time with their number, and DuckDB refuses 1,000 levels.
_MOST_NODES, _MOST_SELECTS, _MOST_LEVELS = 10_000, 300, 900
#: Values of all IN lists of a query in parts, at most, each of which takes some 300 us, too.
_MOST_VALUES = 10_000


def check_size(tree: exp.Query) -> None:
    """Refuse a query that is so large that splitting it would take more than some seconds.

    Raises
    ------
    QueryError
    """
    levels: dict[int, int] = {}
    values = 0
    for node in tree.walk(bfs=True):
        if isinstance(node.parent, exp.In) and isinstance(node, exp.Literal):
            values += 1
            continue
        above = 0 if isinstance(node, exp.Select) else levels.get(id(node.parent), 0)
        levels[id(node)] = above + (not isinstance(node, exp.Connector | exp.Paren))
    selects = sum(1 for _ in tree.find_all(exp.Select))
    for count, most, noun in (
        (len(levels), _MOST_NODES, "names, values and operators"),
        (values, _MOST_VALUES, "values in IN lists"),
        (selects, _MOST_SELECTS, "SELECTs"),
        (max(levels.values()), _MOST_LEVELS, "operators inside one another"),
    ):
        if count > most:
            raise QueryError(
                f"the query has {count:,} {noun}, more than the {most:,} of a query that is not "
                "one join; compute a part of it before, in a query of its own, or join a table of "
                "the values"
            )


def check_fields(tree: exp.Query, schemas: Mapping[str, pa.Schema]) -> None:
    """Refuse tables with a column, or nested field, whose name DuckDB cannot have.

    Raises
    ------
    QueryError
    """
    read = {table.name.lower() for table in tree.find_all(exp.Table)}
    for table, schema in schemas.items():
        for name in _names(schema) if table.lower() in read else ():
            if not name or "\0" in name:
                raise QueryError(
                    f"{table} has a column, or a field of one, named {name!r}; rename it, since "
                    "DuckDB, which computes a part of the query, has no such names"
                )


def _names(fields: pa.Schema | pa.DataType) -> Iterator[str]:
    """Yield the names of columns, and of the fields in them."""
    for field in fields:
        yield field.name
        nested = [field.type]
        while nested:
            one = nested.pop()
            if pa.types.is_struct(one):
                yield from _names(one)
            else:
                nested += [one.field(k).type for k in range(one.num_fields)]


def with_values(
    tree: exp.Query, schemas: Mapping[str, pa.Schema], params: Mapping[str, Any]
) -> exp.Query:
    """Put values in the place of parameters, in a copy."""
    if not params:
        return tree
    columns = {name.lower() for schema in schemas.values() for name in schema.names}
    columns |= {one.alias.lower() for one in tree.find_all(exp.Alias)}
    tree = tree.copy()
    for one in list(tree.find_all(exp.Column, exp.Placeholder)):
        is_sign = isinstance(one, exp.Placeholder)
        name = str(one.this) if is_sign else one.name
        if name in params and (is_sign or not (one.table or name.lower() in columns)):
            param(name, params[name])  # says what a value may be
            one.replace(_literal(params[name]))
    return tree


def _literal(value: Any) -> exp.Expr:
    """Write a value as SQL, where :func:`param` makes a constant of it."""
    if isinstance(value, datetime.datetime):
        kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
        return exp.cast(exp.Literal.string(value.isoformat(" ")), kind, dialect=Penstock)
    if isinstance(value, datetime.timedelta):
        micros = exp.Literal.string(value // datetime.timedelta(microseconds=1))
        return exp.Interval(this=micros, unit=exp.Var(this="MICROSECOND"))
    if isinstance(value, float) and not math.isfinite(value):  # NaN is NULL for sqlglot
        return exp.cast(exp.Literal.string(str(value)), "DOUBLE", dialect=Penstock)
    return exp.convert(value + 0.0 if isinstance(value, float) else value)  # -0.0 is 0.0
