"""Random queries: joins, windows in every spelling, constant conditions, aggregates, subqueries."""

from __future__ import annotations

import datetime
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa

from tests.fuzz.aggregates import aggregate_query
from tests.fuzz.data import random_columns, random_rows, random_shape, random_times
from tests.fuzz.expr import E, binary, col, integer
from tests.fuzz.expressions import Expressions, Scope, interval
from tests.fuzz.query import Case, Layer, Query
from tests.fuzz.types import BOOL, DUR, INT, TS, Column, Type

JOINS = ["inner"] * 5 + ["comma", "left", "left", "right", "full", "semi", "anti"]
FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


class Windows:
    """Spellings of a time window as conditions on the times of both sides."""

    def __init__(self, rng: Random, query: Query, scope: Scope) -> None:
        self.rng, self.query, self.scope = rng, query, scope
        self.a = col(0, "t", scope.columns[0]["t"])
        self.b = col(1, "t", scope.columns[1]["t"])

    def span(self, steps: int) -> E:
        """A constant time difference of so many steps."""
        rng, times = self.rng, self.query.times
        if times.numeric:
            if rng.random() < 0.25:
                values = sorted({steps, max(0, steps - 1), steps + 2})
                return self.scope.parameter(INT, [(x, x) for x in values])
            return integer(steps)
        value = steps * times.step
        if value < 1000 or value % 1000:
            value = steps * 1000  # INTERVAL has no nanoseconds.
        if rng.random() < 0.25:
            span = datetime.timedelta(microseconds=value // 1000)
            return self.scope.parameter(DUR, [(value, span)])
        return interval(value)

    def later(self, time: E, steps: int) -> E:
        """A time, moved by so many steps."""
        if steps == 0 and self.rng.random() < 0.7:
            return time
        type_ = INT if self.query.times.numeric else TS
        return binary("sub" if steps < 0 else "add", time, self.span(abs(steps)), type_)

    def compare(self, op: str, x: E, y: E) -> E:
        """``x op y`` in one of its spellings."""
        rng = self.rng
        roll = rng.random()
        if roll < 0.5:
            return binary(op, x, y)
        if roll < 0.85:
            return binary(FLIPPED[op], y, x)
        negated = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}[op]
        return E("not", (binary(negated, x, y),), BOOL)

    def difference(self, first: E, second: E) -> E:
        return binary("sub", first, second, INT if self.query.times.numeric else DUR)

    def bound(self, op: str, steps: int) -> E:
        """``b.t - a.t op steps``."""
        if self.rng.random() < 0.5:
            return self.compare(op, self.b, self.later(self.a, steps))
        if self.rng.random() < 0.5:
            return self.compare(op, self.later(self.b, -steps), self.a)
        if steps >= 0:
            return self.compare(op, self.difference(self.b, self.a), self.span(steps))
        return self.compare(FLIPPED[op], self.difference(self.a, self.b), self.span(-steps))

    def conditions(self) -> list[E]:
        """Conditions that hold a window."""
        rng = self.rng
        low = rng.choice([0, 0, 1, 2, 5, 10, 40])
        high = (
            rng.choice([0, 1, 2, 5, 10, 40]) if rng.random() < 0.1 else rng.choice([3, 5, 10, 40])
        )
        roll = rng.random()
        if roll < 0.22:
            if rng.random() < 0.5:
                return [
                    E("between", (self.b, self.later(self.a, -low), self.later(self.a, high)), BOOL)
                ]
            return [
                E("between", (self.a, self.later(self.b, -low), self.later(self.b, high)), BOOL)
            ]
        if roll < 0.42:
            less, more = rng.choice(["lt", "le"]), rng.choice(["gt", "ge"])
            return [self.bound(more, -low), self.bound(less, high)]
        if roll < 0.57:
            pair = (self.a, self.b) if rng.random() < 0.5 else (self.b, self.a)
            away = E("abs", (self.difference(*pair),), INT if self.query.times.numeric else DUR)
            return [self.compare(rng.choice(["lt", "le"]), away, self.span(high))]
        if roll < 0.70:  # An offset window.
            start = rng.choice([1, 2, 3, 8])
            if rng.random() < 0.5:
                return [self.bound(rng.choice(["gt", "ge"]), start), self.bound("le", start + high)]
            return [self.bound("ge", -start - high), self.bound(rng.choice(["lt", "le"]), -start)]
        if roll < 0.85:  # One-sided.
            op = rng.choice(["lt", "le", "gt", "ge"])
            return [self.bound(op, rng.choice([0, 0, 0, 1, 3, -2, 5]))]
        if roll < 0.90:
            return [binary("eq", self.a, self.later(self.b, rng.choice([0, 0, 2, -1])))]
        patience = self.patience()
        if patience is None:
            return [self.bound("ge", -low), self.bound("le", high)]
        whole = INT if self.query.times.numeric else TS
        return [E("between", (self.b, self.a, binary("add", self.a, patience, whole)), BOOL)]

    def patience(self) -> E | None:
        """A column of the left side that bounds the window."""
        if not self.query.times.numeric:
            known = [n for n, t in self.scope.columns[0].items() if t == DUR]
            return col(0, self.rng.choice(known), DUR) if known else None
        small = {
            c.name for c in self.query.columns[0] if c.arrow in (pa.int8(), pa.uint8(), pa.int16())
        }
        known = [n for n, t in self.scope.columns[0].items() if t == INT and n in small]
        return col(0, self.rng.choice(known), INT) if known else None


