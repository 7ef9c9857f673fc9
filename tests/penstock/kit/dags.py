"""Random typed expressions over columns of two sides, and rows for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from penstock.expr import ops
from penstock.expr.columns import Vector, int_vector
from penstock.expr.node import Expr, Op
from penstock.expr.ops import ExprTypeError
from penstock.expr.values import order_key, zero_of
from penstock.types import BOOL, FLOAT32, FLOAT64, STRING, Kind, Type, decimal, int_of, integer

TIME = Type(Kind.TIMESTAMP, -(1 << 40), 1 << 40, unit="ms")
MICROS = replace(TIME, unit="us")
SECONDS = replace(TIME, unit="s")
WALL = replace(TIME, kind=Kind.TIMESTAMP_NTZ, unit="us")
DATE = Type(Kind.DATE, -30_000, 30_000, unit="D")
SPAN = Type(Kind.DURATION, -(1 << 40), 1 << 40, unit="ms")

#: Column types of each side, by the kind of value that a column of it is.
PALETTE: dict[str, dict[str, Type]] = {
    "int": {
        "i8": int_of(8),
        "u8": int_of(8, signed=False, nullable=False),
        "i32": int_of(32),
        "i64": int_of(64),
        "u64": int_of(64, signed=False),
        "few": integer(0, 3),
    },
    "decimal": {"d2": decimal(9, 2), "d30": decimal(30, 4)},
    "float": {"f32": FLOAT32, "f64": FLOAT64},
    "time": {"ms": TIME, "us": MICROS, "sec": SECONDS, "wall": WALL, "day": DATE},
    "span": {"span_ms": SPAN, "span_ns": replace(SPAN, unit="ns", nullable=False)},
    "text": {"name": STRING, "word": STRING.as_nullable(False)},
    "bool": {"yes": BOOL, "sure": BOOL.as_nullable(False)},
}

_FLOATS = (0.0, -0.0, 1.5, -2.25, 3.0, 1e300, math.nan, math.inf, -math.inf, 0.1)
_TEXTS = ("", "a", "ab", "abc", "b", "ba", "\u00e9", "\uffff", "\U0001f40d", "z")


@dataclass
class Dags:
    """Draws expressions and rows.

    Parameters
    ----------
    seed : int
    sides : str
        Sides whose columns are used.
    kinds : sequence of str
        Kinds of columns from :data:`PALETTE` that are used.
    narrow_casts : bool
        Whether casts that may overflow occur; evaluation may then raise ``DataError``.
    """

    seed: int
    sides: str = "lr"
    kinds: Sequence[str] = tuple(PALETTE)
    narrow_casts: bool = False

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)

    # -- rows -------------------------------------------------------------------------------------

    def columns(self) -> dict[tuple[str, str], Type]:
        return {
            (side, name): dtype
            for side in self.sides
            for kind in self.kinds
            for name, dtype in PALETTE[kind].items()
        }

    def row(self) -> dict[tuple[str, str], Any]:
        return {key: self.value(dtype) for key, dtype in self.columns().items()}

    def value(self, dtype: Type) -> Any:
        rng = self.rng
        if dtype.nullable and rng.random() < 0.2:
            return None
        if dtype.kind is Kind.BOOL:
            return rng.random() < 0.5
        if dtype.kind is Kind.FLOAT32:
            with np.errstate(over="ignore"):
                return float(np.float32(rng.choice(_FLOATS)))
        if dtype.kind is Kind.FLOAT64:
            return rng.choice(_FLOATS)
        if dtype.is_text:
            return rng.choice(_TEXTS)
        small = rng.randint(max(-4, dtype.lo), min(4, dtype.hi))
        return rng.choice(
            (small, small, small, dtype.lo, dtype.hi, rng.randint(dtype.lo, dtype.hi))
        )

    # -- expressions ------------------------------------------------------------------------------

    def expression(self, depth: int) -> Expr:
        """Any expression."""
        return getattr(self, self.rng.choice(self._usable()))(depth)

    def _usable(self) -> list[str]:
        names = {"int": "integer", "decimal": "number", "float": "floating", "time": "time"}
        names |= {"span": "duration", "text": "text", "bool": "condition"}
        found = [names[k] for k in self.kinds]
        return [*found, "duration"] if "time" in self.kinds else found

    def leaf(self, kind: str, constant: Callable[[], Expr]) -> Expr:
        if kind not in self.kinds or self.rng.random() < 0.3:
            return constant()
        name, dtype = self.rng.choice(list(PALETTE[kind].items()))
        return ops.column(self.rng.choice(self.sides), name, dtype)

    def integer(self, depth: int) -> Expr:
        rng = self.rng
        leaf = self.leaf("int", lambda: ops.const(rng.choice((0, 1, -1, 2, 7, 255, 1 << 40))))
        if depth <= 0:
            return leaf

        def down() -> Expr:
            return self.integer(depth - rng.randint(1, 2))

        made = self._arithmetic(down, self.condition, depth)
        if made is None:
            a, b = down(), down()
            bits = (ops.bit_and, ops.bit_or, ops.bit_xor)
            shift = ops.bit_and(b, ops.const(rng.choice((3, 15))))
            made = rng.choice(
                (
                    lambda: rng.choice(bits)(a, b),
                    lambda: ops.bit_not(a),
                    lambda: ops.shl(a, shift),
                    lambda: ops.shr(a, shift),
                    lambda: self._narrowed(a, int_of(rng.choice((8, 32, 64)))),
                )
            )
        return self._made(made, leaf)

    def number(self, depth: int) -> Expr:
        rng = self.rng
        leaf = self.leaf(
            "decimal", lambda: ops.decimal_const(rng.randint(-500, 500), rng.randint(0, 3))
        )
        if depth <= 0:
            return leaf

        def down() -> Expr:
            return rng.choice((self.number, self.number, self.integer))(depth - 1)

        made = self._arithmetic(down, self.condition, depth)
        wide = decimal(12, rng.randint(0, 4))
        return self._made(made or (lambda: self._narrowed(down(), wide)), leaf)

    def floating(self, depth: int) -> Expr:
        rng = self.rng
        leaf = self.leaf("float", lambda: ops.const(rng.choice(_FLOATS)))
        if depth <= 0:
            return leaf

        def down() -> Expr:
            return rng.choice((self.floating, self.floating, self.integer))(depth - 1)

        made = self._arithmetic(down, self.condition, depth)
        return self._made(made or (lambda: ops.cast(down(), rng.choice((FLOAT32, FLOAT64)))), leaf)

    def time(self, depth: int) -> Expr:
        rng = self.rng
        leaf = self.leaf("time", lambda: ops.const(rng.randint(-99, 99), TIME))
        if depth <= 0:
            return leaf
        a, b = self.time(depth - 1), self.time(depth - 1)
        return self._made(
            rng.choice(
                (
                    lambda: ops.add(a, self.duration(depth - 1)),
                    lambda: ops.sub(a, self.duration(depth - 1)),
                    lambda: rng.choice((ops.least, ops.greatest))(a, b),
                    lambda: ops.case([(self.condition(depth - 1), a)], b),
                    lambda: ops.cast(a, TIME),
                )
            ),
            leaf,
        )

    def duration(self, depth: int) -> Expr:
        rng = self.rng
        units = ("s", "ms", "us")
        leaf = self.leaf("span", lambda: ops.duration_const(rng.randint(-9, 9), rng.choice(units)))
        if depth <= 0:
            return leaf
        a, b = self.duration(depth - 1), self.duration(depth - 1)
        return self._made(
            rng.choice(
                (
                    lambda: ops.mod(a, b),
                    lambda: rng.choice((ops.least, ops.greatest))(a, b),
                    lambda: ops.case([(self.condition(depth - 1), a)], b),
                    lambda: ops.sub(self.time(depth - 1), self.time(depth - 1)),
                    lambda: ops.add(a, b),
                    lambda: ops.absolute(a),
                    lambda: ops.neg(a),
                    lambda: ops.mul(a, self.leaf("int", lambda: ops.const(3))),
                )
            ),
            leaf,
        )

    def text(self, depth: int) -> Expr:
        leaf = self.leaf("text", lambda: ops.const(self.rng.choice(_TEXTS)))
        if depth <= 0 or self.rng.random() < 0.6:
            return leaf
        return ops.case([(self.condition(depth - 1), self.text(depth - 1))], leaf)

    def condition(self, depth: int) -> Expr:
        rng = self.rng
        if depth <= 0:
            return self.leaf("bool", lambda: ops.const(rng.choice((True, False, None)), BOOL))
        a, b = self.condition(depth - 1), self.condition(depth - 1)
        logic = (
            lambda: ops.and_(a, b),
            lambda: ops.or_(a, b),
            lambda: ops.not_(a),
            lambda: ops.is_null(self.expression(depth - 1)),
            lambda: ops.case([(a, b)], self.condition(depth - 1)),
            lambda: ops.eq(a, b),
        )
        return rng.choice((*logic, *[lambda: self.atom(depth)] * len(logic)))()

    def atom(self, depth: int) -> Expr:
        """A comparison."""
        rng = self.rng
        usable = [n for n in self._usable() if n != "condition"]
        operand = getattr(self, rng.choice(usable))
        if operand == self.text:
            op = rng.choice((ops.eq, ops.ne, ops.prefix))
        else:
            op = rng.choice((ops.lt, ops.le, ops.eq, ops.ne))
        a, b = operand(depth - 1), operand(depth - 1)
        return self._made(lambda: op(a, b), ops.FALSE)

    def _arithmetic(
        self, down: Callable[[], Expr], condition: Callable[[int], Expr], depth: int
    ) -> Callable[[], Expr] | None:
        """One of the operations that all numbers have, None for another."""
        rng = self.rng
        a, b = down(), down()
        choices: list[Callable[[], Expr] | None] = [
            lambda: ops.add(a, b),
            lambda: ops.sub(a, b),
            lambda: ops.mul(a, b),
            lambda: ops.mul(a, a),
            lambda: ops.mod(a, b),
            lambda: ops.neg(a),
            lambda: ops.absolute(a),
            lambda: ops.least(a, b, down()),
            lambda: ops.greatest(a, b),
            lambda: ops.case([(condition(depth - 1), a), (condition(depth - 2), b)], down()),
            lambda: ops.case([(condition(depth - 1), a)]),
        ]
        return rng.choice([*choices, None, None, None])

    def _narrowed(self, value: Expr, dtype: Type) -> Expr:
        if not self.narrow_casts or value.type.kind not in (Kind.INT, Kind.DECIMAL):
            return value
        return ops.cast(value, dtype)

    @staticmethod
    def _made(make: Callable[[], Expr], otherwise: Expr) -> Expr:
        """The expression, or another one where operands that wide are refused."""
        try:
            return make()
        except ExprTypeError:
            return otherwise


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same number, NULL or NaN."""
    if a is None or b is None:
        return a is b
    return type(a) is type(b) and order_key(a) == order_key(b)


def vector(values: Sequence[Any], dtype: Type) -> Vector:
    """Column of plain values, with None for NULL."""
    filled = [zero_of(dtype) if v is None else v for v in values]
    valid = None
    if any(v is None for v in values):
        valid = np.array([v is not None for v in values], dtype=bool)
    if dtype.kind is Kind.BOOL:
        return Vector(np.array(filled, dtype=bool), valid)
    if dtype.is_float:
        real = np.float32 if dtype.kind is Kind.FLOAT32 else np.float64
        return Vector(np.array(filled, dtype=real), valid)
    wide = np.empty(len(filled), dtype=object)
    wide[:] = filled
    if dtype.is_text:
        return Vector(wide, valid)
    fits = all(-(1 << 63) <= v < 1 << 63 for v in filled)
    return int_vector(wide.astype(np.int64) if fits else wide, valid)


def uses(expr: Expr, *ops: Op) -> bool:
    """Whether one of the operations occurs."""
    return expr.op in ops or any(uses(a, *ops) for a in expr.args)
