"""Python source that computes expressions with NULL, row by row, in the loop of contributions.

Values come from the rules of the CPU device's general programs; this module adds when they are
NULL. An expression without a compiled form is a *leaf*: it is computed as a column before the loop,
by the vector evaluation of :mod:`penstock.expr`. Leaves are: everything of text (comparisons,
``startswith``, IN) and the codes of text; integers and decimals beyond 64 bits; IN with more than
:data:`MOST_MEMBERS` values; casts of floats to integers, between decimals, and to finer units;
conversions between time zones; columns of decimals, booleans, unsigned 64-bit integers and
dictionaries.
"""

from __future__ import annotations

import logging

from penstock.expr.node import Expr, Op
from penstock.types import TIMESTAMPS, UNIT_NS, Kind

from ..devices.cpu.operations import RULES, NotCompilable
from ..devices.cpu.operations import leaf as constant
from .coded import is_coded, is_coded_column
from .folds import words_of
from .loop_steps import LoopSteps, Value, type_of

_log = logging.getLogger("penstock.state")

#: Most values of an IN list that is compiled, as one comparison each.
MOST_MEMBERS = 16


class RowSteps:
    """Writer of the statements that compute expressions of row ``i``.

    Parameters
    ----------
    lines : LoopSteps
        Gets the statements.
    leaves : dict of (Expr, int) to int
        Numbers of the loop's columns, by expression and words; grows.
    """

    def __init__(self, lines: LoopSteps, leaves: dict[tuple[Expr, int], int]) -> None:
        self.lines, self._leaves = lines, leaves
        self._done: dict[Expr, Value] = {}

    def value(self, expr: Expr) -> Value:
        """Compute an expression; a part of it that cannot be compiled becomes a leaf.

        Raises
        ------
        NotCompilable
            A leaf of it needs more than one word.
        """
        value = self._done.get(expr)
        if value is None:
            value = self._done[expr] = self._compute(expr)
        return value

    def true(self, expr: Expr) -> str:
        """Compute a condition; returns the name of a flag that says whether it is TRUE."""
        return self._true(self.value(expr))

    def add(self, text: str) -> str:
        return self.lines.add(text)

    def _true(self, v: Value) -> str:
        return v.name if v.valid is None else self.add(f"{v.name} & {v.valid}")

    def _compute(self, expr: Expr) -> Value:
        if expr.is_null_const:
            return Value(self.add("np.int64(0)"), self.add("np.bool_(False)"))
        if expr.is_const and not expr.type.is_text:
            return Value(self.add(constant(expr)), None)
        if expr.args and expr.op in _COMPILED and not any(is_coded(a.type) for a in expr.args):
            try:
                return self._node(expr)
            except NotCompilable as cause:
                _log.debug("%s is computed as a column: %s", expr, cause)
        return self._leaf(expr)

    def _leaf(self, expr: Expr) -> Value:
        type_name = type_of(expr)
        k = self._number(expr, 1)
        return Value(self.add(f"{type_name}(at(c{k}, i))"), self._valid(k, expr))

    def words(self, expr: Expr, words: int) -> tuple[list[str], str | None]:
        """Compute an integer as words; returns their names, the lowest first, and its validity."""
        try:
            v = self.value(expr)
        except NotCompilable:
            k = self._number(expr, words)
            names = [self.add(f"at(c{k}, i * {words} + {j})") for j in range(words)]
            return names, self._valid(k, expr)
        low = self.add(f"np.int64({v.name})")
        return [low, *([self.add(f"{low} >> 63")] if words > 1 else []) * (words - 1)], v.valid

    def validity(self, expr: Expr) -> str | None:
        """Compute an expression's validity; returns its name, None if it is never NULL."""
        if is_coded_column(expr):
            return self._valid(self._number(expr, 0), expr)
        try:
            return self.value(expr).valid
        except NotCompilable:
            return self.words(expr, words_of(expr.type, "a value"))[1]

    def _number(self, expr: Expr, words: int) -> int:
        return self._leaves.setdefault((expr, words), len(self._leaves))

    def _valid(self, k: int, expr: Expr) -> str | None:
        if not expr.type.nullable:
            return None
        bit = f"(at(b{k}, (i + o{k}) >> 3) >> np.uint8((i + o{k}) & 7)) & np.uint8(1)"
        return self.add(f"({bit}) != 0")

    def _node(self, expr: Expr) -> Value:
        args = [self.value(a) for a in expr.args]
        special = _SPECIAL.get(expr.op)
        if special is not None:
            return special(self, expr, args)
        if expr.op is Op.IN:
            return self._in(expr, args[0])
        if expr.op is Op.MOD and (floored := _floored(expr)) is not None:
            return self._floor_remainder(expr, self.value(floored))
        if expr.op is Op.CAST and _coarsens(expr):
            return self._coarser(expr, args[0])
        text = RULES[expr.op](expr, [a.name for a in args], self.lines)
        valid = self._all_valid(args)
        if expr.op is Op.MOD and not _is_nonzero(expr.args[1]):
            not_zero = self.add(f"{args[1].name} != 0")
            valid = not_zero if valid is None else self.add(f"{valid} & {not_zero}")
        return Value(self.add(text), valid)

    def _all_valid(self, args: list[Value]) -> str | None:
        flags = [a.valid for a in args if a.valid is not None]
        if not flags:
            return None
        valid = flags[0]
        for other in dict.fromkeys(flags[1:]):
            if other != valid:
                valid = self.add(f"{valid} & {other}")
        return valid

    def _in(self, expr: Expr, arg: Value) -> Value:
        values = expr.attr.values
        if len(values) > MOST_MEMBERS or not expr.args[0].type.is_integral:
            raise NotCompilable("a long list")
        cast = type_of(expr.args[0])
        is_in = "False"
        for value in values:
            if -(1 << 63) <= value < 1 << 63:
                is_in = self.add(f"{is_in} | (np.int64({cast}({arg.name})) == np.int64({value}))")
        return Value(self.add(f"np.bool_({is_in})"), arg.valid)

    def _coarser(self, expr: Expr, arg: Value) -> Value:
        """Convert a time to a coarser unit, rounded down."""
        step = UNIT_NS[expr.type.unit or "s"] // UNIT_NS[expr.args[0].type.unit]
        wide = f"np.int64({arg.name})"
        if step == 1:
            return Value(self.add(f"{type_of(expr)}({wide})"), arg.valid)
        size = f"np.int64({step})"
        inside = self.add(f"truncated_remainder({wide}, {size})")
        down = self.add(f"{wide} - {inside} - select({inside} < 0, {size}, np.int64(0))")
        return Value(self.add(f"{type_of(expr)}({down} // {size})"), arg.valid)

    def _floor_remainder(self, expr: Expr, arg: Value) -> Value:
        """Compute the remainder of a floored division, as windows need it, with one division."""
        wide, size = f"np.int64({arg.name})", f"np.int64({expr.args[1].attr})"
        inside = self.add(f"truncated_remainder({wide}, {size})")
        added = self.add(f"{inside} + select({inside} < 0, {size}, np.int64(0))")
        return Value(self.add(f"{type_of(expr)}({added})"), arg.valid)

    def _not(self, expr: Expr, args: list[Value]) -> Value:
        return Value(self.add(f"not {args[0].name}"), args[0].valid)

    def _is_null(self, expr: Expr, args: list[Value]) -> Value:
        valid = args[0].valid
        return Value(self.add("np.bool_(False)" if valid is None else f"not {valid}"), None)

    def _junction(self, expr: Expr, args: list[Value]) -> Value:
        is_and = expr.op is Op.AND
        symbol, other = ("&", "|") if is_and else ("|", "&")
        result = args[0]
        for arg in args[1:]:
            yes = self.add(f"{self._true(result)} {symbol} {self._true(arg)}")
            if result.valid is None and arg.valid is None:
                result = Value(yes, None)
                continue
            no = self.add(f"{self._false(result)} {other} {self._false(arg)}")
            result = Value(yes, self.add(f"{yes} | {no}"))
        return result

    def _false(self, v: Value) -> str:
        return self.add(f"not {v.name}" if v.valid is None else f"(not {v.name}) & {v.valid}")

    def _case(self, expr: Expr, args: list[Value]) -> Value:
        cast = type_of(expr)
        result = self.add(f"{cast}({args[-1].name})")
        is_known = all(a.valid is None for a in (args[-1], *args[-2::-2]))
        valid = None if is_known else args[-1].valid or "np.bool_(True)"
        for condition, value in zip(args[-3::-2], args[-2::-2], strict=True):
            chosen = self._true(condition)
            result = self.add(f"select({chosen}, {cast}({value.name}), {result})")
            if valid is not None:
                is_valid = value.valid or "np.bool_(True)"
                valid = self.add(f"select({chosen}, {is_valid}, {valid})")
        return Value(result, valid)

    def _extreme(self, expr: Expr, args: list[Value]) -> Value:
        """Compute LEAST or GREATEST, which skip NULL."""
        cast = type_of(expr)
        result = Value(self.add(f"{cast}({args[0].name})"), args[0].valid)
        for arg in args[1:]:
            other = self.add(f"{cast}({arg.name})")
            low, high = (other, result.name) if expr.op is Op.LEAST else (result.name, other)
            is_float = expr.type.is_float
            less = f"(not ({low} >= {high})) & ({low} == {low})" if is_float else f"{low} < {high}"
            better = self.add(less)
            if result.valid is not None:
                better = self.add(f"{better} | (not {result.valid})")
            if arg.valid is not None:
                better = self.add(f"{better} & {arg.valid}")
            valid = None
            if result.valid is not None and arg.valid is not None:
                valid = self.add(f"{result.valid} | {arg.valid}")
            result = Value(self.add(f"select({better}, {other}, {result.name})"), valid)
        return result

    def _raw(self, expr: Expr, args: list[Value]) -> Value:
        return args[0]


