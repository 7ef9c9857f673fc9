"""Functions of columns of both sides: as conditions, as values and as folds, against DuckDB."""

from __future__ import annotations

import math
from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.around.splitting import _KINDS
from penstock.errors import DeviceError, QueryError
from penstock.expr.functions import FUNCTIONS

WINDOW = "r.t BETWEEN l.t - 20 AND l.t + 20"
HAVERSINE = (
    "2 * 6371008.8 * asin(least(1, sqrt(power(sin(radians(r.lat - l.lat) / 2), 2) + "
    "cos(radians(l.lat)) * cos(radians(r.lat)) * power(sin(radians(r.lon - l.lon) / 2), 2))))"
)
#: What is asked, and how DuckDB says it.
CONDITIONS = [
    ("sqrt(pow(l.x - r.x, 2) + pow(l.y - r.y, 2)) < 0.5", None),
    ("l.x / r.x BETWEEN 0.9 AND 1.1", "l.x / nullif(r.x, 0) BETWEEN 0.9 AND 1.1"),
    ("l.k / r.k > 1.5", "l.k / nullif(r.k, 0) > 1.5"),
    ("NOT l.k / r.k > 1.5", "NOT l.k / nullif(r.k, 0) > 1.5"),
    ("l.k / r.k IS NULL", "l.k / nullif(r.k, 0) IS NULL"),
    ("l.k DIV r.k = -2", "trunc(l.k / nullif(r.k, 0)) = -2"),
    ("l.k DIV r.k IS NULL OR r.x > 1", "l.k IS NULL OR r.k IS NULL OR r.k = 0 OR r.x > 1"),
    ("pmod(l.k - r.k, 3) = 1", "((l.k - r.k) % 3 + 3) % 3 = 1"),
    ("floor(l.x * r.y) = 1", None),
    ("ceil(l.x * r.y) = 1", None),
    ("round(l.x * r.y, 1) = 0.5", "abs(l.x * r.y - 0.5) <= 0.05"),
    ("sign(l.x - r.x) < 0", None),
    ("ln(l.x * r.x) > 0.5", "ln(CASE WHEN l.x * r.x > 0 THEN l.x * r.x END) > 0.5"),
    # Branches that read one side, of values that the other engine computes.
    ("CASE WHEN r.x > 0 THEN length(CAST(r.id AS STRING)) ELSE l.x END > 1.5", None),
    ("NOT ln(l.x * r.x) > 0.5", "NOT ln(CASE WHEN l.x * r.x > 0 THEN l.x * r.x END) > 0.5"),
    ("exp(l.x - r.x) < 0.7", None),
    ("atan2(l.y - r.y, l.x - r.x) > 3", None),
    ("sin(l.x + r.x) > 0.99 OR cos(l.y - r.y) < -0.9", None),
    (
        "asin(l.x * r.x) > 0.5",
        "asin(CASE WHEN abs(l.x * r.x) > 1 THEN 'NaN' ELSE l.x * r.x END) > 0.5",
    ),
    ("nullif(l.k, r.k) IS NULL", None),
    ("(l.k < r.k) IS NOT TRUE", None),
    ("(l.k < r.k) IS FALSE", None),
    ("l.k <=> r.k", "l.k IS NOT DISTINCT FROM r.k"),
    ("l.s < r.s", None),
    ("l.s >= r.s AND l.k = r.k", None),
    ("haversine(l.lat, l.lon, r.lat, r.lon) < 20000", f"{HAVERSINE} < 20000"),
    ("haversine(l.lat, l.lon, r.lat, r.lon) > 19000000", f"{HAVERSINE} > 19000000"),
]