def random_layers(
    rng: Random, scope: Scope, side: int, columns: tuple[Column, ...], clock: bool
) -> tuple[tuple[Layer, ...], dict[str, Type]]:
    """Subqueries of one side, and the columns that they leave."""
    known = dict(scope.columns[side])
    layers = []
    for _ in range(rng.choice([1, 1, 2])):
        inner = Scope((known, {}) if side == 0 else ({}, known), scope.params)
        gen = Expressions(rng, inner, (side,))
        where = None
        if rng.random() < 0.75:
            where = gen.constant_condition() if rng.random() < 0.15 else gen.boolean(1)
        items = None
        if rng.random() < 0.5:
            kept = [n for n in known if n in ("t", "id") or rng.random() < 0.8]
            chosen = [(col(side, n, known[n]), n) for n in kept]
            if rng.random() < 0.4:
                chosen.append((gen.number(1), f"n{len(layers)}"))
            items = tuple(chosen)
            known = {name: e.type for e, name in chosen}
        layers.append(Layer(items, where))
    return tuple(layers), known


def random_query(seed: int, band: bool = False) -> tuple[Query, Random]:
    """The query of a seed, and the source of its data sets.

    Parameters
    ----------
    band
        Whether its condition is of the band form, which simulated hardware runs without a build
        of its own.
    """
    rng = Random(seed)
    times = random_times(rng)
    columns = (tuple(random_columns(rng, times, 0)), tuple(random_columns(rng, times, 1)))
    join = rng.choice(JOINS)
    same = rng.random() < 0.08
    if same:
        columns = (columns[0], columns[0])
        times = replace(times, columns=(times.columns[0],) * 2, declared=(times.declared[0],) * 2)
    query = Query(columns, times, join, ((), ()), (), (), None, same=same)
    query = replace(query, bare=rng.random() < 0.3)
    scope = Scope((query.visible(0), query.visible(1)))
    query = replace(query, params=scope.params)
    for side in (0, 1):
        if rng.random() < 0.18:
            layers, known = random_layers(rng, scope, side, columns[side], False)
            chosen = (layers, query.layers[1]) if side == 0 else (query.layers[0], layers)
            query = replace(query, layers=chosen)
            scope.columns[side].clear()
            scope.columns[side].update(known)
    query = random_conditions(rng, query, scope, band)
    aggregates = 0.5 if join in ("inner", "comma") else 0.02
    if rng.random() < (aggregates / 4 if band else aggregates):
        query = aggregate_query(rng, query, scope)
    else:
        query = random_select(rng, query, scope)
    return query, rng


