"""Random queries with aggregates."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.fuzz.expr import E, binary, col, integer
from tests.fuzz.expressions import INTERVALS, ORDERED, Expressions, Scope
from tests.fuzz.query import Query
from tests.fuzz.types import BOOL, F64, INT, TS, Type


def random_key(rng: Random, query: Query, scope: Scope, side: int, inner: bool) -> E:
    """A grouping expression of one side."""
    gen = Expressions(rng, scope, (side,))
    roll = rng.random()
    clock = scope.columns[side]["t"]
    time = col(side, "t", clock)
    if inner and roll < 0.12:
        return tumbling(rng, query, time)
    if inner and roll < 0.17 and clock.instant:
        unit = rng.choice(["second", "minute", "hour", "day", "week"])
        return E("trunc", (time,), TS, unit)
    if inner and roll < 0.22 and clock == INT:
        size = integer(rng.choice([2, 3, 10]))
        return binary("sub", time, binary("mod", time, size, INT), INT)
    if roll < 0.35 and clock.kind != "clock":
        return time
    if roll < 0.55:
        return col(side, "id", INT)
    if roll < 0.85:
        return gen.some_column()
    key = gen.number(1)
    # A key without a column would be a position in the select list.
    return key if key.sides() else gen.some_column()


def tumbling(rng: Random, query: Query, time: E) -> E:
    """``window(t, size)``; its value is (size, offset, text of the arguments)."""
    if query.times.numeric:
        size = rng.choice([2, 3, 10])
        offset = rng.randint(0, size - 1) if rng.random() < 0.3 else 0
        words = f"{size}, {size}, {offset}" if offset else str(size)
        return E("window", (time,), time.type, (size, offset, words))
    name = rng.choice(["second", "minute", "hour", "day"])
    unit = INTERVALS[f"{name.upper()}S"]
    count = rng.choice([1, 2, 10])
    size = count * unit
    offset = rng.randint(0, count - 1) * unit if rng.random() < 0.3 else 0
    words = f"'{count} {name}s'"
    if offset:
        words += f", '{count} {name}s', '{offset // unit} {name}s'"
    type_ = time.type if time.type.kind == "clock" else TS
    return E("window", (time,), type_, (size, offset, words))


def random_aggregate(rng: Random, gen: Expressions, nearest: bool) -> E:
    roll = rng.random()
    if roll < 0.16:
        return E("agg", (), INT, "count")
    if roll < 0.26:
        return E("agg", (gen.any_value(1),), INT, "count")
    if roll < 0.34:
        return E("agg", (gen.boolean(1),), INT, "count_if")
    if roll < 0.52:
        value = gen.number(rng.choice([0, 1, 1, 2]))
        return E("agg", (value,), F64 if value.type.kind == "f32" else value.type, "sum")
    if roll < 0.62:
        value = gen.number(rng.choice([0, 1]))
        is_decimal = value.type.kind == "dec"
        dtype = Type("dec", value.type.scale + 4) if is_decimal else F64
        return E("agg", (value,), dtype, "avg")
    if roll < 0.84 or not nearest:
        value = ordered(rng, gen)
        return E("agg", (value,), value.type, rng.choice(["min", "max"]))
    order = ordered(rng, gen)
    name = rng.choice(["min_by", "max_by"])
    if order.type.kind in ("f32", "f64"):
        name = "min_by"
    value = gen.some_column() if rng.random() < 0.7 else gen.number(1)
    return E("agg", (value, order), value.type, name)


def ordered(rng: Random, gen: Expressions) -> E:
    """What min and max take: a number, a date or a time."""
    roll = rng.random()
    if roll < 0.15 and (x := gen.instant(1)) is not None:
        return x
    if roll < 0.25 and gen.column("dur"):
        return gen.duration(1)
    return gen.number(rng.choice([0, 1, 1, 2]))


def over_groups(rng: Random, e: E) -> E:
    """An output expression of a key or aggregate."""
    if e.type.exact and rng.random() < 0.25:
        return binary(rng.choice(["add", "sub"]), e, integer(rng.randint(0, 3)), e.type)
    return e


def aggregate_query(rng: Random, query: Query, scope: Scope) -> Query:
    """The query with GROUP BY, aggregates and HAVING, or SELECT DISTINCT."""
    inner = query.join in ("inner", "comma")
    roll = rng.random()
    sides = [0] if roll < 0.4 else [1] if roll < 0.65 else [0, 1] if roll < 0.82 else []
    gen = Expressions(rng, scope)
    if sides and rng.random() < 0.1:
        keys = [gen.over(rng.choice(sides)).some_column() for _ in range(rng.randint(1, 3))]
        select = tuple((key, f"k{i}") for i, key in enumerate(keys))
        return replace(query, select=select, distinct=True)
    keys = [random_key(rng, query, scope, side, inner) for side in sides]
    if sides and rng.random() < 0.3:
        keys.append(random_key(rng, query, scope, rng.choice(sides), inner))
    nearest = len({s for key in keys for s in key.sides()}) < 2
    aggregates = [random_aggregate(rng, gen, nearest) for _ in range(rng.choice([1, 1, 2, 3]))]
    items: list[tuple[E, str]] = []
    for i, key in enumerate(keys):
        as_key = E("key", (key,), key.type, i)
        if key.op == "window":
            part = rng.choice(["window_start", "window_end"])
            items.append((E(part, (as_key,), key.type), f"k{i}"))
        elif rng.random() < 0.85:
            items.append((over_groups(rng, as_key), f"k{i}"))
    items += [(over_groups(rng, e), f"v{i}") for i, e in enumerate(aggregates)]
    numbers = [e for e in aggregates if e.type.exact]
    if len(numbers) > 1 and rng.random() < 0.2:
        x, y = numbers[:2]
        scale = max(x.type.scale, y.type.scale)
        kind = INT if x.type == y.type == INT else Type("dec", scale)
        items.append((binary("sub", x, y, kind), "d"))
    having = random_having(rng, keys, aggregates) if rng.random() < 0.25 else None
    return replace(query, select=tuple(items), group=tuple(keys), having=having)


def random_having(rng: Random, keys: list[E], aggregates: list[E]) -> E:
    roll = rng.random()
    if roll < 0.15:
        return binary("eq", integer(1), integer(rng.randint(0, 1)))
    known = [e for e in aggregates if e.type.exact and e.value in ("count", "sum", "min", "max")]
    known += [
        E("key", (k,), k.type, i) for i, k in enumerate(keys) if k.type == INT and k.op != "window"
    ]
    x = rng.choice(known) if known else E("agg", (), INT, "count")
    test = binary(rng.choice([*ORDERED, "ne"]), x, integer(rng.randint(0, 4)))
    if roll < 0.35:
        other = binary("ge", E("agg", (), INT, "count"), integer(2))
        return binary(rng.choice(["and", "or"]), test, other)
    if roll < 0.45:
        return E(rng.choice(["isnull", "notnull"]), (x,), BOOL)
    return test
