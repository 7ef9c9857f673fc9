"""JOIN ... NEAREST on tables, beside a loop over all pairs of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError, UsageError
from penstock.host.join.table import nearest_search
from penstock.query.dialect import Penstock
from penstock.query.parse import parse

Row = Mapping[str, Any]
#: A value of a pair of rows, or a condition on it; None is NULL.
OfPair = Callable[[Row, Row], Any]


def nearest(
    left: pa.Table,
    right: pa.Table,
    value: OfPair,
    *,
    k: int = 1,
    greatest: bool = False,
    on: OfPair = lambda a, b: True,
    outer: bool = False,
) -> list[tuple[Any, Any]]:
    """The ids of the rows that join, by left row, nearness and place."""
    pairs = []
    for a in left.to_pylist():
        near = []
        for place, b in enumerate(right.to_pylist()):
            computed = value(a, b) if on(a, b) else None
            if computed is not None:
                order = (math.isnan(computed), 0 if math.isnan(computed) else computed)
                near.append((tuple(-one for one in order) if greatest else order, place, b["id"]))
        chosen = [(a["id"], one[2]) for one in sorted(near)[:k]]
        pairs += chosen or ([(a["id"], None)] if outer else [])
    return pairs


def ids(query: str, left: pa.Table, right: pa.Table, **options: Any) -> list[tuple[Any, Any]]:
    rows = penstock.sql(query, {"l": left, "m": right}, **options)
    return list(zip(rows["a"].to_pylist(), rows["b"].to_pylist(), strict=True))


def table(
    rng: np.random.Generator, rows: int, *, grid: int = 0, share_null: float = 0.1
) -> pa.Table:
    """A table of points; on a grid many are equally far apart."""

    def numbers(scale: float, nan: bool = True) -> pa.Array:
        values = rng.normal(size=rows) * scale
        values = np.round(values * grid / scale) if grid else values
        if nan and rng.random() < 0.5:
            values[rng.random(rows) < 0.05] = np.nan
        return pa.array(values, mask=rng.random(rows) < share_null)

    whole = rng.integers(-5, 6, rows) * (1 if rng.random() < 0.8 else 2**61)
    return pa.table(
        {
            "id": np.arange(rows),
            "x": numbers(10),
            "y": numbers(3),
            "z": numbers(1),
            "i": pa.array(whole, mask=rng.random(rows) < share_null),
            "t": rng.integers(0, 50, rows),
            "g": pa.array(rng.integers(0, 4, rows), mask=rng.random(rows) < share_null),
            "s": pa.array(rng.choice(list("abc"), rows), mask=rng.random(rows) < share_null),
        }
    )


def over(*names: str) -> Callable[[Callable[..., Any]], OfPair]:
    """Make a value of columns of both sides that is NULL where one of them is."""

    def made(compute: Callable[..., Any]) -> OfPair:
        def value(a: Row, b: Row) -> Any:
            read = [side[name] for name in names for side in (a, b)]
            return None if None in read else compute(*read)

        return value

    return made


VALUES: dict[str, OfPair] = {
    "abs(l.x - m.x)": over("x")(lambda a, b: abs(a - b)),
    "abs(m.i - l.i)": over("i")(lambda a, b: abs(a - b)),
    "abs(l.x - m.x) + abs(l.y - m.y)": over("x", "y")(lambda a, b, c, d: abs(a - b) + abs(c - d)),
    "2 * abs(l.x - m.x) + 0.5 * abs(m.y - l.y)": over("x", "y")(
        lambda a, b, c, d: 2 * abs(a - b) + 0.5 * abs(d - c)
    ),
    "sqrt((l.x - m.x) * (l.x - m.x) + (l.y - m.y) * (l.y - m.y))": over("x", "y")(
        lambda a, b, c, d: math.sqrt((a - b) * (a - b) + (c - d) * (c - d))
    ),
    "(l.x - m.x) * (l.x - m.x) + (l.y - m.y) * (l.y - m.y) + (l.z - m.z) * (l.z - m.z)": over(
        "x", "y", "z"
    )(lambda a, b, c, d, e, f: (a - b) * (a - b) + (c - d) * (c - d) + (e - f) * (e - f)),
    "greatest(abs(l.x - m.x), abs(l.y - m.y)) + abs(l.z - m.z)": lambda a, b: (
        None
        if None in (a["z"], b["z"]) or (gap := _greatest(a, b)) is None
        else gap + abs(a["z"] - b["z"])
    ),
    "hypot(l.x - m.x, m.y - l.y)": over("x", "y")(lambda a, b, c, d: float(np.hypot(a - b, c - d))),
    "sqrt(pow(l.x - m.x, 2) + 4 * power(l.y - m.y, 2))": over("x", "y")(
        lambda a, b, c, d: math.sqrt((a - b) ** 2 + 4 * (c - d) ** 2)
    ),
    "-(3 * abs(l.i - m.i) + 2 * abs(l.t - m.t))": over("i", "t")(
        lambda a, b, c, d: -(3 * abs(a - b) + 2 * abs(c - d))
    ),
    "l.x * m.y": lambda a, b: None if None in (a["x"], b["y"]) else a["x"] * b["y"],
    "m.t": over("t")(lambda a, b: b),
    "l.t - m.t": over("t")(lambda a, b: a - b),
}


def _greatest(a: Row, b: Row) -> float | None:
    gaps = [abs(a[n] - b[n]) for n in "xy" if None not in (a[n], b[n])]
    return max(gaps, key=lambda one: (math.isnan(one), one), default=None)


CONDITIONS: dict[str, OfPair] = {
    "": lambda a, b: True,
    "l.g = m.g": over("g")(lambda a, b: a == b),
    "l.g = m.g AND l.s = m.s": over("g", "s")(lambda a, b, c, d: a == b and c == d),
    "m.t BETWEEN l.t - 9 AND l.t": over("t")(lambda a, b: a - 9 <= b <= a),
    "l.g = m.g AND m.t <= l.t AND m.i > 0": lambda a, b: (
        None not in (a["g"], b["g"], b["i"])
        and a["g"] == b["g"]
        and b["t"] <= a["t"]
        and b["i"] > 0
    ),
    "l.t < 20 AND l.s <> m.s": over("t", "s")(lambda a, b, c, d: a < 20 and c != d),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_of_all_pairs(
    value: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed:  # search, however few pairs there are
        monkeypatch.setattr(nearest_search, "_FEW_PAIRS", 0)
    rng = np.random.default_rng([seed, len(value)])
    grid = int(rng.choice([0, 2]))
    left, right = (table(rng, int(rng.choice([0, 1, 40, 90])), grid=grid) for _ in "lm")
    for condition, on in CONDITIONS.items():
        k = int(rng.choice([1, 2, 5, 1000]))
        greatest, outer = rng.random(2) < 0.3
        query = (
            f"SELECT l.id AS a, m.id AS b FROM l {'LEFT' if outer else ''} JOIN m "
            f"EXACT NEAREST {k} BY {'SIMILARITY' if greatest else 'DISTANCE'} {value}"
            + (f" ON {condition}" if condition else "")
        )
        expected = nearest(
            left, right, VALUES[value], k=k, greatest=bool(greatest), on=on, outer=bool(outer)
        )
        assert ids(query, left, right) == expected, query


def test_places_on_the_sphere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at the poles, over the date line, at places beyond a pole, and where many are equal."""
    monkeypatch.setattr(nearest_search, "_FEW_PAIRS", 0)
    rng = np.random.default_rng(8)

    def places(rows: int) -> pa.Table:
        # Whole degrees, so that distances are equal or clearly differ.
        up, along = rng.integers(-92, 93, rows), rng.integers(-180, 181, rows)
        up, along = (np.where(rng.random(rows) < 0.3, up[0], one) for one in (up, along))
        return pa.table({"id": np.arange(rows), "up": up * 1.0, "along": along * 1.0})

    left, right = places(60), places(80)
    call = "haversine(m.up, m.along, l.up, l.along)"
    every = penstock.sql(
        f"SELECT l.id AS a, m.id AS b, {call} AS d FROM l "
        f"JOIN m EXACT NEAREST 1000 BY DISTANCE {call}",
        {"l": left, "m": right},
    )
    distances = {(row["a"], row["b"]): row["d"] for row in every.to_pylist()}
    assert len(distances) == 60 * 80
    for k in (1, 7):
        query = (
            f"SELECT l.id AS a, m.id AS b FROM l JOIN m EXACT NEAREST {k} BY DISTANCE {call} / 9"
        )
        expected = nearest(left, right, lambda a, b: distances[a["id"], b["id"]], k=k)
        assert ids(query, left, right) == expected


