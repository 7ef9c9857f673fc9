"""Three-valued logic: when is a condition TRUE, when FALSE, when NULL.

``when_true(e)`` is a formula of ANDs and ORs over atoms, with no NOT above an AND, OR or CASE, that
is TRUE exactly where ``e`` is TRUE. As it never negates, an atom that is NULL can count as false:
this is what lets a device represent NULL as a test that fails.
"""

from __future__ import annotations

from penstock.expr import build
from penstock.expr.evaluate import zero_of
from penstock.expr.node import Expr, Op, node
from penstock.types import Kind, Type

_COMPARISONS = frozenset({Op.LT, Op.LE, Op.EQ})


def when_true(expr: Expr) -> Expr:
    """Formula that is TRUE exactly where the condition ``expr`` is TRUE."""
    op, args = expr.op, expr.args
    if op is Op.AND:
        return build.and_(*map(when_true, args))
    if op is Op.OR:
        return build.or_(*map(when_true, args))
    if op is Op.NOT:
        return when_false(args[0])
    if op is Op.CASE:
        return _case(expr, when_true)
    if op is Op.IS_NULL:
        return when_null(args[0])
    if op is Op.EQ and args[0].type.kind is Kind.BOOL:
        a, b = args
        return build.or_(
            build.and_(when_true(a), when_true(b)), build.and_(when_false(a), when_false(b))
        )
    if expr.is_const:
        return build.TRUE if expr.attr is True else build.FALSE
    return expr


def when_false(expr: Expr) -> Expr:
    """Formula that is TRUE exactly where the condition ``expr`` is FALSE."""
    op, args = expr.op, expr.args
    if op is Op.AND:
        return build.or_(*map(when_false, args))
    if op is Op.OR:
        return build.and_(*map(when_false, args))
    if op is Op.NOT:
        return when_true(args[0])
    if op is Op.CASE:
        return _case(expr, when_false)
    if op is Op.IS_NULL:
        return when_not_null(args[0])
    if op is Op.LT:
        return build.order(Op.LE, args[1], args[0])
    if op is Op.LE:
        return build.order(Op.LT, args[1], args[0])
    if op is Op.EQ:
        a, b = args
        if a.type.kind is Kind.BOOL:
            return build.or_(
                build.and_(when_true(a), when_false(b)), build.and_(when_false(a), when_true(b))
            )
        return build.or_(build.order(Op.LT, a, b), build.order(Op.LT, b, a))
    if expr.is_const:
        return build.TRUE if expr.attr is False else build.FALSE
    return build.not_(expr)


def when_null(expr: Expr) -> Expr:
    """Formula that is TRUE exactly where ``expr`` is NULL."""
    if not expr.type.nullable:
        return build.FALSE
    if len(expr.sides) < 2:
        return build.is_null(expr)
    op, args = expr.op, expr.args
    if op in (Op.AND, Op.OR):
        decided = when_false if op is Op.AND else when_true
        # NULL: no argument decides the result, and at least one is NULL.
        return build.and_(build.or_(*map(when_null, args)), *(_undecided(a, decided) for a in args))
    if op is Op.CASE:
        return _case(expr, when_null)
    if op in (Op.LEAST, Op.GREATEST):
        return build.and_(*map(when_null, args))
    nulls = build.or_(*map(when_null, args))
    if op is Op.MOD:
        return build.or_(nulls, build.eq(args[1], build.const(0)))
    return nulls


def when_not_null(expr: Expr) -> Expr:
    """Formula that is TRUE exactly where ``expr`` is not NULL."""
    if not expr.type.nullable:
        return build.TRUE
    if len(expr.sides) < 2:
        return build.not_(build.is_null(expr))
    op, args = expr.op, expr.args
    if op in (Op.AND, Op.OR):
        return build.or_(when_true(expr), when_false(expr))
    if op is Op.CASE:
        return _case(expr, when_not_null)
    if op in (Op.LEAST, Op.GREATEST):
        return build.or_(*map(when_not_null, args))
    known = build.and_(*map(when_not_null, args))
    if op is Op.MOD:
        divisor = args[1]
        return build.and_(known, when_false(build.eq(divisor, build.const(0))))
    return known


