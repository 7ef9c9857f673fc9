"""Random typed expressions over the columns of one side or both."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

from tests.fuzz.evaluate import common
from tests.fuzz.expr import FALSE, NULL, TRUE, E, binary, col, integer, lit
from tests.fuzz.types import BIN, BOOL, DATE, DAY, DUR, F32, F64, INT, STR, TS, Type

INTERVALS = {
    "MICROSECONDS": 10**3,
    "MILLISECONDS": 10**6,
    "SECONDS": 10**9,
    "MINUTES": 60 * 10**9,
    "HOURS": 3600 * 10**9,
    "DAYS": DAY,
    "WEEKS": 7 * DAY,
}
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
OPERATORS = ["add", "sub", "mul", "mod", "neg", "abs", "least", "greatest", "case", "if"]
ORDERED = ["lt", "le", "gt", "ge"]


@dataclass(frozen=True)
class Param:
    """A parameter: its type and the values it takes, as plain value and as Python object."""

    name: str
    type: Type
    values: tuple[tuple[Any, Any], ...]


@dataclass
class Scope:
    """What names mean: the columns of each side, and parameters, which may be added."""

    columns: tuple[dict[str, Type], dict[str, Type]]
    params: dict[str, Param] = field(default_factory=dict)

    def parameter(self, type_: Type, values: list[tuple[Any, Any]]) -> E:
        name = f"p{len(self.params)}"
        self.params[name] = Param(name, type_, tuple(values))
        return E("param", (), type_, name)


def interval(value: int) -> E:
    """An INTERVAL literal of nanoseconds, in the largest unit that divides them."""
    for name, size in reversed(INTERVALS.items()):
        if value % size == 0 and (value or name == "SECONDS"):
            return lit(value, DUR, f"INTERVAL {value // size} {name}")
    raise ValueError(f"no interval literal of {value} ns")


def unify(types: list[Type]) -> Type | None:
    """The type in which values meet, None if they do not."""
    first = types[0]
    if all(t == first for t in types):
        return first
    if all(t.number for t in types):
        if all(t.exact for t in types):
            return Type("dec", max(t.scale for t in types))
        return F64
    if all(t.instant for t in types):
        return TS
    return None


class Expressions:
    """A source of random expressions.

    Parameters
    ----------
    sides
        Sides whose columns may be used.
    """

    def __init__(self, rng: Random, scope: Scope, sides: tuple[int, ...] = (0, 1)) -> None:
        self.rng, self.scope, self.sides = rng, scope, sides
        self.columns = [
            (side, name, type_) for side in sides for name, type_ in scope.columns[side].items()
        ]

    def over(self, *sides: int) -> Expressions:
        return Expressions(self.rng, self.scope, sides)

    def column(self, *kinds: str) -> E | None:
        known = [c for c in self.columns if c[2].kind in kinds]
        # The row number and the time are less telling than the others.
        telling = [c for c in known if c[1] not in ("id", "t")]
        if telling and self.rng.random() < 0.85:
            known = telling
        return col(*self.rng.choice(known)) if known else None

    def some_column(self) -> E:
        return col(*self.rng.choice([c for c in self.columns if c[2].kind != "clock"]))

    # Constants.

    def int_constant(self, small: bool = False) -> E:
        rng = self.rng
        if rng.random() < 0.25:
            values = rng.sample(range(-4, 10), 3)
            return self.scope.parameter(INT, [(x, x) for x in values])
        if small or rng.random() < 0.93:
            return integer(rng.randint(-5, 9))
        return integer(rng.choice([127, 128, 255, 256, -129, 2**31, 2**63 - 1, -(2**63), 2**64]))

    def decimal_constant(self) -> E:
        scale = self.rng.randint(1, 4)
        raw = self.rng.randint(-99, 999)
        value = Fraction(raw, 10**scale)
        exact = Decimal(raw).scaleb(-scale)
        type_ = Type("dec", scale)
        if self.rng.random() < 0.2:
            return self.scope.parameter(type_, [(value, exact)])
        if self.rng.random() < 0.1:
            halves = [x / 2 for x in self.rng.sample(range(-9, 15), 2)]
            return self.scope.parameter(Type("dec", 1), [(Fraction(x), x) for x in halves])
        return lit(value, type_, f"{exact:f}")

    def double_constant(self) -> E:
        rng = self.rng
        if rng.random() < 0.4:
            # Others are decimals, as they are when written in the query: 2.5, but not 1e-07.
            values = rng.choice([[float("nan"), 1e-7], [float("inf"), -float("inf")], [1e30]])
            return self.scope.parameter(F64, [(x, x) for x in values])
        value = rng.randint(-12, 20) / 4
        return lit(value, F64, f"{value}e0")

    def duration_constant(self) -> E:
        size = self.rng.choice(list(INTERVALS.values()))
        value = self.rng.randint(0, 9) * size
        if self.rng.random() < 0.25:
            span = datetime.timedelta(microseconds=value // 1000)
            return self.scope.parameter(DUR, [(value, span)])
        return interval(value)

    def instant_constant(self) -> E:
        rng = self.rng
        day = rng.randint(0, 9)
        date = datetime.date(1970, 1, 1) + datetime.timedelta(days=day)
        if rng.random() < 0.4:
            return lit(day * DAY, DATE, f"DATE '{date}'")
        second = rng.randint(0, 20)
        return lit((day * 86_400 + second) * 10**9, TS, f"TIMESTAMP '{date} 00:00:{second:02d}'")

    # Values.

    def whole(self, depth: int) -> E:
        """An integer."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.35:
            if rng.random() < 0.8 and (c := self.column("int")):
                return c
            return self.int_constant()
        op = rng.choice([*OPERATORS, "and_bits", "or_bits", "xor", "not_bits", "shl", "shr"])
        if op in ("shl", "shr"):
            amount = integer(rng.choice([0, 1, 2, 5, rng.randint(0, 63)]))
            return binary(op, self.whole(depth - 1), amount, INT)
        return self._built(op, self.whole, depth, INT)

    def number(self, depth: int) -> E:
        """A number of any type."""
        rng = self.rng
        if rng.random() < 0.35:
            return self.whole(depth)
        if depth <= 0 or rng.random() < 0.35:
            if rng.random() < 0.8 and (c := self.column("int", "dec", "dec", "f32", "f64")):
                return c
            return rng.choice([self.int_constant, self.decimal_constant, self.double_constant])()
        op = rng.choice(OPERATORS)
        return self._built(op, self.number, depth, None)

    def _built(self, op: str, of: Any, depth: int, type_: Type | None) -> E:
        rng = self.rng
        if op in ("neg", "abs", "not_bits"):
            arg = of(depth - 1)
            return E(op, (arg,), arg.type)
        if op in ("least", "greatest"):
            args = tuple(of(depth - 1) for _ in range(rng.randint(2, 3)))
        elif op == "if":
            values = (of(depth - 1), of(depth - 1))
            whole = type_ or unify([v.type for v in values])
            if whole is None:
                return values[0]
            return E("if", (self.boolean(depth - 1), *values), whole)
        elif op == "case":
            values = tuple(of(depth - 1) for _ in range(rng.randint(1, 3)))
            whole = type_ or unify([v.type for v in values])
            if whole is None:
                return values[0]
            other = lit(None, whole, "NULL") if rng.random() < 0.3 else None
            if other is None and len(values) > 1:
                *values, other = values
            other = other or values[0]
            args = []
            for value in values:
                args += [self.boolean(depth - 1), value]
            return E("case", (*args, other), whole)
        else:
            args = (of(depth - 1), of(depth - 1))
        types = [a.type for a in args]
        whole = type_ or unify(types)
        if whole is None:
            return args[0]
        if op == "mul" and whole.exact:
            scale = sum(t.scale for t in types)
            whole = Type("dec", scale) if any(t.kind == "dec" for t in types) else INT
        return E(op, args, whole)

    def duration(self, depth: int) -> E:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.4:
            if rng.random() < 0.75 and (c := self.column("dur")):
                return c
            return self.duration_constant()
        if rng.random() < 0.35:
            x, y = self.instant(depth - 1), self.instant(depth - 1)
            if x is not None and y is not None and (x.sides() or y.sides()):
                return binary("sub", x, y, DUR)
        op = rng.choice(["add", "sub", "neg", "abs", "least", "greatest", "case", "if"])
        return self._built(op, self.duration, depth, DUR)

    def instant(self, depth: int) -> E | None:
        """A date or a timestamp, None where no column is one."""
        rng = self.rng
        c = self.column("date", "ts")
        if c is None:
            return None
        if depth <= 0 or rng.random() < 0.5:
            return c if rng.random() < 0.8 else self.instant_constant()
        if rng.random() < 0.3:
            kind = rng.choice(["least", "greatest", "if"])
            of = lambda d: self.instant(d) or c  # noqa: E731
            return self._built(kind, of, depth, None)
        if rng.random() < 0.15:
            unit = rng.choice(["second", "minute", "hour", "day", "week"])
            return E("trunc", (c,), TS, unit)
        return binary(rng.choice(["add", "sub"]), c, self.duration(depth - 1), TS)

    def text(self, like: E | None = None) -> E:
        """Text or bytes: a column, or a constant of the type of another."""
        kind = like.type.kind if like else "str"
        if self.rng.random() < 0.7 and (c := self.column(kind)):
            return c
        return self.text_constant(kind)

    def text_constant(self, kind: str) -> E:
        from tests.fuzz.data import TEXTS

        value = self.rng.choice([x for x in TEXTS if "\x00" not in x])
        if kind == "bin":
            raw = value.encode()
            return lit(raw, BIN, f"X'{raw.hex()}'")
        if self.rng.random() < 0.2:
            return self.scope.parameter(STR, [(value, value)])
        quoted = value.replace("'", "''")
        return lit(value, STR, f"'{quoted}'")

    # Conditions.

    def constant_condition(self) -> E:
        """A condition without columns, or one that the bounds of types decide."""
        rng = self.rng
        roll = rng.random()
        if roll < 0.35:
            return rng.choice([TRUE, FALSE, NULL, FALSE])
        if roll < 0.6:
            return binary(rng.choice(COMPARISONS), integer(1), integer(rng.choice([0, 1])))
        if roll < 0.75:
            value = rng.random() < 0.5
            return self.scope.parameter(BOOL, [(value, value), (not value, not value)])
        if roll < 0.85:
            null = lit(None, INT, "NULL")
            if rng.random() < 0.5:
                return binary(rng.choice(COMPARISONS), null, integer(1))
            return E(rng.choice(["isnull", "notnull"]), (NULL,), BOOL)
        if c := self.column("int"):
            if rng.random() < 0.5:
                return binary(rng.choice(ORDERED), E("abs", (c,), INT), integer(0))
            far = integer(rng.choice([2**64, -(2**64), 2**63, 255, -129]))
            return binary(rng.choice(COMPARISONS), c, far)
        return FALSE

    def atom(self, depth: int) -> E:
        """A comparison or a test."""
        rng = self.rng
        roll = rng.random()
        if roll < 0.06:
            return self.constant_condition()
        if roll < 0.16 and (c := self.column("str", "bin")):
            kind = rng.random()
            if kind < 0.5:
                return binary(rng.choice(["eq", "ne"]), c, self.text(c))
            if kind < 0.65:
                items = tuple(self.text_constant(c.type.kind) for _ in range(rng.randint(1, 3)))
                return E("in", (c, *items), BOOL, rng.choice([None, "NOT"]))
            if kind < 0.85:
                return E("startswith", (c, self.text(c)), BOOL)
            if c.type.kind == "str":
                prefix = rng.choice(["a", "ab", "", "b", "é"])
                return E("like", (c, lit(prefix, STR, f"'{prefix}%'")), BOOL)
            return E("isnull", (c,), BOOL)
        if roll < 0.22 and (c := self.column("bool")):
            if rng.random() < 0.4:
                return c
            return binary(rng.choice(["eq", "ne"]), c, rng.choice([TRUE, FALSE, c]))
        if roll < 0.30 and (x := self.instant(depth)) is not None:
            y = self.instant(depth)
            return binary(rng.choice(COMPARISONS), x, y) if y else E("isnull", (x,), BOOL)
        if roll < 0.38 and self.column("dur"):
            return binary(rng.choice(COMPARISONS), self.duration(depth), self.duration(depth))
        if roll < 0.44:
            return E(rng.choice(["isnull", "notnull"]), (self.some_column(),), BOOL)
        x = self.number(depth)
        if roll < 0.52:
            low, high = self.number(depth - 1), self.number(depth - 1)
            return E("between", (x, low, high), BOOL, rng.choice([None, None, "not"]))
        if roll < 0.58 and x.type.kind != "f32":
            items = [self.int_constant(small=True) for _ in range(rng.randint(1, 4))]
            return E("in", (x, *items), BOOL, rng.choice([None, "NOT"]))
        if roll < 0.66:
            away = E("abs", (binary("sub", x, y := self.number(0), unify([x.type, y.type])),), INT)
            type_ = away.args[0].type
            return binary(rng.choice(ORDERED), E("abs", away.args, type_), self.number(0))
        return binary(rng.choice(COMPARISONS), x, self.number(depth))

    def band_atom(self) -> E:
        """A condition of the band form: something of one side against something of the other."""
        rng = self.rng
        if rng.random() < 0.1:
            return self.constant_condition()
        sides = [0, 1]
        rng.shuffle(sides)
        own, other = self.over(sides[0]), self.over(sides[1])
        text = own.column("str", "bin") if rng.random() < 0.12 else None
        if text is not None and (same := other.column(text.type.kind)):
            return binary("eq", text, same)
        x, y = own.whole(rng.choice([0, 0, 1])), other.whole(0)
        if rng.random() < 0.2:
            x, y = own.number(0), other.number(0)
            if common([x.type, y.type]) is not None and x.type != y.type:
                y = other.whole(0)
                x = own.whole(0)
        if x.type.exact and y.type.exact and rng.random() < 0.35:
            type_ = unify([x.type, y.type])
            assert type_ is not None  # Both are exact.
            away = E("abs", (binary("sub", x, y, type_),), type_)
            return binary(rng.choice(["lt", "le"]), away, integer(rng.randint(0, 6)))
        return binary(rng.choice([*ORDERED, "eq"]), x, y)

    def band(self) -> E:
        """One band test, or an OR or AND of two."""
        if self.rng.random() < 0.7:
            return self.band_atom()
        return binary(self.rng.choice(["or", "and"]), self.band_atom(), self.band_atom())

    def boolean(self, depth: int) -> E:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.6:
            return self.atom(depth)
        op = rng.choice(["and", "or", "or", "not"])
        if op == "not":
            return E("not", (self.boolean(depth - 1),), BOOL)
        return binary(op, self.boolean(depth - 1), self.boolean(depth - 1))

    def cast(self, depth: int) -> E:
        """A CAST of a number of one side."""
        rng = self.rng
        x = self.number(depth)
        digits = rng.randint(2, 18)
        scale = rng.randint(0, min(digits, 4))
        to, type_ = rng.choice(
            [
                ("BIGINT", INT),
                ("INT", INT),
                ("DOUBLE", F64),
                ("FLOAT", F32),
                (f"DECIMAL({digits}, {scale})", Type("dec", scale)),
            ]
        )
        return E("cast", (x,), type_, to)

    def any_value(self, depth: int) -> E:
        """An expression for a SELECT list."""
        rng = self.rng
        roll = rng.random()
        if roll < 0.3:
            return self.some_column()
        if roll < 0.7:
            return self.number(depth)
        if roll < 0.78 and (x := self.instant(depth)) is not None:
            return x
        if roll < 0.86 and self.column("dur"):
            return self.duration(depth)
        if roll < 0.93:
            return self.boolean(depth)
        return self.cast(depth - 1)
