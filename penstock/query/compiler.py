"""From SQL text and schemas to a :class:`~penstock.query.plan.JoinQuery`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from penstock import arguments
from penstock.errors import QueryError
from penstock.expr import build
from penstock.expr.node import Expr, Op
from penstock.query.parse import parse, with_room
from penstock.query.plan import LEFT, RIGHT, JoinKind, JoinQuery, Side
from penstock.query.scope import Scope, Source
from penstock.query.session import Session
from penstock.query.statement import Statement, read_statement
from penstock.query.window import (
    RowsWindow,
    TimeWindow,
    Window,
    conjuncts_of,
    find_time_window,
)
from penstock.rewrite.fold import fold
from penstock.rewrite.linear import as_integer
from penstock.types import TIMES, TIMESTAMPS, UNIT_NS, Kind
from penstock.zones import zone_of

#: Size of a window: rows for both sides, or by alias or table.
Rows = int | Mapping[str, int]
#: Size of a symmetric time window: a number of the time columns' unit, or a duration.
Within = int | timedelta


def compile_query(
    text: str,
    schemas: Mapping[str, pa.Schema],
    *,
    time: Mapping[str, str] | None = None,
    rows: Rows | None = None,
    within: Within | None = None,
    params: Mapping[str, Any] | None = None,
    scale: Mapping[str, int] | None = None,
    unique: Mapping[str, str | Sequence[str]] | None = None,
    time_zone: str | None = None,
) -> JoinQuery:
    """Compile one windowed join.

    Parameters
    ----------
    text : str
        ``SELECT ... FROM a JOIN b ON ...`` or ``FROM a, b WHERE ...`` in Spark's SQL.
    schemas : mapping of table name to pyarrow.Schema
    time : mapping of alias or table to column, optional
        Event-time column of each side; ``"column:unit"`` (s, ms, us, ns) lets INTERVALs be used
        with an integer column. A single timestamp column is found by itself.
    rows : int or mapping of alias or table to int, optional
        ROWS window; overrides ``[ROWS n]`` in the text.
    within : int or timedelta, optional
        Time window of the same size before and after (paper 1's sliding window).
    params : mapping, optional
        Values of names in the text that are not columns.
    scale : mapping of "table.column" to int, optional
        Decimal digits of float columns that are really fixed-point numbers.
    unique : mapping of alias or table to column or columns, optional
        Columns that together differ from row to row, such as an id.
    time_zone : str, optional
        In which times without a zone are read where they meet instants, and days begin: a region
        such as ``Europe/Dublin``, or an offset. Computed instants are given in it; without one they
        are read in UTC, and given as plain timestamps of UTC.

    Raises
    ------
    QueryError
        The text cannot be compiled; the message gives the place and the remedy.
    SchemaError
        A column has a type that cannot be used as the query does.
    """
    arguments.text("query", text)
    arguments.mapping(arguments.instance(pa.Schema, "a pyarrow.Schema"))("schemas", schemas)
    arguments.optional(arguments.mapping(arguments.text))("time", time)
    arguments.optional(arguments.one_or_each(_rows_count))("rows", rows)
    arguments.optional(arguments.span)("within", within)
    arguments.optional(arguments.mapping())("params", params)
    arguments.optional(arguments.mapping(arguments.whole))("scale", scale)
    arguments.optional(arguments.mapping(arguments.texts))("unique", unique)

    def compiled() -> JoinQuery:
        return _compile(text, schemas, time, rows, within, params, scale, unique, time_zone)

    return with_room(compiled)


def _rows_count(name: str, value: Any) -> int:
    # A count below 1 has an error of its own, which names the table.
    return arguments.whole(name, value, least=-arguments.MOST)


def _compile(
    text: str,
    schemas: Mapping[str, pa.Schema],
    time: Mapping[str, str] | None,
    rows: Rows | None,
    within: Within | None,
    params: Mapping[str, Any] | None,
    scale: Mapping[str, int] | None,
    unique: Mapping[str, str | Sequence[str]] | None,
    time_zone: str | None,
) -> JoinQuery:
    times, units = _time_columns(time or {})
    scales = {_dotted(name): digits for name, digits in (scale or {}).items()}
    session = Session(zone_of("UTC" if time_zone is None else time_zone))
    statement = read_statement(parse(text), schemas, scales, units, params or {}, session, times)
    counts = _rows(statement, rows)
    _check_names(statement.scope, times)
    filters, conjuncts = _conditions(statement)
    time_of = [_time(source, statement.scope, times) for source in statement.sources]
    if counts is not None and None in time_of:
        for side in range(2):  # without a common clock the order of ROWS is that of arrival
            time_of[side] = None
    _check_units(statement.scope, time_of)
    own_units = [_unit_of(moment, statement.scope) for moment in time_of]
    unit, time_of = _one_unit(time_of, session)
    window: Window
    if counts is not None:
        window = RowsWindow(*counts)
    else:
        is_empty = any(c.is_const for c in (*conjuncts, *filters[0], *filters[1]))
        window, conjuncts = _time_window(statement, time_of, conjuncts, within, unit, is_empty)
        filters, conjuncts = _move_one_sided(filters, conjuncts, statement.kind)
    predicate = fold(build.and_(*conjuncts))
    left, right = (
        Side(
            name,
            source.alias,
            source.table,
            fold(build.and_(source.filter, *own)),
            moment,
            own_unit,
        )
        for name, source, own, moment, own_unit in zip(
            (LEFT, RIGHT), statement.sources, filters, time_of, own_units, strict=True
        )
    )
    return JoinQuery(
        text,
        left,
        right,
        window,
        predicate,
        statement.select,
        statement.scales,
        statement.aggregation,
        statement.kind,
        _unique(statement.scope, unique or {}),
        time_zone,
    )


def _unique(
    scope: Scope, unique: Mapping[str, str | Sequence[str]]
) -> tuple[tuple[str, frozenset[str]], ...]:
    """Base-table columns of each side that are declared unique together."""
    found = []
    for name, columns in unique.items():
        source = scope.source(name)
        if source is None:
            known = ", ".join(s.alias for s in scope.sources)
            raise QueryError(f"unique is given for {name}, but the query has {known}")
        names = [columns] if isinstance(columns, str) else list(columns)
        own = [source.find(column) for column in names]
        for column, expr in zip(names, own, strict=True):
            if expr is None:
                raise QueryError(f"unique: {scope.unknown(source.alias, column)}")
            if expr.op is not Op.COLUMN:
                raise QueryError(f"unique: {source.alias}.{column} is computed; name a column")
        side = (LEFT, RIGHT)[scope.sources.index(source)]
        found.append((side, frozenset(expr.attr[1] for expr in own if expr is not None)))
    return tuple(found)


def _unit_of(time: Expr | None, scope: Scope) -> str:
    """Unit of a time column: its type's, or the one declared for an integer."""
    return "" if time is None else time.type.unit or scope.unit_of(time) or ""


def _time_columns(
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


def _check_names(scope: Scope, times: Mapping[str, str]) -> None:
    for name in times:
        if scope.source(name) is None:
            known = ", ".join(s.alias for s in scope.sources)
            raise QueryError(f"time is given for {name}, but the query has {known}")


def _check_units(scope: Scope, times: list[Expr | None]) -> None:
    units = [scope.unit_of(t) for t in times if t is not None]
    if len(set(units)) > 1:
        shown = " and ".join(u or "no unit" for u in units)
        raise QueryError(
            f"the integer time columns are declared in {shown}; convert one of them in a subquery "
            "in FROM, so that both count the same unit"
        )


def _rows(statement: Statement, rows: Rows | None) -> tuple[int, int] | None:
    """ROWS of the left and right side, None for a time window."""
    left, right = statement.sources
    counts: list[int | None]
    if isinstance(rows, int):
        counts = [rows, rows]
    elif rows:
        for name in rows:
            if statement.scope.source(name) is None:
                raise QueryError(f"rows are given for {name}, but the query has no such table")
        counts = [_named(rows, s, statement.scope) or s.rows for s in (left, right)]
    else:
        counts = [left.rows, right.rows]
    if counts == [None, None]:
        return None
    return _checked_rows(counts[0], left), _checked_rows(counts[1], right)


def _checked_rows(count: int | None, source: Source) -> int:
    if count is None:
        raise QueryError(f"{source.alias} has no ROWS; a ROWS window needs one per side")
    if count < 1:
        raise QueryError(
            f"ROWS {count} of {source.alias} admits nothing; a window has at least one row"
        )
    return count


def _named(values: Mapping[str, Any], source: Source, scope: Scope) -> Any:
    for name, value in values.items():
        if scope.source(name) is source:
            return value
    return None


def _conditions(statement: Statement) -> tuple[list[list[Expr]], list[Expr]]:
    """WHERE conditions of at most one side, per side, and everything that belongs to the join."""
    filters: list[list[Expr]] = [[], []]
    conjuncts = [c for condition in statement.condition for c in _members(condition)]
    nulls = statement.kind.null_supplying
    where = [member for condition in statement.where for member in _members(condition)]
    never = [member for member in where if member.is_const]
    for conjunct in never[:1] or where:
        if not conjunct.sides:
            # As a part of ON, it would leave the rows of an outer join that match nothing.
            for own in filters:
                own.append(conjunct)
        elif conjunct.sides & nulls:
            alias = statement.sources[0 if LEFT in conjunct.sides & nulls else 1].alias
            raise QueryError(
                f"WHERE tests {alias}, whose columns are NULL where the {statement.kind.value} "
                "JOIN finds no match, after the join; to filter its rows before it, write the "
                "condition in ON or in a subquery in FROM: (SELECT * FROM ... WHERE ...) "
                f"{alias}"
            )
        elif len(conjunct.sides) == 1:
            filters[0 if LEFT in conjunct.sides else 1].append(conjunct)
        else:
            conjuncts.append(conjunct)
    return filters, conjuncts


def _members(condition: Expr) -> list[Expr]:
    """Members of the outermost AND, those that are the same for every row as constants."""
    found = []
    for member in conjuncts_of(condition):
        value = fold(member)
        # A bound on the time that every time keeps still says the window.
        bounds = value is build.TRUE and len(member.sides) > 1
        if bounds or value is not build.TRUE:
            found.append(member if bounds or value.sides else value)
    return found


def _move_one_sided(
    filters: list[list[Expr]], conjuncts: list[Expr], kind: JoinKind
) -> tuple[list[list[Expr]], list[Expr]]:
    """Over a time window, a one-sided condition of ON can filter a side that needs a match.

    Not so for ROWS: a row that cannot match keeps its place in the window.
    """
    rest = []
    for conjunct in conjuncts:
        if len(conjunct.sides) == 1 and not conjunct.sides & kind.unmatched:
            filters[0 if LEFT in conjunct.sides else 1].append(conjunct)
        else:
            rest.append(conjunct)
    return filters, rest


def _time(source: Source, scope: Scope, times: Mapping[str, str]) -> Expr | None:
    name = _named(times, source, scope)
    if name is not None:
        column = source.find(name)
        if column is None:
            raise QueryError(f"time: {scope.unknown(source.alias, name)}")
        if column.type.kind not in TIMES | {Kind.INT}:
            raise QueryError(
                f"time column {source.alias}.{name} is a {column.type}; an integer, date or "
                "timestamp is needed"
            )
        return column
    stamps = [c for c in source.columns.values() if c.type.kind in TIMESTAMPS]
    return stamps[0] if len(stamps) == 1 else None


def _one_unit(times: list[Expr | None], session: Session) -> tuple[str, list[Expr | None]]:
    """Both times as integers of the finer unit."""
    left, right = times
    if left is None or right is None:
        return "", times
    a, b = build.align(session.alike(left, right), "the time columns")
    return a.type.unit, [as_integer(a), as_integer(b)]


_HOW = (
    "; add a time bound to ON, such as `b.ts BETWEEN a.ts - INTERVAL 60 SECONDS AND a.ts + "
    "INTERVAL 60 SECONDS`, or ROWS (`--rows 1000`, `FROM a [ROWS 1000], b [ROWS 1000]`), "
    "or --within"
)


def _time_window(
    statement: Statement,
    times: list[Expr | None],
    conjuncts: list[Expr],
    within: Within | None,
    unit: str,
    is_empty: bool,
) -> tuple[TimeWindow, list[Expr]]:
    for moment, source in zip(times, statement.sources, strict=True):
        if moment is None:
            raise QueryError(
                f"the join has no window, and {source.alias} has no time column: name it with "
                f"time ({source.alias}=COLUMN){_HOW}"
            )
    left, right = times
    assert left is not None
    assert right is not None
    low, high, rest = find_time_window(conjuncts, left, right)
    if within is not None:
        size = _size(within, unit, statement, (left, right))
        low = -size if low is None else max(low, -size)
        high = size if high is None else min(high, size)
    if low is None and high is None and is_empty:
        low = high = 0  # nothing matches, in any window
    if low is None and high is None:
        raise QueryError(f"the join has no window{_HOW}")
    if low is not None and high is not None and low > high:
        raise QueryError(
            f"the window admits nothing: right.time - left.time would have to be at least {low} "
            f"and at most {high}"
        )
    return TimeWindow(None if low is None else -low, high, unit), rest


def _size(within: Within, unit: str, statement: Statement, times: tuple[Expr, Expr]) -> int:
    if isinstance(within, timedelta):
        unit = unit or statement.scope.unit_of(times[0]) or ""
        if not unit:
            raise QueryError("within is a duration, but the time columns are plain integers")
        micros = within // timedelta(microseconds=1)
        size, rest = divmod(micros * 1000, UNIT_NS[unit])
        if rest:
            raise QueryError(f"within is not a whole number of {unit}")
    else:
        size = within
    if size < 0:
        raise QueryError(f"within must not be negative, not {within!r}")
    return size
