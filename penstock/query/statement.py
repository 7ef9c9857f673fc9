"""Read a SELECT: its sources, conditions and output columns.

Columns that an outer join leaves NULL are nullable in WHERE and SELECT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from ..errors import BeyondError, QueryError
from ..expr import ops
from ..expr.node import PRESENT, Expr, Op, node, walk
from ..expr.periods import Tumbling
from ..plan.query import LEFT, RIGHT, Aggregation, JoinKind, Nearest
from ..types import BOOL
from . import nodes
from .dialect import beyond, place, refused
from .groups import check_joined, has_groups, read_aggregation
from .join_window import SessionCalls, split_sessions
from .nearest import read_nearest
from .rewriting import existence_as_join, with_column_names, without_filters, without_with
from .scope import Scope, Source, select_columns
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
    nearest: Nearest | None = None


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
    tree = with_column_names(without_filters(without_with(tree)), reader.schemas)
    if not isinstance(tree, exp.Select):
        raise beyond(f"a SELECT is needed, not {type(tree).__name__.upper()}", tree)
    tree = existence_as_join(tree, lambda t: reader.read(t, LEFT))
    trees, kind = _tables(tree)
    groups = has_groups(tree)
    sources = _read_sources(trees, reader)
    common = _common(tree, sources)
    scope = Scope(sources, _unit_columns(Scope(sources), units))
    scope = replace(scope, merged=_merged(common, sources, JoinKind.INNER, tree))
    visible = _after_join(scope, kind, common, tree)
    lowering, after = reader.lowering(scope), reader.lowering(visible)
    joins, where = tree.args.get("joins") or [], tree.args.get("where")
    on = _on(joins[0], common, sources) if joins else None
    ons, sessions = ([], None) if on is None else split_sessions(on, lowering)
    filters, where_sessions = [] if where is None else [where.this], None
    if joins and sessions is None and filters and kind is JoinKind.INNER:
        filters, where_sessions = split_sessions(filters[0], lowering)
    conditions = tuple(map(lowering.condition, ons))
    nearest = read_nearest(joins[0], lowering) if joins else None
    wheres = tuple(map(after.condition, filters))
    if groups and kind is not JoinKind.INNER and not (looks_up and kind.null_supplying):
        raise no_groups(kind, tree)
    aggregation, windows = read_aggregation(tree, after) if groups else (None, ())
    if nearest is not None and (groups or looks_up or sessions or where_sessions):
        raise beyond("NEAREST stands beside no groups, sessions and relations", joins[0])
    if aggregation is not None and joins and not looks_up:
        check_joined(aggregation, tree)
    select = () if groups else select_columns(tree, after, visible)
    # Groups of one table count the rows that their windows leave out.
    counted = {window.time for window in windows if looks_up or len(sources) < 2}
    timed = after.timed(counted) + (lowering.timed() if kind is JoinKind.INNER else ())
    return Statement(
        sources,
        kind,
        scope,
        conditions,
        (*wheres, *timed),
        select,
        tuple(sorted(reader.declared.items())),
        aggregation,
        windows,
        sessions or where_sessions,
        nearest,
    )


def no_groups(kind: JoinKind, tree: exp.Expr) -> BeyondError:
    return beyond(
        f"aggregates over a {kind.value} JOIN are not supported; use INNER JOIN, or aggregate "
        "the rows that the join gives",
        tree,
    )


def _read_sources(trees: tuple[exp.Expr, ...], reader: SourceReader) -> tuple[Source, ...]:
    sources = tuple(reader.read(t, side) for t, side in zip(trees, (LEFT, RIGHT), strict=False))
    if len({source.alias.lower() for source in sources}) < len(sources):
        raise refused(f"both inputs are named {sources[0].alias}; give each an alias", trees[-1])
    for table, name in reader.scales.keys() - reader.used:
        raise QueryError(f"scale is given for {table}.{name}, which is no column of a base table")
    return sources


def _common(tree: exp.Select, sources: tuple[Source, ...]) -> list[str]:
    """Names of the columns that USING lists, or of all that NATURAL finds in both sides."""
    for join in tree.args.get("joins") or []:
        if join.args.get("using"):
            names = [str(column.name) for column in join.args["using"]]
            # As the left side spells them.
            known = {name.lower(): name for name in reversed([*sources[0].columns])}
            common = [known.get(name.lower()) or name for name in names]
            for name in common:
                for source in sources:
                    if source.find(name) is None:
                        raise refused(Scope(sources).unknown(source.alias, name), join)
            return common
        if join.method == "NATURAL":
            if join.args.get("on"):
                raise refused("NATURAL JOIN takes no ON; leave one of both out", join)
            return [name for name in sources[0].columns if sources[1].find(name) is not None]
    return []


def _on(join: exp.Join, common: list[str], sources: tuple[Source, ...]) -> exp.Expr | None:
    """The condition of a join, as ON would have it."""
    pairs = [[exp.column(name, table=source.alias) for source in sources] for name in common]
    parts = [exp.EQ(this=a, expression=b) for a, b in pairs]
    return exp.and_(*parts, copy=False) if parts else join.args.get("on")


def _merged(
    common: list[str], sources: tuple[Source, ...], kind: JoinKind, tree: exp.Expr
) -> dict[str, Expr]:
    """Map each common name to one column: of the side that has every row, or of either."""
    merged = {}
    for name in common:
        pair = [source.find(name) for source in sources]
        left, right = (one for one in pair if one is not None)
        if kind is not JoinKind.FULL:
            merged[name] = right if kind is JoinKind.RIGHT else left
        elif left.type.kind is right.type.kind:
            merged[name] = ops.case([(ops.not_(ops.is_null(left)), left)], right)
        else:
            raise refused(f"{name} has two types; write the condition in ON", tree)
    return merged


def _after_join(scope: Scope, kind: JoinKind, common: list[str], tree: exp.Expr) -> Scope:
    """The sources as WHERE and SELECT see them."""
    if kind.is_existence:
        return replace(scope, sources=scope.sources[:1])
    sources = []
    for side, source in zip((LEFT, RIGHT), scope.sources, strict=False):
        columns = source.columns
        if side in kind.null_supplying:
            columns = {name: supplied_or_null(c, side) for name, c in columns.items()}
        sources.append(replace(source, columns=columns))
    merged = _merged(common, tuple(sources), kind, tree)
    return replace(scope, sources=tuple(sources), merged=merged)


def _unit_columns(scope: Scope, units: Mapping[tuple[str, str], str]) -> dict[Expr, str]:
    pairs = ((scope.find(*name), unit) for name, unit in units.items())
    return {column: unit for column, unit in pairs if column is not None}


def _tables(tree: exp.Select) -> tuple[tuple[exp.Expr, ...], JoinKind]:
    """The one table or two of FROM, and how two are joined."""
    source = tree.args.get("from_")
    joins = tree.args.get("joins") or []
    context = "a join query yet" if joins else "a query over one table yet"
    nodes.check(tree, nodes.OF_SELECT | nodes.GROUPING, context)
    if source is None or len(joins) > 1:
        count = 0 if source is None else 1 + len(joins)
        third = joins[1] if count > 2 else tree
        raise BeyondError(
            f"one table or a join of two is needed; the query has {count} ({place(third)})"
        )
    if has_groups(tree) and (window := tree.find(exp.Window)) is not None:
        raise beyond(
            "WINDOW is not supported: a window function needs all rows of a table or join", window
        )
    if not joins:
        if not has_groups(tree):
            raise beyond(
                "a query over one table gives groups, and this one has none: add GROUP BY, "
                "DISTINCT or an aggregate, join a second table, or select and filter rows in the "
                "library that the table comes from",
                tree,
            )
        return (source.this,), JoinKind.INNER
    join = joins[0]
    words = " ".join(str(join.args.get(k) or "") for k in ("method", "side", "kind")).split()
    name = " ".join(words).upper().removeprefix("NATURAL").strip()
    if name not in _KINDS:
        raise beyond(
            f"{name} JOIN is not supported; use INNER, LEFT, RIGHT, FULL, LEFT SEMI or LEFT ANTI",
            join,
        )
    nodes.check(join, nodes.OF_JOIN, "a JOIN yet")
    return (source.this, join.this), _KINDS[name]


#: Operations that are NULL where one of their operands is.
_STRICT = frozenset(
    {Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.ABS, Op.MOD, Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR}
    | {Op.BIT_NOT, Op.SHL, Op.SHR, Op.LT, Op.LE, Op.EQ, Op.PREFIX, Op.NOT, Op.CAST, Op.RAW}
    | {Op.DIV, Op.FUNCTION}
)


def null_supplied(expr: Expr) -> Expr:
    """Make all columns of an expression nullable: the other side may have rows without a match."""
    return ops.over_columns(
        expr, lambda column: node(Op.COLUMN, (), column.type.as_nullable(True), column.attr)
    )


def supplied_or_null(expr: Expr, side: str) -> Expr:
    """A column as SELECT sees it: NULL where its side has no row.

    A computed column of a subquery, such as ``coalesce(x, 0)`` or a constant, has a value even
    where all columns are NULL, so it asks whether there is a row (see :data:`PRESENT`).
    """
    value = null_supplied(expr)
    if _is_null_without_columns(value):
        return value
    return ops.case([(node(Op.COLUMN, (), BOOL, (side, PRESENT)), value)])


def _is_null_without_columns(expr: Expr) -> bool:
    """Whether an expression is certainly NULL where all its columns are."""
    null: dict[Expr, bool] = {}
    for current in walk(expr):  # without recursion: expressions may be deep
        passes_on = current.op in _STRICT and any(null[arg] for arg in current.args)
        null[current] = passes_on or current.op is Op.COLUMN
    return null[expr]
