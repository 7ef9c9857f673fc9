"""Aggregates and window functions in plain Python."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tests.own_queries import expressions as ex
from tests.own_queries.exact import MOST, rounded
from tests.own_queries.expressions import E, Refused, group_key
from tests.own_queries.scope import Scope
from tests.own_queries.values import F64, INT, Type

ROWS = "#rows"
NULLS = {None: "", True: " NULLS FIRST", False: " NULLS LAST"}


@dataclass(frozen=True)
class Near:
    """A float that may be off by the slack."""

    value: float
    slack: float


@dataclass(frozen=True)
class OneOf:
    """Any of several values, where the documents leave open which."""

    values: tuple


def total(values: list, kind: str):
    """Sum of numbers, NULL without any."""
    if not values:
        return None
    if kind == "int":
        result = sum(values)
        if not -(2**63) <= result < 2**63:
            raise Refused("a sum beyond BIGINT")
        return result
    if kind == "dec":
        return sum(values, Fraction(0))
    return add_floats(values)


def fitting(value: Fraction, of: Type) -> Fraction:
    """Return a sum that its type has room for."""
    if rounded(value, of) is None:
        raise Refused("a sum beyond its type")
    return value


def add_floats(values: list) -> float:
    if any(math.isnan(v) for v in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    infinite = [v for v in values if math.isinf(v)]
    return infinite[0] if infinite else math.fsum(values)


def mean(values: list, kind: str):
    """Average, a double."""
    if not values:
        return None
    if kind == "int":
        exact = Fraction(sum(values), len(values))
        return Near(ex.as_float(exact), 1e-12 * ex.as_float(sum(map(abs, values))) / len(values))
    result = add_floats(values)
    return result / len(values)


def spread(values: list, sample: bool, root: bool):
    """Variance or deviation."""
    if not values or (sample and len(values) == 1):
        return None
    if any(math.isnan(v) or math.isinf(v) for v in values):
        return math.nan
    exact = [Fraction(v) for v in values]
    middle = sum(exact) / len(exact)
    square = float(sum((v - middle) ** 2 for v in exact) / (len(exact) - sample))
    return Near(math.sqrt(square) if root else square, 1e-6)


def unique(values: list) -> list:
    return list({group_key(v): v for v in values}.values())


def aggregate(scope: Scope, wide: bool) -> E:
    """Make an aggregate over the rows of a scope; wide ones no device folds."""
    rnd = scope.rnd
    keep, suffix, distinct = None, "", ""
    if wide and rnd.random() < 0.25:
        keep = scope.condition(1)
        suffix = f" FILTER (WHERE {keep})"
    elif wide and rnd.random() < 0.3:
        distinct = "DISTINCT "

    def rows_of(g):
        return g[ROWS] if keep is None else [r for r in g[ROWS] if keep.value(r)]

    def of(name: str, e: E, work: Callable, result: Type, approx: bool = False) -> E:
        def value(g):
            values = [v for v in (e.value(r) for r in rows_of(g)) if v is not None]
            return work(unique(values) if distinct else values)

        return E(f"{name}({distinct}{e}){suffix}", result, value, approx)

    form = rnd.choice(
        ["count*", "count", "count_if", "sum", "sum", "avg", "min", "max", "by", "float", "more"]
    )
    if form == "count*":
        return E(f"count(*){suffix}", INT, lambda g: len(rows_of(g)))
    if form == "count":
        return of("count", scope.some(1), len, INT)
    if form == "count_if" and not distinct:
        c = scope.condition(1)
        return E(
            f"count_if({c}){suffix}", INT, lambda g: sum(c.value(r) is True for r in rows_of(g))
        )
    if form in ("min", "max"):
        kinds = [
            k for k in ("int", "f64", "f32", "date", "ts", "ntz", "dur", "dec") if scope.of(k)
        ] + ["int"]
        e = scope.make(rnd.choice(kinds + (["str"] if wide else [])), 1)
        pick = min if form == "min" else max
        return of(form, e, lambda vs: pick(vs, key=ex.by_value) if vs else None, e.type)
    if form == "by" and not distinct:
        return by(scope, rows_of, suffix)
    if form == "float" and scope.of("g"):
        e = scope.of("g")[0]
        name = rnd.choice(["sum", "avg"])
        return of(name, e, lambda vs: total(vs, "f64") if name == "sum" else mean(vs, "f64"), F64)
    if form == "more" and wide and not distinct:
        name = rnd.choice(["bool_and", "bool_or", "stddev", "var_pop"])
        if name.startswith("bool"):
            work = all if name == "bool_and" else any
            return of(name, scope.condition(1), lambda vs: work(vs) if vs else None, Type("bool"))
        e = scope.make("int", 0)
        return of(name, e, lambda vs: spread(vs, name == "stddev", name == "stddev"), F64, True)
    if scope.decimals and scope.of("dec") and rnd.random() < 0.6:
        e = scope.make("dec", 1)
        if form == "avg":
            average = Type("dec", min(e.type.digits + 4, MOST), min(e.type.scale + 4, MOST))
            return of(
                "avg",
                e,
                lambda vs: rounded(sum(vs, Fraction(0)) / len(vs), average) if vs else None,
                average,
            )
        added = Type("dec", min(e.type.digits + 10, MOST), e.type.scale)
        return of("sum", e, lambda vs: fitting(sum(vs, Fraction(0)), added) if vs else None, added)
    e = scope.make("int", 1)
    if form == "avg":
        return of("avg", e, lambda vs: mean(vs, "int"), F64, True)
    return of("sum", e, lambda vs: total(vs, "int"), INT)


def by(scope: Scope, rows_of: Callable, suffix: str) -> E:
    """Make min_by or max_by; of rows that are equally near any may be taken."""
    name = scope.rnd.choice(["min_by", "max_by"])
    x, e = scope.some(0), scope.make(scope.rnd.choice(["int", "int", "int"]), 1)
    pick = min if name == "min_by" else max

    def value(g):
        rows = [(e.value(r), x.value(r)) for r in rows_of(g)]
        keys = [k for k, _ in rows if k is not None]
        if not keys:
            return None
        best = pick(keys, key=ex.by_value)
        return OneOf(tuple(v for k, v in rows if k is not None and ex.compare(k, best) == 0))

    return E(f"{name}({x}, {e}){suffix}", x.type, value, True)


@dataclass
class Ranking:
    """A window function: its place in the row, and what computes it for all rows."""

    name: str
    compute: Callable


def order_key(value, down: bool, nulls_first: bool):
    missing = value is None
    return (missing != nulls_first, _Turned(value) if down else _Straight(value))


class _Straight:
    def __init__(self, value):
        self.key = ex.rank(value) if value is not None else None

    def __lt__(self, other):
        return self.key < other.key if self.key is not None and other.key is not None else False

    def __eq__(self, other):
        return self.key == other.key


class _Turned(_Straight):
    def __lt__(self, other):
        return other.key < self.key if self.key is not None and other.key is not None else False


def window_function(scope: Scope, ids: list[E], number: int) -> tuple[E, Ranking]:
    """Make a window function; the ids of the sides make its order total."""
    rnd = scope.rnd
    parts = [scope.some(0) for _ in range(rnd.randint(0, 1))] or []
    orders = [
        (
            scope.make(rnd.choice(["int", "int", "date", "f64"]), 1),
            rnd.random() < 0.4,
            rnd.choice([None, True, False]),
        )
    ]
    orders += [(e, False, None) for e in ids]
    written = ", ".join(
        str(e) + (" DESC" if down else "") + NULLS[first] for e, down, first in orders
    )
    over = f"OVER ({f'PARTITION BY {parts[0]} ' if parts else ''}ORDER BY {written}"
    back = rnd.randint(0, 3)
    what = scope.make("int", 1)
    any_value = scope.some(1)
    n = rnd.randint(1, 3)
    window = f" ROWS BETWEEN {back} PRECEDING AND CURRENT ROW"

    def seen(values, p):
        return [v for v in values[max(0, p - back) : p + 1] if v is not None]

    forms = {
        "row_number()": (INT, "", lambda vs, p: p + 1, None),
        f"lag({any_value}, {n})": (
            any_value.type,
            "",
            lambda vs, p: vs[p - n] if p >= n else None,
            any_value,
        ),
        f"lead({any_value}, {n})": (
            any_value.type,
            "",
            lambda vs, p: vs[p + n] if p + n < len(vs) else None,
            any_value,
        ),
        f"sum({what})": (INT, window, lambda vs, p: total(seen(vs, p), "int"), what),
        f"count({what})": (INT, window, lambda vs, p: len(seen(vs, p)), what),
        f"min({what})": (INT, window, lambda vs, p: min(seen(vs, p), default=None), what),
        f"max({what})": (
            INT,
            "",
            lambda vs, p: max((v for v in vs[: p + 1] if v is not None), default=None),
            what,
        ),
        f"first_value({any_value})": (any_value.type, "", lambda vs, p: vs[0], any_value),
        f"last_value({any_value})": (any_value.type, window, lambda vs, p: vs[p], any_value),
        f"nth_value({any_value}, {n})": (
            any_value.type,
            "",
            lambda vs, p: vs[n - 1] if p >= n - 1 else None,
            any_value,
        ),
        f"ntile({n})": (INT, "", lambda vs, p: _tile(len(vs), n, p), None),
    }
    call = rnd.choice(list(forms))
    of, frame, work, input_ = forms[call]
    name = f"#w{number}"

    def compute(rows: list[dict]) -> None:
        groups: dict = {}
        for row in rows:
            groups.setdefault(tuple(group_key(e.value(row)) for e in parts), []).append(row)
        for members in groups.values():
            members.sort(
                key=lambda r: tuple(
                    order_key(e.value(r), d, (not d) if f is None else f) for e, d, f in orders
                )
            )
            values = [None if input_ is None else input_.value(r) for r in members]
            for place, row in enumerate(members):
                row[name] = work(values, place)

    sql = f"{call} {over}{frame})"
    return E(sql, of, lambda row: row[name]), Ranking(name, compute)


def _tile(count: int, tiles: int, place: int) -> int:
    size, more = divmod(count, tiles)
    if place < more * (size + 1):
        return place // (size + 1) + 1
    return more + (place - more * (size + 1)) // size + 1
