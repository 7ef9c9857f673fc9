"""Compile a SELECT with groups of the rows of one table, or of rows that were looked up.

A query that looks up rows of a relation is checked here, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import QueryError
from ..expr import ops
from ..expr.node import Expr, Op, walk
from ..plan.group_query import GroupQuery, nondecreasing, time_column
from ..plan.linear import as_integer
from ..plan.query import LEFT, RIGHT, JoinKind, JoinQuery, Side, columns
from ..plan.simplify import simplify
from .join_window import time_of
from .options import QueryOptions
from .scope import Source
from .statement import Statement

#: Output column of a look-up whose groups need none.
_NO_COLUMN = "no column"


def group_query(
    text: str,
    statement: Statement,
    options: QueryOptions,
    times: Mapping[str, str],
    filters: Sequence[Expr],
    unique: tuple[tuple[str, frozenset[str]], ...],
) -> GroupQuery:
    """Compile the groups of one table.

    Parameters
    ----------
    times : mapping of alias or table to column
        The event time, if it is named.
    filters : sequence of Expr
        Members of WHERE.
    unique : tuple of (side, columns)

    Raises
    ------
    QueryError
        The time column does not exist, or ROWS are given.
    """
    (source,), groups = statement.sources, statement.aggregation
    assert groups is not None
    if source.rows is not None:
        raise QueryError(
            f"ROWS are of a join, and {source.alias} is the only table; leave them out, and group "
            "by window(...) for groups in time"
        )
    time = event_time(statement, times, LEFT) if follows_time(statement, times, LEFT) else None
    other_times = _other_times(statement, time)
    conditions = (source.filter, *filters, *(ops.not_(ops.is_null(other)) for other in other_times))
    side = _grouped_side(statement, source.alias, source.table, ops.and_(*conditions), time)
    return GroupQuery(
        text,
        side,
        groups,
        statement.scales,
        unique,
        options.time_zone,
        windowed=len(other_times) < len(statement.windows),
    )


def group_lookup(
    text: str, statement: Statement, lookup: JoinQuery, times: Mapping[str, str], outer: str
) -> GroupQuery:
    """Compile groups of the rows that a look-up gives.

    Parameters
    ----------
    lookup : JoinQuery
        The look-up; its SELECT list becomes what the groups need.
    outer : str
        Side of the stream, whose event time closes groups.
    """
    groups = statement.aggregation
    assert groups is not None
    time = event_time(statement, times, outer) if follows_time(statement, times, outer) else None
    roots = [argument for one in groups.aggregates for argument in one.arguments]
    roots += groups.keys if time is None else [*groups.keys, time]
    leaves = {leaf.attr: leaf for root in roots for leaf in walk(root) if leaf.op is Op.COLUMN}
    needed = sorted(set().union(*map(columns, roots))) if roots else []
    names = {ref: f"{ref[0]}.{ref[1]}" for ref in needed}

    def flat(expr: Expr) -> Expr:
        return ops.over_columns(
            expr, lambda column: ops.column(LEFT, names[column.attr], column.type)
        )

    aggregates = tuple(one.over(flat) for one in groups.aggregates)
    select = tuple((names[ref], leaves[ref]) for ref in needed) or ((_NO_COLUMN, ops.const(1)),)
    other_times, stream = _other_times(statement, time), lookup.side(outer)
    condition = ops.and_(*(ops.not_(ops.is_null(flat(other))) for other in other_times))
    side = _grouped_side(statement, stream.alias, stream.table, condition, time)
    side = replace(side, time=None if side.time is None else flat(side.time))
    return GroupQuery(
        text,
        side,
        replace(groups, side=LEFT, keys=tuple(map(flat, groups.keys)), aggregates=aggregates),
        tuple(((LEFT, names[ref]), digits) for ref, digits in statement.scales if ref in names),
        (),
        lookup.time_zone,
        replace(lookup, select=select, aggregation=None),
        windowed=len(other_times) < len(statement.windows),
    )


def _other_times(statement: Statement, time: Expr | None) -> list[Expr]:
    """Times of windows that do not follow the event time: they leave out rows without a time."""
    return [w.time for w in statement.windows if time is None or not _follows(w.start, time)]


def _grouped_side(
    statement: Statement, alias: str, table: str, condition: Expr, time: Expr | None
) -> Side:
    condition = simplify(condition)
    if time is None:
        return Side(LEFT, alias, table, condition, None, "")
    unit = time.type.unit or statement.scope.unit_of(time) or ""
    return Side(LEFT, alias, table, condition, as_integer(time), unit)


def follows_time(statement: Statement, times: Mapping[str, str], side: str) -> bool:
    """Whether a key of the groups rises with the event time of a side."""
    time = event_time(statement, times, side)
    assert statement.aggregation is not None
    return time is not None and any(_follows(key, time) for key in statement.aggregation.keys)


def event_time(statement: Statement, times: Mapping[str, str], side: str) -> Expr | None:
    """The event time of a side: the named column, a window's, or the only timestamp."""
    source = statement.sources[0 if side == LEFT else 1]
    named = any(statement.scope.source(name) is source for name in times)
    if not named:
        for window in statement.windows:
            leaves = [leaf for leaf in walk(window.time) if leaf.op is Op.COLUMN]
            if len(leaves) == 1 and leaves[0].sides == {side}:
                return leaves[0]
    return time_of(source, statement.scope, times)


