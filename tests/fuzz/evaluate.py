"""The plain Python evaluator: an expression as a function of a row of each side.

It follows docs/joins/sql.md: exact integers and decimals, three-valued logic, IEEE floats with NaN
equal to NaN and above everything and -0.0 equal to 0.0. It shares nothing with Penstock.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from tests.fuzz.expr import E
from tests.fuzz.types import DAY, F64, Type

Row = Sequence[Any]
"""The values of one side's row by position; all None for a row that an outer join adds."""

Value = Callable[[Row, Row, Mapping[str, Any]], Any]
"""An expression compiled: left row, right row, parameters -> value."""


class MisfitError(Exception):
    """A CAST met a value that its type cannot hold."""


def single(x: float) -> float:
    """Rounded to float32."""
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def floating(x: Any) -> float:
    """The nearest float64; beyond its range, an infinity."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def common(types: Sequence[Type]) -> Type | None:
    """The floating type in which numbers of these types meet, None where they meet exactly."""
    kinds = {t.kind for t in types}
    if "f64" in kinds or ("f32" in kinds and len(kinds) > 1):
        return F64
    return None


def less(x: Any, y: Any) -> bool:
    if isinstance(x, float) and math.isnan(x):
        return False
    if isinstance(y, float) and math.isnan(y):
        return True
    return x < y


def same(x: Any, y: Any) -> bool:
    return x == y or (x != x and y != y)


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": same,
    "ne": lambda x, y: not same(x, y),
    "lt": less,
    "gt": lambda x, y: less(y, x),
    "le": lambda x, y: not less(y, x),
    "ge": lambda x, y: not less(x, y),
}


def remainder(x: Any, y: Any) -> Any:
    """With the sign of the dividend; None for a divisor of zero."""
    if y == 0:
        return None
    if isinstance(x, float):
        if math.isinf(x) or x != x or y != y:
            return math.nan
        return math.fmod(x, y)
    rest = abs(x) % abs(y)
    return -rest if x < 0 else rest


def times(x: Any, y: Any) -> Any:
    return x * y


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": times,
    "mod": remainder,
    "and_bits": lambda x, y: x & y,
    "or_bits": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "shl": lambda x, y: x << y,
    "shr": lambda x, y: x >> y,
}


def truncated(kind: str, x: int) -> int:
    """``date_trunc`` of nanoseconds since the epoch."""
    size = {"second": 10**9, "minute": 60 * 10**9, "hour": 3600 * 10**9, "day": DAY}
    if kind == "week":
        monday = -3 * DAY  # The epoch is a Thursday.
        return (x - monday) // (7 * DAY) * (7 * DAY) + monday
    return x // size[kind] * size[kind]


def cast(x: Any, source: Type, to: Type, limits: tuple[int, int] | None) -> Any:
    """A value of another type, as Spark casts it.

    Raises
    ------
    MisfitError
        If the type cannot hold it; ``limits`` are the raw bounds of an integer or decimal.
    """
    if source.kind == "bool" and to.number:
        x = int(x)
    if to.kind in ("f32", "f64"):
        x = floating(x)
        return single(x) if to.kind == "f32" else x
    if to.exact:
        if isinstance(x, float):
            if x != x or math.isinf(x):
                raise MisfitError
            x = Fraction(x)
        scaled = Fraction(x) * 10**to.scale
        if to.kind == "int":
            raw = math.trunc(scaled)
        else:  # Half away from zero.
            raw = math.floor(abs(scaled) + Fraction(1, 2)) * (-1 if scaled < 0 else 1)
        if limits and not limits[0] <= raw <= limits[1]:
            raise MisfitError
        return Fraction(raw, 10**to.scale) if to.scale else raw
    if to.kind == "date":
        return x // DAY * DAY
    return x


class Compiler:
    """Compiles expressions over rows of two sides.

    Parameters
    ----------
    positions
        Of each side's columns, by name.
    """

    def __init__(self, positions: tuple[Mapping[str, int], Mapping[str, int]]) -> None:
        self._positions = positions

    def compile(self, e: E) -> Value:
        f = getattr(self, f"_{e.op}", None)
        if f is not None:
            return f(e)
        if e.op in COMPARE:
            return self._strict(e, COMPARE[e.op], self._met(e.args))
        if e.op in ARITHMETIC:
            return self._arithmetic(e)
        raise ValueError(f"no meaning of {e.op}")

    def _met(self, args: Sequence[E]) -> list[Value]:
        """Arguments in the type in which they meet."""
        if any(arg.type.number for arg in args):
            to = common([arg.type for arg in args])
            if to is not None:
                return [self._as_double(arg) for arg in args]
        return [self.compile(arg) for arg in args]

    def _as_double(self, e: E) -> Value:
        f = self.compile(e)
        if not e.type.exact:
            return f

        def value(a: Row, b: Row, p: Mapping[str, Any]) -> Any:
            x = f(a, b, p)
            return None if x is None else floating(x)

        return value

    def _strict(self, e: E, op: Callable[[Any, Any], Any], args: list[Value]) -> Value:
        left, right = args

        def value(a: Row, b: Row, p: Mapping[str, Any]) -> Any:
            x = left(a, b, p)
            if x is None:
                return None
            y = right(a, b, p)
            return None if y is None else op(x, y)

        return value

    def _arithmetic(self, e: E) -> Value:
        op = ARITHMETIC[e.op]
        if e.type.kind == "f32":

            def rounded(x: Any, y: Any) -> Any:
                z = op(x, y)
                return None if z is None else single(z)

            return self._strict(e, rounded, self._met(e.args))
        return self._strict(e, op, self._met(e.args))

    def _col(self, e: E) -> Value:
        side, name = e.value
        at = self._positions[side][name]
        return (lambda a, b, p: b[at]) if side else (lambda a, b, p: a[at])

    def _lit(self, e: E) -> Value:
        constant = e.value[0]
        return lambda a, b, p: constant

    def _param(self, e: E) -> Value:
        name = e.value
        return lambda a, b, p: p[name]

    def _unary(self, e: E, op: Callable[[Any], Any]) -> Value:
        f = self.compile(e.args[0])

        def value(a: Row, b: Row, p: Mapping[str, Any]) -> Any:
            x = f(a, b, p)
            return None if x is None else op(x)

        return value

    def _neg(self, e: E) -> Value:
        return self._unary(e, lambda x: -x)

    def _abs(self, e: E) -> Value:
        return self._unary(e, abs)

    def _not(self, e: E) -> Value:
        return self._unary(e, lambda x: not x)

    def _not_bits(self, e: E) -> Value:
        return self._unary(e, lambda x: ~x)

    def _trunc(self, e: E) -> Value:
        return self._unary(e, lambda x: truncated(e.value, x))

    def _window(self, e: E) -> Value:
        size, offset, _ = e.value
        return self._unary(e, lambda x: (x - offset) // size * size + offset)

    def _cast(self, e: E) -> Value:
        source, limits = e.args[0].type, limits_of(e.value)
        return self._unary(e, lambda x: cast(x, source, e.type, limits))

    def _isnull(self, e: E) -> Value:
        f = self.compile(e.args[0])
        return lambda a, b, p: f(a, b, p) is None

    def _notnull(self, e: E) -> Value:
        f = self.compile(e.args[0])
        return lambda a, b, p: f(a, b, p) is not None

    def _and(self, e: E) -> Value:
        left, right = (self.compile(arg) for arg in e.args)

        def value(a: Row, b: Row, p: Mapping[str, Any]) -> Any:
            x = left(a, b, p)
            if x is False:
                return False
            y = right(a, b, p)
            return False if y is False else None if x is None or y is None else True

        return value

    def _or(self, e: E) -> Value:
        left, right = (self.compile(arg) for arg in e.args)

        def value(a: Row, b: Row, p: Mapping[str, Any]) -> Any:
            x = left(a, b, p)
            if x is True:
                return True
            y = right(a, b, p)
            return True if y is True else None if x is None or y is None else False

        return value

    def _extreme(self, e: E, better: Callable[[Any, Any], bool]) -> Value:
        fs = self._met(e.args)

        def value(a: Row, b: Row, p: Mapping[str, Any]) -> Any:
            best = None
            for f in fs:
                x = f(a, b, p)
                if x is not None and (best is None or better(x, best)):
                    best = x
            return best

        return value

    def _least(self, e: E) -> Value:
        return self._extreme(e, less)

    def _greatest(self, e: E) -> Value:
        return self._extreme(e, lambda x, y: less(y, x))

    def _between(self, e: E) -> Value:
        x, low, high = e.args
        inside = E("and", (E("ge", (x, low), e.type), E("le", (x, high), e.type)), e.type)
        return self.compile(E("not", (inside,), e.type) if e.value == "not" else inside)

    def _in(self, e: E) -> Value:
        whole = E("eq", e.args[:2], e.type)
        for item in e.args[2:]:
            whole = E("or", (whole, E("eq", (e.args[0], item), e.type)), e.type)
        return self.compile(E("not", (whole,), e.type) if e.value else whole)

    def _case(self, e: E) -> Value:
        tests = [self.compile(arg) for arg in e.args[0:-1:2]]
        values = [self._result(arg, e.type) for arg in (*e.args[1:-1:2], e.args[-1])]

        def value(a: Row, b: Row, p: Mapping[str, Any]) -> Any:
            for test, f in zip(tests, values, strict=False):
                if test(a, b, p) is True:
                    return f(a, b, p)
            return values[-1](a, b, p)

        return value

    def _if(self, e: E) -> Value:
        return self._case(e)

    def _result(self, e: E, to: Type) -> Value:
        return self._as_double(e) if to == F64 else self.compile(e)

    def _startswith(self, e: E) -> Value:
        return self._strict(e, lambda x, y: x.startswith(y), self._met(e.args))

    def _like(self, e: E) -> Value:
        prefix = e.args[1].value[0]
        return self._unary(e, lambda x: x.startswith(prefix))


def limits_of(sql_type: str) -> tuple[int, int] | None:
    """The raw bounds of a SQL type, None where every value fits."""
    bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}.get(sql_type)
    if bits:
        return -(1 << bits - 1), (1 << bits - 1) - 1
    if sql_type.startswith("DECIMAL"):
        digits = int(sql_type[8:].split(",")[0])
        return 1 - 10**digits, 10**digits - 1
    return None
