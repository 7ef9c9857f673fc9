"""Finds arithmetic that may overflow Spark's types: exact here, wrapped in Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..expr.node import Expr, Op, show, walk
from ..expr.ops.decimals import least_bits, spark_bits
from ..plan.group_query import GroupQuery
from ..plan.query import JoinQuery, TimeWindow

#: Spark's integers by their bits.
INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}
OVERFLOWING = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.ABS, Op.SHL})
#: Most expressions that a note names.
_SHOWN = 3


def beyond_spark(query: JoinQuery | GroupQuery) -> list[str]:
    """Notes for a query, one per type of Spark that its arithmetic may overflow."""
    overflows: dict[str, list[str]] = {}
    # Overflows of CHECKED values are errors.
    for root in (one for one in _roots(query) if one.op is not Op.CHECKED):
        for expr, name in _leaving(root):
            overflows.setdefault(name, []).append(f"`{show(expr, query.names)}`")
    for name in _of_window(query):
        overflows.setdefault(name, []).append("the bounds of the window")
    return [_note(name, list(dict.fromkeys(texts))) for name, texts in overflows.items()]


def _note(name: str, texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    shown = ", ".join(texts[:_SHOWN])
    return f"exact; beyond {name} Spark wraps, or raises in ANSI mode: {shown}{more}"


def _roots(query: JoinQuery | GroupQuery) -> Iterator[Expr]:
    yield from (side.filter for side in query.sides)
    if isinstance(query, JoinQuery):
        yield query.predicate
        yield from (value for _, value in query.select)
    groups = query.aggregation
    if groups is not None:
        yield from groups.keys
        for one in groups.aggregates:
            yield from one.arguments
        yield from (value for _, value in groups.select)
        yield groups.having


def _leaving(root: Expr) -> Iterator[tuple[Expr, str]]:
    """Nodes that may overflow in Spark, each with its type there."""
    left: set[Expr] = set()
    for expr in walk(root):
        bits = spark_bits(expr)
        if not left.isdisjoint(expr.args):  # told of a part of it
            left.add(expr)
            continue
        if expr.op not in OVERFLOWING:
            continue
        if bits is not None and least_bits(expr.type, (bits,)) is None:
            left.add(expr)
            yield expr, INTEGERS[bits]


def _of_window(query: JoinQuery | GroupQuery) -> Iterator[str]:
    """The type of integer times: Spark adds the bounds of the window to them."""
    if not isinstance(query, JoinQuery):
        return
    window, times = query.window, [side.time for side in query.sides]
    if not isinstance(window, TimeWindow) or not (window.before or window.after):
        return
    widths = [least_bits(t.type) for t in times if t is not None and not t.args]
    known = [bits for bits in widths if bits is not None]
    if len(known) == len(times):
        yield INTEGERS[max(known)]