def _undecided(expr: Expr, decided) -> Expr:
    other = when_true if decided is when_false else when_false
    return build.or_(when_null(expr), other(expr))


def _case(expr: Expr, of_value) -> Expr:
    """OR over the branches of: no earlier condition is TRUE, this one is, ``of_value`` holds."""
    earlier: list[Expr] = []
    branches = []
    for condition, value in zip(expr.args[:-1:2], expr.args[1::2], strict=False):
        branches.append(build.and_(*earlier, when_true(condition), of_value(value)))
        earlier.append(build.or_(when_false(condition), when_null(condition)))
    branches.append(build.and_(*earlier, of_value(expr.args[-1])))
    return build.or_(*branches)


def without_null(expr: Expr) -> Expr:
    """Two-valued form of a value: equal to ``expr`` wherever it is not NULL, never NULL itself.

    Leaves become their not-nullable twins (zero in place of NULL); LEAST and GREATEST, which skip
    NULL, and conditions inside CASE become explicit choices.
    """
    op, args = expr.op, expr.args
    if expr.is_const:
        return expr if expr.attr is not None else build.const(zero_of(expr.type), expr.type)
    if expr.type.kind is Kind.BOOL and op not in (Op.COLUMN, Op.KEY):
        return guarded(when_true(expr))
    if op in (Op.COLUMN, Op.KEY):
        return expr if not expr.type.nullable else node(op, (), zero_filled(expr.type), expr.attr)
    plain = [without_null(a) for a in args]
    if op is Op.CASE:
        pairs = [(guarded(when_true(c)), v) for c, v in zip(args[:-1:2], plain[1::2], strict=False)]
        return build.case(pairs, plain[-1])
    if op in (Op.LEAST, Op.GREATEST):
        return _extreme(expr, plain)
    made = build.remake(expr, plain)
    return node(made.op, made.args, made.type.as_nullable(False), made.attr)


def zero_filled(dtype: Type) -> Type:
    """The type of a value in which 0 stands for NULL."""
    if dtype.is_integral and dtype.nullable:
        dtype = dtype.within(min(dtype.lo, 0), max(dtype.hi, 0))
    return dtype.as_nullable(False)


def _extreme(expr: Expr, plain: list[Expr]) -> Expr:
    """LEAST or GREATEST of values that may be NULL, as choices: a NULL argument is skipped."""
    pick = build.least if expr.op is Op.LEAST else build.greatest
    result, null = plain[0], when_null(expr.args[0])
    for arg, value in zip(expr.args[1:], plain[1:], strict=True):
        choices = [(guarded(when_null(arg)), result), (guarded(null), value)]
        choices = [(c, v) for c, v in choices if c is not build.FALSE]
        both = pick(result, value)
        result = build.case(choices, both) if choices else both
        null = build.and_(null, when_null(arg))
    return result


def guarded(formula: Expr) -> Expr:
    """Two-valued twin of a formula made by ``when_*``: an atom that is NULL becomes FALSE."""
    if formula.op in (Op.AND, Op.OR):
        join = build.and_ if formula.op is Op.AND else build.or_
        return join(*map(guarded, formula.args))
    if len(formula.sides) < 2:
        return formula
    atom = formula.args[0] if formula.op is Op.NOT else formula
    if atom.op in _COMPARISONS:
        plain = build.order(atom.op, *map(without_null, atom.args))
    else:
        plain = build.prefix(*map(without_null, atom.args))
    if formula.op is Op.NOT:
        plain = build.not_(plain)
    return build.and_(plain, *(guarded(when_not_null(a)) for a in atom.args))
