"""Tumbling windows: ``window(t, '10 seconds')``, as in Spark, and what ``date_trunc`` is made of.

A time is mapped to the start of its window, ``[start, start + size)``; windows begin at the Unix
epoch, or at 0 of an integer column, plus an offset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp, parse_one
from sqlglot.errors import ParseError

from penstock.errors import QueryError
from penstock.expr import build
from penstock.expr.build.align import finer, to_unit
from penstock.expr.node import Expr, Op
from penstock.query.dialect import Penstock, place, snippet
from penstock.types import TIMES, TIMESTAMPS, UNIT_NS, Kind, Type


@dataclass(frozen=True)
class Tumbling:
    """A tumbling window over an expression.

    Parameters
    ----------
    time : Expr
    start : Expr
        Of the window in which the time lies.
    size : Expr
        Constant: a duration, or an integer where the time is one.
    """

    time: Expr
    start: Expr
    size: Expr

    @property
    def end(self) -> Expr:
        return build.add(self.start, self.size)


def tumbling(time: Expr, size: Expr, offset: Expr | None = None) -> Tumbling:
    """Windows of a size; see :class:`Tumbling`."""
    since = time
    if time.type.kind is not Kind.INT:
        spans = [size] if offset is None else [size, offset]
        unit = finer(time.type.unit, *(span.type.unit for span in spans))
        kind = Kind.TIMESTAMP if time.type.kind is Kind.DATE else time.type.kind
        time = to_unit(time, unit, kind)
        epoch = build.const(0, Type(kind, unit=unit))
        since = build.sub(time, epoch)
    if offset is not None and offset.attr:
        since = build.sub(since, offset)
    inside = build.mod(build.add(build.mod(since, size), size), size)  # of negative times, too
    return Tumbling(time, build.sub(time, inside), size)


def as_tumbling(expr: Expr) -> Tumbling | None:
    """The tumbling window whose start an expression is, if it is one."""
    if expr.op is not Op.SUB:
        return None
    time, inside = expr.args
    if inside.op is not Op.MOD or inside.args[0].op is not Op.ADD:
        return None
    first, size = inside.args[0].args[0], inside.args[1]
    if first.op is not Op.MOD or not size.is_const or not size.attr or size.attr < 0:
        return None
    since = first.args[0]
    if time.type.kind not in TIMESTAMPS | {Kind.INT}:
        return None
    candidates: list[Expr | None] = [None]
    if since.op is Op.SUB and since.args[1].is_const:
        candidates.append(since.args[1])
    for offset in candidates:
        made = tumbling(time, size, offset)
        if made.start is expr:
            return made
    return None


def is_window(tree: exp.Expr | None) -> bool:
    """Whether a call is ``window(...)``."""
    return isinstance(tree, exp.Anonymous) and tree.name.lower() == "window"


def read_window(
    tree: exp.Anonymous, lower: Callable[[exp.Expr], Expr], in_unit: Callable[[Expr, Expr], Expr]
) -> Tumbling:
    """A call of ``window(time, size[, slide[, start]])``.

    Parameters
    ----------
    tree : sqlglot Anonymous
    lower : callable
        Lowers an expression.
    in_unit : callable
        Turns a duration beside an integer of a declared unit into an integer: ``in_unit(duration,
        integer)``.

    Raises
    ------
    QueryError
        An argument is not a constant span, windows overlap, or the first is no time.
    """
    arguments = tree.expressions
    if not 2 <= len(arguments) <= 4:
        raise QueryError(f"window takes a time and a size, as in window(t, '10 seconds') "
                         f"({place(tree)})")  # fmt: skip
    time = lower(arguments[0])
    if time.type.kind not in TIMES | {Kind.INT}:
        raise QueryError(f"window needs a time or an integer, not {time.type} ({place(tree)})")
    spans = [_span(argument, time, lower, in_unit, tree) for argument in arguments[1:]]
    size = spans[0]
    if size.attr < 1:
        raise QueryError(f"the size of a window must be above 0 ({place(tree)})")
    if len(spans) > 1 and _ns(spans[1]) != _ns(size):
        raise QueryError(
            f"sliding windows are not supported; leave the slide of window(...) out ({place(tree)})"
        )
    return tumbling(time, size, spans[2] if len(spans) > 2 else None)


def window_field(made: Tumbling, name: str, tree: exp.Expr) -> Expr:
    """``window.start`` or ``window.end``.

    Raises
    ------
    QueryError
    """
    if name.lower() not in ("start", "end"):
        raise QueryError(f"a window has start and end, not {name} ({place(tree)})")
    return made.start if name.lower() == "start" else made.end


def _span(
    tree: exp.Expr,
    time: Expr,
    lower: Callable[[exp.Expr], Expr],
    in_unit: Callable[[Expr, Expr], Expr],
    call: exp.Expr,
) -> Expr:
    """A constant size, in the unit of an integer time."""
    if isinstance(tree, exp.Literal) and tree.is_string:
        try:
            if "'" in str(tree.this):
                raise ParseError("a quote in an interval")
            tree = parse_one(f"INTERVAL '{tree.this}'", dialect=Penstock)
        except ParseError:
            raise QueryError(f"{snippet(tree)} is no interval ({place(call)})") from None
    found = lower(tree)
    if not found.is_const or found.attr is None:
        raise QueryError(f"window takes constant sizes, not {snippet(tree)} ({place(call)})")
    wanted = Kind.INT if time.type.kind is Kind.INT else Kind.DURATION
    if wanted is Kind.INT and found.type.kind is Kind.DURATION:
        found = in_unit(found, time)
    if found.type.kind is not wanted:
        remedy = (
            "give its size as an integer, or declare the unit of the time (time={'l': 't:ms'})"
            if wanted is Kind.INT
            else "give its size as an interval, as '10 seconds'"
        )
        raise QueryError(f"window over a {time.type}: {remedy} ({place(call)})")
    return found


def _ns(span: Expr) -> int:
    return span.attr * UNIT_NS.get(span.type.unit, 1)
