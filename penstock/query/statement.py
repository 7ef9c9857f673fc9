"""Read a SELECT: its sources, conditions and output columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from ..errors import QueryError
from ..expr.node import Expr
from ..plan.query import LEFT, RIGHT, Aggregation, JoinKind
from . import clauses
from .dialect import refused
from .groups import has_groups, read_aggregation
from .nulls import supplied_or_null
from .output import select_columns
from .scope import Scope, Source
from .sources import SourceReader

#: Words before JOIN.
_KINDS = {
    **{kind.value: kind for kind in JoinKind},
    "": JoinKind.INNER,
    "CROSS": JoinKind.INNER,
    "LEFT": JoinKind.LEFT,
    "RIGHT": JoinKind.RIGHT,
    "FULL": JoinKind.FULL,
    "SEMI": JoinKind.SEMI,
    "ANTI": JoinKind.ANTI,
}


@dataclass(frozen=True)
class Statement:
    """A SELECT over two sources with names resolved; its window is not known yet."""

    sources: tuple[Source, Source]
    kind: JoinKind
    scope: Scope
    condition: tuple[Expr, ...]
    where: tuple[Expr, ...]
    select: tuple[tuple[str, Expr], ...]
    scales: tuple[tuple[tuple[str, str], int], ...]
    aggregation: Aggregation | None


def read_statement(
    tree: exp.Expr, reader: SourceReader, units: Mapping[tuple[str, str], str]
) -> Statement:
    """Resolve a syntax tree against table schemas.

    ``units`` are those of integer time columns, by alias or table and column.

    Raises
    ------
    QueryError, SchemaError
    """
    if not isinstance(tree, exp.Select):
        raise refused(f"a SELECT is needed, not {type(tree).__name__.upper()}", tree)
    clauses.check(tree, clauses.OF_SELECT | clauses.GROUPING)
    first, second, kind = _two_tables(tree)
    left = reader.read(first, LEFT)
    right = reader.read(second, RIGHT)
    if left.alias.lower() == right.alias.lower():
        raise refused(f"both inputs are named {left.alias}; give each an alias", second)
    for table, name in reader.scales.keys() - reader.used:
        raise QueryError(f"scale is given for {table}.{name}, which is no column of a base table")
    plain = Scope((left, right))
    scope = Scope((left, right), _unit_columns(plain, units))
    visible = _after_join(scope, kind)
    lowering, after = reader.lowering(scope), reader.lowering(visible)
    on, where = tree.args["joins"][0].args.get("on"), tree.args.get("where")
    conditions = () if on is None else (lowering.condition(on),)
    wheres = () if where is None else (after.condition(where.this),)
    groups = has_groups(tree)
    if groups and kind is not JoinKind.INNER:
        raise refused(
            f"aggregates over a {kind.value} JOIN are not supported; use INNER JOIN, or aggregate "
            "the rows that the join gives",
            tree,
        )
    return Statement(
        (left, right),
        kind,
        scope,
        conditions,
        wheres,
        () if groups else select_columns(tree, after, visible),
        tuple(sorted(reader.declared.items())),
        read_aggregation(tree, lowering) if groups else None,
    )


def _after_join(scope: Scope, kind: JoinKind) -> Scope:
    """The sources as WHERE and SELECT see them."""
    if kind.is_existence:
        return replace(scope, sources=scope.sources[:1])
    sources = []
    for side, source in zip((LEFT, RIGHT), scope.sources, strict=True):
        columns = source.columns
        if side in kind.null_supplying:
            columns = {name: supplied_or_null(c, side) for name, c in columns.items()}
        sources.append(replace(source, columns=columns))
    return replace(scope, sources=tuple(sources))


def _unit_columns(scope: Scope, units: Mapping[tuple[str, str], str]) -> dict[Expr, str]:
    found = ((scope.find(*name), unit) for name, unit in units.items())
    return {column: unit for column, unit in found if column is not None}


def _two_tables(tree: exp.Select) -> tuple[exp.Expr, exp.Expr, JoinKind]:
    source = tree.args.get("from_")
    joins = tree.args.get("joins") or []
    if source is None or len(joins) != 1:
        count = 0 if source is None else 1 + len(joins)
        third = joins[1] if count > 2 else tree
        raise refused(f"a join of exactly two tables is needed; the query has {count}", third)
    join = joins[0]
    words = " ".join(str(join.args.get(k) or "") for k in ("method", "side", "kind")).split()
    name = " ".join(words).upper()
    if name not in _KINDS:
        raise refused(
            f"{name} JOIN is not supported; use INNER, LEFT, RIGHT, FULL, LEFT SEMI or LEFT ANTI",
            join,
        )
    if join.args.get("using"):
        raise refused("USING is not supported; write the condition in ON", join)
    clauses.check(join, clauses.OF_JOIN)
    return source.this, join.this, _KINDS[name]
