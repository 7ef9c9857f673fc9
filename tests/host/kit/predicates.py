"""Random general programs: predicates over typed keys, with data that stays in the bounds."""

from __future__ import annotations

import numpy as np

from penstock.expr import ops
from penstock.expr.node import Expr
from penstock.host.device.storage import storage_dtype
from penstock.program import GeneralProgram
from penstock.types import BOOL, FLOAT32, FLOAT64, Kind, Type, decimal, integer
from tests.host.kit.tasks import Join, ranges

#: Integer keys of these bounds; the last two need more than int64.
NARROW = (
    integer(0, 9),
    integer(-100, 27),
    integer(-30_000, 30_000),
    integer(0, (1 << 31) - 1),
    decimal(5, 2),
)
WIDE = (
    integer(-(1 << 63), (1 << 63) - 1),
    integer(0, (1 << 64) - 1),
    integer(-(1 << 80), 1 << 80),
)
OTHER = (BOOL, FLOAT32, FLOAT64)

_FLOATS = (0.0, -0.0, 1.0, -1.5, 2.25, 1e30, float("inf"), float("-inf"), float("nan"))


class Predicates:
    """Grows a random predicate bottom-up from the keys of both sides."""

    def __init__(self, rng: np.random.Generator, types: tuple[Type, ...]) -> None:
        self._rng = rng
        self._guards: list[Expr] = []
        own = [t.as_nullable(False) for t in types]
        self.stream = self._some(own)
        self.window = self._some(own)
        keys = [ops.key("s", k, t) for k, t in enumerate(self.stream)]
        keys += [ops.key("w", k, t) for k, t in enumerate(self.window)]
        self._integers = [k for k in keys if k.type.is_integral]
        self._floats = [k for k in keys if k.type.is_float]
        self._booleans = [k for k in keys if k.type.kind is Kind.BOOL]

    def program(self, steps: int) -> GeneralProgram:
        for _ in range(steps):
            self._grow()
        while len(self._booleans) < 3:
            self._grow()
        predicate = ops.and_(
            ops.or_(*self._take(self._booleans[-6:], 2)), self._booleans[-1], *self._guards
        )
        return GeneralProgram(self.stream, self.window, predicate)

    def value(self) -> Expr:
        """One of the numbers grown so far, the latest ones most likely."""
        pool = self._integers if self._integers else self._floats
        if self._floats and self._rng.random() < 0.4:
            pool = self._floats
        return pool[max(len(pool) - 1 - int(self._rng.geometric(0.4)), 0)]

    def _some(self, types: list[Type]) -> tuple[Type, ...]:
        picked = self._rng.integers(0, len(types), self._rng.integers(1, 4))
        return tuple(types[k] for k in picked)

    def _take(self, pool: list[Expr], count: int) -> list[Expr]:
        return [pool[k] for k in self._rng.integers(0, len(pool), count)]

    def _grow(self) -> None:
        rules = [self._constant]
        if self._integers:
            rules += [self._integer] * 4 + [self._compare_integers] * 2 + [self._to_float]
        if self._floats:
            rules += [self._float] * 2 + [self._compare_floats]
        if self._booleans:
            rules.append(self._logic)
        if self._booleans and (self._integers or self._floats):
            rules.append(self._case)
        rules[self._rng.integers(0, len(rules))]()

    def _constant(self) -> None:
        self._integers.append(ops.const(int(self._rng.integers(-20, 20))))
        self._floats.append(ops.const(float(self._rng.choice(_FLOATS))))

    def _integer(self) -> None:
        a, b = self._take(self._integers, 2)
        plain = a.type.kind is b.type.kind is Kind.INT
        rules = [
            lambda: ops.add(a, b),
            lambda: ops.sub(a, b),
            lambda: ops.mul(a, b),
            lambda: ops.neg(a),
            lambda: ops.absolute(a),
            lambda: ops.least(a, b),
            lambda: ops.greatest(a, b),
            lambda: self._remainder(a, b),
        ]
        if plain:
            few = ops.bit_and(b, ops.const(int(self._rng.choice([3, 31, 63]))))
            rules += [
                lambda: ops.bit_and(a, b),
                lambda: ops.bit_or(a, b),
                lambda: ops.bit_xor(a, b),
                lambda: ops.bit_not(a),
                lambda: ops.shr(a, few),
                lambda: ops.shl(a, ops.bit_and(b, ops.const(7))),
                lambda: ops.shl(a, ops.const(int(self._rng.integers(0, 5)))),
            ]
        made = rules[self._rng.integers(0, len(rules))]()
        if made.type.bits <= 200:
            self._integers.append(made)

    def _remainder(self, a: Expr, b: Expr) -> Expr:
        self._guards.append(ops.ne(b, ops.const(0)))
        return ops.mod(a, b)

    def _compare_integers(self) -> None:
        self._compare(*self._take(self._integers[-5:], 1), *self._take(self._integers, 1))

    def _compare_floats(self) -> None:
        self._compare(*self._take(self._floats, 2))

    def _compare(self, a: Expr, b: Expr) -> None:
        rule = (ops.lt, ops.le, ops.eq, ops.ne)[self._rng.integers(0, 4)]
        self._booleans.append(rule(a, b))

    def _to_float(self) -> None:
        (a,) = self._take(self._integers, 1)
        if a.type.bits <= 100:
            self._floats.append(ops.cast(a, FLOAT64))

    def _float(self) -> None:
        a, b = self._take(self._floats, 2)
        rules = [
            lambda: ops.add(a, b),
            lambda: ops.sub(a, b),
            lambda: ops.mul(a, b),
            lambda: ops.neg(a),
            lambda: ops.absolute(a),
            lambda: ops.least(a, b),
            lambda: ops.greatest(a, b),
            lambda: ops.mod(a, ops.const(2.5)),
            lambda: ops.cast(a, FLOAT64),
        ]
        self._floats.append(rules[self._rng.integers(0, len(rules))]())

    def _logic(self) -> None:
        a, b = self._take(self._booleans, 2)
        rule = self._rng.integers(0, 3)
        made = (ops.and_(a, b), ops.or_(a, b), ops.not_(a))[rule]
        self._booleans.append(made)

    def _case(self) -> None:
        condition, again = self._take(self._booleans, 2)
        pool = self._integers if self._integers else self._floats
        a, b, c = self._take(pool, 3)
        made = ops.case([(condition, a), (again, b)], c)
        pool.append(made)