def _coarsens(expr: Expr) -> bool:
    source, target = expr.args[0].type, expr.type
    if source.kind not in TIMESTAMPS or not target.is_integral:
        return False
    if target.scale or (not target.unit and target.kind is not Kind.INT):
        return False
    step, remainder = divmod(UNIT_NS[target.unit or "s"], UNIT_NS[source.unit])
    return not remainder and target.lo <= source.lo // step and source.hi // step <= target.hi


def _floored(expr: Expr) -> Expr | None:
    """Return the ``x`` of ``((x % n) + n) % n`` for a positive n; None for other remainders."""
    outer, size = expr.args
    if not size.is_const or not size.type.is_integral or not size.attr or size.attr < 0:
        return None
    if outer.op is not Op.ADD or outer.args[1] is not size or outer.args[0].op is not Op.MOD:
        return None
    value, inner = outer.args[0].args
    type_of(value)
    return value if inner is size else None


def _is_nonzero(expr: Expr) -> bool:
    return expr.type.is_integral and (expr.type.lo > 0 or expr.type.hi < 0)


_SPECIAL = {
    Op.NOT: RowSteps._not,
    Op.IS_NULL: RowSteps._is_null,
    Op.AND: RowSteps._junction,
    Op.OR: RowSteps._junction,
    Op.CASE: RowSteps._case,
    Op.LEAST: RowSteps._extreme,
    Op.GREATEST: RowSteps._extreme,
    Op.RAW: RowSteps._raw,
}
_COMPILED = frozenset(
    {*_SPECIAL, Op.IN, Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.ABS, Op.MOD, Op.BIT_AND, Op.BIT_OR,
     Op.BIT_XOR, Op.BIT_NOT, Op.SHL, Op.SHR, Op.LT, Op.LE, Op.EQ, Op.CAST}
)  # fmt: skip
