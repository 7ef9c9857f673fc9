"""ANSI mode: an error where Spark has one, not NULL or a value that Spark's type cannot hold.

Whether a row fails is a condition on the values that an expression reads. So a branch of CASE that
is not taken does not fail, and b of ``a AND b`` does not in rows for which a is FALSE. Without ANSI
mode, arithmetic that may overflow Spark's types is exact here, and wrapped in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ..errors import QueryError
from ..expr import ops
from ..expr.node import DIVISIONS, Expr, Op, once_per_node, show, walk
from ..expr.ops.decimals import before_settling, least_bits, spark_bits
from ..expr.ops.logic import order
from ..expr.ops.typed_nodes import typed
from ..plan.group_query import GroupQuery
from ..plan.logic import conjuncts_of
from ..plan.query import Aggregation, JoinQuery, Side, TimeWindow
from ..plan.simplify import simplify
from ..types import integer

_ZERO, _REMAINDER, _OVERFLOW = "DIVIDE_BY_ZERO", "REMAINDER_BY_ZERO", "ARITHMETIC_OVERFLOW"
#: What is said of an expression that fails, by Spark's name of the error.
_SAID = {
    **dict.fromkeys((_ZERO, _REMAINDER), "the divisor `{}` is 0: write NULLIF(divisor, 0)"),
    "NUMERIC_VALUE_OUT_OF_RANGE": "what is computed of `{}` is beyond {}: CAST it to fewer digits",
    _OVERFLOW: "`{}` is beyond Spark's {}: CAST an operand to a wider type",
}
#: When parts of an expression fail, by what fails, Spark's name of the error, and Spark's type.
_Failures = Mapping[tuple[Expr, str, str], Expr]


def under_ansi(query: JoinQuery | GroupQuery) -> JoinQuery | GroupQuery:
    """The query that fails where Spark's fails.

    Integers that a condition computes from both sides never fail: the device chooses which pairs it
    compares, as Spark does.

    Raises
    ------
    QueryError
        The condition of a join may fail for a pair of which nothing is computed that could raise.
    """
    if isinstance(query, GroupQuery):
        lookup = None if query.lookup is None else _join(query.lookup)
        groups = _aggregation(query.aggregation, query.names)
        return replace(
            query, source=_side(query.source, query.names), aggregation=groups, lookup=lookup
        )
    return _join(query)


def checked(expr: Expr, names: Mapping[str, str] | None = None) -> Expr:
    """A value that is an error in rows in which Spark's is; ``names`` is as for ``show``."""
    return _checked(expr, _failures(expr), partial(show, names=names))


def may_fail(expr: Expr) -> bool:
    """Whether there may be rows in which the value is an error."""
    return bool(_failures(expr))


def _join(query: JoinQuery) -> JoinQuery:
    names = query.names
    left, right = (_side(side, names) for side in query.sides)
    select = tuple((name, checked(value, names)) for name, value in query.select)
    groups = None if query.aggregation is None else _aggregation(query.aggregation, names)
    nearest = query.nearest
    if nearest is not None:
        nearest = replace(nearest, value=checked(nearest.value, names))
    members = [(one, _of_pairs(one)) for one in conjuncts_of(query.predicate)]
    failing = ops.and_(*(one for one, failures in members if failures))
    failures = _of_pairs(failing)
    predicate, guards = query.predicate, ()
    if failures:
        if query.kind.is_existence:
            part, error, limit = next(iter(failures))
            raise QueryError(
                f"in ANSI mode the condition of a {query.kind.value} JOIN must not fail, as it "
                f"does where {_SAID[error].format(show(part, names), limit)}, or turn ANSI mode off"
            )
        # Pairs that fail are let in, and what leaves of them is the error.
        safe = (one for one, fails in members if not fails)
        predicate = simplify(ops.and_(*safe, ops.or_(failing, *failures.values())))
        guards = (_checked(ops.const(1, integer(1, 1)), failures, partial(show, names=names)),)
    if groups is not None and (guards or _of_both_sides(groups)):
        nearest = next((one for one in groups.aggregates if one.by is not None), None)
        if nearest is not None:
            raise QueryError(
                f"in ANSI mode {nearest.text} is not for groups of a join in which a condition or "
                "a value of both sides may fail; write NULLIF(divisor, 0), or turn ANSI mode off"
            )
        groups = replace(groups, side=None)  # pairs are computed, not folded on the device
    return replace(
        query,
        left=left,
        right=right,
        select=select,
        aggregation=groups,
        predicate=predicate,
        guards=guards,
        nearest=nearest,
    )


def _of_both_sides(groups: Aggregation) -> bool:
    """Whether an aggregate's value may fail that is computed from both sides."""
    values = [value for one in groups.aggregates for value in one.arguments]
    return any(
        one.op is Op.CHECKED and len(one.sides) > 1 for value in values for one in walk(value)
    )


def _side(side: Side, names: Mapping[str, str]) -> Side:
    return replace(side, filter=checked(side.filter, names))


