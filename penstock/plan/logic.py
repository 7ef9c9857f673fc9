"""Three-valued logic: when is a condition TRUE, when FALSE, when NULL.

``when_true(e)`` is a formula of ANDs and ORs over atoms, with no NOT above an AND, OR or CASE, that
is TRUE exactly where ``e`` is TRUE. As it never negates, an atom that is NULL can count as false:
this is what lets a device represent NULL as a test that fails.

All of it is recursive: a deep expression needs room for it, see :func:`penstock.stack.run_deep`.
"""

from __future__ import annotations

from ..expr import ops
from ..expr.node import Expr, Op, node, once_per_node
from ..expr.values import zero_of
from ..types import Kind, Type

#: Branches of a CASE whose conditions are not repeated for each branch behind them.
_MANY_BRANCHES = 8


@once_per_node
def when_true(expr: Expr) -> Expr:
    """Formula that is TRUE exactly where the condition ``expr`` is TRUE."""
    op, args = expr.op, expr.args
    if op is Op.AND:
        return ops.and_(*map(when_true, args))
    if op is Op.OR:
        return ops.or_(*map(when_true, args))
    if op is Op.NOT:
        return when_false(args[0])
    if op is Op.CASE:
        return _case(expr, when_true)
    if op is Op.IS_NULL:
        return when_null(args[0])
    if op is Op.EQ and args[0].type.kind is Kind.BOOL:
        a, b = args
        return ops.or_(ops.and_(when_true(a), when_true(b)), ops.and_(when_false(a), when_false(b)))
    if expr.is_const:
        return ops.TRUE if expr.attr is True else ops.FALSE
    return expr


@once_per_node
def when_false(expr: Expr) -> Expr:
    """Formula that is TRUE exactly where the condition ``expr`` is FALSE."""
    op, args = expr.op, expr.args
    if op is Op.AND:
        return ops.or_(*map(when_false, args))
    if op is Op.OR:
        return ops.and_(*map(when_false, args))
    if op is Op.NOT:
        return when_true(args[0])
    if op is Op.CASE:
        return _case(expr, when_false)
    if op is Op.IS_NULL:
        return when_not_null(args[0])
    if op is Op.LT:
        return ops.order(Op.LE, args[1], args[0])
    if op is Op.LE:
        return ops.order(Op.LT, args[1], args[0])
    if op is Op.EQ:
        a, b = args
        if a.type.kind is Kind.BOOL:
            return ops.or_(
                ops.and_(when_true(a), when_false(b)), ops.and_(when_false(a), when_true(b))
            )
        return ops.or_(ops.order(Op.LT, a, b), ops.order(Op.LT, b, a))
    if expr.is_const:
        return ops.TRUE if expr.attr is False else ops.FALSE
    return ops.not_(expr)


@once_per_node
def when_null(expr: Expr) -> Expr:
    """Formula that is TRUE exactly where ``expr`` is NULL."""
    if not expr.type.nullable:
        return ops.FALSE
    if len(expr.sides) < 2:
        return ops.is_null(expr)
    op, args = expr.op, expr.args
    if op in (Op.AND, Op.OR):
        decided = when_false if op is Op.AND else when_true
        # NULL: no argument decides the result, and at least one is NULL.
        return ops.and_(ops.or_(*map(when_null, args)), *(_undecided(a, decided) for a in args))
    if op is Op.CASE:
        return _case(expr, when_null)
    if op in (Op.LEAST, Op.GREATEST):
        return ops.and_(*map(when_null, args))
    nulls = ops.or_(*map(when_null, args))
    if op is Op.MOD:
        return ops.or_(nulls, _is_zero(args[1]))
    return nulls


@once_per_node
def when_not_null(expr: Expr) -> Expr:
    """Formula that is TRUE exactly where ``expr`` is not NULL."""
    if not expr.type.nullable:
        return ops.TRUE
    if len(expr.sides) < 2:
        return ops.not_(ops.is_null(expr))
    op, args = expr.op, expr.args
    if op in (Op.AND, Op.OR):
        return ops.or_(when_true(expr), when_false(expr))
    if op is Op.CASE:
        return _case(expr, when_not_null)
    if op in (Op.LEAST, Op.GREATEST):
        return ops.or_(*map(when_not_null, args))
    known = ops.and_(*map(when_not_null, args))
    if op is Op.MOD:
        return ops.and_(known, when_false(_is_zero(args[1])))
    return known


