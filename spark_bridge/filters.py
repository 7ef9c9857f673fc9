"""One-sided conditions that Spark can test exactly as Penstock does, before the shuffle.

Only comparisons without arithmetic qualify: Spark's arithmetic overflows, Penstock's does not. The
task that joins tests the whole condition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.expr.node import Expr, Op
from penstock.plan.logic import conjuncts_of
from penstock.types import Kind

_LONG = range(-(1 << 63), 1 << 63)

#: Longest list for IN that Spark is given: each value becomes an object of its plan.
_MOST_VALUES = 1000

#: Column of Spark for a side and its column of the base table.
ColumnOf = Callable[[tuple[str, str]], Column]


def push(condition: Expr, column_of: Callable[[str], Column]) -> tuple[Column | None, bool]:
    """The part of a condition's outermost AND that Spark can test, and whether that is all of it.

    The part is None if there is none.
    """
    parts = [tested(part, lambda attr: column_of(attr[1])) for part in conjuncts_of(condition)]
    exact = [part for part in parts if part is not None]
    return reduce(and_, exact) if exact else None, len(exact) == len(parts)


def tested(expr: Expr, column_of: ColumnOf) -> Column | None:
    """Write a condition of one or both sides for Spark; None if it may test it otherwise."""
    if expr.is_const:
        return F.lit(expr.attr).cast("boolean")
    if expr.op in (Op.AND, Op.OR):
        parts = [tested(arg, column_of) for arg in expr.args]
        exact = [part for part in parts if part is not None]
        if len(exact) < len(parts):
            return None
        return reduce(and_ if expr.op is Op.AND else or_, exact)
    if expr.op is Op.NOT:
        inner = tested(expr.args[0], column_of)
        return None if inner is None else ~inner
    if expr.op is Op.COLUMN and expr.type.kind is Kind.BOOL:
        return column_of(expr.attr)
    if expr.op is Op.IS_NULL and expr.args[0].op is Op.COLUMN:
        return column_of(expr.args[0].attr).isNull()
    if expr.op in (Op.LT, Op.LE, Op.EQ):
        return _comparison(expr, column_of)
    if expr.op is Op.IN:
        return _in(expr, column_of)
    return None


def _in(expr: Expr, column_of: ColumnOf) -> Column | None:
    value, members = _value(expr.args[0], column_of), expr.attr.values
    if value is None or len(members) > _MOST_VALUES:
        return None
    exact = all(isinstance(member, str) or member in _LONG for member in members)
    return value.isin(list(members)) if exact else None


def _comparison(expr: Expr, column_of: ColumnOf) -> Column | None:
    a, b = (_value(arg, column_of) for arg in expr.args)
    if a is None or b is None:
        return None
    if expr.op is Op.EQ:
        return a == b
    return a < b if expr.op is Op.LT else a <= b


def _value(expr: Expr, column_of: ColumnOf) -> Column | None:
    if expr.type.kind not in (Kind.INT, Kind.STRING):
        return None
    if expr.op is Op.COLUMN:
        return column_of(expr.attr)
    if expr.is_const and (isinstance(expr.attr, str) or expr.attr in _LONG):
        return F.lit(expr.attr)
    return None