def test_where_tests_the_chosen_rows() -> None:
    rng = np.random.default_rng(5)
    left, right = table(rng, 30), table(rng, 30)
    query = (
        "SELECT l.id AS a, m.id AS b FROM l LEFT JOIN m EXACT NEAREST 3 BY DISTANCE abs(l.t - m.t)"
    )
    every = ids(query, left, right)
    assert ids(f"{query} WHERE l.id < 9", left, right) == [one for one in every if one[0] < 9]
    chosen = [one for one in every if one[1] is not None and one[1] > 9]
    assert sorted(ids(f"{query} WHERE m.id > 9", left, right)) == sorted(chosen)


def test_other_sql_stands_around() -> None:
    rng = np.random.default_rng(6)
    left, right = table(rng, 30), table(rng, 30)
    pairs = nearest(left, right, over("t")(lambda a, b: abs(a - b)), k=2)
    near = "JOIN m APPROX NEAREST 2 BY DISTANCE abs(l.t - m.t)"
    counted = f"SELECT l.id AS a, count(*) AS b FROM l {near} GROUP BY l.id ORDER BY l.id"
    assert ids(counted, left, right) == [
        (a, len(list(some))) for a, some in groupby(pairs, lambda one: one[0])
    ]
    inside = f"SELECT a, b FROM (SELECT l.id AS a, m.id AS b FROM l {near}) ORDER BY a, b LIMIT 7"
    assert ids(inside, left, right) == sorted(pairs)[:7]
    chained = (
        f"SELECT l.id AS a, n.id AS b FROM l {near} "
        "JOIN m AS n EXACT NEAREST BY DISTANCE abs(m.t - n.t) ON n.id <> m.id"
    )
    steps = dict(nearest(right, right, over("t")(lambda a, b: abs(a - b)), on=_is_other))
    assert sorted(ids(chained, left, right)) == sorted((a, steps[b]) for a, b in pairs)
    joined = (
        "SELECT l.id AS a, q.id AS b FROM l JOIN (SELECT id, x AS w FROM m WHERE t > 9) q "
        "EXACT NEAREST BY DISTANCE abs(l.x - q.w) ORDER BY 1"
    )
    some = right.filter(pa.array([t > 9 for t in right["t"].to_pylist()]))
    assert ids(joined, left, right) == nearest(left, some, VALUES["abs(l.x - m.x)"])