def _is_zero(expr: Expr) -> Expr:
    return ops.order(Op.EQ, expr, ops.const(zero_of(expr.type), expr.type))


def _undecided(expr: Expr, decided) -> Expr:
    other = when_true if decided is when_false else when_false
    return ops.or_(when_null(expr), other(expr))


def _case(expr: Expr, of_value) -> Expr:
    """OR over the branches of: no earlier condition is TRUE, this one is, ``of_value`` holds.

    Of many branches each is nested in what the one before leaves, so that the size is linear.
    """
    if len(expr.args) > 2 * _MANY_BRANCHES:
        result = of_value(expr.args[-1])
        for condition, value in zip(expr.args[-3::-2], expr.args[-2::-2], strict=True):
            taken = ops.and_(when_true(condition), of_value(value))
            passed = ops.or_(when_false(condition), when_null(condition))
            result = ops.or_(taken, ops.and_(passed, result))
        return result
    earlier: list[Expr] = []
    branches = []
    for condition, value in zip(expr.args[:-1:2], expr.args[1::2], strict=False):
        branches.append(ops.and_(*earlier, when_true(condition), of_value(value)))
        earlier.append(ops.or_(when_false(condition), when_null(condition)))
    branches.append(ops.and_(*earlier, of_value(expr.args[-1])))
    return ops.or_(*branches)


@once_per_node
def without_null(expr: Expr) -> Expr:
    """Two-valued form of a value: equal to ``expr`` wherever it is not NULL, never NULL itself.

    Leaves become their not-nullable twins (zero in place of NULL); LEAST and GREATEST, which skip
    NULL, and conditions inside CASE become explicit choices.
    """
    op, args = expr.op, expr.args
    if expr.is_const:
        return expr if expr.attr is not None else ops.const(zero_of(expr.type), expr.type)
    if expr.type.kind is Kind.BOOL and op not in (Op.COLUMN, Op.KEY):
        return guarded(when_true(expr))
    if op in (Op.COLUMN, Op.KEY):
        return expr if not expr.type.nullable else node(op, (), zero_filled(expr.type), expr.attr)
    plain = [without_null(a) for a in args]
    if op is Op.CASE:
        plain[:-1:2] = [guarded(when_true(c)) for c in args[:-1:2]]
    if op in (Op.LEAST, Op.GREATEST):
        return _extreme(expr, plain)
    return ops.two_valued(expr, plain)


def zero_filled(dtype: Type) -> Type:
    """The type of a value in which 0 stands for NULL."""
    if dtype.is_integral and dtype.nullable:
        dtype = dtype.within(min(dtype.lo, 0), max(dtype.hi, 0))
    return dtype.as_nullable(False)


def _extreme(expr: Expr, plain: list[Expr]) -> Expr:
    """LEAST or GREATEST of values that may be NULL, as choices: a NULL argument is skipped."""
    result, null = plain[0], when_null(expr.args[0])
    for arg, value in zip(expr.args[1:], plain[1:], strict=True):
        choices = [(guarded(when_null(arg)), result), (guarded(null), value)]
        choices = [(c, v) for c, v in choices if c is not ops.FALSE]
        both = ops.remake(expr, (result, value))
        flat = [x for choice in choices for x in choice]
        result = ops.typed(Op.CASE, (*flat, both), expr.type) if choices else both
        null = ops.and_(null, when_null(arg))
    return result


@once_per_node
def guarded(formula: Expr) -> Expr:
    """Two-valued twin of a formula made by ``when_*``: an atom that is NULL becomes FALSE."""
    if formula.op in (Op.AND, Op.OR):
        join = ops.and_ if formula.op is Op.AND else ops.or_
        return join(*map(guarded, formula.args))
    if len(formula.sides) < 2:
        return formula
    atom = formula.args[0] if formula.op is Op.NOT else formula
    plain = ops.remake(atom, [without_null(a) for a in atom.args])
    if formula.op is Op.NOT:
        plain = ops.not_(plain)
    return ops.and_(plain, *(guarded(when_not_null(a)) for a in atom.args))
