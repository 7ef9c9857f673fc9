"""Random joins of two tables: their text, their rows, and about how many pairs match."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

#: Most rows out, and rows of a table.
MOST_OUT, FEWEST_ROWS, MOST_ROWS = 30_000_000, 100, 3_000_000
#: Least selectivity, as a power of ten.
LEAST_SELECTIVITY = -9.0
#: Rows of each table of which all pairs are tested to estimate the rows out.
SAMPLE = 3_000
#: What names of columns of text begin with.
TEXT = "t"
#: Span of all coordinates.
SPAN = 1e8

Columns = dict[str, np.ndarray]
#: Whether pairs match: columns of rows that broadcast against each other.
Test = Callable[[Columns, Columns], np.ndarray]


@dataclass(frozen=True)
class Comparison:
    """One comparison of both sides, the columns that it reads, and their values.

    Parameters
    ----------
    text : str
    test : callable
        The same on columns.
    a, b : dict of name to ndarray
    """

    text: str
    test: Test
    a: Columns
    b: Columns


@dataclass(frozen=True)
class Join:
    """A join, its tables with a column ``id``, and about how many rows it gives."""

    seed: int
    on: str
    a: pa.Table
    b: pa.Table
    estimate: float

    @property
    def text(self) -> str:
        return f"SELECT a.id AS x, b.id AS y FROM a JOIN b ON {self.on}"

    @property
    def tables(self) -> dict[str, pa.Table]:
        return {"a": self.a, "b": self.b}


def random_join(seed: int, most_rows: int = MOST_ROWS, most_out: float = MOST_OUT) -> Join:
    """Draw a join; a table shrinks until the join gives few enough rows."""
    rng = np.random.default_rng(seed)
    rows = [int(10 ** rng.uniform(np.log10(FEWEST_ROWS), np.log10(most_rows))) for _ in "ab"]
    kinds = [str(rng.choice(list(_KINDS), p=_SHARES)) for _ in range(rng.integers(1, 5))]
    selectivity = 10 ** rng.uniform(LEAST_SELECTIVITY, 0)
    selectivity = min(selectivity, most_out / (rows[0] * rows[1]))
    # Keys have whatever number of values they have; the others share what is left.
    values = [int(10 ** rng.uniform(0, 6)) for kind in kinds if kind == "equal"]
    others = len(kinds) - len(values)
    left = min(selectivity * float(np.prod(values, dtype=float)), 1.0)
    shares = rng.dirichlet(np.ones(others)) if others else []
    targets = iter([left**share for share in shares])
    numbers = iter(values)
    comparisons = [
        _KINDS[kind](rng, f"{n}", rows, next(numbers if kind == "equal" else targets))
        for n, kind in enumerate(kinds)
    ]
    comparisons = _correlated(rng, comparisons, kinds)
    a, b = ({k: v for one in comparisons for k, v in side(one).items()} for side in _SIDES)
    estimate = _matching(rng, comparisons, a, b) * rows[0] * rows[1]
    while estimate > most_out:
        longer = int(np.argmax(rows))
        share = max(most_out / estimate * 0.8, 0.1)
        rows[longer] = max(int(rows[longer] * share), 1)
        a = {name: values[: rows[0]] for name, values in a.items()}
        b = {name: values[: rows[1]] for name, values in b.items()}
        estimate = _matching(rng, comparisons, a, b) * rows[0] * rows[1]
    on = " AND ".join(one.text for one in comparisons)
    return Join(seed, on, _table(rng, a), _table(rng, b), estimate)


_SIDES = (lambda one: one.a), (lambda one: one.b)


def _matching(
    rng: np.random.Generator, comparisons: list[Comparison], a: Columns, b: Columns
) -> float:
    """Share of the pairs of a sample that match."""
    some, others = (
        {name: values[picked] for name, values in side.items()}
        for side in (a, b)
        for picked in [rng.permutation(len(next(iter(side.values()))))[:SAMPLE]]
    )
    some = {name: values[:, np.newaxis] for name, values in some.items()}
    return float(np.mean(np.logical_and.reduce([one.test(some, others) for one in comparisons])))


def _table(rng: np.random.Generator, columns: Columns) -> pa.Table:
    """A table in some order, perhaps with NULL, with the place of each row."""
    rows = len(next(iter(columns.values())))
    if rng.random() < 0.4:  # sorted by one of its columns
        order = np.argsort(columns[str(rng.choice(list(columns)))], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
    is_null = {name: rng.random(rows) < 0.01 for name in columns if rng.random() < 0.1}
    data = {name: pa.array(values, mask=is_null.get(name)) for name, values in columns.items()}
    texts = {n: one.cast(pa.string()) for n, one in data.items() if n.startswith(TEXT)}
    return pa.table({"id": np.arange(rows), **data, **texts})


def _correlated(
    rng: np.random.Generator, comparisons: list[Comparison], kinds: list[str]
) -> list[Comparison]:
    """Sort columns of later comparisons as those of the first, in some joins: they depend."""
    if len(comparisons) < 2 or rng.random() > 0.3:
        return comparisons
    ordered = [comparisons[0]]
    for one in comparisons[1:]:
        sides = []
        for first, other in ((comparisons[0].a, one.a), (comparisons[0].b, one.b)):
            rank = np.argsort(np.argsort(next(iter(first.values())), kind="stable"))
            order = np.argsort(next(iter(other.values())), kind="stable")
            sides.append({name: values[order][rank] for name, values in other.items()})
        ordered.append(Comparison(one.text, one.test, *sides))
    return ordered


# -- comparisons ----------------------------------------------------------------------------------


def _coordinates(rng: np.random.Generator, rows: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of both sides in ``[0, SPAN)``: uniform, normal, or in few places."""
    shape = rng.choice(["uniform", "normal", "places"])
    drawn = []
    for count in rows:
        if shape == "uniform":
            values = rng.random(count)
        elif shape == "normal":
            values = rng.normal(0.5, 0.1, count)
        else:
            places = np.random.default_rng(7).random(50)
            weights = 1 / np.arange(1, 51)
            values = rng.choice(places, count, p=weights / weights.sum())
            values = values + rng.normal(0, 0.003, count)
        drawn.append(np.clip(values, 0, 1) * SPAN)
    if rng.random() < 0.5:
        drawn = [values.astype(np.int64) for values in drawn]
    return drawn[0], drawn[1]