def _is_other(a: Row, b: Row) -> bool:
    return a["id"] != b["id"]


def test_times_and_decimals_are_distances() -> None:
    micros = pa.array([0, 4_000_000, 9_000_000], pa.timestamp("us", "UTC"))
    left = pa.table({"id": [0, 1, 2], "x": micros})
    right = pa.table({"id": [0, 1, 2], "x": micros[::-1]})
    query = "SELECT l.id AS a, m.id AS b FROM l JOIN m EXACT NEAREST BY DISTANCE abs(l.x - m.x)"
    assert ids(query, left, right) == [(0, 2), (1, 1), (2, 0)]
    late = query.replace("DISTANCE abs(l.x - m.x)", "SIMILARITY m.x ON m.x < l.x")
    assert ids(late, left, right) == [(1, 2), (2, 1)]
    exact = [pa.table({"id": t["id"], "x": pa.array([1, 5, 8]).cast(pa.decimal128(21, 2))})
             for t in (left, right)]  # fmt: skip
    assert ids(query, *exact) == [(0, 0), (1, 1), (2, 2)]


def test_text_is_written_as_it_is_read() -> None:
    query = (
        "SELECT * FROM l LEFT OUTER JOIN m AS q APPROX NEAREST BY SIMILARITY -ABS(l.x - q.x) "
        "ON l.g = q.g"
    )
    text = parse(query).sql(dialect=Penstock)
    assert "LEFT JOIN m AS q EXACT NEAREST 1 BY SIMILARITY -ABS(l.x - q.x) ON l.g = q.g" in text
    assert parse(text).sql(dialect=Penstock) == text
    # Elsewhere the words are names.
    assert parse("SELECT * FROM l approx JOIN m exact ON approx.x = exact.x")


