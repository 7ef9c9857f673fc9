"""Typed constructors: check the operands, align them, infer the exact type of the result.

Every function takes and returns :class:`~penstock.expr.node.Expr` and raises ``ExprTypeError``
with one sentence when the operands do not fit; the SQL front end adds the place in the text.
Mixed numeric types follow Spark (ANSI): integer with float32 computes in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.errors import QueryError
from penstock.expr import interval
from penstock.expr.interval import Interval
from penstock.expr.node import Expr, Op, node
from penstock.types import (
    BINARY,
    BOOL,
    FLOAT64,
    NULL,
    STRING,
    UNIT_NS,
    Kind,
    Type,
    integer,
)


class ExprTypeError(QueryError):
    """Operands do not fit the operation; one sentence without the place in the text."""


#: Most bits of an exact integer: beyond it an expression is a mistake, not a query.
MAX_BITS = 512

_TIMES = frozenset({Kind.TIMESTAMP, Kind.DATE})
_EXACT = frozenset({Kind.INT, Kind.DECIMAL})
_AS_THEY_ARE = frozenset({Kind.BOOL, Kind.STRING, Kind.BINARY, Kind.DATE})


# -- leaves ---------------------------------------------------------------------------------------


def const(value: object, dtype: Type | None = None) -> Expr:
    """A constant; ``None`` is NULL. ``dtype`` is needed for decimals and times only."""
    if dtype is None:
        if value is None:
            dtype = NULL
        elif isinstance(value, bool):
            dtype = BOOL
        elif isinstance(value, int):
            dtype = integer(value, value)
        elif isinstance(value, float):
            dtype = FLOAT64
        elif isinstance(value, str):
            dtype = STRING
        elif isinstance(value, bytes):
            dtype = BINARY
        else:
            raise ExprTypeError(f"a constant cannot be a {type(value).__name__}")
    elif dtype.is_integral and isinstance(value, int):
        dtype = dtype.within(value, value)
    return node(Op.CONST, (), dtype.as_nullable(value is None), value)


def decimal_const(unscaled: int, scale: int) -> Expr:
    return const(unscaled, Type(Kind.DECIMAL, unscaled, unscaled, scale=scale))


def duration_const(amount: int, unit: str) -> Expr:
    return const(amount, Type(Kind.DURATION, amount, amount, unit=unit))


def column(side: str, name: str, dtype: Type) -> Expr:
    return node(Op.COLUMN, (), dtype, (side, name))


def key(side: str, index: int, dtype: Type) -> Expr:
    return node(Op.KEY, (), dtype.as_nullable(False), (side, index))


TRUE = const(True)
FALSE = const(False)


# -- alignment ------------------------------------------------------------------------------------


def _nullable(*args: Expr) -> bool:
    return any(a.type.nullable for a in args)


def _bounded(dtype: Type, bounds: Interval, nullable: bool) -> Type:
    lo, hi = bounds
    if max(abs(lo), abs(hi)).bit_length() > MAX_BITS:
        raise ExprTypeError(f"the value may need more than {MAX_BITS} bits")
    return replace(dtype, lo=lo, hi=hi, nullable=nullable)


def _bounds(expr: Expr) -> Interval:
    return expr.type.lo, expr.type.hi


def _times(expr: Expr, factor: int, dtype: Type) -> Expr:
    """``expr * factor`` with the kind, scale and unit of ``dtype``."""
    if expr.is_const:
        value = None if expr.attr is None else expr.attr * factor
        return const(value, dtype)
    if factor == 1:
        return node(Op.CAST, (expr,), replace(dtype, **_span(expr, 1)))
    by = const(factor)
    return node(Op.MUL, (expr, by), replace(dtype, **_span(expr, factor)))


def _span(expr: Expr, factor: int) -> dict:
    lo, hi = interval.mul(_bounds(expr), (factor, factor))
    return {"lo": lo, "hi": hi, "nullable": expr.type.nullable}


def rescale(expr: Expr, scale: int) -> Expr:
    """The same number as a decimal of ``scale`` digits (not fewer than it has)."""
    if expr.type.kind is Kind.DECIMAL and expr.type.scale == scale:
        return expr
    return _times(expr, 10 ** (scale - expr.type.scale), Type(Kind.DECIMAL, scale=scale))


def to_unit(expr: Expr, unit: str, kind: Kind | None = None) -> Expr:
    """The same time or duration counted in a unit that is not coarser."""
    kind = kind or expr.type.kind
    if expr.type.unit == unit and expr.type.kind is kind:
        return expr
    return _times(expr, UNIT_NS[expr.type.unit] // UNIT_NS[unit], Type(kind, unit=unit))


def _finer(*units: str) -> str:
    return min(units, key=lambda unit: UNIT_NS[unit])


def to_float(expr: Expr) -> Expr:
    if expr.type.kind is Kind.FLOAT64:
        return expr
    if expr.is_const and expr.attr is not None:
        return const(float_of(expr))
    return node(Op.CAST, (expr,), FLOAT64.as_nullable(expr.type.nullable))


def float_of(expr: Expr) -> float:
    """Value of a numeric constant, correctly rounded."""
    if expr.type.kind is Kind.DECIMAL:
        return int(expr.attr) / 10**expr.type.scale
    return float(expr.attr)


def _article(expr: Expr) -> str:
    return f"{expr.type}"


def align(args: Sequence[Expr], what: str) -> list[Expr]:
    """Bring operands to one kind, scale and unit so that their values compare directly."""
    kinds = {a.type.kind for a in args} - {Kind.NULL}
    if not kinds:
        return list(args)
    if kinds <= {Kind.INT}:
        done = list(args)
    elif kinds <= _EXACT:
        scale = max(a.type.scale for a in args)
        done = [a if a.type.kind is Kind.NULL else rescale(a, scale) for a in args]
    elif kinds == {Kind.FLOAT32}:
        done = list(args)
    elif kinds <= _EXACT | {Kind.FLOAT32, Kind.FLOAT64}:
        done = [a if a.type.kind is Kind.NULL else to_float(a) for a in args]
    elif len(kinds) == 1 and kinds <= _AS_THEY_ARE:
        done = list(args)
    elif kinds <= _TIMES or kinds == {Kind.DURATION}:
        kind = Kind.DURATION if kinds == {Kind.DURATION} else Kind.TIMESTAMP
        unit = _finer(*(a.type.unit for a in args if a.type.kind is not Kind.NULL))
        done = [a if a.type.kind is Kind.NULL else to_unit(a, unit, kind) for a in args]
    else:
        names = " and ".join(dict.fromkeys(str(a.type) for a in args))
        hint = ""
        if Kind.DURATION in kinds:
            hint = "; write INTERVAL on both sides, or declare the unit of an integer time column"
        elif kinds & {Kind.STRING, Kind.BINARY}:
            hint = "; compare text with text, or CAST one side"
        raise ExprTypeError(f"{what} of {names} has no meaning{hint}")
    dtype = next(a.type for a in done if a.type.kind is not Kind.NULL)
    return [const(None, dtype) if a.type.kind is Kind.NULL else a for a in done]


# -- arithmetic -----------------------------------------------------------------------------------


def add(a: Expr, b: Expr) -> Expr:
    moved = _move_time(a, b, 1) or _move_time(b, a, 1)
    return moved or _arithmetic(Op.ADD, a, b, interval.add)


def sub(a: Expr, b: Expr) -> Expr:
    if a.type.kind in _TIMES and b.type.kind in _TIMES:
        left, right = align((a, b), "the difference")
        bounds = interval.sub(_bounds(left), _bounds(right))
        unit = left.type.unit
        return node(
            Op.SUB, (left, right), _bounded(Type(Kind.DURATION, unit=unit), bounds, _nullable(a, b))
        )
    return _move_time(a, b, -1) or _arithmetic(Op.SUB, a, b, interval.sub)


def _move_time(time: Expr, by: Expr, sign: int) -> Expr | None:
    """``time ± duration``, or a date moved by whole days; None if it is neither."""
    if time.type.kind not in _TIMES:
        return None
    if time.type.kind is Kind.DATE and by.type.kind is Kind.INT:
        unit, kind = "D", Kind.DATE
    elif by.type.kind is Kind.DURATION:
        unit = _finer(time.type.unit, by.type.unit)
        kind = time.type.kind if unit == "D" else Kind.TIMESTAMP
        by = to_unit(by, unit)
    elif by.type.kind is Kind.INT:
        raise ExprTypeError(
            f"a {time.type} moves by an INTERVAL, not by an integer; write INTERVAL n SECONDS"
        )
    else:
        return None
    time = to_unit(time, unit, kind)
    rule, op = (interval.add, Op.ADD) if sign > 0 else (interval.sub, Op.SUB)
    bounds = rule(_bounds(time), _bounds(by))
    return node(op, (time, by), _bounded(Type(kind, unit=unit), bounds, _nullable(time, by)))


def _arithmetic(op: Op, a: Expr, b: Expr, rule: Callable) -> Expr:
    name = {Op.ADD: "the sum", Op.SUB: "the difference", Op.MOD: "the remainder"}[op]
    allowed = _EXACT | {Kind.FLOAT32, Kind.FLOAT64, Kind.NULL}
    if op is not Op.MOD:
        allowed = allowed | {Kind.DURATION}
    for arg in (a, b):
        if arg.type.kind not in allowed:
            raise ExprTypeError(f"{name} needs numbers, not {arg.type}")
    left, right = align((a, b), name)
    nullable = _nullable(left, right)
    if op is Op.MOD and right.type.is_integral:
        nullable = nullable or right.type.lo <= 0 <= right.type.hi
    if op is Op.MOD and right.type.is_float:
        nullable = nullable or not (right.is_const and right.attr)
    if not left.type.is_integral:
        return node(op, (left, right), left.type.as_nullable(nullable))
    return node(
        op, (left, right), _bounded(left.type, rule(_bounds(left), _bounds(right)), nullable)
    )


def mod(a: Expr, b: Expr) -> Expr:
    return _arithmetic(Op.MOD, a, b, interval.mod)


def mul(a: Expr, b: Expr) -> Expr:
    if a.type.kind is Kind.INT and b.type.kind is Kind.DURATION:
        a, b = b, a
    if a.type.kind is Kind.DURATION and b.type.kind is Kind.INT:
        bounds = interval.mul(_bounds(a), _bounds(b))
        return node(Op.MUL, (a, b), _bounded(a.type, bounds, _nullable(a, b)))
    for arg in (a, b):
        if arg.type.kind not in _EXACT | {Kind.FLOAT32, Kind.FLOAT64, Kind.NULL}:
            raise ExprTypeError(f"a product needs numbers, not {arg.type}")
    if not (a.type.kind in _EXACT and b.type.kind in _EXACT):
        left, right = align((a, b), "the product")
        if not left.type.is_integral:
            return node(Op.MUL, (left, right), left.type.as_nullable(_nullable(left, right)))
        a, b = left, right
    scale = a.type.scale + b.type.scale
    kind = Kind.DECIMAL if Kind.DECIMAL in (a.type.kind, b.type.kind) else Kind.INT
    bounds = interval.square(_bounds(a)) if a is b else interval.mul(_bounds(a), _bounds(b))
    return node(Op.MUL, (a, b), _bounded(Type(kind, scale=scale), bounds, _nullable(a, b)))


def _signed_number(expr: Expr, name: str) -> None:
    if expr.type.kind not in _EXACT | {Kind.FLOAT32, Kind.FLOAT64, Kind.DURATION, Kind.NULL}:
        raise ExprTypeError(f"{name} needs a number, not {expr.type}")


def neg(a: Expr) -> Expr:
    _signed_number(a, "unary minus")
    if a.is_const and a.attr is not None:
        return const(-a.attr, a.type)
    if not a.type.is_integral:
        return node(Op.NEG, (a,), a.type)
    return node(Op.NEG, (a,), _bounded(a.type, interval.neg(_bounds(a)), a.type.nullable))


def absolute(a: Expr) -> Expr:
    _signed_number(a, "abs")
    if not a.type.is_integral:
        return node(Op.ABS, (a,), a.type)
    return node(Op.ABS, (a,), _bounded(a.type, interval.absolute(_bounds(a)), a.type.nullable))


def least(*args: Expr) -> Expr:
    return _extreme(Op.LEAST, args, interval.least)


def greatest(*args: Expr) -> Expr:
    return _extreme(Op.GREATEST, args, interval.greatest)


def _extreme(op: Op, args: tuple[Expr, ...], rule: Callable) -> Expr:
    """LEAST and GREATEST skip NULL: the result is NULL only where every argument is."""
    if len(args) < 2:
        raise ExprTypeError(f"{op.value} needs at least two arguments")
    done = align(args, op.value)
    if done[0].type.kind in (Kind.STRING, Kind.BINARY, Kind.BOOL, Kind.NULL):
        raise ExprTypeError(f"{op.value} needs numbers or times, not {done[0].type}")
    nullable = all(a.type.nullable for a in done)
    if not done[0].type.is_integral:
        return node(op, tuple(done), done[0].type.as_nullable(nullable))
    always = [a for a in done if not a.type.nullable]
    bounds = _bounds(done[0])
    for arg in done[1:]:
        bounds = rule(bounds, _bounds(arg))
    for arg in done:  # a skipped NULL leaves any other argument as the result
        if len(always) < len(done):
            bounds = interval.hull(bounds, _bounds(arg))
    return node(op, tuple(done), _bounded(done[0].type, bounds, nullable))


# -- bits -----------------------------------------------------------------------------------------


def _integers(name: str, *args: Expr) -> None:
    for arg in args:
        if arg.type.kind not in (Kind.INT, Kind.NULL):
            raise ExprTypeError(f"{name} needs integers, not {arg.type}")


def _bits(op: Op, a: Expr, b: Expr, rule: Callable) -> Expr:
    _integers(op.value, a, b)
    left, right = align((a, b), op.value)
    if left.type.kind is Kind.NULL:
        return left
    bounds = rule(_bounds(left), _bounds(right))
    return node(op, (left, right), _bounded(left.type, bounds, _nullable(left, right)))


def bit_and(a: Expr, b: Expr) -> Expr:
    return _bits(Op.BIT_AND, a, b, interval.bit_and)


def bit_or(a: Expr, b: Expr) -> Expr:
    return _bits(Op.BIT_OR, a, b, interval.bit_or)


def bit_xor(a: Expr, b: Expr) -> Expr:
    return _bits(Op.BIT_XOR, a, b, interval.bit_xor)


def bit_not(a: Expr) -> Expr:
    _integers("~", a)
    if a.type.kind is Kind.NULL:
        return a
    return node(Op.BIT_NOT, (a,), _bounded(a.type, interval.bit_not(_bounds(a)), a.type.nullable))


def _shift(op: Op, a: Expr, n: Expr, rule: Callable) -> Expr:
    _integers(op.value, a, n)
    if Kind.NULL in (a.type.kind, n.type.kind):
        return const(None, integer(0, 0))
    if n.type.lo < 0 or n.type.hi > 63:
        raise ExprTypeError(
            f"the shift amount may be {n.type.lo} to {n.type.hi}; limit it to 0..63, "
            "for example with `& 63`"
        )
    bounds = rule(_bounds(a), _bounds(n))
    return node(op, (a, n), _bounded(a.type, bounds, _nullable(a, n)))


def shl(a: Expr, n: Expr) -> Expr:
    return _shift(Op.SHL, a, n, interval.shl)


def shr(a: Expr, n: Expr) -> Expr:
    return _shift(Op.SHR, a, n, interval.shr)


# -- comparisons ----------------------------------------------------------------------------------


def lt(a: Expr, b: Expr) -> Expr:
    return _compare(Op.LT, a, b)


def le(a: Expr, b: Expr) -> Expr:
    return _compare(Op.LE, a, b)


def eq(a: Expr, b: Expr) -> Expr:
    return _compare(Op.EQ, a, b)


def ne(a: Expr, b: Expr) -> Expr:
    return not_(eq(a, b))


def _compare(op: Op, a: Expr, b: Expr) -> Expr:
    left, right = align((a, b), f"`{op.value}`")
    if op is not Op.EQ and left.type.kind in (Kind.STRING, Kind.BINARY, Kind.BOOL):
        raise ExprTypeError(
            f"`{op.value}` does not order {left.type} values; text has equality and prefix"
        )
    return node(op, (left, right), BOOL.as_nullable(_nullable(left, right)))


def order(op: Op, a: Expr, b: Expr) -> Expr:
    """A comparison of aligned operands of any kind; text is ordered by bytes (rewrites only)."""
    return node(op, (a, b), BOOL.as_nullable(_nullable(a, b)))


def prefix(text: Expr, start: Expr) -> Expr:
    """Whether ``text`` starts with ``start``."""
    left, right = align((text, start), "startswith")
    if not left.type.is_text:
        raise ExprTypeError(f"startswith needs text, not {left.type}")
    return node(Op.PREFIX, (left, right), BOOL.as_nullable(_nullable(left, right)))


# -- logic ----------------------------------------------------------------------------------------


def _booleans(name: str, args: Sequence[Expr]) -> list[Expr]:
    done = []
    for arg in args:
        if arg.type.kind is Kind.NULL:
            done.append(const(None, BOOL))
        elif arg.type.kind is not Kind.BOOL:
            raise ExprTypeError(f"{name} needs conditions, not {arg.type}")
        else:
            done.append(arg)
    return done


def and_(*args: Expr) -> Expr:
    return _junction(Op.AND, "AND", args, TRUE, FALSE)


def or_(*args: Expr) -> Expr:
    return _junction(Op.OR, "OR", args, FALSE, TRUE)


def _junction(op: Op, name: str, args: Sequence[Expr], unit: Expr, zero: Expr) -> Expr:
    """Flattened AND / OR without its unit and without repeated members."""
    flat: dict[Expr, None] = {}
    for arg in _booleans(name, args):
        for part in arg.args if arg.op is op else (arg,):
            if part is zero:
                return zero
            if part is not unit:
                flat[part] = None
    parts = tuple(flat)
    if not parts:
        return unit
    if len(parts) == 1:
        return parts[0]
    return node(op, parts, BOOL.as_nullable(_nullable(*parts)))


def not_(a: Expr) -> Expr:
    (arg,) = _booleans("NOT", (a,))
    if arg.op is Op.NOT:
        return arg.args[0]
    if arg.is_const:
        return const(None if arg.attr is None else not arg.attr, BOOL)
    return node(Op.NOT, (arg,), BOOL.as_nullable(arg.type.nullable))


def is_null(a: Expr) -> Expr:
    if not a.type.nullable:
        return FALSE
    if a.is_const:
        return TRUE
    return node(Op.IS_NULL, (a,), BOOL.as_nullable(False))


def case(pairs: Sequence[tuple[Expr, Expr]], otherwise: Expr | None = None) -> Expr:
    """``CASE WHEN condition THEN value ... ELSE otherwise END``."""
    conditions = _booleans("CASE WHEN", [c for c, _ in pairs])
    last = const(None) if otherwise is None else otherwise
    values = align([*(v for _, v in pairs), last], "CASE")
    dtype = values[0].type.as_nullable(_nullable(*values))
    if dtype.is_integral:
        known = [_bounds(v) for v in values if not (v.is_const and v.attr is None)] or [(0, 0)]
        dtype = dtype.within(min(lo for lo, _ in known), max(hi for _, hi in known))
    args = [x for pair in zip(conditions, values[:-1], strict=True) for x in pair]
    return node(Op.CASE, (*args, values[-1]), dtype)


# -- casts ----------------------------------------------------------------------------------------


def cast(a: Expr, to: Type) -> Expr:
    """Convert as Spark does; a value that does not fit is an error when it is met, not a wrap.

    A widening cast disappears or becomes exact arithmetic.
    """
    source, target = a.type.kind, to.kind
    if source is target and source in (Kind.BOOL, Kind.STRING, Kind.BINARY, Kind.FLOAT32):
        return a
    if source is Kind.NULL:
        return const(None, to)
    if target is Kind.FLOAT64 and source in _EXACT | {Kind.FLOAT32, Kind.FLOAT64}:
        return to_float(a)
    if source is Kind.INT and target is Kind.INT and to.lo <= a.type.lo and a.type.hi <= to.hi:
        return a
    if source in _EXACT and target is Kind.DECIMAL and a.type.scale <= to.scale:
        wide = rescale(a, to.scale)
        if to.lo <= wide.type.lo and wide.type.hi <= to.hi:
            return wide
    if source in _TIMES and target is Kind.TIMESTAMP:
        unit = _finer(a.type.unit, to.unit)
        return to_unit(a, unit, Kind.TIMESTAMP)
    if source is Kind.DATE and target is Kind.DATE:
        return a
    if (source, target) not in _CASTS:
        raise ExprTypeError(f"CAST from {a.type} to {to} is not supported")
    return node(Op.CAST, (a,), to.as_nullable(a.type.nullable))


_NUMBERS = (Kind.INT, Kind.DECIMAL, Kind.FLOAT32, Kind.FLOAT64)
_CASTS = {(s, t) for s in _NUMBERS for t in _NUMBERS} | {
    (Kind.BOOL, Kind.INT),
    (Kind.TIMESTAMP, Kind.DATE),
    (Kind.TIMESTAMP, Kind.INT),
    (Kind.DURATION, Kind.DURATION),
}


# -- rebuilding -----------------------------------------------------------------------------------

_MAKERS: dict[Op, Callable[..., Expr]] = {
    Op.ADD: add,
    Op.SUB: sub,
    Op.MUL: mul,
    Op.NEG: neg,
    Op.ABS: absolute,
    Op.LEAST: least,
    Op.GREATEST: greatest,
    Op.MOD: mod,
    Op.BIT_AND: bit_and,
    Op.BIT_OR: bit_or,
    Op.BIT_XOR: bit_xor,
    Op.BIT_NOT: bit_not,
    Op.SHL: shl,
    Op.SHR: shr,
    Op.AND: and_,
    Op.OR: or_,
    Op.NOT: not_,
    Op.PREFIX: prefix,
    Op.IS_NULL: is_null,
}


def remake(expr: Expr, args: Sequence[Expr]) -> Expr:
    """The operation of ``expr`` on other arguments, its type and bounds inferred anew."""
    if expr.op in (Op.CONST, Op.COLUMN, Op.KEY):
        return expr
    if expr.op in (Op.LT, Op.LE, Op.EQ):
        return order(expr.op, *args)
    if expr.op is Op.CASE:
        return case(list(zip(args[:-1:2], args[1::2], strict=False)), args[-1])
    if expr.op is Op.RAW:
        (arg,) = args
        return node(Op.RAW, (arg,), integer(arg.type.lo, arg.type.hi, nullable=arg.type.nullable))
    if expr.op is Op.CAST:
        return _recast(args[0], expr.type)
    return _MAKERS[expr.op](*args)


def _recast(arg: Expr, to: Type) -> Expr:
    if arg.type.is_integral and to.is_integral and raw_factor(arg.type, to) == 1:
        to = replace(to, lo=arg.type.lo, hi=arg.type.hi)
    return node(Op.CAST, (arg,), to.as_nullable(arg.type.nullable))


def raw_factor(source: Type, target: Type) -> int | None:
    """What an integral CAST multiplies the stored integer by; None if it may round."""
    if source.unit or target.unit:
        if not (source.unit and target.unit):
            return None
        factor, rest = divmod(UNIT_NS[source.unit], UNIT_NS[target.unit])
        return None if rest else factor
    return 10 ** (target.scale - source.scale) if target.scale >= source.scale else None
