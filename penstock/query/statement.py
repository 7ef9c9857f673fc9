"""The structure of a SELECT: its sources, conditions and output columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.errors import QueryError, SchemaError
from penstock.expr import build
from penstock.expr.node import Expr
from penstock.query.aggregates import is_aggregate, read_aggregation
from penstock.query.dialect import ROWS, place
from penstock.query.expressions import Lowering
from penstock.query.nulls import supplied_or_null
from penstock.query.output import check_output
from penstock.query.plan import LEFT, RIGHT, Aggregation, JoinKind
from penstock.query.scope import Scope, Source
from penstock.query.session import Session
from penstock.types import Kind, Type, decimal, from_arrow, int_of

#: Parts of a SELECT and of an item of FROM that are read; any other is an error.
_READ = frozenset({"expressions", "from_", "joins", "where", "hint", "kind"})
#: Parts that the outermost SELECT may have beside them.
_READ_OF_GROUPS = frozenset({"group", "having", "distinct"})
_READ_OF_TABLE = frozenset({"this", "alias", "db", "catalog"})
_READ_OF_JOIN = frozenset({"this", "on", "method", "side", "kind", "using"})
#: What may stand before JOIN.
_KINDS = {
    "": JoinKind.INNER,
    "INNER": JoinKind.INNER,
    "CROSS": JoinKind.INNER,
    "LEFT": JoinKind.LEFT,
    "LEFT OUTER": JoinKind.LEFT,
    "RIGHT": JoinKind.RIGHT,
    "RIGHT OUTER": JoinKind.RIGHT,
    "FULL": JoinKind.FULL,
    "FULL OUTER": JoinKind.FULL,
    "SEMI": JoinKind.SEMI,
    "LEFT SEMI": JoinKind.SEMI,
    "ANTI": JoinKind.ANTI,
    "LEFT ANTI": JoinKind.ANTI,
}
#: Parser's names of clauses whose SQL reads otherwise.
_WORDS = {
    "group": "GROUP BY",
    "order": "ORDER BY",
    "windows": "WINDOW",
    "with_": "WITH",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "laterals": "LATERAL VIEW",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "locks": "FOR UPDATE",
}


@dataclass(frozen=True)
class Statement:
    """A SELECT over two sources, names resolved, nothing decided about windows yet."""

    sources: tuple[Source, Source]
    kind: JoinKind
    scope: Scope
    condition: tuple[Expr, ...]
    where: tuple[Expr, ...]
    select: tuple[tuple[str, Expr], ...]
    scales: tuple[tuple[tuple[str, str], int], ...]
    aggregation: Aggregation | None


def read_statement(
    tree: exp.Expr,
    schemas: Mapping[str, pa.Schema],
    scales: Mapping[tuple[str, str], int],
    units: Mapping[tuple[str, str], str],
    params: Mapping[str, Any],
    session: Session,
    times: Mapping[str, str] | None = None,
) -> Statement:
    """Resolve a syntax tree against table schemas.

    Parameters
    ----------
    tree : sqlglot Expression
    schemas : mapping of table name to Arrow schema
    scales, units : mapping of (alias or table, column) to decimal digits, or to a time unit
    params : mapping of str to value
        Values of names that are not columns.
    session : Session
    times : mapping of alias or table to column, optional
        Event-time columns. One of no type, as in a CSV file without rows, has that of the other
        table's.

    Raises
    ------
    QueryError, SchemaError
    """
    if not isinstance(tree, exp.Select):
        raise QueryError(f"a SELECT is needed, not {type(tree).__name__.upper()} ({place(tree)})")
    _check_parts(tree, _READ | _READ_OF_GROUPS)
    first, second, kind = _two_tables(tree)
    reader = _SourceReader(schemas, scales, params, session, times or {})
    left = reader.read(first, LEFT)
    right = reader.read(second, RIGHT)
    if left.alias.lower() == right.alias.lower():
        raise QueryError(
            f"both inputs are named {left.alias}; give each an alias ({place(second)})"
        )
    for table, name in scales.keys() - reader.used:
        raise QueryError(f"scale is given for {table}.{name}, which is no column of a base table")
    plain = Scope((left, right))
    scope = Scope((left, right), _unit_columns(plain, units))
    visible = _after_join(scope, kind)
    lowering, after = Lowering(scope, params, session), Lowering(visible, params, session)
    conditions: list[Expr] = []
    for join in tree.args.get("joins") or ():
        on = join.args.get("on")
        if on is not None:
            conditions.append(lowering.condition(on))
    where = tree.args.get("where")
    wheres = [] if where is None else [after.condition(where.this)]
    groups = is_aggregate(tree)
    if groups and kind is not JoinKind.INNER:
        raise QueryError(
            f"aggregates over a {kind.value} JOIN are not supported; use INNER JOIN, or aggregate "
            f"the rows that the join gives ({place(tree)})"
        )
    return Statement(
        (left, right),
        kind,
        scope,
        tuple(conditions),
        tuple(wheres),
        () if groups else _select(tree, after, visible),
        tuple(sorted(reader.declared.items())),
        read_aggregation(tree, lowering) if groups else None,
    )


def _after_join(scope: Scope, kind: JoinKind) -> Scope:
    """The sources as WHERE and SELECT see them."""
    if kind.is_existence:
        return replace(scope, sources=scope.sources[:1])

    sources = [
        replace(
            source,
            columns={
                name: supplied_or_null(column, side) for name, column in source.columns.items()
            },
        )
        if side in kind.null_supplying
        else source
        for side, source in zip((LEFT, RIGHT), scope.sources, strict=True)
    ]
    return replace(scope, sources=tuple(sources))


def _unit_columns(scope: Scope, units: Mapping[tuple[str, str], str]) -> dict[Expr, str]:
    found = {}
    for (table, name), unit in units.items():
        column = scope.find(table, name)
        if column is not None:
            found[column] = unit
    return found


def _check_parts(tree: exp.Expr, read: frozenset[str], within: str = "a join query yet") -> None:
    """Refuse parts that would be ignored."""
    for key, part in tree.args.items():
        if part and key not in read:
            node = part[0] if isinstance(part, list) else part
            words = _WORDS.get(key, key.upper().replace("_", " "))
            where = place(node if isinstance(node, exp.Expr) else tree)
            raise QueryError(f"{words} is not supported in {within} ({where})")


def _two_tables(tree: exp.Select) -> tuple[exp.Expr, exp.Expr, JoinKind]:
    source = tree.args.get("from_")
    joins = tree.args.get("joins") or []
    if source is None or len(joins) != 1:
        count = 0 if source is None else 1 + len(joins)
        third = joins[1] if count > 2 else tree
        raise QueryError(
            f"a join of exactly two tables is needed; the query has {count} ({place(third)})"
        )
    join = joins[0]
    words = " ".join(str(join.args.get(k) or "") for k in ("method", "side", "kind")).split()
    name = " ".join(words).upper()
    if name not in _KINDS:
        raise QueryError(
            f"{name} JOIN is not supported; use INNER, LEFT, RIGHT, FULL, LEFT SEMI or LEFT ANTI "
            f"({place(join)})"
        )
    if join.args.get("using"):
        raise QueryError(f"USING is not supported; write the condition in ON ({place(join)})")
    _check_parts(join, _READ_OF_JOIN)
    return source.this, join.this, _KINDS[name]


class _SourceReader:
    def __init__(
        self,
        schemas: Mapping[str, pa.Schema],
        scales: Mapping[tuple[str, str], int],
        params: Mapping[str, Any],
        session: Session,
        times: Mapping[str, str],
    ) -> None:
        self.schemas = schemas
        self.session = session
        self.times = times
        self.scales = scales
        self.params = params
        self.used: set[tuple[str, str]] = set()
        self.declared: dict[tuple[str, str], int] = {}

    def read(self, tree: exp.Expr, side: str) -> Source:
        if isinstance(tree, exp.Table):
            return self.table(tree, side)
        if isinstance(tree, exp.Subquery):
            return self.subquery(tree, side)
        raise QueryError(f"FROM takes tables and subqueries ({place(tree)})")

    def table(self, tree: exp.Table, side: str) -> Source:
        _check_parts(tree, _READ_OF_TABLE)
        name = tree.name
        alias = tree.alias or name
        found = [t for t in self.schemas if t.lower() in (name.lower(), alias.lower())]
        exact = [t for t in found if t.lower() == name.lower()] or found
        if len(exact) != 1:
            known = ", ".join(self.schemas) or "none"
            raise QueryError(f"unknown table {name}; the tables given are: {known} ({place(tree)})")
        table = exact[0]
        repeated = [name for name, n in Counter(self.schemas[table].names).items() if n > 1]
        if repeated:
            raise SchemaError(
                f"table {table} has more than one column named {repeated[0]}; rename the others"
            )
        columns = {
            field.name: build.column(side, field.name, self.type_of(side, (alias, table), field))
            for field in self.schemas[table]
        }
        return Source(alias, table, columns, build.TRUE, tree.meta.get(ROWS))

    def type_of(self, side: str, names: tuple[str, str], field: pa.Field) -> Type:
        """Declared type; columns of kinds that cannot be computed with become opaque."""
        alias, _ = names
        if pa.types.is_null(field.type) and self._is_time(names, field.name):
            return self._other_time(names, field.name)
        keys = [(name.lower(), field.name.lower()) for name in names]
        found = [key for key in keys if key in self.scales]
        if found:
            self.used.update(found)
            digits = self.scales[found[0]]
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
            return from_arrow(field.type, column=f"{alias}.{field.name}", nullable=field.nullable)
        except SchemaError:
            return Type(Kind.OTHER, nullable=field.nullable)

    def _is_time(self, names: tuple[str, str], column: str) -> bool:
        return any(
            name.lower() in (names[0].lower(), names[1].lower()) and own.lower() == column.lower()
            for name, own in self.times.items()
        )

    def _other_time(self, names: tuple[str, str], column: str) -> Type:
        """Type of the other time column; a plain integer if that has none, either."""
        for name, other in self.times.items():
            if name.lower() in (names[0].lower(), names[1].lower()):
                continue
            for schema in self.schemas.values():
                index = schema.get_field_index(other)
                if index >= 0 and not pa.types.is_null(schema.field(index).type):
                    return from_arrow(schema.field(index).type, column=column)
        return int_of(64)

    def subquery(self, tree: exp.Subquery, side: str) -> Source:
        select = tree.this
        if not isinstance(select, exp.Select) or select.args.get("joins"):
            raise QueryError(f"a subquery in FROM filters and projects one table ({place(tree)})")
        _check_parts(select, _READ, "a subquery in FROM")
        _check_parts(tree, _READ_OF_TABLE)
        inner_from = select.args.get("from_")
        if inner_from is None:
            raise QueryError(f"a subquery needs FROM ({place(tree)})")
        inner = self.read(inner_from.this, side)
        if not tree.alias:
            raise QueryError(f"a subquery in FROM needs an alias ({place(tree)})")
        scope = Scope((inner,))
        lowering = Lowering(scope, self.params, self.session)
        where = select.args.get("where")
        condition = build.TRUE if where is None else lowering.condition(where.this)
        columns = dict(_select(select, lowering, scope))
        return replace(
            inner,
            alias=tree.alias,
            columns=columns,
            filter=build.and_(inner.filter, condition),
            rows=tree.meta.get(ROWS, inner.rows),
        )


def _select(tree: exp.Select, lowering: Lowering, scope: Scope) -> tuple[tuple[str, Expr], ...]:
    out: list[tuple[str, Expr]] = []
    for item in tree.expressions:
        star_of = _star(item)
        if star_of is not None:
            out += _expand(star_of, scope, item)
            continue
        value = item.this if isinstance(item, exp.Alias) else item
        name = item.alias or (value.name if isinstance(value, exp.Column) else value.sql("spark"))
        if isinstance(value, exp.AggFunc):
            raise QueryError(f"aggregates are not supported in a subquery in FROM ({place(item)})")
        lower = lowering.column if isinstance(value, exp.Column) else lowering.lower
        out.append((name, lower(value)))
    check_output(out, tree)
    return tuple(out)


def _star(item: exp.Expr) -> str | None:
    """The table of ``table.*``, "" for ``*``, None for anything else."""
    if isinstance(item, exp.Star):
        if any(item.args.values()):
            raise QueryError(f"* takes no EXCEPT or REPLACE; list the columns ({place(item)})")
        return ""
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        return item.table
    return None


def _expand(table: str, scope: Scope, item: exp.Expr) -> list[tuple[str, Expr]]:
    """Columns of ``*``; a name that both sides have gets the alias in front."""
    sources: Sequence[Source] = scope.sources
    if table:
        source = scope.source(table)
        if source is None:
            raise QueryError(f"{scope.unknown(table, '*')} ({place(item)})")
        sources = (source,)
    seen = Counter(c.lower() for s in sources for c in s.columns)
    return [
        (name if seen[name.lower()] == 1 else f"{s.alias}_{name}", column)
        for s in sources
        for name, column in s.columns.items()
    ]