@pytest.mark.parametrize(
    ("join", "message"),
    [
        ("RIGHT JOIN m EXACT NEAREST BY DISTANCE m.x", "not for RIGHT JOIN"),
        ("FULL OUTER JOIN m EXACT NEAREST BY DISTANCE m.x", "not for FULL JOIN"),
        ("LEFT SEMI JOIN m EXACT NEAREST BY DISTANCE m.x", "not for LEFT SEMI JOIN"),
        ("CROSS JOIN m EXACT NEAREST BY DISTANCE m.x", "not for CROSS JOIN"),
        (", m EXACT NEAREST BY DISTANCE m.x", "stands behind JOIN"),
        ("EXACT NEAREST BY DISTANCE l.x JOIN m ON l.x = m.x", "stands behind JOIN"),
        ("JOIN (m EXACT NEAREST 2 BY DISTANCE m.x) ON true", "without parentheses"),
        ("JOIN LATERAL (SELECT * FROM m) AS m EXACT NEAREST BY DISTANCE m.x", "not for LATERAL"),
        ("JOIN m EXACT NEAREST 0 BY DISTANCE m.x", "1 to 100,000 rows of each row, not 0"),
        ("JOIN m EXACT NEAREST :x BY DISTANCE m.x", "of each row, not :x: write such a number"),
        ("ASOF JOIN m ON l.x = m.x AND l.x > 3", "by a comparison of both tables"),
        ("JOIN m EXACT NEAREST 100001 BY DISTANCE m.x", "of each row, not 100001"),
        ("JOIN m EXACT NEAREST 1.5 BY DISTANCE m.x", "of each row, not 1.5"),
        ("JOIN m EXACT NEAREST 1 + 1 BY DISTANCE m.x", "BY is missing"),
        ("JOIN m EXACT NEAREST BY m.x", "needs BY DISTANCE or BY SIMILARITY"),
        ("JOIN m EXACT NEAREST BY DISTANCE", "needs a value"),
        ("JOIN m NEAREST BY DISTANCE m.x", "is not SQL"),
        ("JOIN m EXACT NEAREST BY DISTANCE m.x USING (id)", "takes ON, not USING"),
        ("JOIN m EXACT NEAREST BY DISTANCE m.s", "needs a number or a time, not string"),
        ("JOIN m EXACT NEAREST BY DISTANCE sum(m.x)", "is about one pair of rows"),
        ("JOIN m EXACT NEAREST BY DISTANCE (SELECT 1)", "is about one pair of rows"),
        ("JOIN m EXACT NEAREST BY DISTANCE abs(x - m.x)", "ambiguous"),
        ("JOIN m EXACT NEAREST BY DISTANCE levenshtein(l.s, m.s)", "levenshtein is not supported"),
        ("JOIN m [ROWS 5] EXACT NEAREST BY DISTANCE m.x", "leave ROWS out"),
    ],
)  # fmt: skip
def test_errors_say_what_is_wrong(join: str, message: str) -> None:
    rows = table(np.random.default_rng(0), 3)
    with pytest.raises(QueryError, match=message):
        penstock.sql(f"SELECT l.id AS a, m.id AS b FROM l {join}", {"l": rows, "m": rows})


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["", "LEFT "])
def test_nearest_rows_of_the_rows_of_an_equality(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    left, right = (
        pa.table({"id": np.arange(n), "k": rng.integers(0, 6, n), "t": rng.integers(0, 30, n)})
        for n in (260, 100)
    )
    groups = pa.table({"k": [0, 1, 2, 3, 4], "f": [0, 9, 2, 3, 4]})
    forms = {
        "EXACT NEAREST 2 BY DISTANCE abs(l.t + g.f - m.t)": (
            f"{kind}JOIN m {{}}", lambda a, b: abs(a["t"] + a["f"] - b["t"]), lambda a, b: True
        ),
        "LATERAL": (
            f"{kind or 'CROSS '}JOIN LATERAL (SELECT x.id FROM m x WHERE x.k = l.k AND x.t <= l.t "
            f"ORDER BY x.t DESC LIMIT 2) m {'ON TRUE' if kind else ''}",
            lambda a, b: -b["t"],
            lambda a, b: a["k"] == b["k"] and b["t"] <= a["t"],
        ),
    }  # fmt: skip
    joined = left.join(groups, "k", join_type="inner").sort_by("id")
    tables = {"l": left, "g": groups, "m": right}
    for form, (text, value, on) in forms.items():
        query = f"SELECT l.id AS a, m.id AS b FROM l JOIN g ON l.k = g.k {text.format(form)}"
        found = [(row["a"], row["b"]) for row in penstock.sql(query, tables).to_pylist()]
        expected = nearest(joined, right, value, k=2, on=on, outer=bool(kind))
        assert sorted(found, key=str) == sorted(expected, key=str), query


def test_a_parameter_named_like_a_column() -> None:
    rows = pa.table({"id": [1, 2, 3], "k": [1, 1, 2]})
    query = (
        "SELECT l.id AS a, n.id AS b FROM l, LATERAL (SELECT m.id FROM m ORDER BY m.k LIMIT :k) n"
    )
    assert len(ids(query, rows, rows, params={"k": 2})) == 6


def test_options_without_effect_are_refused() -> None:
    rows = table(np.random.default_rng(0), 3)
    query = "SELECT l.id AS a, m.id AS b FROM l JOIN m EXACT NEAREST BY DISTANCE abs(l.x - m.x)"
    refused: list[dict[str, Any]] = [{"within": 5}, {"rows": 5}, {"workers": 2}, {"device": "cpu"}]
    for options in refused:
        with pytest.raises(UsageError, match="a join of nearest rows"):
            penstock.sql(query, {"l": rows, "m": rows}, **options)


LATERAL = (
    "SELECT l.id AS a, n.id AS b FROM l {kind} LATERAL (SELECT m.id FROM m WHERE {on} "
    "ORDER BY {order} LIMIT {k}) n"
)


@pytest.mark.parametrize("seed", range(3))
def test_lateral_and_asof_are_nearest_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that ORDER BY puts first, NULL as in Spark; the same node as NEAREST."""
    if seed:
        monkeypatch.setattr(nearest_search, "_FEW_PAIRS", 0)
    rng = np.random.default_rng([seed, 9])
    left, right = table(rng, 60), table(rng, 70, share_null=0.1 if seed < 2 else 0.0)

    def gap(a: Row, b: Row) -> Any:
        # NULL is last both ways.
        return math.inf if None in (a["i"], b["i"]) else abs(a["i"] - b["i"])

    values: dict[str, OfPair] = {
        "abs(l.i - m.i) NULLS LAST": gap,
        "-abs(l.i - m.i) DESC": gap,
        "m.i": lambda a, b: -math.inf if b["i"] is None else b["i"],
    }
    for order, value in values.items():
        for kind, condition in (("JOIN", "l.g = m.g"), ("LEFT JOIN", "l.t < 20 AND l.s <> m.s")):
            query = LATERAL.format(kind=kind, on=condition, order=order, k=3)
            outer, on = kind != "JOIN", CONDITIONS[condition]
            expected = nearest(left, right, value, k=3, on=on, outer=outer)
            assert by_id(ids(query, left, right)) == by_id(expected), query
    for side, sign in (("", ">="), ("LEFT", ">"), ("", "<=")):
        query = (
            f"SELECT l.id AS a, m.id AS b FROM l ASOF {side} JOIN m ON l.g = m.g AND l.t {sign} m.t"
        )
        expected = nearest(left, right, OF_TIME[sign][0], on=OF_TIME[sign][1], outer=bool(side))
        assert by_id(ids(query, left, right)) == by_id(expected), query


#: The value and the condition of the nearest time, by the sign of ASOF JOIN.
OF_TIME: dict[str, tuple[OfPair, OfPair]] = {
    ">=": (lambda a, b: -b["t"], lambda a, b: a["g"] == b["g"] is not None and b["t"] <= a["t"]),
    ">": (lambda a, b: -b["t"], lambda a, b: a["g"] == b["g"] is not None and b["t"] < a["t"]),
    "<=": (lambda a, b: b["t"], lambda a, b: a["g"] == b["g"] is not None and b["t"] >= a["t"]),
}


def by_id(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    return sorted(pairs, key=str)


def test_other_lateral_rows_are_those_of_duckdb() -> None:
    """ORDER BY of texts, of several values, and none are no nearest rows."""
    rng = np.random.default_rng(4)
    left, right = table(rng, 9), table(rng, 9, share_null=0)
    for order in ("m.s, m.id", "m.t, m.id", "m.s || cast(m.id AS STRING)"):
        query = LATERAL.format(kind="JOIN", on="m.id > l.id", order=order, k=1)
        rows = right.to_pylist()
        key = {
            "m.s, m.id": lambda b: (b["s"], b["id"]),
            "m.t, m.id": lambda b: (b["t"], b["id"]),
        }.get(order, lambda b: b["s"] + str(b["id"]))
        expected = [(a, min((b for b in rows if b["id"] > a), key=key)["id"]) for a in range(8)]
        assert sorted(ids(query, left, right)) == expected


def test_distances_that_rounding_makes_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Single floats far away are equally far, and sums of tenths depend on their order."""
    monkeypatch.setattr(nearest_search, "_FEW_PAIRS", 0)
    left = pa.table({"id": [0], "x": pa.array([1e6], pa.float32())})
    small = pa.array(np.linspace(0.01, 0.02, 90), pa.float32())
    right = pa.table({"id": np.arange(90), "x": small})
    for k in (1, 3):
        near = f"JOIN m EXACT NEAREST {k} BY DISTANCE abs(l.x - m.x)"
        query = f"SELECT l.id AS a, m.id AS b FROM l {near}"
        assert ids(query, left, right) == [(0, place) for place in range(k)]
    rng = np.random.default_rng(11)
    tenths = [
        pa.table({"id": np.arange(120), **{n: rng.integers(0, 12, 120) / 10 for n in "xyz"}})
        for _ in "lm"
    ]
    for form in ("{} + ({} + {})", "({} + {}) + {}"):
        gaps = [f"abs(l.{n} - m.{n})" for n in "xyz"]
        query = (
            "SELECT l.id AS a, m.id AS b FROM l JOIN m EXACT NEAREST 4 BY DISTANCE "
            f"{form.format(*gaps)}"
        )

        def value(a: Row, b: Row, form: str = form) -> float:
            x, y, z = (abs(a[n] - b[n]) for n in "xyz")
            return x + (y + z) if form.startswith("{}") else (x + y) + z

        assert ids(query, *tenths) == nearest(*tenths, value, k=4)


def test_equal_times_of_sorted_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_search, "_FEW_PAIRS", 0)
    times = np.arange(60) // 4
    left, right = (pa.table({"id": np.arange(60), "t": times, "g": times % 2}) for _ in "lm")
    for key in ("", " AND l.g = m.g"):
        query = (
            "SELECT l.id AS a, m.id AS b FROM l JOIN m EXACT NEAREST 3 "
            f"BY SIMILARITY m.t ON m.t < l.t{key}"
        )
        expected = nearest(
            *(left, right, lambda a, b: b["t"]),
            k=3,
            greatest=True,
            on=lambda a, b: b["t"] < a["t"] and (not key or a["g"] == b["g"]),  # noqa: B023
        )
        assert ids(query, left, right) == expected


