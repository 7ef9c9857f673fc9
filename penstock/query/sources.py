"""Tables and subqueries in FROM, the types of their columns, and expressions of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from ..errors import QueryError, SchemaError
from ..expr import ops
from ..plan.query import LEFT, RIGHT
from ..types import Kind, Type, decimal, from_field, int_of
from ..user_functions import Udf
from ..zones import zone_of
from . import nodes
from .dialect import ROWS, beyond, refused
from .expressions import Lowering
from .options import QueryOptions
from .scope import Scope, Source, select_columns
from .time_rules import TimeRules


def table_of(tree: exp.Table, known: Collection[str]) -> str:
    """The table that an item of FROM reads: the one of its name, or else of its alias.

    Raises
    ------
    QueryError
        There is none.
    """
    for name in (tree.name, tree.alias):
        matches = [one for one in known if one.lower() == name.lower()]
        if len(matches) == 1:
            return matches[0]
    names = ", ".join(known) or "none"
    raise refused(f"unknown table {tree.name}; the tables given are: {names}", tree)


@dataclass
class SourceReader:
    """Reads the tables and subqueries of FROM.

    Parameters
    ----------
    schemas : mapping of table name to Arrow schema
    scales : mapping of (alias or table, column) to decimal digits
    params : mapping of str to value
        Values of names that are not columns.
    functions : mapping of str to function
        Of users.
    rules : TimeRules
    times : mapping of alias or table to its time column
        One without a type, as in a CSV file without rows, takes the type of the other table's.
    used : set of (alias or table, column)
        Scales that a column has taken.
    declared : dict of (side, column) to decimal digits
        What they are for those columns.
    """

    schemas: Mapping[str, pa.Schema]
    scales: Mapping[tuple[str, str], int]
    params: Mapping[str, Any]
    functions: Mapping[str, Udf]
    rules: TimeRules
    times: Mapping[str, str]
    used: set[tuple[str, str]] = field(default_factory=set)
    declared: dict[tuple[str, str], int] = field(default_factory=dict)

    def read(self, tree: exp.Expr, side: str) -> Source:
        if isinstance(tree, exp.Table):
            return self._table(tree, side)
        if isinstance(tree, exp.Subquery):
            return self._subquery(tree, side)
        raise beyond("FROM takes tables and subqueries", tree)

    def lowering(self, scope: Scope) -> Lowering:
        """How expressions over some sources are lowered."""
        return Lowering(scope, self.params, self.functions, self.rules)

    def _table(self, tree: exp.Table, side: str) -> Source:
        nodes.check(tree, nodes.OF_TABLE, "FROM yet")
        alias = tree.alias or tree.name
        table = table_of(tree, self.schemas)
        repeated = [name for name, n in Counter(self.schemas[table].names).items() if n > 1]
        if repeated:
            raise SchemaError(
                f"table {table} has more than one column named {repeated[0]}; rename the others"
            )
        columns = {
            field.name: ops.column(side, field.name, self._type_of(side, (alias, table), field))
            for field in self.schemas[table]
        }
        return Source(alias, table, columns, ops.TRUE, tree.meta.get(ROWS))

    def _type_of(self, side: str, names: tuple[str, str], field: pa.Field) -> Type:
        """The type of a column; one that cannot be computed with is opaque."""
        alias, _ = names
        if pa.types.is_null(field.type) and self._is_time(names, field.name):
            return self._other_time(names, field.name)
        keys = [(name.lower(), field.name.lower()) for name in names]
        scaled = [key for key in keys if key in self.scales]
        if scaled:
            self.used.update(scaled)
            digits = self.scales[scaled[0]]
            if not 0 <= digits <= 18:
                raise QueryError(f"scale of {alias}.{field.name} must be 0 to 18, not {digits}")
            self.declared[side, field.name] = digits
            if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type)):
                raise SchemaError(
                    f"column {alias}.{field.name} has type {field.type}; a fixed-point scale is "
                    "for float columns"
                )
            return decimal(18, digits, nullable=field.nullable)
        try:
            return from_field(field, column=f"{alias}.{field.name}")
        except SchemaError:
            nested = str(field.type) if pa.types.is_nested(field.type) else ""
            return Type(Kind.OTHER, unit=str(field.type), nullable=field.nullable, nested=nested)

    def _is_time(self, names: tuple[str, str], column: str) -> bool:
        return any(
            name.lower() in (names[0].lower(), names[1].lower()) and time.lower() == column.lower()
            for name, time in self.times.items()
        )

    def _other_time(self, names: tuple[str, str], column: str) -> Type:
        """The type of the other time column; a plain integer if that has none, either."""
        for name, other in self.times.items():
            if name.lower() in (names[0].lower(), names[1].lower()):
                continue
            for schema in self.schemas.values():
                index = schema.get_field_index(other)
                if index >= 0 and not pa.types.is_null(schema.field(index).type):
                    return from_field(schema.field(index), column=column).as_nullable(True)
        return int_of(64)

    def _subquery(self, tree: exp.Subquery, side: str) -> Source:
        select = tree.this
        if not isinstance(select, exp.Select) or select.args.get("joins"):
            raise beyond("a subquery in FROM filters and projects one table", tree)
        nodes.check(select, nodes.OF_SELECT, "a subquery in FROM")
        nodes.check(tree, nodes.OF_TABLE, "FROM yet")
        inner_from = select.args.get("from_")
        if inner_from is None:
            raise beyond("a subquery needs FROM", tree)
        inner = self.read(inner_from.this, side)
        if not tree.alias:
            raise beyond("a subquery in FROM needs an alias", tree)
        scope = Scope((inner,))
        lowering = self.lowering(scope)
        where = select.args.get("where")
        condition = ops.TRUE if where is None else lowering.condition(where.this)
        columns = dict(select_columns(select, lowering, scope))
        return replace(
            inner,
            alias=tree.alias,
            columns=columns,
            filter=ops.and_(inner.filter, condition, *lowering.timed()),
            rows=tree.meta.get(ROWS, inner.rows),
        )


def reader_of(schemas: Mapping[str, pa.Schema], options: QueryOptions) -> SourceReader:
    """Make the reader of the items of FROM for a query around joins."""
    rules = TimeRules(zone_of("UTC" if options.time_zone is None else options.time_zone))
    return SourceReader(schemas, {}, options.params or {}, options.functions or {}, rules, {})


class Lowered:
    """The expressions of one or two tables that can be lowered.

    Parameters
    ----------
    schemas : mapping of alias to Schema
        Of the left side, and of the right one if there is one.
    """

    def __init__(self, schemas: Mapping[str, pa.Schema], options: QueryOptions) -> None:
        self._reader = reader_of(schemas, options)
        tables = [exp.Table(this=exp.to_identifier(name, quoted=True)) for name in schemas]
        sides = zip(tables, (LEFT, RIGHT), strict=False)
        scope = Scope(tuple(self._reader.read(table, side) for table, side in sides))
        self._lowering = self._reader.lowering(scope)

    def knows(self, tree: exp.Expr) -> bool:
        """Whether it is a condition or value that can be computed."""
        return self.refusal(tree) is None

    def refusal(self, tree: exp.Expr) -> QueryError | SchemaError | None:
        """Why a condition or value cannot be computed; None if it can."""
        try:
            self._lowering.lower(tree)
        except (QueryError, SchemaError) as error:
            return error
        return None
