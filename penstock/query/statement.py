"""Read a SELECT: its sources, conditions and output columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from ..errors import QueryError
from ..expr.node import Expr
from ..expr.tumbling import Tumbling
from ..plan.query import LEFT, RIGHT, Aggregation, JoinKind
from . import clauses
from .dialect import refused
from .groups import check_joined, has_groups, read_aggregation
from .nulls import supplied_or_null
from .output import select_columns
from .scope import Scope, Source
from .session_join import SessionCalls, split_sessions
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
    """A SELECT over one source or two with names resolved; its join window is not known yet."""

    sources: tuple[Source, ...]
    kind: JoinKind
    scope: Scope
    condition: tuple[Expr, ...]
    where: tuple[Expr, ...]
    select: tuple[tuple[str, Expr], ...]
    scales: tuple[tuple[tuple[str, str], int], ...]
    aggregation: Aggregation | None
    #: Each ``window(...)`` in a key of GROUP BY.
    windows: tuple[Tumbling, ...] = ()
    #: ``session_window(...) = session_window(...)`` of the join condition.
    sessions: SessionCalls | None = None


def read_statement(
    tree: exp.Expr,
    reader: SourceReader,
    units: Mapping[tuple[str, str], str],
    *,
    looks_up: bool = False,
) -> Statement:
    """Resolve a syntax tree against table schemas.

    Parameters
    ----------
    units : mapping of (alias or table, column) to unit
        Of integer time columns.
    looks_up : bool
        Whether one of two tables is a relation: then groups are of whatever the look-up gives.

    Raises
    ------
    QueryError, SchemaError
    """
    if not isinstance(tree, exp.Select):
        raise refused(f"a SELECT is needed, not {type(tree).__name__.upper()}", tree)
    what = "a join query yet" if tree.args.get("joins") else "a query over one table yet"
    clauses.check(tree, clauses.OF_SELECT | clauses.GROUPING, what)
    trees, kind = _tables(tree)
    groups = has_groups(tree)
    if len(trees) == 1 and not groups:
        raise refused(
            "a query over one table gives groups, and this one has none: add GROUP BY, DISTINCT or "
            "an aggregate, join a second table, or select and filter rows in the library that the "
            "table comes from",
            tree,
        )
    sources = tuple(reader.read(own, side) for own, side in zip(trees, (LEFT, RIGHT), strict=False))
    if len({source.alias.lower() for source in sources}) < len(sources):
        raise refused(f"both inputs are named {sources[0].alias}; give each an alias", trees[-1])
    for table, name in reader.scales.keys() - reader.used:
        raise QueryError(f"scale is given for {table}.{name}, which is no column of a base table")
    scope = Scope(sources, _unit_columns(Scope(sources), units))
    visible = _after_join(scope, kind)
    lowering, after = reader.lowering(scope), reader.lowering(visible)
    joins, where = tree.args.get("joins") or [], tree.args.get("where")
    on = joins[0].args.get("on") if joins else None
    ons, sessions = ([], None) if on is None else split_sessions(on, lowering)
    filters, others = [] if where is None else [where.this], None
    if joins and sessions is None and filters and kind is JoinKind.INNER:
        filters, others = split_sessions(filters[0], lowering)
    conditions = tuple(map(lowering.condition, ons))
    wheres = tuple(map(after.condition, filters))
    if groups and kind is not JoinKind.INNER:
        raise refused(
            f"aggregates over a {kind.value} JOIN are not supported; use INNER JOIN, or aggregate "
            "the rows that the join gives",
            tree,
        )
    aggregation, windows = read_aggregation(tree, lowering) if groups else (None, ())
    if aggregation is not None and joins and not looks_up:
        check_joined(aggregation, tree)
    return Statement(
        sources,
        kind,
        scope,
        conditions,
        wheres,
        () if groups else select_columns(tree, after, visible),
        tuple(sorted(reader.declared.items())),
        aggregation,
        windows,
        sessions or others,
    )


def _after_join(scope: Scope, kind: JoinKind) -> Scope:
    """The sources as WHERE and SELECT see them."""
    if kind.is_existence:
        return replace(scope, sources=scope.sources[:1])
    sources = []
    for side, source in zip((LEFT, RIGHT), scope.sources, strict=False):
        columns = source.columns
        if side in kind.null_supplying:
            columns = {name: supplied_or_null(c, side) for name, c in columns.items()}
        sources.append(replace(source, columns=columns))
    return replace(scope, sources=tuple(sources))


def _unit_columns(scope: Scope, units: Mapping[tuple[str, str], str]) -> dict[Expr, str]:
    found = ((scope.find(*name), unit) for name, unit in units.items())
    return {column: unit for column, unit in found if column is not None}


def _tables(tree: exp.Select) -> tuple[tuple[exp.Expr, ...], JoinKind]:
    """The one table or two of FROM, and how two are joined."""
    source = tree.args.get("from_")
    joins = tree.args.get("joins") or []
    if source is None or len(joins) > 1:
        count = 0 if source is None else 1 + len(joins)
        third = joins[1] if count > 2 else tree
        raise refused(f"one table or a join of two is needed; the query has {count}", third)
    if not joins:
        return (source.this,), JoinKind.INNER
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
    clauses.check(join, clauses.OF_JOIN, "a JOIN yet")
    return (source.this, join.this), _KINDS[name]