def _zipf(rng: np.random.Generator, values: int, count: int) -> np.ndarray:
    weights = 1 / np.arange(1, values + 1) ** rng.uniform(0.5, 1.2)
    return rng.permutation(values)[rng.choice(values, count, p=weights / weights.sum())]


def _equal(rng: np.random.Generator, n: str, rows: list[int], values: float) -> Comparison:
    skewed = rng.random(2) < 0.25
    keys = [
        _zipf(rng, int(values), count) if one else rng.integers(0, int(values), count)
        for one, count in zip(skewed, rows, strict=True)
    ]
    name = f"{TEXT if rng.random() < 0.2 else 'k'}{n}"
    return Comparison(
        f"a.{name} = b.{name}", lambda a, b: a[name] == b[name], {name: keys[0]}, {name: keys[1]}
    )


def _within(rng: np.random.Generator, n: str, rows: list[int], share: float) -> Comparison:
    x, y = _coordinates(rng, rows)
    width, name = _whole(SPAN * share / 2, x), f"x{n}"
    between = f"b.{name} BETWEEN a.{name} - {width} AND a.{name} + {width}"
    text = between if rng.random() < 0.5 else f"abs(a.{name} - b.{name}) <= {width}"
    return Comparison(text, lambda a, b: np.abs(a[name] - b[name]) <= width, {name: x}, {name: y})


def _reach(rng: np.random.Generator, n: str, rows: list[int], share: float) -> Comparison:
    x, y = _coordinates(rng, rows)
    name, width = f"x{n}", f"w{n}"
    widths = _lengths(rng, rows[0], SPAN * share / 2).astype(x.dtype)
    text = f"b.{name} BETWEEN a.{name} - a.{width} AND a.{name} + a.{width}"
    return Comparison(
        text,
        lambda a, b: np.abs(a[name] - b[name]) <= a[width],
        {name: x, width: widths},
        {name: y},
    )


