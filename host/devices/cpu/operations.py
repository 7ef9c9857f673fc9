"""Generated source for each operation of a general program."""

from __future__ import annotations

import math
from collections.abc import Callable

from penstock.expr.functions import FUNCTIONS
from penstock.expr.node import Expr, Op
from penstock.types import Kind

#: Powers of ten up to this one are exact in float64.
_EXACT_POWER_OF_TEN = 22
#: Integers up to this magnitude are exact in float64.
_EXACT_FLOAT64 = 1 << 53

#: Most steps to compile: each takes Numba several milliseconds. Interpreting a longer program on
#: the pairs of a usual join takes less time than compiling it.
MAX_STEPS = 256
_SPECIAL = {"inf": "np.inf", "-inf": "-np.inf", "nan": "np.nan"}


class NotCompilable(Exception):
    """The program needs more than machine integers; it is interpreted instead."""


class Steps:
    """Generated assignments, each to a new variable."""

    def __init__(self) -> None:
        self.stream: list[str] = []
        self.body: list[str] = []
        self.per_pair = True
        self.count = 0

    def add(self, text: str) -> str:
        """Assign a value; returns the variable's name.

        Raises
        ------
        NotCompilable
            There are too many steps to compile.
        """
        if self.count == MAX_STEPS:
            raise NotCompilable(f"more than {MAX_STEPS} steps")
        name = f"v{self.count}"
        self.count += 1
        (self.body if self.per_pair else self.stream).append(f"{name} = {text}")
        return name


_Rule = Callable[[Expr, list[str], Steps], str]


def _width(*exprs: Expr) -> str:
    """NumPy name of the integer type that holds every value of every node."""
    low = min(e.type.lo for e in exprs)
    high = max(e.type.hi for e in exprs)
    for bits in (32, 64):
        if -(1 << (bits - 1)) <= low and high < 1 << (bits - 1):
            return f"np.int{bits}"
    raise NotCompilable(f"a value of [{low}, {high}] lies beyond int64")


def _cast_to(expr: Expr) -> str:
    """NumPy constructor of a node's values."""
    if expr.type.kind is Kind.BOOL:
        return "np.bool_"
    if expr.type.is_float:
        return f"np.{expr.type.kind.value}"
    if not expr.type.is_integral:
        raise NotCompilable(f"a value of type {expr.type}")
    return _width(expr)


def leaf(expr: Expr) -> str:
    cast = _cast_to(expr)
    if expr.op is Op.KEY:
        side, index = expr.attr
        place = f"stream[{index}][i]" if side == "s" else f"w{index}[k]"
        return f"{cast}({place})"
    if expr.op is not Op.CONST or expr.attr is None:
        raise NotCompilable(f"{expr.op.value} is no leaf of a general program")
    if expr.type.is_float:
        value = float(expr.attr)
        return f"{cast}({value!r})" if math.isfinite(value) else f"{cast}({_SPECIAL[repr(value)]})"
    return f"{cast}({expr.attr!r})"


def _arithmetic(symbol: str) -> _Rule:
    """Rule of an infix operation."""

    def rule(expr: Expr, args: list[str], steps: Steps) -> str:
        if expr.type.is_float:
            return f"{args[0]} {symbol} {args[1]}"
        width = _width(expr, *expr.args)
        return f"{_cast_to(expr)}({width}({args[0]}) {symbol} {width}({args[1]}))"

    return rule


def _negate(expr: Expr, args: list[str], steps: Steps) -> str:
    return f"{_cast_to(expr)}(-{args[0]})" if expr.type.is_integral else f"-{args[0]}"


def _absolute(expr: Expr, args: list[str], steps: Steps) -> str:
    (a,) = args
    if expr.type.is_float:
        return f"abs({a})"
    width = _width(expr, *expr.args)
    return f"{_cast_to(expr)}(select({a} < 0, {width}(-{a}), {width}({a})))"


def _extreme(greatest: bool) -> _Rule:
    def rule(expr: Expr, args: list[str], steps: Steps) -> str:
        is_float = expr.type.is_float
        width = _cast_to(expr) if is_float else _width(expr, *expr.args)
        best = steps.add(f"{width}({args[0]})")
        for arg in args[1:]:
            other = steps.add(f"{width}({arg})")
            pair = (best, other) if greatest else (other, best)
            worse = _less(*pair) if is_float else f"{pair[0]} < {pair[1]}"
            best = steps.add(f"select({worse}, {other}, {best})")
        return f"{_cast_to(expr)}({best})"

    return rule


def _remainder(expr: Expr, args: list[str], steps: Steps) -> str:
    a, b = args
    cast = _cast_to(expr)
    if expr.type.is_float:
        return f"select({b} != 0, {cast}(np.fmod({a}, {b})), {cast}(0))"
    width = _width(expr, *expr.args)
    return f"{cast}(truncated_remainder({width}({a}), {width}({b})))"


def _quotient(expr: Expr, args: list[str], steps: Steps) -> str:
    width = _width(expr, *expr.args)
    return f"{_cast_to(expr)}(truncated_quotient({width}({args[0]}), {width}({args[1]})))"


