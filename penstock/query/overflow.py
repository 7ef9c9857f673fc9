"""Finds arithmetic that may overflow Spark's types: exact here, wrapped or rounded in Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..expr.node import Expr, Op, show, walk
from ..plan.group_query import GroupQuery
from ..plan.query import JoinQuery, TimeWindow
from ..types import Kind, Type

#: Spark's integers by their bits.
_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}
_LITERALS = (32, 64)
#: Spark's widest decimal has 38 digits; a sum has one more than its terms.
_WIDEST, _MOST = "DECIMAL(38)", 10**37
_ARITHMETIC = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.ABS, Op.SHL})
#: Most expressions that a note names.
_SHOWN = 3


def beyond_spark(query: JoinQuery | GroupQuery) -> list[str]:
    """Notes for a query, one per type of Spark that its arithmetic may overflow."""
    found: dict[str, list[str]] = {}
    for root in _roots(query):
        for expr, name in _leaving(root):
            found.setdefault(name, []).append(f"`{show(expr, query.names)}`")
    for name in _of_window(query):
        found.setdefault(name, []).append("the bounds of the window")
    return [_note(name, list(dict.fromkeys(texts))) for name, texts in found.items()]


def _note(name: str, texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    then = "rounds or gives NULL" if name == _WIDEST else "wraps, or raises in ANSI mode"
    return f"exact; beyond {name} Spark {then}: {', '.join(texts[:_SHOWN])}{more}"


def _roots(query: JoinQuery | GroupQuery) -> Iterator[Expr]:
    yield from (side.filter for side in query.sides)
    if isinstance(query, JoinQuery):
        yield query.predicate
        yield from (value for _, value in query.select)
    made = query.aggregation
    if made is not None:
        yield from made.keys
        for one in made.aggregates:
            yield from (expr for expr in (one.value, one.by) if expr is not None)
        yield from (value for _, value in made.select)
        yield made.having


def _leaving(root: Expr) -> Iterator[tuple[Expr, str]]:
    """Nodes that may overflow in Spark, each with its type there."""
    bits: dict[Expr, int | None] = {}
    left: set[Expr] = set()
    for expr in walk(root):
        own = bits[expr] = _bits(expr, [bits[a] for a in expr.args])
        if not left.isdisjoint(expr.args):  # told of a part of it
            left.add(expr)
            continue
        if expr.op not in _ARITHMETIC:
            continue
        if expr.type.kind is Kind.DECIMAL and max(-expr.type.lo, expr.type.hi) >= _MOST:
            left.add(expr)
            yield expr, _WIDEST
        elif own is not None and _least(expr.type, (own,)) is None:
            left.add(expr)
            yield expr, _INTEGERS[own]


def _bits(expr: Expr, args: Sequence[int | None]) -> int | None:
    """Bits of the integer that Spark computes with; None for other values."""
    if expr.type.kind is not Kind.INT:
        return None
    if expr.op in (Op.COLUMN, Op.CAST):
        return _least(expr.type, tuple(_INTEGERS))
    if expr.is_const:
        return _least(expr.type, _LITERALS)
    if expr.op in (Op.SHL, Op.SHR):
        return args[0]
    values = [*args[1::2], args[-1]] if expr.op is Op.CASE else args
    known = [bits for bits in values if bits is not None]
    return max(known) if known and len(known) == len(values) else None


def _least(dtype: Type, widths: Sequence[int]) -> int | None:
    """The smallest of some widths that holds all values of a type, if any."""
    fits = (b for b in widths if -(1 << (b - 1)) <= dtype.lo and dtype.hi < 1 << (b - 1))
    return next(fits, None)


def _of_window(query: JoinQuery | GroupQuery) -> Iterator[str]:
    """The type of integer times: Spark adds the bounds of the window to them."""
    if not isinstance(query, JoinQuery):
        return
    window, times = query.window, [side.time for side in query.sides]
    if not isinstance(window, TimeWindow) or not (window.before or window.after):
        return
    widths = [_least(t.type, tuple(_INTEGERS)) for t in times if t is not None and not t.args]
    known = [bits for bits in widths if bits is not None]
    if len(known) == len(times):
        yield _INTEGERS[max(known)]
