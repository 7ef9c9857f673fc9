"""The window of a join: its time columns, their unit, and its bounds, or sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ..errors import BeyondError, LikelyMistakeError, QueryError
from ..expr import ops
from ..expr.node import Expr, Op
from ..expr.ops import ExprTypeError
from ..plan.linear import as_integer
from ..plan.narrowing import find_time_window
from ..plan.query import LEFT, RIGHT
from ..plan.window import MOST_GAP, Sessions, TimeWindow, keys_of
from ..spans import without_unit
from ..types import TIMES, TIMESTAMPS, UNIT_NS, Kind, Type, int_of
from .dialect import refused
from .operators import members
from .options import Rows, Within
from .scope import Scope, Source
from .time_rules import TimeRules
from .window_function import is_session, length_ns, ticks

if TYPE_CHECKING:
    from .expressions import Lowering
    from .statement import Statement

#: Where no side has a time, and none can match.
_ANY_TIME = int_of(64)


def row_counts(statement: Statement, rows: Rows | None) -> tuple[int, int] | None:
    """ROWS of the left and right side, None for a time window."""
    left, right = statement.sources
    counts: list[int | None]
    if isinstance(rows, int):
        counts = [rows, rows]
    elif rows:
        for name in rows:
            if statement.scope.source(name) is None:
                raise QueryError(f"rows are given for {name}, but the query has no such table")
        counts = [_value_for(rows, s, statement.scope) or s.rows for s in (left, right)]
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


def _value_for(values: Mapping[str, Any], source: Source, scope: Scope) -> Any:
    for name, value in values.items():
        if scope.source(name) is source:
            return value
    return None


@dataclass(frozen=True)
class SideTimes:
    """Event times of both sides' rows.

    Parameters
    ----------
    times : tuple of Expr or None
        Event times as integers of one unit; None where a side has no time column.
    unit : str
        Of both, "" for plain integers.
    own_units : tuple of str
        Units of the time columns themselves.
    has_timestamps : bool
        Whether a time column has timestamps.
    """

    times: tuple[Expr | None, Expr | None]
    unit: str
    own_units: tuple[str, ...]
    has_timestamps: bool = False


def side_times(
    statement: Statement,
    times: Mapping[str, str],
    rules: TimeRules,
    *,
    is_needed: bool,
    is_empty: bool = False,
) -> SideTimes:
    """Find the event times of both sides.

    If they are not needed, both sides get a time or neither does: without a common clock ROWS are
    in order of arrival. If no rows can match (``is_empty``), a column that has no value, and so no
    type, is as good as a time.
    """
    scope = statement.scope
    left, right = (time_of(source, scope, times) for source in statement.sources)
    if is_needed and is_empty:
        kind = next((time.type for time in (left, right) if time is not None), _ANY_TIME)
        left = left or _without_value(statement.sources[0], kind)
        right = right or _without_value(statement.sources[1], kind)
    if not is_needed and (left is None or right is None):
        left = right = None
    return _one_clock((left, right), scope, rules)


def _one_clock(times: tuple[Expr | None, Expr | None], scope: Scope, rules: TimeRules) -> SideTimes:
    """Count the times of both sides, if both have one, in one unit."""
    left, right = times
    declared = [None if time is None else scope.unit_of(time) for time in times]
    if None not in times and declared[0] != declared[1]:
        shown = " and ".join(unit or "no unit" for unit in declared)
        raise QueryError(
            f"the integer time columns are declared in {shown}; convert one of them in a subquery "
            "in FROM, so that both count the same unit"
        )
    own_units = tuple(
        "" if time is None else time.type.unit or unit or ""
        for time, unit in zip(times, declared, strict=True)
    )
    stamped = any(time is not None and time.type.kind in TIMESTAMPS for time in times)
    if left is None or right is None:
        return SideTimes(times, "", own_units, stamped)
    try:
        a, b = ops.align(rules.alike(left, right), "the time columns")
    except ExprTypeError:
        raise QueryError(
            f"the time of one table is of type {left.type}, that of the other {right.type}; "
            "convert one of them in a subquery in FROM, so that both count the same"
        ) from None
    return SideTimes((as_integer(a), as_integer(b)), a.type.unit, own_units, stamped)


def time_of(source: Source, scope: Scope, times: Mapping[str, str]) -> Expr | None:
    """The time column of a source: the one named, or its only timestamp."""
    name = _value_for(times, source, scope)
    if name is None:
        stamps = [c for c in source.columns.values() if c.type.kind in TIMESTAMPS]
        return stamps[0] if len(stamps) == 1 else None
    column = source.find(name)
    if column is None:
        raise LikelyMistakeError(f"time: {scope.unknown(source.alias, name)}")
    if column.type.kind not in TIMES | {Kind.INT}:
        # A window has times in it, which SQL around joins may use.
        is_window = column.type.nested.startswith("struct<start: ")
        wrong = LikelyMistakeError if is_window else QueryError
        raise wrong(
            f"time column {source.alias}.{name} is a {column.type}; an integer, date or "
            "timestamp is needed"
        )
    return column


def _without_value(source: Source, kind: Type) -> Expr | None:
    """A column of nothing but NULL as a time; None if there is none."""
    for column in source.columns.values():
        if column.type.kind is Kind.NULL:
            side, name = column.attr
            return ops.column(side, name, kind.as_nullable(True))
    return None


class NoWindowError(BeyondError):
    """Nothing bounds the times of the rows that meet."""


_HOW = (
    "; add a time bound to ON, such as `b.ts BETWEEN a.ts - INTERVAL 60 SECONDS AND a.ts + "
    "INTERVAL 60 SECONDS`, or ROWS (`FROM a [ROWS 1000], b [ROWS 1000]`, `rows=1000` in "
    "Python, `--rows 1000` in a shell), or within"
)


def time_window(
    statement: Statement,
    clock: SideTimes,
    conjuncts: list[Expr],
    within: Within | None,
    is_empty: bool,
) -> tuple[TimeWindow, list[Expr]]:
    """Find the bounds of the time window, and the rest of the join condition.

    Raises
    ------
    QueryError
        A side has no time, or the condition has no bounds.
    """
    left, right = clock.times
    if left is None or right is None:
        source = statement.sources[0 if left is None else 1]
        raise NoWindowError(
            f"the join has no window, and {source.alias} has no time column: name it with "
            f"time (--time {source.alias}=COLUMN in a shell, time={{'{source.alias}': COLUMN}} in "
            f"Python){_HOW if within is None else ''}"
        )
    low, high, remaining = find_time_window(conjuncts, left, right)
    if within is not None:
        if within and isinstance(within, int) and clock.has_timestamps:
            raise QueryError(without_unit("within", within))
        size = _size(within, clock.unit or statement.scope.unit_of(left) or "")
        low = -size if low is None else max(low, -size)
        high = size if high is None else min(high, size)
    if low is None and high is None and is_empty:
        low = high = 0  # nothing matches, in any window
    if low is None and high is None:
        raise NoWindowError(f"the join has no window{_HOW}")
    if low is not None and high is not None and low > high:
        low, high, remaining = 0, 0, [ops.FALSE]  # bounds that no pair can meet
    return TimeWindow(None if low is None else -low, high, clock.unit), remaining


def _size(within: Within, unit: str) -> int:
    """The size of a window in a unit of time, "" for plain integers."""
    if not isinstance(within, timedelta):
        size = within
    elif unit:
        micros = within // timedelta(microseconds=1)
        size, remainder = divmod(micros * 1000, UNIT_NS[unit])
        if remainder:
            raise QueryError(f"within is not a whole number of {unit}")
    else:
        raise QueryError("within is a duration, but the time columns are plain integers")
    if size < 0:
        raise QueryError(f"within must not be negative, not {within!r}")
    return size


_SHAPE = "session_window(l.t, '10 seconds') = session_window(r.t, '10 seconds')"


@dataclass(frozen=True)
class SessionCalls:
    """The equality of two calls of ``session_window``: the left side's time, the right's, the gap.

    Parameters
    ----------
    times : tuple of Expr
        The time columns.
    gap : Expr
        A constant: a duration, or an integer where the times are.
    tree : exp.Expr
        The equality, for messages.
    """

    times: tuple[Expr, Expr]
    gap: Expr
    tree: exp.Expr


def split_sessions(
    condition: exp.Expr, lowering: Lowering
) -> tuple[list[exp.Expr], SessionCalls | None]:
    """Take the equality of sessions out of a join condition; it is a member of its outermost AND.

    Raises
    ------
    QueryError
        There are several, or a session is compared with something else.
    """
    every = members(condition)
    equal = [m for m in every if isinstance(m, exp.EQ) and _has_session(m)]
    if not equal:
        return [condition], None
    if len(equal) > 1:
        raise refused("a join has one session_window per side; leave the other out", equal[1])
    return [m for m in every if m is not equal[0]], _calls(equal[0], lowering)


def _has_session(tree: exp.EQ) -> bool:
    return is_session(tree.this) or is_session(tree.expression)


def _calls(tree: exp.EQ, lowering: Lowering) -> SessionCalls:
    calls = tree.this, tree.expression
    if not all(is_session(call) for call in calls):
        raise refused(f"a session equals only another one, as in {_SHAPE}", tree)
    a, b = (lowering.session(call) for call in calls)
    if a.time.sides == {RIGHT}:
        a, b = b, a
    if (a.time.sides, b.time.sides) != ({LEFT}, {RIGHT}):
        raise refused(f"a join by sessions needs a time of each table, as in {_SHAPE}", tree)
    if length_ns(a.size) != length_ns(b.size):
        raise refused("sessions of a join need the same gap on both sides", tree)
    return SessionCalls((a.time, b.time), a.size, tree)


def sessions_of(
    calls: SessionCalls,
    conjuncts: Sequence[Expr],
    scope: Scope,
    times: Mapping[str, str],
    rules: TimeRules,
) -> Sessions:
    """How rows form sessions: by the equalities beside, and the times of both calls.

    Raises
    ------
    QueryError
        There is no equality beside, or a side's event time is another column.
    """
    for time in calls.times:
        if _column(time) is None:
            raise refused("session_window takes a time column, not a computed time", calls.tree)
    for name, column in times.items():
        source = scope.named(name, "time is")
        time = calls.times[scope.sources.index(source)]
        if source.find(column) is not _column(time):
            raise refused(
                f"the event time of {source.alias} is {column}, and its session_window takes "
                "another column; name that one with time, or leave time out",
                calls.tree,
            )
    keys = keys_of(conjuncts)
    if not keys[0]:
        raise refused(
            "sessions of a join are those of rows with one key: add an equality to ON, such as "
            "l.k = r.k",
            calls.tree,
        )
    clock = _one_clock(calls.times, scope, rules)
    left, right = clock.times
    assert left is not None
    assert right is not None
    gap = min(ticks(calls.gap, clock.unit), MOST_GAP)
    return Sessions((left, right), clock.unit, clock.own_units, gap, keys)


def _column(time: Expr) -> Expr | None:
    """The column of a time, which may be a date that became an instant."""
    while time.op in (Op.INSTANT, Op.CAST):
        time = time.args[0]
    return time if time.op is Op.COLUMN else None