def random_conditions(rng: Random, query: Query, scope: Scope, band: bool) -> Query:
    """ON, WHERE and the window."""
    windows = Windows(rng, query, scope)
    gen = Expressions(rng, scope)
    on: list[E] = []
    where: list[E] = []
    rolls = rng.random()
    if rolls < 0.12:
        query = replace(
            query,
            rows=(rng.randint(1, 4), rng.randint(1, 4)),
            rows_text=rng.random() < 0.5 and not any(query.layers),
        )
        if rng.random() < 0.95:
            query = timed(query)
        if rng.random() < 0.25:
            on += windows.conditions()
    elif rolls < 0.2:
        span = rng.choice([0, 1, 3, 10])
        if not query.times.numeric:
            span = span * query.times.step // 1000 * 1000
        query = replace(query, within=span)
        if rng.random() < 0.3:
            on += windows.conditions()
    else:
        inner = query.join in ("inner", "comma")
        (where if inner and rng.random() < 0.12 else on).extend(windows.conditions())
    for _ in range(rng.choice([0, 0, 1, 1, 1, 2])):
        roll = rng.random()
        if roll < 0.16:
            sides = gen.over(rng.randrange(2))
            on.append(sides.boolean(1))
        elif roll < 0.24:
            on.append(gen.constant_condition())
        else:
            on.append(gen.band() if band else gen.boolean(rng.choice([0, 1, 1, 2])))
    if rng.random() < 0.3:
        where.append(random_where(rng, query.join, gen, band))
    rng.shuffle(on)
    if not on and query.join != "comma":
        on.append(gen.band() if band else gen.boolean(0))
    return replace(query, on=tuple(on), where=tuple(where))


def timed(query: Query) -> Query:
    """The query with times that are never NULL, which ROWS windows ask for."""
    columns = tuple(
        tuple(replace(c, nullable=False) if c.name == "t" else c for c in side)
        for side in query.columns
    )
    times = replace(query.times, columns=(columns[0][0], columns[1][0]))
    return replace(query, columns=(columns[0], columns[1]), times=times)


def random_where(rng: Random, join: str, gen: Expressions, band: bool) -> E:
    """A WHERE that the join type allows, often one that folds."""
    free = {"inner": (0, 1), "comma": (0, 1), "left": (0,), "right": (1,), "full": ()}
    sides = free.get(join, (0,))
    roll = rng.random()
    if roll < 0.35 or not sides:
        empty = Expressions(rng, Scope(({}, {}), gen.scope.params), ())
        return empty.constant_condition()
    own = gen.over(rng.choice(sides))
    if roll < 0.5:
        return binary(rng.choice(["and", "or", "and"]), own.boolean(0), own.constant_condition())
    if roll < 0.7 and len(sides) == 2:
        return gen.band() if band else gen.boolean(1)
    return own.boolean(1)


def random_select(rng: Random, query: Query, scope: Scope) -> Query:
    if rng.random() < 0.15:
        return query
    sides = (0,) if query.join in ("semi", "anti") else (0, 1)
    gen = Expressions(rng, scope, sides)
    items = [(col(side, "id", INT), f"{'ab'[side]}_id") for side in sides]
    if rng.random() < 0.1:
        items = []
    for i in range(rng.choice([0, 1, 1, 2, 3]) or (0 if items else 1)):
        items.append((gen.any_value(rng.choice([1, 1, 2])), f"c{i}"))
    return replace(query, select=tuple(items))


def random_case(rng: Random, query: Query) -> Case:
    """One data set for a query."""
    shape = random_shape(rng)
    rows = tuple(
        tuple(random_rows(rng, list(query.columns[side]), query.times, side, shape))
        for side in (0, 1)
    )
    if query.same:
        rows = (rows[0], rows[0])
    params: dict[str, tuple[Any, Any]] = {
        p.name: rng.choice(p.values) for p in query.params.values()
    }
    return Case(query, (rows[0], rows[1]), params)
