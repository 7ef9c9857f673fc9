"""Typed constructors: check the operands, align them, infer the exact type of the result.

Every function takes and returns :class:`~penstock.expr.node.Expr` and raises ``ExprTypeError``
with one sentence when the operands do not fit; the SQL front end adds the place in the text.
Mixed numeric types follow Spark (ANSI): integer with float32 computes in float64.
"""

# ruff: noqa: F401 - what it imports is what it offers
from .align import align, finer, to_float, to_unit
from .arithmetic import (
    absolute,
    add,
    bit_and,
    bit_not,
    bit_or,
    bit_xor,
    call,
    div,
    divide,
    greatest,
    least,
    mod,
    mul,
    neg,
    shl,
    shr,
    sub,
)
from .convert import cast, to_instant, to_local
from .decimals import (
    before_settling,
    divided,
    rescale,
    rounded_to,
    settled,
    whole_below,
)
from .logic import and_, case, eq, in_members, is_in, is_null, le, lt, ne, not_, or_, order, prefix
from .remake import over_columns, remake, two_valued
from .typed_nodes import (
    FALSE,
    MAX_BITS,
    TRUE,
    ExprTypeError,
    column,
    const,
    decimal_const,
    duration_const,
    keeps_raw,
    key,
    raw_factor,
    typed,
)