#: Values of keys and times, some at the ends of their types.
DRAWN: dict[str, np.ndarray] = {
    "few": np.arange(9),
    "extreme": np.array([-(1 << 63), 1 - (1 << 63), -1, 0, (1 << 63) - 2, (1 << 63) - 1]),
    "floats": np.array([-np.inf, -1.5, -0.0, 0.0, 2.5, np.inf, np.nan]),
    "times": np.arange(40).astype("M8[ns]"),
    "texts": np.array(["", "a", "b", "ab"]),
}


@pytest.mark.parametrize("block", [7, 1 << 16])
@pytest.mark.parametrize("times", ["few", "extreme", "floats", "times"])
def test_latest_rows_in_blocks(times: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted or not, with one and two keys of any values, beside a loop."""
    monkeypatch.setattr(nearest_search, "_FEW_PAIRS", 0)
    monkeypatch.setattr(nearest_search, "_ROWS", block)
    rng = np.random.default_rng([block, len(times)])

    def drawn(rows: int, *, is_sorted: bool, share_null: float) -> pa.Table:
        of = {n: rng.choice(DRAWN[kind], rows) for n, kind in zip("tgs", kinds, strict=True)}
        of["t"] = np.sort(of["t"]) if is_sorted else of["t"]
        columns = {n: pa.array(v, mask=rng.random(rows) < share_null) for n, v in of.items()}
        number = columns["t"].cast(pa.int64()) if times == "times" else columns["t"]
        return pa.table({"id": np.arange(rows), **columns, "n": number})

    for at in range(8):
        kinds = times, rng.choice(["few", "extreme", "floats"]), "texts"
        left, right = (
            drawn(60, is_sorted=at % 2 > 0, share_null=share) for share in (0.05, 0.1 * (at > 3))
        )
        keys, k, outer = "gs"[: at % 3], 1 + at % 2, at & 4 > 0

        def is_met(a: Row, b: Row, keys: str = keys) -> bool:
            pairs = [(a[n], b[n]) for n in keys]
            equal = all(None not in p and (p[0] == p[1] or _nan(*p)) for p in pairs)
            return equal and None not in (a["n"], b["n"]) and _nan_last(b["n"]) <= _nan_last(a["n"])

        query = (
            f"SELECT l.id AS a, m.id AS b FROM l {'LEFT' if outer else ''} JOIN m "
            f"EXACT NEAREST {k} BY SIMILARITY m.t ON m.t <= l.t"
        ) + "".join(f" AND l.{n} = m.{n}" for n in keys)
        expected = nearest(
            left, right, lambda a, b: b["n"], k=k, greatest=True, on=is_met, outer=outer
        )
        assert ids(query, left, right) == expected, query


def _nan(*values: Any) -> bool:
    return all(isinstance(one, float) and math.isnan(one) for one in values)


def _nan_last(value: Any) -> tuple[bool, Any]:
    return (True, 0) if _nan(value) else (False, value)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT l.id + m.id AS a, p.b FROM l, {near} JOIN m ON m.id = l.id",
        "SELECT l.id AS a, p.b FROM l, {near} WHERE EXISTS (SELECT 1 FROM m WHERE m.id > p.b AND "
        "m.g = p.b)",
        "SELECT l.id AS a, p.b + q.b AS b FROM l, {near}, LATERAL (SELECT m.id AS b FROM m "
        "WHERE m.g = l.g ORDER BY abs(l.x - m.x) DESC, m.id LIMIT 1) q",
        "SELECT l.id AS a, p.z AS b FROM l, {near}(z)",
    ],
)
def test_a_table_of_lateral_that_is_named_once_more(query: str) -> None:
    rng = np.random.default_rng(3)
    sides = [
        pa.table({"id": np.arange(40), "g": rng.integers(0, 9, 40), "x": rng.random(40)})
        for _ in "lm"
    ]
    near = "LATERAL (SELECT m.id AS b FROM m WHERE m.g = l.g ORDER BY abs(l.x - m.x) LIMIT 1) p"
    text = query.format(near=near)
    with duckdb.connect() as engine:
        for name, side in zip("lm", sides, strict=True):
            engine.register(name, side)
        expected = engine.sql(text).fetchall()
    assert sorted(ids(text, *sides)) == sorted(expected)


def test_values_of_float_that_underflow_are_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_search, "_FEW_PAIRS", 0)
    rng = np.random.default_rng(2)
    left, right = (
        pa.table({"id": np.arange(700), "f": (rng.uniform(-1, 1, 700) * 1e-25).astype("f4")})
        for _ in "lm"
    )
    for value in ("(l.f - m.f) * (l.f - m.f)", "sqrt((l.f - m.f) * (l.f - m.f))"):
        query = f"SELECT l.id AS a, m.id AS b FROM l JOIN m EXACT NEAREST BY DISTANCE {value}"
        assert ids(query, left, right) == [(a, 0) for a in range(700)]