def side(seed: int, rows: int = 400) -> pa.Table:
    random = np.random.default_rng(seed)
    none = random.random(rows) < 0.1
    lat = np.concatenate(
        [random.normal(0, 0.1, rows // 2), 90 - random.exponential(0.2, rows // 2)]
    )
    lon = random.choice([-180.0, 180.0, 0.0], rows) + random.normal(0, 0.1, rows)
    return pa.table(
        {
            "id": np.arange(rows),
            "t": np.sort(random.integers(0, rows, rows)),
            "x": pa.array(random.normal(size=rows), mask=none),
            "y": random.normal(size=rows),
            "k": pa.array(random.integers(-4, 5, rows), mask=np.roll(none, 7)),
            "s": random.choice(["", "a", "ab", "é", "\U0001f600", "z"], rows),
            "lat": np.minimum(lat, 90.0),
            "lon": (lon + 180) % 360 - 180,
        }
    )


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return {"l": side(1), "r": side(2)}


def counted(table: pa.Table) -> Counter:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def ask(query: str, tables: dict[str, pa.Table]) -> pa.Table:
    return penstock.sql(query, tables, time={"l": "t", "r": "t"})


@pytest.mark.parametrize(("text", "oracle"), CONDITIONS, ids=[text for text, _ in CONDITIONS])
def test_conditions(tables, text, oracle):
    query = "SELECT l.id AS a, r.id AS b FROM l {} JOIN r ON ({}) AND " + WINDOW
    con = duckdb.connect()
    for name, table in tables.items():
        con.register(name, table)
    for kind in ("", "LEFT"):
        found = counted(ask(query.format(kind, text), tables))
        wanted = counted(con.sql(query.format(kind, oracle or text)).to_arrow_table())
        assert found == wanted
        assert kind or found, "no pair tells nothing"


def test_values_and_folds(tables):
    """What the device folds, and what the host computes of pairs."""
    value = "haversine(l.lat, l.lon, r.lat, r.lon)"
    pairs = f"SELECT l.id, {value} AS d FROM l JOIN r ON l.k = r.k AND {WINDOW}"
    folded = f"SELECT l.id, min({value}) AS d FROM l JOIN r ON l.k = r.k AND {WINDOW} GROUP BY l.id"
    least: dict[int, float] = {}
    for row in ask(pairs, tables).to_pylist():
        least[row["id"]] = min(row["d"], least.get(row["id"], math.inf))
    assert least == {row["id"]: row["d"] for row in ask(folded, tables).to_pylist()}
    assert len(least) > 100


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_compiled_join_and_columns_agree_to_the_last_bit(name):
    random = np.random.default_rng(5)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, math.inf, -math.inf, math.nan, 1e-310, 1e300]
    one = np.array([*values, *random.normal(size=29) * 10.0 ** random.integers(-3, 3, 29)])
    function = FUNCTIONS[name]
    args = [one, np.roll(one, 3), np.roll(one, 5), np.roll(one, 7)][: function.arity]
    wanted = function(*args)
    again = np.array([function(*(arg[k : k + 1] for arg in args))[0] for k in range(len(one))])
    assert np.array_equal(wanted, again, equal_nan=wanted.dtype == np.float64)
    if name == "rounded":
        return  # takes a constant
    call = {"ln": "ln", "power": "pow", "divide": "/"}.get(name, name)
    places = ["l.a", "r.b", "l.c", "r.d"][: function.arity]
    text = f"{places[0]} / {places[1]}" if call == "/" else f"{call}({', '.join(places)})"
    if function.arity == 1:
        text = f"{call}(l.a + r.z)"
    columns = {"t": np.arange(len(one)), **dict(zip("abcd", args, strict=False))}
    left = pa.table({**columns, "n": np.arange(len(one)), "z": np.zeros(len(one))})
    right = left.append_column("w", pa.array(wanted.astype(np.float64)))
    query = f"SELECT l.n FROM l JOIN r ON l.n = r.n AND {text} <=> r.w AND r.t BETWEEN l.t AND l.t"
    matched = set(ask(query, {"l": left, "r": right})["n"].to_pylist())
    # Of what SQL has no value for, the function alone has one.
    undefined = {"ln": one <= 0, "log10": one <= 0, "log1p": one <= -1, "divide": args[-1] == 0}
    assert set(np.flatnonzero(~undefined.get(name, np.zeros(len(one), bool)))) == matched


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sqrt(l.s) < 1", "sqrt needs numbers, not string"),
        ("l.x DIV r.x = 1", "DIV needs integers"),
        ("round(l.x, r.k) = 1", "round takes a constant number of digits"),
        ("haversine(l.x, r.x) < 3", "haversine takes 4 arguments"),
        ("pow(l.x) < 3", "something is missing near `\\)`"),
    ],
)
def test_what_is_refused(tables, text, said):
    with pytest.raises(QueryError, match=said):
        ask(f"SELECT l.id FROM l JOIN r ON {text} AND {WINDOW}", tables)


@pytest.mark.parametrize("kind", sorted({kind for kind in _KINDS.values() if kind}))
def test_what_other_engines_compute_is_not_for_the_condition_of_an_outer_join(tables, kind):
    """The window is there: what lacks is the function."""
    for condition, said in (
        (
            "foo(l.x, r.x) < 20",
            rf"function foo .*FOO\(.*the condition of a {kind} JOIN .* one side",
        ),
        ("levenshtein(l.s, r.s) < 3", "function levenshtein is not supported"),
        ("l.k < (SELECT max(r.k) FROM r)", r"several rows .* subquery of FROM .*: \(SELECT MAX"),
    ):
        text = f"SELECT l.id FROM l {kind} JOIN r ON {condition} AND {WINDOW}"
        schemas = {name: table.schema for name, table in tables.items()}
        for entrance, given in ((penstock.sql, tables), (penstock.stream, schemas)):
            with pytest.raises(QueryError, match=said):
                entrance(text, given, time={"l": "t", "r": "t"})


def test_hardware_says_why_not(tables):
    with pytest.raises(DeviceError, match="it is a floating-point value"):
        penstock.sql(
            f"SELECT l.id FROM l JOIN r ON sqrt(l.k * r.k) < 3 AND {WINDOW}",
            {name: table.drop_columns(["x"]) for name, table in tables.items()},
            time={"l": "t", "r": "t"},
            device="amaranth",
        )
