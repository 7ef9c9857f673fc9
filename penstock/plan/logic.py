"""Three-valued logic: when is a condition TRUE, when FALSE, when NULL.

``when_true(e)`` is a formula of ANDs and ORs over atoms, with no NOT above an AND, OR or CASE, that
is TRUE exactly where ``e`` is TRUE. As it never negates, an atom that is NULL can count as false:
this is what lets a device represent NULL as a test that fails.

All of it is recursive: a deep expression needs room for it, see :func:`penstock.stack.run_deep`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..errors import DataError
from ..expr import ops
from ..expr.columns import evaluate
from ..expr.node import DIVISIONS, Expr, Op, node, once_per_node
from ..expr.values import zero_of
from ..types import Kind, Type

#: Branches of a CASE whose conditions are not repeated for each branch behind them.
_MANY_BRANCHES = 8


@once_per_node
def when_true(expr: Expr) -> Expr:
    """Formula that is TRUE exactly where the condition ``expr`` is TRUE."""
    formula = _decided(expr, True)
    return expr if formula is None else formula


@once_per_node
def when_false(expr: Expr) -> Expr:
    """Formula that is TRUE exactly where the condition ``expr`` is FALSE."""
    formula = _decided(expr, False)
    if formula is not None:
        return formula
    if expr.op not in (Op.LT, Op.LE, Op.EQ):
        return ops.not_(expr)
    a, b = expr.args
    if expr.op is Op.EQ:
        return ops.or_(ops.order(Op.LT, a, b), ops.order(Op.LT, b, a))
    return ops.order(Op.LE if expr.op is Op.LT else Op.LT, b, a)


def _decided(expr: Expr, wanted: bool) -> Expr | None:
    """Formula that is TRUE exactly where a condition has a truth value; None for an atom."""
    op, args = expr.op, expr.args
    when, when_other = (when_true, when_false) if wanted else (when_false, when_true)
    if op in (Op.AND, Op.OR):
        join = ops.and_ if (op is Op.AND) is wanted else ops.or_
        return join(*map(when, args))
    if op is Op.NOT:
        return when_other(args[0])
    if op is Op.CASE:
        return _case(expr, when)
    if op is Op.IS_NULL:
        return (when_null if wanted else when_not_null)(args[0])
    if op is Op.EQ and args[0].type.kind is Kind.BOOL:
        a, b = args
        return ops.or_(ops.and_(when_true(a), when(b)), ops.and_(when_false(a), when_other(b)))
    if expr.is_const:
        return ops.TRUE if expr.attr is wanted else ops.FALSE
    if any(map(_is_null_constant, args)) and op in (Op.LT, Op.LE, Op.EQ):
        return ops.FALSE
    return None


def _is_null_constant(expr: Expr) -> bool:
    """Whether an expression without columns, such as ``9 % 0``, is NULL."""
    if expr.sides or not expr.type.nullable:
        return False
    try:
        return evaluate(expr) is None
    except DataError:  # in ANSI mode, for the row that meets it
        return False


@once_per_node
def when_null(expr: Expr) -> Expr:
    """Formula that is TRUE exactly where ``expr`` is NULL."""
    if not expr.type.nullable:
        return ops.FALSE
    if _is_null_constant(expr):
        return ops.TRUE
    if len(expr.sides) < 2:
        return ops.is_null(expr)
    op, args = expr.op, expr.args
    if op in (Op.AND, Op.OR):
        undecided = when_true if op is Op.AND else when_false
        # NULL: no argument decides the result, and at least one is NULL.
        passed = (ops.or_(when_null(a), undecided(a)) for a in args)
        return ops.and_(ops.or_(*map(when_null, args)), *passed)
    if op is Op.CASE:
        return _case(expr, when_null)
    if op in (Op.LEAST, Op.GREATEST):
        return ops.and_(*map(when_null, args))
    zero = (_is_zero(args[1]),) if op in DIVISIONS else ()
    return ops.or_(*map(when_null, args), *zero)


@once_per_node
def when_not_null(expr: Expr) -> Expr:
    """Formula that is TRUE exactly where ``expr`` is not NULL."""
    if not expr.type.nullable:
        return ops.TRUE
    if _is_null_constant(expr):
        return ops.FALSE
    if len(expr.sides) < 2:
        return ops.not_(ops.is_null(expr))
    op, args = expr.op, expr.args
    if op in (Op.AND, Op.OR):
        return ops.or_(when_true(expr), when_false(expr))
    if op is Op.CASE:
        return _case(expr, when_not_null)
    if op in (Op.LEAST, Op.GREATEST):
        return ops.or_(*map(when_not_null, args))
    not_zero = (when_false(_is_zero(args[1])),) if op in DIVISIONS else ()
    return ops.and_(*map(when_not_null, args), *not_zero)


def _is_zero(expr: Expr) -> Expr:
    return ops.order(Op.EQ, expr, ops.const(zero_of(expr.type), expr.type))


def conjuncts_of(condition: Expr) -> list[Expr]:
    """Members of the outermost AND, where only whether it is TRUE matters."""
    if condition.op is Op.NOT:  # NOT (a OR b) is an AND, too
        condition = when_true(condition)
    if condition.op is Op.AND:
        return [member for arg in condition.args for member in conjuncts_of(arg)]
    return [] if condition is ops.TRUE else [condition]


def equalities(conjuncts: Iterable[Expr], side: str) -> Iterator[tuple[Expr, Expr, Expr]]:
    """Yield each conjunct ``a = b`` with ``a`` over one side only and ``b`` without it, a and b."""
    for conjunct in conjuncts:
        for a, b in (conjunct.args, conjunct.args[::-1]) if conjunct.op is Op.EQ else ():
            if a.sides == {side} and side not in b.sides:
                yield conjunct, a, b


def _case(expr: Expr, of_value: Callable[[Expr], Expr]) -> Expr:
    """OR over the branches of: no earlier condition is TRUE, this one is, ``of_value`` holds.

    Of many branches each is nested in what the one before leaves, so that the size is linear.
    """
    *branches, last = expr.args
    conditions, values = branches[::2], [of_value(value) for value in (*branches[1::2], last)]
    outcomes = [ops.and_(when_true(c), v) for c, v in zip(conditions, values, strict=False)]
    passed = [ops.or_(when_false(c), when_null(c)) for c in conditions]
    if len(conditions) >= _MANY_BRANCHES:
        result = values[-1]
        for outcome, none_before in zip(reversed(outcomes), reversed(passed), strict=True):
            result = ops.or_(outcome, ops.and_(none_before, result))
        return result
    return ops.or_(
        *(ops.and_(*passed[:k], outcome) for k, outcome in enumerate([*outcomes, values[-1]]))
    )


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
