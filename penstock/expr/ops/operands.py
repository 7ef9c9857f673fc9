"""Check the nodes of a program that comes from another process."""

from __future__ import annotations

from collections.abc import Sequence

from ...types import Kind, Type
from ..functions import FUNCTIONS
from ..node import Expr, Op
from .infer import typed
from .leaves import ExprTypeError

_NUMBERS = ("integer", Kind.FLOAT32.value, Kind.FLOAT64.value)
_CONDITION = Kind.BOOL.value
_TEXTS = (Kind.STRING.value, Kind.BINARY.value)
_MANY = 1 << 31
#: Operations on operands of the result's family: allowed families, least and most operands.
_OF_ONE_FAMILY = {
    **dict.fromkeys((Op.ADD, Op.SUB, Op.MUL, Op.MOD), (_NUMBERS, 2, 2)),
    **dict.fromkeys((Op.NEG, Op.ABS), (_NUMBERS, 1, 1)),
    **dict.fromkeys((Op.LEAST, Op.GREATEST), (_NUMBERS, 2, _MANY)),
    **dict.fromkeys((Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR, Op.SHL, Op.SHR), (("integer",), 2, 2)),
    Op.DIV: (("integer",), 2, 2),
    **dict.fromkeys((Op.BIT_NOT, Op.RAW), (("integer",), 1, 1)),
    **dict.fromkeys((Op.AND, Op.OR), ((_CONDITION,), 1, _MANY)),
    Op.NOT: ((_CONDITION,), 1, 1),
}
#: Most places that a number is shifted by.
_MOST_PLACES = 63


def check_operands(op: Op, args: Sequence[Expr], result: Type, function: str | None = None) -> None:
    """Refuse an operation on operands that it does not take.

    Integers of every kind, scale and unit are integers here, since rewrites move between them.

    Parameters
    ----------
    op : Op
        Of a node with operands.
    args : sequence of Expr
    result : Type
        The node's claimed type.
    function : str, optional
        Of FUNCTION: which one.

    Raises
    ------
    ExprTypeError
        The operation does not take these operands, gives another kind of value, or values outside
        the bounds of ``result``.
    """
    families = [_family(a.type) for a in args]
    is_call = op is Op.FUNCTION
    if not (
        _calls(function, families, result) if is_call else _takes(op, families, _family(result))
    ):
        shown = ", ".join(str(a.type) for a in args)
        raise ExprTypeError(f"`{op.value}` does not give {result} of {shown or 'no operands'}")
    if op in (Op.SHL, Op.SHR) and not 0 <= args[1].type.lo <= args[1].type.hi <= _MOST_PLACES:
        raise ExprTypeError(f"`{op.value}` shifts by 0 to {_MOST_PLACES}, not by {args[1].type}")
    inferred = typed(op, args, result).type
    if inferred.is_integral and not result.lo <= inferred.lo <= inferred.hi <= result.hi:
        raise ExprTypeError(
            f"`{op.value}` gives {inferred.lo}..{inferred.hi}, not {result.lo}..{result.hi}"
        )


def _calls(function: str | None, args: list[str], result: Type) -> bool:
    signature = FUNCTIONS.get(function or "")
    return (
        signature is not None
        and args == [Kind.FLOAT64.value] * signature.arity
        and _family(result) == _family(signature.type)
    )


def _family(dtype: Type) -> str:
    return "integer" if dtype.is_integral else dtype.kind.value


def _takes(op: Op, args: list[str], result: str) -> bool:
    if op in _OF_ONE_FAMILY:
        families, least, most = _OF_ONE_FAMILY[op]
        return result in families and least <= len(args) <= most and set(args) == {result}
    if op is Op.CAST:
        return result in _NUMBERS and len(args) == 1 and args[0] in (*_NUMBERS, _CONDITION)
    if op is Op.CASE:
        conditions, values = set(args[:-1:2]), {*args[1::2], args[-1]}
        return len(args) % 2 == 1 and conditions == {_CONDITION} and values == {result}
    if result != _CONDITION:
        return False
    if op in (Op.IS_NULL, Op.IN):
        return len(args) == 1
    if op in (Op.LT, Op.LE, Op.EQ, Op.PREFIX):
        is_pair = len(args) == 2 and args[0] == args[1]
        return is_pair and (op is not Op.PREFIX or args[0] in _TEXTS)
    return False
