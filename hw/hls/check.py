"""Refuses programs that cannot be built, before any signal exists."""

from __future__ import annotations

from penstock.expr.node import Expr, Op, show, walk
from penstock.expr.ops import raw_factor
from penstock.program import GeneralProgram
from penstock.types import Kind, Type

#: Widest key or intermediate value. Beyond it an operation no longer fits a region of the device.
MAX_BITS = 256

#: Most steps of a predicate, and most branches of a CASE: beyond them elaboration takes minutes.
MAX_STEPS = 4000
MAX_BRANCHES = 64

#: Largest expression that a message quotes; beyond it the operation is named.
_MAX_SHOWN_NODES = 12

_INTEGER_OPS = frozenset(
    {
        Op.ADD,
        Op.SUB,
        Op.MUL,
        Op.NEG,
        Op.ABS,
        Op.LEAST,
        Op.GREATEST,
        Op.MOD,
        Op.BIT_AND,
        Op.BIT_OR,
        Op.BIT_XOR,
        Op.BIT_NOT,
        Op.SHL,
        Op.SHR,
    }
)
_NEVER = {
    Op.COLUMN: "reads a column that was not prepared as a key",
    Op.DIV: "divides",
    Op.FUNCTION: "is a function of floating-point values",
    Op.PREFIX: "compares text",
    Op.IS_NULL: "tests for NULL",
    Op.IN: "looks up a value of both sides in a list",
}


def refusal(program: GeneralProgram, *, value: bool = False) -> str | None:
    """Why the program cannot be built, as a sentence for the user; None if it can.

    Parameters
    ----------
    program : GeneralProgram
    value : bool
        Whether its value is to be built as well.
    """
    predicate = program.predicate
    if predicate.type.kind is not Kind.BOOL:
        return (
            f"{_text(predicate)} cannot be built: a predicate is a condition, not {predicate.type}"
        )
    for side, types in (("s", program.stream), ("w", program.window)):
        for index, dtype in enumerate(types):
            if reason := _type_reason(dtype):
                return f"key {side}{index} cannot be built: {reason}"
    roots = [predicate]
    if value and program.value is not None:
        if not program.value.type.is_integral and not program.value.type.is_float:
            kind = program.value.type
            return f"{_text(program.value)} cannot be built: a value is a number, not {kind}"
        roots.append(program.value)
    nodes = list(walk(*roots))
    steps = sum(max(len(node.args), 1) for node in nodes)
    if steps > MAX_STEPS:
        return f"a predicate of {steps} steps cannot be built: {MAX_STEPS} are the most"
    for node in nodes:
        if reason := _reason(node, program):
            return f"{_text(node)} cannot be built: {reason}"
    return None


def _reason(node: Expr, program: GeneralProgram) -> str | None:
    if node.op in _NEVER:
        return f"it {_NEVER[node.op]}"
    if reason := _type_reason(node.type):
        return reason
    if node.is_const and node.attr is None:
        return "it is a NULL constant"
    if node.op is Op.KEY:
        side, index = node.attr
        keys = program.stream if side == "s" else program.window
        if index >= len(keys) or keys[index] != node.type:
            return "the program declares no such key"
    if node.op in _INTEGER_OPS and not all(arg.type.is_integral for arg in node.args):
        return "it needs integers"
    if node.op is Op.CASE and len(node.args) > 2 * MAX_BRANCHES + 1:
        return f"it chooses among more than {MAX_BRANCHES} values"
    if node.op is Op.MOD:
        divisor = node.args[1]
        if not divisor.is_const:
            return "its divisor is not a constant"
        if divisor.attr == 0:
            return "its divisor is 0"
    if node.op in (Op.SHL, Op.SHR):
        amount = node.args[1].type
        if amount.lo < 0 or amount.hi >= MAX_BITS:
            return f"it may shift by {amount.lo} to {amount.hi} bits"
    return _cast_reason(node) if node.op is Op.CAST else None


def _type_reason(dtype: Type) -> str | None:
    if dtype.is_float:
        return (
            "it is a floating-point value; declare a fixed-point scale for its columns, or cast "
            "them to DECIMAL, as a query that is run in parts needs"
        )
    if dtype.is_text or dtype.kind is Kind.NULL:
        return f"it is a {dtype.kind.value} value"
    if dtype.bits > MAX_BITS:
        return f"it needs {dtype.bits} bits, more than {MAX_BITS}"
    return None


def _cast_reason(node: Expr) -> str | None:
    source, target = node.args[0].type, node.type
    if source.kind is Kind.BOOL:
        return None
    factor = raw_factor(source, target) if target.is_integral else None
    if factor is None:
        return "the cast may round"
    if source.lo * factor < target.lo or source.hi * factor > target.hi:
        return f"the value may not fit {target.lo}..{target.hi}"
    return None


def _text(expr: Expr) -> str:
    """The expression, or its operation where the text would be long."""
    size: dict[Expr, int] = {}
    for node in walk(expr):
        size[node] = 1 + sum(size[arg] for arg in node.args)
    return (
        show(expr)
        if size[expr] <= _MAX_SHOWN_NODES
        else f"a part of the predicate ({expr.op.value})"
    )
