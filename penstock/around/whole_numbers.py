"""Expressions of whole numbers in DuckDB's words: it computes them as Penstock does.

Where every integer in an expression fits 64 bits, by the types of its columns, DuckDB has the same
value, and need not call a function of Penstock's for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from ..expr.node import Expr, Op, walk
from ..expr.ops.infer import keeps_raw
from ..expr.vector import fits_int64
from ..types import Kind, Type
from .calls import ours
from .carried import carried

_UNARY = {Op.NEG: exp.Neg, Op.NOT: exp.Not, Op.ABS: exp.Abs}
_BINARY = {Op.ADD: exp.Add, Op.SUB: exp.Sub, Op.MUL: exp.Mul, Op.MOD: exp.Mod, Op.DIV: exp.IntDiv}
_BINARY |= {Op.LT: exp.LT, Op.LE: exp.LTE, Op.EQ: exp.EQ, Op.AND: exp.And, Op.OR: exp.Or}
_ALIKE = _UNARY.keys() | _BINARY.keys() | {Op.CONST, Op.CASE, Op.IS_NULL}
#: Most nodes of an expression; a longer one is evaluated faster in Penstock.
_MOST = 64


def in_words(whole: Expr, columns: Mapping[Expr, exp.Expr]) -> exp.Expr | None:
    """Write an expression of integers of 64 bits and truth values in DuckDB's words.

    Parameters
    ----------
    columns : mapping of Expr to sqlglot's expression
        Columns, and what DuckDB computes, as they are written.

    Returns
    -------
    sqlglot's expression or None
        None where DuckDB might have another value, or none.
    """
    nodes = [*walk(whole)]
    operands = [arg for one in nodes for arg in one.args if arg.args]
    # The text has an operand as often as it is used, and so each operand of that one.
    if len(nodes) > _MOST or len(set(operands)) < len(operands):
        return None
    written: dict[Expr, exp.Expr] = {}
    for one in nodes:
        if one in columns:
            is_tested = one is not whole and all(
                user.op is Op.IS_NULL for user in nodes if one in user.args
            )
            if not (is_tested or one.type.kind is Kind.BOOL or _is_carried(one.type)):
                return None
            written[one] = _typed(one, columns[one].copy())
        elif _is_alike(one):
            written[one] = _node(one, [written[arg].copy() for arg in one.args])
        else:
            return None
    return written[whole]


def _is_carried(dtype: Type) -> bool:
    return dtype.is_integral and carried(dtype) == pa.int64()


def _is_alike(one: Expr) -> bool:
    """Whether DuckDB has the value of a node, given those of its operands."""
    is_narrow = _is_carried(one.type) and fits_int64(one.type.lo, one.type.hi)
    if not (is_narrow or one.type.kind is Kind.BOOL):
        return False
    if one.op in (Op.MOD, Op.DIV):
        return one.args[1].type.lo > 0
    return keeps_raw(one.args[0].type, one.type) if one.op is Op.CAST else one.op in _ALIKE


def _typed(one: Expr, tree: exp.Expr) -> exp.Expr:
    """A column or constant, which may be a narrower integer in DuckDB."""
    is_truth = one.type.kind is Kind.BOOL
    if not (is_truth or _is_carried(one.type)):
        return tree
    return ours(exp.Cast(this=tree, to=exp.DataType.build("boolean" if is_truth else "bigint")))


def _node(one: Expr, args: list[exp.Expr]) -> exp.Expr:
    """One node, of operands that are written."""
    if one.op is Op.CONST:
        return _typed(one, exp.convert(one.attr))
    if one.op is Op.CAST:
        return args[0]
    if one.op is Op.CASE:
        ifs = [exp.If(this=a, true=b) for a, b in zip(args[:-1:2], args[1::2], strict=True)]
        return ours(exp.Case(ifs=ifs, default=args[-1]))
    if one.op is Op.IS_NULL:
        made = exp.Is(this=args[0], expression=exp.null())
    elif one.op in _UNARY:
        made = _UNARY[one.op](this=args[0])
    else:
        binary = _BINARY[one.op]
        made = reduce(lambda a, b: ours(binary(this=a, expression=b)), args)
    return exp.paren(ours(made), copy=False)
