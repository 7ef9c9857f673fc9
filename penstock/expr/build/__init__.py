"""Typed constructors: check the operands, align them, infer the exact type of the result.

Every function takes and returns :class:`~penstock.expr.node.Expr` and raises ``ExprTypeError``
with one sentence when the operands do not fit; the SQL front end adds the place in the text.
Mixed numeric types follow Spark (ANSI): integer with float32 computes in float64.
"""

from penstock.expr.build.align import align, float_of, rescale, to_float, to_unit
from penstock.expr.build.arithmetic import absolute, add, greatest, least, mod, mul, neg, sub
from penstock.expr.build.bits import bit_and, bit_not, bit_or, bit_xor, shl, shr
from penstock.expr.build.casts import cast
from penstock.expr.build.clocks import to_instant, to_local
from penstock.expr.build.infer import MAX_BITS, keeps_raw, raw_factor, typed
from penstock.expr.build.leaves import (
    FALSE,
    TRUE,
    ExprTypeError,
    column,
    const,
    decimal_const,
    duration_const,
    key,
)
from penstock.expr.build.lists import in_members, is_in
from penstock.expr.build.logic import and_, case, eq, is_null, le, lt, ne, not_, or_, order, prefix
from penstock.expr.build.operands import check_operands
from penstock.expr.build.remake import remake, two_valued

__all__ = [
    "FALSE",
    "MAX_BITS",
    "TRUE",
    "ExprTypeError",
    "absolute",
    "add",
    "align",
    "and_",
    "bit_and",
    "bit_not",
    "bit_or",
    "bit_xor",
    "case",
    "cast",
    "check_operands",
    "column",
    "const",
    "decimal_const",
    "duration_const",
    "eq",
    "float_of",
    "greatest",
    "in_members",
    "is_in",
    "is_null",
    "keeps_raw",
    "key",
    "le",
    "least",
    "lt",
    "mod",
    "mul",
    "ne",
    "neg",
    "not_",
    "or_",
    "order",
    "prefix",
    "raw_factor",
    "remake",
    "rescale",
    "shl",
    "shr",
    "sub",
    "to_float",
    "to_instant",
    "to_local",
    "to_unit",
    "two_valued",
    "typed",
]
