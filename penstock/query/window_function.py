"""``window(t, '10 seconds')`` and ``session_window(t, '10 seconds')`` in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from ..expr.node import Expr
from ..expr.periods import Tumbling, tumbling
from ..types import TIMES, UNIT_NS, Kind
from .dialect import Penstock, beyond, refused, snippet

if TYPE_CHECKING:
    from .expressions import Lowering


def is_window(tree: exp.Expr | None) -> bool:
    """Whether a call is ``window(...)``."""
    return isinstance(tree, exp.Anonymous) and tree.name.lower() == "window"


def is_session(tree: exp.Expr | None) -> bool:
    """Whether a call is ``session_window(...)``."""
    return isinstance(tree, exp.Anonymous) and tree.name.lower() == "session_window"


def read_window(tree: exp.Expr, lowering: Lowering) -> Tumbling:
    """Read a call of ``window(time, size[, slide[, start]])``.

    Raises
    ------
    QueryError
        An argument is not a constant span, windows overlap, or the first is no time.
    """
    arguments = tree.expressions
    if not 2 <= len(arguments) <= 4:
        raise refused("window takes a time and a size, as in window(t, '10 seconds')", tree)
    time = _time(tree, lowering)
    size, *optional = [read_span(arg, time, tree, lowering) for arg in arguments[1:]]
    if size.attr < 1:
        raise refused("the size of a window must be above 0", tree)
    if optional and length_ns(optional[0]) != length_ns(size):
        raise beyond(
            "sliding windows are not supported here, only in groups of a join's pairs: take "
            "tumbling windows of the slide, and add up neighbours",
            tree,
        )
    return tumbling(time, size, *optional[1:])


def read_session(tree: exp.Expr, lowering: Lowering) -> Tumbling:
    """Read ``session_window(time, gap)`` as a window of the gap's size that begins at the time.

    Raises
    ------
    QueryError
        There is no gap, it is no constant above 0, or the first argument is no time.
    """
    arguments = tree.expressions
    if len(arguments) != 2:
        raise refused(
            "session_window takes a time and a gap, as in session_window(t, '10 seconds')", tree
        )
    time = _time(tree, lowering)
    gap = read_span(arguments[1], time, tree, lowering)
    if gap.attr < 1:
        raise refused("the gap of a session must be above 0", tree)
    return Tumbling(time, time, gap)


def _time(tree: exp.Expr, lowering: Lowering) -> Expr:
    """Lower the first argument of a call; a date is the start of its day."""
    time = lowering.lower(tree.expressions[0])
    if time.type.kind not in TIMES | {Kind.INT}:
        raise refused(f"{tree.name.lower()} needs a time or an integer, not {time.type}", tree)
    return lowering.rules.instant(time) if time.type.kind is Kind.DATE else time


def read_span(tree: exp.Expr, time: Expr, call: exp.Expr, lowering: Lowering) -> Expr:
    """Read a constant length, an argument of a call over a time, in a unit of that time.

    Raises
    ------
    QueryError
        It is no constant, or no length of such a time.
    """
    length = lowering.in_unit_of(time, lowering.lower(as_interval(tree, call)))
    if not length.is_const or length.attr is None:
        raise refused(f"{call.name} takes constant sizes, not {snippet(tree)}", call)
    is_integer = time.type.kind is Kind.INT
    if length.type.kind is not (Kind.INT if is_integer else Kind.DURATION):
        remedy = (
            "give its size as an integer, or declare the unit of the time (time={'l': 't:ms'})"
            if is_integer
            else "give its size as an interval, as '10 seconds'"
        )
        raise refused(f"{call.name} over a {time.type}: {remedy}", call)
    return length


def equal_windows(a: Tumbling, b: Tumbling, tree: exp.Expr) -> tuple[Expr, Expr]:
    """Return the starts of two windows, which are equal where both times lie in the same.

    Raises
    ------
    QueryError
        The windows differ in their size or offset.
    """
    if length_ns(a.size) != length_ns(b.size) or _offset_ns(a) != _offset_ns(b):
        raise beyond(
            "windows of a join need the same size and offset on both sides; give both the same",
            tree,
        )
    return a.start, b.start


def window_field(window: Tumbling, name: str, tree: exp.Expr) -> Expr:
    """``window.start`` or ``window.end``; another name is an error."""
    if name.lower() not in ("start", "end"):
        raise refused(f"a window has start and end, not {name}", tree)
    return window.start if name.lower() == "start" else window.end


def as_interval(tree: exp.Expr, call: exp.Expr) -> exp.Expr:
    """Read a size that is written as text as an INTERVAL."""
    if not isinstance(tree, exp.Literal) or not tree.is_string:
        return tree
    try:
        return parse_one(f"INTERVAL {tree.sql(dialect=Penstock)}", dialect=Penstock)
    except SqlglotError:
        raise refused(f"{snippet(tree)} is no interval", call) from None


def _offset_ns(window: Tumbling) -> int:
    return 0 if window.offset is None else length_ns(window.offset) % length_ns(window.size)


def ticks(span: Expr, unit: str) -> int:
    """Return a length in whole units of a time, since times lie whole units apart."""
    return length_ns(span) // UNIT_NS.get(unit, 1)


def length_ns(span: Expr) -> int:
    """Return a constant length in nanoseconds, or as the number that it is."""
    return span.attr * UNIT_NS.get(span.type.unit, 1)
