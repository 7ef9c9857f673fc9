"""Tumbling windows: ``window(t, '10 seconds')``, as in Spark, and the base of ``date_trunc``.

A time is mapped to the start of its window, ``[start, start + size)``; windows begin at the Unix
epoch, or at 0 of an integer column, plus an offset.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types import TIMESTAMPS, Kind, Type
from . import ops
from .node import Expr, Op
from .ops.align import finer, to_unit


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
    offset : Expr, optional
        Constant as ``size`` is: where windows begin after the epoch; 0 by default.
    """

    time: Expr
    start: Expr
    size: Expr
    offset: Expr | None = None

    @property
    def end(self) -> Expr:
        return ops.add(self.start, self.size)


def tumbling(time: Expr, size: Expr, offset: Expr | None = None) -> Tumbling:
    """Make the tumbling windows of a size over a time."""
    since = time
    if time.type.kind is not Kind.INT:
        spans = [size] if offset is None else [size, offset]
        unit = finer(time.type.unit, *(span.type.unit for span in spans))
        kind = Kind.TIMESTAMP if time.type.kind is Kind.DATE else time.type.kind
        time = to_unit(time, unit, kind)
        epoch = ops.const(0, Type(kind, unit=unit))
        since = ops.sub(time, epoch)
    if offset is not None and offset.attr:
        since = ops.sub(since, offset)
    inside = ops.mod(ops.add(ops.mod(since, size), size), size)  # of negative times, too
    return Tumbling(time, ops.sub(time, inside), size, offset)


def as_tumbling(expr: Expr) -> Tumbling | None:
    """Recognize the start of a tumbling window; None for any other expression."""
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
        window = tumbling(time, size, offset)
        if window.start is expr:
            return window
    return None
