"""``session_window(l.t, '10 seconds') = session_window(r.t, '10 seconds')`` in ON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from ..errors import QueryError
from ..expr import ops
from ..expr.node import Expr, Op
from ..plan.linear import as_integer
from ..plan.query import LEFT, RIGHT
from ..plan.sessions import MOST_GAP, Sessions, keys_of
from .dialect import refused
from .operators import members
from .scope import Scope
from .time_rules import TimeRules
from .window_function import is_session, length_ns, ticks

if TYPE_CHECKING:
    from .expressions import Lowering

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
    (a, a_gap), (b, b_gap) = (lowering.session(call) for call in calls)
    if a.sides == {RIGHT}:
        (a, a_gap), (b, b_gap) = (b, b_gap), (a, a_gap)
    if (a.sides, b.sides) != ({LEFT}, {RIGHT}):
        raise refused(f"a join by sessions needs a time of each table, as in {_SHAPE}", tree)
    if length_ns(a_gap) != length_ns(b_gap):
        raise refused("sessions of a join need the same gap on both sides", tree)
    return SessionCalls((a, b), a_gap, tree)


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
    left, right = calls.times
    units = [scope.unit_of(time) for time in calls.times]
    if units[0] != units[1]:
        raise QueryError(
            "the integer time columns are declared in different units; convert one of them in a "
            "subquery in FROM, so that both count the same unit"
        )
    own_units = left.type.unit or units[0] or "", right.type.unit or units[1] or ""
    a, b = ops.align(rules.alike(left, right), "the time columns")
    gap = ticks(calls.gap, a)
    both = as_integer(a), as_integer(b)
    return Sessions(both, a.type.unit, own_units, min(gap, MOST_GAP), keys)


def _column(time: Expr) -> Expr | None:
    """The column of a time, which may be a date that became an instant."""
    while time.op in (Op.INSTANT, Op.CAST):
        time = time.args[0]
    return time if time.op is Op.COLUMN else None