def column(rng: np.random.Generator, dtype: Type, rows: int) -> np.ndarray:
    """Values of a type: small ones, both bounds, and any."""
    if dtype.kind is Kind.BOOL:
        return rng.random(rows) < 0.5
    if dtype.is_float:
        small = rng.integers(-4, 5, rows) / 2
        values = np.where(rng.random(rows) < 0.3, rng.choice(_FLOATS, rows), small)
        return values.astype(storage_dtype(dtype))
    span = dtype.hi - dtype.lo
    choices = [dtype.lo, dtype.hi, *(v for v in (-1, 0, 1, 2) if dtype.lo <= v <= dtype.hi)]
    values = [
        choices[rng.integers(0, len(choices))]
        if rng.random() < 0.5
        else dtype.lo + int.from_bytes(rng.bytes(16), "little") % (span + 1)
        for _ in range(rows)
    ]
    out = np.empty(rows, storage_dtype(dtype))
    out[:] = values
    return out


def general_join(
    rng: np.random.Generator, types: tuple[Type, ...], steps: int, rows: int, window: int, kind: str
) -> Join:
    """A join of a random predicate over keys of some of ``types``."""
    program = Predicates(rng, types).program(steps)
    start, end = ranges(rng, kind, rows, window)
    return Join(
        program,
        [column(rng, t, window) for t in program.window],
        [column(rng, t, rows) for t in program.stream],
        start,
        end,
    )
