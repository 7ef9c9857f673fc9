"""Check the nodes of a program that comes from another process."""

from __future__ import annotations

from collections.abc import Sequence

from ...types import Kind, Type
from ..node import Expr, Op
from .infer import typed
from .leaves import ExprTypeError

_PAIRS = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.MOD})
_BITS = frozenset({Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR, Op.SHL, Op.SHR})
_COMPARISONS = frozenset({Op.LT, Op.LE, Op.EQ})
_EXTREMES = frozenset({Op.LEAST, Op.GREATEST})
_JUNCTIONS = frozenset({Op.AND, Op.OR})
#: Most places that a number is shifted by.
_MOST_PLACES = 63


def check_operands(op: Op, args: Sequence[Expr], own: Type) -> None:
    """Refuse an operation on operands that it does not take.

    Integers of every kind, scale and unit are integers here, since rewrites move between them.

    Parameters
    ----------
    op : Op
        Of a node with operands.
    args : sequence of Expr
    own : Type
        What the node says that it gives.

    Raises
    ------
    ExprTypeError
        The operation does not take these operands, gives another kind of value, or values outside
        the bounds of ``own``.
    """
    if not _takes(op, [_family(a.type) for a in args], _family(own)):
        shown = ", ".join(str(a.type) for a in args)
        raise ExprTypeError(f"`{op.value}` does not give {own} of {shown or 'no operands'}")
    if op in (Op.SHL, Op.SHR) and not 0 <= args[1].type.lo <= args[1].type.hi <= _MOST_PLACES:
        raise ExprTypeError(f"`{op.value}` shifts by 0 to {_MOST_PLACES}, not by {args[1].type}")
    inferred = typed(op, args, own).type
    if inferred.is_integral and not own.lo <= inferred.lo <= inferred.hi <= own.hi:
        raise ExprTypeError(
            f"`{op.value}` gives {inferred.lo}..{inferred.hi}, not {own.lo}..{own.hi}"
        )


def _family(dtype: Type) -> str:
    return "integer" if dtype.is_integral else dtype.kind.value


def _takes(op: Op, args: list[str], own: str) -> bool:
    number = own in ("integer", Kind.FLOAT32.value, Kind.FLOAT64.value)
    condition = own == Kind.BOOL.value
    if op in _PAIRS:
        return number and args == [own, own]
    if op in (Op.NEG, Op.ABS):
        return number and args == [own]
    if op in _EXTREMES:
        return number and len(args) > 1 and set(args) == {own}
    if op in _BITS:
        return own == "integer" and args == [own, own]
    if op in (Op.BIT_NOT, Op.RAW):
        return own == "integer" and args == [own]
    if op in _COMPARISONS:
        return condition and len(args) == 2 and args[0] == args[1]
    if op in _JUNCTIONS:
        return condition and len(args) > 0 and set(args) == {own}
    if op is Op.NOT:
        return condition and args == [own]
    if op is Op.IS_NULL:
        return condition and len(args) == 1
    if op is Op.PREFIX:
        texts = (Kind.STRING.value, Kind.BINARY.value)
        return condition and len(args) == 2 and args[0] == args[1] and args[0] in texts
    if op is Op.IN:
        return condition and len(args) == 1
    if op is Op.CAST:
        return number and len(args) == 1 and args[0] in ("integer", "boolean", "float32", "float64")
    if op is Op.CASE:
        conditions, values = set(args[:-1:2]), {*args[1::2], args[-1]}
        return len(args) % 2 == 1 and conditions == {Kind.BOOL.value} and values == {own}
    return False