def _overlap(rng: np.random.Generator, n: str, rows: list[int], share: float) -> Comparison:
    lows = _coordinates(rng, rows)
    low, high = f"lo{n}", f"hi{n}"
    sides = [
        {low: one, high: one + _lengths(rng, len(one), SPAN * share / 2).astype(one.dtype)}
        for one in lows
    ]
    text = f"a.{low} <= b.{high} AND b.{low} <= a.{high}"
    return Comparison(
        text, lambda a, b: (a[low] <= b[high]) & (b[low] <= a[high]), sides[0], sides[1]
    )


def _contains(rng: np.random.Generator, n: str, rows: list[int], share: float) -> Comparison:
    low_values, x = _coordinates(rng, rows)
    low, high, name = f"lo{n}", f"hi{n}", f"x{n}"
    lengths = _lengths(rng, rows[0], SPAN * share).astype(low_values.dtype)
    text = f"a.{low} <= b.{name} AND b.{name} < a.{high}"
    return Comparison(
        text,
        lambda a, b: (a[low] <= b[name]) & (b[name] < a[high]),
        {low: low_values, high: low_values + lengths},
        {name: x},
    )


def _less(rng: np.random.Generator, n: str, rows: list[int], share: float) -> Comparison:
    x, y = _coordinates(rng, rows)
    # Move one side until about this share of the pairs is in order.
    some = np.sort(rng.choice(x, min(len(x), 2000)))[:, np.newaxis].astype(float)
    others = rng.choice(y, min(len(y), 500)).astype(float)
    shift = float(np.quantile(some - others, min(share, 1.0)))
    y = (y + shift).astype(y.dtype)
    name = f"x{n}"
    return Comparison(f"a.{name} < b.{name}", lambda a, b: a[name] < b[name], {name: x}, {name: y})


def _unequal(rng: np.random.Generator, n: str, rows: list[int], share: float) -> Comparison:
    del share
    keys = [rng.integers(0, int(10 ** rng.uniform(0.4, 3)), count) for count in rows]
    name = f"u{n}"
    return Comparison(
        f"a.{name} <> b.{name}", lambda a, b: a[name] != b[name], {name: keys[0]}, {name: keys[1]}
    )


def _near(rng: np.random.Generator, n: str, rows: list[int], share: float) -> Comparison:
    x, y = _coordinates(rng, rows), _coordinates(rng, rows)
    across, up = f"x{n}", f"y{n}"
    distance = SPAN * float(np.sqrt(share / 2))
    text = f"abs(a.{across} - b.{across}) + abs(a.{up} - b.{up}) < {distance:.3f}"
    return Comparison(
        text,
        lambda a, b: np.abs(a[across] - b[across]) + np.abs(a[up] - b[up]) < distance,
        {across: x[0], up: y[0]},
        {across: x[1], up: y[1]},
    )


def _whole(width: float, column: np.ndarray) -> float:
    return round(width, 3) if column.dtype.kind == "f" else int(width)


def _lengths(rng: np.random.Generator, count: int, mean: float) -> np.ndarray:
    """Lengths with a mean: about equal, lognormal, or with one in a thousand much longer."""
    sigma = rng.choice([0.0, 1.0, 2.0])
    lengths = rng.lognormal(0, sigma, count) * mean / np.exp(sigma**2 / 2)
    if rng.random() < 0.3:
        lengths[rng.random(count) < 1e-3] *= 1000
    return np.minimum(lengths, 10 * SPAN)


_KINDS: dict[str, Callable[[np.random.Generator, str, list[int], float], Comparison]] = {
    "equal": _equal,
    "within": _within,
    "reach": _reach,
    "overlap": _overlap,
    "contains": _contains,
    "less": _less,
    "unequal": _unequal,
    "near": _near,
}
#: How often each is drawn.
_SHARES = (0.3, 0.12, 0.12, 0.12, 0.1, 0.12, 0.04, 0.08)