def _aggregation(aggregation: Aggregation, names: Mapping[str, str]) -> Aggregation:
    written = {f"key.{k}": show(key, names) for k, key in enumerate(aggregation.keys)}
    written |= {f"agg.{k}": one.text for k, one in enumerate(aggregation.aggregates)}

    def in_groups(expr: Expr) -> str:
        return re.sub(r"\b(key|agg)\.\d+", lambda name: written[name[0]], show(expr))

    def check(expr: Expr) -> Expr:
        # Devices fold integers of both sides, which are exact.
        failures = _of_pairs(expr) if len(expr.sides) > 1 else _failures(expr)
        return _checked(expr, failures, partial(show, names=names))

    def after(expr: Expr) -> Expr:
        return _checked(expr, _failures(expr), in_groups)

    return replace(
        aggregation,
        keys=tuple(map(check, aggregation.keys)),
        aggregates=tuple(one.over(check) for one in aggregation.aggregates),
        select=tuple((name, after(value)) for name, value in aggregation.select),
        having=after(aggregation.having),
    )


def _checked(expr: Expr, failures: _Failures, shown: Callable[[Expr], str]) -> Expr:
    if not failures:
        return expr
    texts = []
    for part, error, limit in failures:
        texts.append(f"[{error}] {_SAID[error].format(shown(part), limit)}, or turn ANSI mode off")
    conditions = map(simplify, failures.values())
    return typed(Op.CHECKED, (expr, *conditions), expr.type, tuple(texts))


def _of_pairs(condition: Expr) -> _Failures:
    return {one: when for one, when in _failures(condition).items() if one[1] != _OVERFLOW}


@once_per_node
def _failures(expr: Expr) -> _Failures:
    """The conditions under which an expression fails."""
    conditions: dict[tuple[Expr, str, str], Expr] = {}

    def add(failures: _Failures, computed: Expr) -> None:
        for one, when in failures.items():
            conditions[one] = ops.or_(conditions.get(one, ops.FALSE), ops.and_(computed, when))

    if any(map(_failures, expr.args)):
        for arg, computed in _computed(expr):
            add(_failures(arg), computed)
    add(_own_failures(expr), ops.TRUE)
    return conditions


def _computed(expr: Expr) -> list[tuple[Expr, Expr]]:
    """The operands, each with the condition under which it is computed."""
    args, reached = expr.args, ops.TRUE
    operands = []
    if expr.op is Op.CASE:
        for condition, value in zip(args[:-1:2], args[1::2], strict=True):
            operands += [(condition, reached), (value, ops.and_(reached, condition))]
            reached = ops.and_(reached, ops.or_(ops.not_(condition), ops.is_null(condition)))
        return [*operands, (args[-1], reached)]
    if expr.op not in (Op.AND, Op.OR):
        return [(arg, reached) for arg in args]
    for arg in args:
        operands.append((arg, reached))
        goes_on = arg if expr.op is Op.AND else ops.not_(arg)
        reached = ops.and_(reached, ops.or_(goes_on, ops.is_null(arg)))
    return operands


def _own_failures(expr: Expr) -> _Failures:
    """The conditions under which the operation itself fails."""
    if expr.op is Op.CASE and expr.attr is not None:
        condition, value, otherwise = expr.args
        # One of the values is the NULL in the place of an error.
        if value.is_null_const:
            return _of_divisor(otherwise, expr.attr, condition)
        settled = before_settling(expr)
        part = settled[0] if settled else value
        while part.op is Op.DIV:  # a quotient, whose numerator is rounded
            part = _divisor(part)
        spark_type = f"DECIMAL({expr.type.digits}, {expr.type.scale})"
        return {(part, expr.attr, spark_type): ops.not_(condition)}
    if expr.op in DIVISIONS:
        by = expr.args[1]
        is_zero = order(Op.EQ, by, ops.const(0.0 if by.type.is_float else 0, by.type))
        return _of_divisor(expr, _REMAINDER if expr.op is Op.MOD else _ZERO, is_zero)
    bits = spark_bits(expr) if expr.op in OVERFLOWING else None
    if bits is None or least_bits(expr.type, (bits,)) is not None:
        return {}
    least, most = (ops.const(end, expr.type) for end in (-(1 << bits - 1), (1 << bits - 1) - 1))
    when = ops.or_(order(Op.LT, expr, least), order(Op.LT, most, expr))
    return {(expr, _OVERFLOW, INTEGERS[bits]): when}


def _of_divisor(quotient: Expr, error: str, is_zero: Expr) -> _Failures:
    """Failures of a division: dividend not NULL, and divisor 0 and not a ``NULLIF``."""
    by = _divisor(quotient)
    if by.op is Op.CASE and by.args[0].op is Op.EQ and by.args[1].is_null_const:
        tested, zero = by.args[0].args
        if tested is by.args[2] and zero.is_const and zero.attr == 0:
            return {}
    fails = simplify(ops.and_(is_zero, ops.not_(ops.is_null(quotient.args[0]))))
    return {} if fails is ops.FALSE else {(by, error, ""): fails}


def _divisor(quotient: Expr) -> Expr:
    """The divisor as the query has it, before it is brought to a common scale or type."""
    by = quotient.args[-1]
    while by.op is Op.CAST or (by.op is Op.MUL and by.args[1].is_const):
        by = by.args[0]
    return by


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
        yield from () if query.nearest is None else (query.nearest.value,)
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
