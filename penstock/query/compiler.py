"""Compile SQL text and schemas: a join, or groups of one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from .. import arguments
from ..errors import BeyondError, LikelyMistakeError, QueryError
from ..expr import ops
from ..expr.node import Expr, Op, transform
from ..plan.group_query import GroupQuery
from ..plan.logic import conjuncts_of
from ..plan.lookup import group_column
from ..plan.query import LEFT, RIGHT, JoinKind, JoinQuery, Side
from ..plan.simplify import simplify
from ..plan.window import RowsWindow, TimeWindow, Window, session_column
from ..types import UNIT_NS
from ..uses import QUERY, Entrance, QueryKind, kinds_of
from ..zones import zone_of
from .ansi import under_ansi
from .grouped import check_lookup, follows_time, group_lookup, group_query, stream_side
from .groups import check_joined
from .join_window import SideTimes, row_counts, sessions_of, side_times, time_of, time_window
from .options import KeptQueries, QueryOptions, key_of
from .parse import parse, with_room
from .scope import Scope
from .sources import SourceReader
from .statement import Statement, no_groups, read_statement
from .time_rules import TimeRules

#: Options of which only some kinds of query have a use.
_WINDOWS = ("time", "rows", "within")


def conditions(statement: Statement) -> tuple[list[list[Expr]], list[Expr]]:
    """Sort conditions into filters of each side and conjuncts of the join."""
    filters: list[list[Expr]] = [[], []]
    conjuncts = [c for condition in statement.condition for c in _members(condition)]
    nulls = statement.kind.null_supplying
    where = [member for condition in statement.where for member in _members(condition)]
    never = [member for member in where if member.is_const]
    for conjunct in never[:1] or where:
        if not conjunct.sides:
            # In ON, it would keep an outer join's rows without a match.
            for members in filters:
                members.append(conjunct)
        elif conjunct.sides & nulls:
            alias = statement.sources[0 if LEFT in conjunct.sides & nulls else 1].alias
            raise BeyondError(
                f"WHERE tests {alias}, whose columns are NULL where the {statement.kind.value} "
                "JOIN finds no match, after the join; to filter its rows before it, write the "
                "condition in ON or in a subquery in FROM: (SELECT * FROM ... WHERE ...) "
                f"{alias}"
            )
        elif statement.nearest is not None and RIGHT in conjunct.sides:
            alias = statement.sources[1].alias
            raise BeyondError(f"WHERE tests {alias} after the nearest rows are chosen")
        elif len(conjunct.sides) == 1:
            filters[0 if LEFT in conjunct.sides else 1].append(conjunct)
        else:
            conjuncts.append(conjunct)
    return filters, conjuncts


def _members(condition: Expr) -> list[Expr]:
    """Split a condition at AND; members equal for every row become constants."""
    members = []
    for member in conjuncts_of(condition):
        value = simplify(member)
        # A bound on the time that holds for every time still defines the window.
        bounds = value is ops.TRUE and len(member.sides) > 1
        if bounds or value is not ops.TRUE:
            members.append(member if bounds or value.sides else value)
    return members


def move_one_sided(
    filters: list[list[Expr]], conjuncts: list[Expr], kind: JoinKind
) -> tuple[list[list[Expr]], list[Expr]]:
    """Make conditions of one side, in ON, filters of that side where its rows need a match.

    Only for time windows: in ROWS, a row that cannot match keeps its place in the window.
    """
    remaining = []
    for conjunct in conjuncts:
        if len(conjunct.sides) == 1 and not conjunct.sides & kind.unmatched:
            filters[0 if LEFT in conjunct.sides else 1].append(conjunct)
        else:
            remaining.append(conjunct)
    return filters, remaining


def compile_query(
    text: str,
    schemas: Mapping[str, pa.Schema],
    options: QueryOptions | None = None,
    *,
    instead: str = "use penstock.sql, or penstock.stream",
    takes_nearest: bool = False,
    **keywords: Any,
) -> JoinQuery:
    """Compile one join; one that was compiled lately is not compiled again.

    Parameters
    ----------
    text, schemas, options, keywords
        As for :func:`compile_select`.
    instead : str
        What to do with a query over one table, which is refused.
    takes_nearest : bool
        Whether the caller runs joins of nearest rows.

    Raises
    ------
    QueryError, SchemaError, UsageError
        As for :func:`compile_select`; a BeyondError where the query is over one table.
    """
    query = _compiled(text, schemas, options, keywords, only_joins=True)
    if isinstance(query, GroupQuery):
        raise BeyondError(f"a join of two tables is needed here, and the query has one: {instead}")
    if query.nearest is not None and not takes_nearest:
        raise QueryError("NEAREST is for penstock.sql and penstock.stream, not for this join")
    return query


def compile_select(
    text: str,
    schemas: Mapping[str, pa.Schema],
    options: QueryOptions | None = None,
    **keywords: Any,
) -> JoinQuery | GroupQuery:
    """Compile one SELECT; one that was compiled lately is not compiled again.

    Parameters
    ----------
    text : str
        ``SELECT ... FROM a JOIN b ON ...`` or ``FROM a, b WHERE ...`` in Spark's SQL; or
        ``SELECT ... FROM a GROUP BY ...``.
    schemas : mapping of table name to pyarrow.Schema
    options : QueryOptions, optional
    keywords
        Instead of options: the arguments of :class:`QueryOptions`.

    Raises
    ------
    BeyondError
        One join, or groups of one table, lack something of the query, which may run in parts.
    QueryError
        The query is wrong; the message gives the place and the remedy.
    SchemaError
        A column has a type that cannot be used as the query does.
    UsageError
        An argument has another type.
    """
    return _compiled(text, schemas, options, keywords, only_joins=False)


#: The class of a compiled query.
Q = TypeVar("Q", bound=JoinQuery | GroupQuery)


def one_or_beyond(compiled: Callable[[], Q]) -> Q | BeyondError:
    """Compile one join, or groups of one table; return the BeyondError if the query needs more.

    The query then runs in parts. Any other error is a mistake in the query, and raised.
    """
    try:
        return compiled()
    except BeyondError as why:
        return why


def _compiled(
    text: str,
    schemas: Mapping[str, pa.Schema],
    options: QueryOptions | None,
    keywords: Mapping[str, Any],
    *,
    only_joins: bool,
) -> JoinQuery | GroupQuery:
    arguments.text("query", text)
    arguments.mapping(arguments.instance(pa.Schema, "a pyarrow.Schema"))("schemas", schemas)
    chosen = QueryOptions(**keywords) if options is None else options

    def compile_now() -> JoinQuery | GroupQuery:
        query = _compile(text, schemas, chosen, only_joins)
        return under_ansi(query) if chosen.ansi else query

    def compiled() -> JoinQuery | GroupQuery:
        return with_room(compile_now, text)

    key = key_of(text, schemas, chosen)
    query = _kept.find(key and (key, only_joins), compiled, len(text))
    kinds = kinds_of(query, chosen.relation is not None)
    windows = {name for name in _WINDOWS if getattr(chosen, name) not in (None, {})}
    if chosen.entrance is None or QueryKind.NEAREST not in kinds:  # of streams they have a window
        Entrance(QUERY, frozenset(windows)).refuse_unused(kinds)
    if chosen.entrance is not None:
        chosen.entrance.refuse_unused(kinds)
    return query


_kept: KeptQueries[JoinQuery | GroupQuery] = KeptQueries()


def _compile(
    text: str, schemas: Mapping[str, pa.Schema], options: QueryOptions, only_joins: bool
) -> JoinQuery | GroupQuery:
    times, units = time_columns(options.time or {})
    scales = {_dotted(name): digits for name, digits in (options.scale or {}).items()}
    rules = TimeRules(zone_of("UTC" if options.time_zone is None else options.time_zone))
    reader = SourceReader(
        schemas, scales, options.params or {}, options.functions or {}, rules, times
    )
    tree = parse(text)
    statement = read_statement(tree, reader, units, looks_up=options.relation is not None)
    for name in times:
        statement.scope.named(name, "time is")
    if len(statement.sources) == 1:
        if options.relation is not None:
            raise QueryError(
                f"the query does not name the relation {options.relation}; leave it out, or join it"
            )
        filters, _ = conditions(statement)
        unique = _unique(statement.scope, options.unique or {})
        return group_query(text, statement, options, times, filters[0], unique)
    if options.relation is not None:
        return _lookup(text, tree, statement, options, {} if only_joins else times, only_joins)
    if statement.sessions is not None:
        return _session_join(text, statement, options, times, rules)
    if statement.nearest is not None:
        for source in statement.sources if times else ():
            time_of(source, statement.scope, times)  # it has a use for conditions, by its unit
        return _nearest(text, statement, options)
    counts = row_counts(statement, options.rows)
    filters, conjuncts = conditions(statement)
    is_empty = any(c.is_const for c in (*conjuncts, *filters[0], *filters[1]))
    window: Window
    if options.all_rows:
        clock, window = SideTimes((None, None), "", ("", "")), TimeWindow(0, 0)
    else:
        clock = side_times(statement, times, rules, is_needed=counts is None, is_empty=is_empty)
        if counts is not None:
            window = RowsWindow(*counts)
        else:
            window, conjuncts = time_window(statement, clock, conjuncts, options.within, is_empty)
    if counts is None:
        filters, conjuncts = move_one_sided(filters, conjuncts, statement.kind)
    return _query(text, statement, options, window, filters, conjuncts, clock)


def _session_join(
    text: str,
    statement: Statement,
    options: QueryOptions,
    times: Mapping[str, str],
    rules: TimeRules,
) -> JoinQuery:
    """The query whose rows meet in sessions. A row that cannot match is of its session, too."""
    calls = statement.sessions
    assert calls is not None
    if any(source.rows for source in statement.sources):
        raise QueryError("session_window is the window of the join; leave ROWS out")
    filters, conjuncts = conditions(statement)
    sessions = sessions_of(calls, conjuncts, statement.scope, times, rules)
    groups = SideTimes((session_column(LEFT), session_column(RIGHT)), "", ("", ""))
    query = _query(text, statement, options, TimeWindow(0, 0), filters, conjuncts, groups)
    return replace(query, sessions=sessions)


def _nearest(text: str, statement: Statement, options: QueryOptions) -> JoinQuery:
    """The query of nearest rows, in whose window are all rows."""
    if any(source.rows for source in statement.sources):
        raise QueryError(
            "NEAREST searches all rows; leave ROWS out, or write bounds of times in ON"
        )
    filters, conjuncts = conditions(statement)
    filters, conjuncts = move_one_sided(filters, conjuncts, statement.kind)
    clock = SideTimes((None, None), "", ("", ""))
    query = _query(text, statement, options, TimeWindow(0, 0), filters, conjuncts, clock)
    return replace(query, nearest=statement.nearest)


def _lookup(
    text: str,
    tree: exp.Expr,
    statement: Statement,
    options: QueryOptions,
    times: Mapping[str, str],
    only_joins: bool,
) -> JoinQuery | GroupQuery:
    """Compile a stream that looks up rows of a relation: rows of one group may match.

    Where each row of the stream is folded over its matches, the look-up does that; other groups
    are of the pairs that it gives.
    """
    stream = stream_side(statement, str(options.relation))
    aggregation = statement.aggregation
    is_above = aggregation is not None and not only_joins and (
        statement.kind is not JoinKind.INNER
        or aggregation.side != stream
        or (not options.unique and follows_time(statement, times, stream))
    )  # fmt: skip
    check_lookup(statement, str(options.relation), is_above=is_above)
    if aggregation is not None and not is_above and statement.kind is not JoinKind.INNER:
        raise no_groups(statement.kind, tree)
    if aggregation is not None and not is_above and isinstance(tree, exp.Select):
        check_joined(aggregation, tree)
    filters, conjuncts = conditions(statement)
    filters, conjuncts = move_one_sided(filters, conjuncts, statement.kind)
    groups = SideTimes((group_column(LEFT), group_column(RIGHT)), "", ("", ""))
    query = _query(text, statement, options, TimeWindow(0, 0), filters, conjuncts, groups)
    return group_lookup(text, statement, query, times, stream) if is_above else query


def _query(
    text: str,
    statement: Statement,
    options: QueryOptions,
    window: Window,
    filters: list[list[Expr]],
    conjuncts: list[Expr],
    clock: SideTimes,
) -> JoinQuery:
    left, right = (
        Side(side, source.alias, source.table, simplify(ops.and_(source.filter, *test)), time, unit)
        for side, source, test, time, unit in zip(
            (LEFT, RIGHT), statement.sources, filters, clock.times, clock.own_units, strict=True
        )
    )
    return JoinQuery(
        text,
        left,
        right,
        window,
        simplify(_without_widening(ops.and_(*conjuncts))),
        statement.select,
        statement.scales,
        statement.aggregation,
        statement.kind,
        _unique(statement.scope, options.unique or {}),
        options.time_zone,
    )


def _without_widening(condition: Expr) -> Expr:
    """Remove casts to wider integers from a condition: devices compare exact integers."""

    def rule(current: Expr, args: tuple[Expr, ...]) -> Expr:
        is_wider = current.op is Op.CAST and current.attr is not None
        return args[0] if is_wider else ops.remake(current, args)

    return transform(condition, rule)


def _unique(
    scope: Scope, unique: Mapping[str, str | Sequence[str]]
) -> tuple[tuple[str, frozenset[str]], ...]:
    """Look up the columns that are declared unique together, by side."""
    unique_columns = []
    for name, columns in unique.items():
        source = scope.named(name, "unique is")
        names = [columns] if isinstance(columns, str) else list(columns)
        exprs = [source.find(column) for column in names]
        for column, expr in zip(names, exprs, strict=True):
            if expr is None:
                raise LikelyMistakeError(f"unique: {scope.unknown(source.alias, column)}")
            if expr.op is not Op.COLUMN:
                raise LikelyMistakeError(
                    f"unique: {source.alias}.{column} is computed; name a column"
                )
        side = (LEFT, RIGHT)[scope.sources.index(source)]
        unique_columns.append((side, frozenset(expr.attr[1] for expr in exprs if expr is not None)))
    return tuple(unique_columns)


def time_columns(
    time: Mapping[str, str],
) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """Split ``column:unit`` into the column per alias and the unit per column."""
    names, units = {}, {}
    for alias, text in time.items():
        column, _, unit = text.partition(":")
        if unit and unit not in UNIT_NS:
            raise QueryError(f"time unit {unit!r} of {alias} must be one of {', '.join(UNIT_NS)}")
        names[alias] = column
        if unit:
            units[alias, column] = unit
    return names, units


def _dotted(name: str) -> tuple[str, str]:
    table, dot, column = name.partition(".")
    if not dot:
        raise QueryError(f"scale needs table.column, not {name!r}")
    return table.lower(), column.lower()