def _follows(key: Expr, time: Expr) -> bool:
    return key.sides == time.sides and nondecreasing(key, time_column(time))


def stream_side(statement: Statement, relation: str) -> str:
    """The side that is not the relation.

    Raises
    ------
    QueryError
        Both or none of the tables are the relation.
    """
    inner, _ = _sides(statement, relation)
    return RIGHT if inner is statement.sources[0] else LEFT


def check_lookup(statement: Statement, name: str, *, is_above: bool) -> None:
    """Refuse what cannot be answered row by row of the stream.

    Parameters
    ----------
    is_above : bool
        Whether the pairs are grouped, not each row of the stream over its matches: then the stream
        has an event time.

    Raises
    ------
    QueryError
        Both or none of the tables are the relation, one has ROWS, rows of the relation would have
        to leave without a match, or groups are not of the stream's rows.
    """
    relation, stream = _sides(statement, name)
    for source in statement.sources:
        if source.rows is not None:
            raise QueryError(
                f"{source.alias} has ROWS, but a join with a relation has no window; leave it out"
            )
    side = LEFT if relation is statement.sources[0] else RIGHT
    kind = statement.kind
    if side in kind.unmatched or (kind.is_existence and side == LEFT):
        remedy = (
            f"write {stream.alias} on the left"
            if kind in (JoinKind.SEMI, JoinKind.ANTI)
            else f"preserve {stream.alias} instead"
        )
        raise QueryError(
            f"this {kind.value} JOIN gives rows of the relation {relation.alias} by whether they "
            f"match, which is known only once {stream.alias} has ended; {remedy}, or join "
            f"{relation.alias} as a table with a window"
        )
    groups = statement.aggregation
    if groups is not None and not is_above and groups.side != (RIGHT if side == LEFT else LEFT):
        raise QueryError(
            f"groups of a join with a relation are of rows of {stream.alias}: group by columns of "
            f"{stream.alias} only, or aggregate the rows that the join gives"
        )


def _sides(statement: Statement, name: str) -> tuple[Source, Source]:
    """The relation and the stream."""
    left, right = statement.sources
    are = [source.table.lower() == name.lower() for source in (left, right)]
    if all(are):
        raise QueryError(f"both inputs are the relation {name}; one of them must be a stream")
    if not any(are):
        raise QueryError(f"the query does not name the relation {name}")
    return (left, right) if are[0] else (right, left)