def _function(expr: Expr, args: list[str], steps: Steps) -> str:
    return f"{_cast_to(expr)}({FUNCTIONS[expr.attr].source}({', '.join(args)}))"


def _invert(expr: Expr, args: list[str], steps: Steps) -> str:
    return f"{_cast_to(expr)}(~{args[0]})"


def _shift(symbol: str) -> _Rule:
    def rule(expr: Expr, args: list[str], steps: Steps) -> str:
        width = _width(expr, *expr.args)
        most = int(width[-2:]) - 1
        by = expr.args[1]
        if by.type.lo < 0 or by.type.hi > 63:
            raise NotCompilable("a shift by less than 0 or more than 63")
        # Bounds are exact, so a longer shift moves only 0 to the left, and leaves only the sign.
        amount = f"({args[1]} & {most})" if symbol == "<<" else f"min({args[1]}, {most})"
        return f"{_cast_to(expr)}({width}({args[0]}) {symbol} {width}({amount}))"

    return rule


def _less(a: str, b: str) -> str:
    """``a < b`` of floats with NaN above everything."""
    return f"((not ({a} >= {b})) & ({a} == {a}))"


def _compare(symbol: str) -> _Rule:
    def rule(expr: Expr, args: list[str], steps: Steps) -> str:
        left, right = expr.args
        a, b = args
        if left.type.is_float or right.type.is_float:
            if left.type.kind is not right.type.kind:
                raise NotCompilable("a comparison of two kinds")
            if symbol == "<":
                return _less(a, b)
            if symbol == "<=":
                return f"({a} <= {b}) | ({b} != {b})"
            return f"({a} == {b}) | (({a} != {a}) & ({b} != {b}))"
        if left.type.kind is Kind.BOOL:
            return f"{a} {symbol} {b}"
        width = _width(left, right)
        return f"{width}({a}) {symbol} {width}({b})"

    return rule


def _junction(symbol: str) -> _Rule:
    def rule(expr: Expr, args: list[str], steps: Steps) -> str:
        result = args[0]
        for arg in args[1:-1]:
            result = steps.add(f"{result} {symbol} {arg}")
        return f"{result} {symbol} {args[-1]}"

    return rule


def _not(expr: Expr, args: list[str], steps: Steps) -> str:
    return f"not {args[0]}"


def _case(expr: Expr, args: list[str], steps: Steps) -> str:
    cast = _cast_to(expr)
    result = f"{cast}({args[-1]})"
    for condition, value in zip(args[-3::-2], args[-2::-2], strict=True):
        result = f"select({condition}, {cast}({value}), {steps.add(result)})"
    return result


def _cast(expr: Expr, args: list[str], steps: Steps) -> str:
    source, target = expr.args[0].type, expr.type
    cast = _cast_to(expr)
    if source.kind is target.kind and not source.is_integral:
        return args[0]
    if target.is_float and (source.is_float or source.kind is Kind.INT):
        return f"{cast}({args[0]})"
    if target.is_float and source.kind is Kind.DECIMAL:
        largest = max(abs(source.lo), abs(source.hi))
        if largest <= _EXACT_FLOAT64 and source.scale <= _EXACT_POWER_OF_TEN:
            return f"{cast}(np.float64({args[0]}) / np.float64({10**source.scale}))"
    if target.is_integral and source.kind is Kind.BOOL:
        return f"{cast}({args[0]})"
    same = (source.scale, source.unit) == (target.scale, target.unit)
    if target.is_integral and source.is_integral and same:
        _width(expr.args[0])
        if target.lo <= source.lo and source.hi <= target.hi:
            return f"{cast}({args[0]})"
    raise NotCompilable(f"a cast from {source} to {target}")


def _unknown(expr: Expr, args: list[str], steps: Steps) -> str:
    raise NotCompilable(f"{expr.op.value} of {len(args)} operands")


#: Source of a value from those of its operands, by operation.
RULES: dict[Op, _Rule] = dict.fromkeys(Op, _unknown) | {
    Op.ADD: _arithmetic("+"),
    Op.SUB: _arithmetic("-"),
    Op.MUL: _arithmetic("*"),
    Op.NEG: _negate,
    Op.ABS: _absolute,
    Op.LEAST: _extreme(greatest=False),
    Op.GREATEST: _extreme(greatest=True),
    Op.MOD: _remainder,
    Op.DIV: _quotient,
    Op.FUNCTION: _function,
    Op.BIT_AND: _arithmetic("&"),
    Op.BIT_OR: _arithmetic("|"),
    Op.BIT_XOR: _arithmetic("^"),
    Op.BIT_NOT: _invert,
    Op.SHL: _shift("<<"),
    Op.SHR: _shift(">>"),
    Op.LT: _compare("<"),
    Op.LE: _compare("<="),
    Op.EQ: _compare("=="),
    Op.AND: _junction("&"),
    Op.OR: _junction("|"),
    Op.NOT: _not,
    Op.CASE: _case,
    Op.CAST: _cast,
}
