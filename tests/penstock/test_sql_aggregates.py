"""Aggregates per group against DuckDB on the same SQL, and brute force for ROWS and ties."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock
from penstock.errors import DataError, DeviceError, QueryError
from penstock.host.device.base import PAIRS
from penstock.host.devices.cpu import CpuDevice
from penstock.program import Mode, Program
from penstock.query import compile_query
from tests.host.kit.pruning import TINY
from tests.kit.effort import examples
from tests.penstock.kit.devices import InterpretingCpu

ROOT = Path(__file__).resolve().parents[2]
TIME = {"l": "t", "r": "t"}
WINDOW = "r.t BETWEEN l.t - 6 AND l.t + 4"


@pytest.fixture(scope="module")
def device():
    with InterpretingCpu(threads=1) as opened:
        yield opened


def table(rng: np.random.Generator, rows: int) -> pa.Table:
    def some(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=rng.random(rows) < 0.15)

    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "g": some(rng.integers(0, 4, rows)),
            "t": pa.array(np.sort(rng.integers(0, 60, rows))),
            "x": some(rng.integers(-9, 10, rows)),
            "y": pa.array(rng.integers(-99, 100, rows).astype(np.int16)),
            "f": some(rng.integers(-20, 20, rows) / 4),
            "d": pa.array([Decimal(int(v)) / 100 for v in rng.integers(0, 999, rows)],
                          pa.decimal128(9, 2)),
            "s": some(np.array(["a", "b", "c"])[rng.integers(0, 3, rows)]),
            "m": pa.array(rng.integers(0, 10**9, rows), pa.timestamp("us")),
        }
    )  # fmt: skip


def tables(seed: int, left: int = 25, right: int = 30) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    return {"l": table(rng, left), "r": table(rng, right)}


def rows_of(result: pa.Table) -> list[tuple]:
    plain = [[_plain(v) for v in row.values()] for row in result.to_pylist()]
    return sorted((tuple(row) for row in plain), key=repr)


def _plain(value: object) -> object:
    return round(float(value), 6) if isinstance(value, float | Decimal) else value


def oracle(query: str, given: Mapping[str, pa.Table]) -> list[tuple]:
    with duckdb.connect() as connection:
        for name, one in given.items():
            connection.register(name, one)
        return rows_of(connection.sql(query).to_arrow_table())


PREDICATES = (
    "abs(l.x - r.x) < 3",
    "l.y < r.y",
    "l.x + r.x > 2 OR l.g = r.g",
    "l.x * r.x > 6",
    "TRUE",
)
KEYS = (
    "l.g, r.g",
    "r.f, l.s, r.s",
    "l.x % 3, r.x > l.g",
    "l.id",
    "r.id",
    "l.g",
    "r.g, r.s",
    "l.f",
    "l.x % 3",
    "l.s, l.g + 1",
)
AGGREGATES = (
    "count(*)",
    "count(r.x)",
    "count(l.x)",
    "count(l.x + r.x)",
    "sum(r.x)",
    "sum(r.y)",
    "sum(l.x)",
    "sum(l.x * r.y)",
    "sum(r.d)",
    "sum(r.f)",
    "min(r.x)",
    "min(r.y)",
    "max(l.x - r.x)",
    "min(abs(l.x - r.x))",
    "max(r.f)",
    "min(r.m)",
    "max(r.d)",
    "avg(r.x)",
    "avg(r.d)",
    "avg(l.f)",
    "max(r.x) - min(l.x)",
    "max(r.x) IS NULL",
)


@settings(deadline=None, max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 5),
    predicate=st.sampled_from(PREDICATES),
    keys=st.sampled_from(KEYS),
    chosen=st.lists(st.sampled_from(AGGREGATES), unique=True, max_size=4),
    having=st.sampled_from(["", " HAVING count(*) > 2"]),
    pruning=st.sampled_from([False, TINY]),
)
def test_groups_as_duckdb(device, seed, predicate, keys, chosen, having, pruning) -> None:
    columns = [f"{e} AS c{k}" for k, e in enumerate([*keys.split(", "), *chosen])]
    query = (
        f"SELECT {', '.join(columns)} FROM l JOIN r ON ({predicate}) AND {WINDOW} "
        f"GROUP BY {keys}{having}"
    )
    given_tables = tables(seed)
    got = penstock.sql(query, given_tables, time=TIME, device=device, pruning=pruning)
    assert rows_of(got) == oracle(query, given_tables)


@pytest.mark.parametrize("keys", ["l.g", "r.g", "l.g, r.g"])
def test_each_aggregate_as_duckdb(device, keys: str) -> None:
    """All of them at once would share folds: each by itself, with NULL on both sides."""
    given_tables = tables(2)
    for aggregate in AGGREGATES:
        query = f"SELECT {keys}, {aggregate} AS c FROM l JOIN r ON {WINDOW} GROUP BY {keys}"
        if keys == "l.g, r.g":
            query = query.replace(f"SELECT {keys}", "SELECT l.g AS a, r.g AS b")
        got = penstock.sql(query, given_tables, time=TIME, device=device)
        assert rows_of(got) == oracle(query, given_tables), aggregate


def test_distinct_of_one_side_is_whether_there_is_a_match(device) -> None:
    query = f"SELECT DISTINCT l.g, l.s FROM l JOIN r ON l.x < r.x AND {WINDOW}"
    given_tables = tables(1)
    got = penstock.sql(query, given_tables, time=TIME, device=device)
    assert rows_of(got) == oracle(query, given_tables)


@pytest.mark.parametrize("condition", ["l.x < r.x", "l.x > 1000"])
def test_without_keys_there_is_one_group(device, condition: str) -> None:
    query = (
        f"SELECT count(*) n, sum(r.x) s, min(l.x) m, avg(r.f) a FROM l JOIN r "
        f"ON {condition} AND {WINDOW}"
    )
    given_tables = tables(2)
    got = penstock.sql(query, given_tables, time=TIME, device=device)
    assert rows_of(got) == oracle(query, given_tables)


@pytest.mark.parametrize("side", ["l", "r"])
@pytest.mark.parametrize("key", ["id", "g"])
def test_min_by_takes_the_earliest_row_of_a_tie(device, side: str, key: str) -> None:
    other = "r" if side == "l" else "l"
    query = (
        f"SELECT {side}.{key} k, min_by({other}.id, abs(l.x - r.x)) a, "
        f"max_by({other}.s, l.x + r.x) b, min(abs(l.x - r.x)) c "
        f"FROM l JOIN r ON l.y < r.y AND {WINDOW} GROUP BY {side}.{key}"
    )
    order = f"{other}.id, {side}.id"  # ids ascend with time, so they are arrival numbers
    wanted = (
        f"SELECT {side}.{key} k, "
        f"(arg_min({other}.id, (abs(l.x - r.x), {order})) FILTER (abs(l.x - r.x) IS NOT NULL)) a, "
        f"(arg_min_null({other}.s, (-(l.x + r.x), {order})) FILTER (l.x + r.x IS NOT NULL)) b, "
        f"min(abs(l.x - r.x)) c FROM l JOIN r ON l.y < r.y AND {WINDOW} GROUP BY {side}.{key}"
    )
    given_tables = tables(3)
    got = penstock.sql(query, given_tables, time=TIME, device=device)
    assert rows_of(got) == oracle(wanted, given_tables)


@pytest.mark.parametrize("side", ["l", "r"])
@pytest.mark.parametrize("sizes", [{"l": 3, "r": 5}, {"l": 1, "r": 1}, {"l": 400, "r": 2}])
def test_rows_windows_as_the_pairs_that_they_give(device, side: str, sizes: dict) -> None:
    given_tables = tables(4, 40, 37)
    tail = "FROM l JOIN r ON l.y < r.y"
    pairs = penstock.sql(
        f"SELECT l.id lid, r.id rid, l.y ly, r.y ry {tail}",
        given_tables, time=TIME, rows=sizes, device=device,
    )  # fmt: skip
    got = penstock.sql(
        f"SELECT {side}.id, count(*) n, sum(l.y * r.y) s, max(r.y) m {tail} GROUP BY {side}.id",
        given_tables, time=TIME, rows=sizes, device=device,
    )  # fmt: skip
    wanted = f"SELECT {side}id, count(*), sum(ly * ry)::BIGINT, max(ry) FROM p GROUP BY {side}id"
    assert pairs.num_rows > 0
    assert [tuple(r) for r in rows_of(got)] == oracle(wanted, {"p": pairs})
    both = "l.y % 2 a, r.y % 3 b, count(*) n, min(l.id * r.id) m"
    got = penstock.sql(
        f"SELECT {both} {tail} GROUP BY l.y % 2, r.y % 3",
        given_tables, time=TIME, rows=sizes, device=device,
    )  # fmt: skip
    wanted = "SELECT ly % 2, ry % 3, count(*), min(lid * rid) FROM p GROUP BY ALL"
    assert [tuple(r) for r in rows_of(got)] == oracle(wanted, {"p": pairs})


def test_types_are_those_of_spark(device) -> None:
    got = penstock.sql(
        "SELECT count(*) n, sum(r.y) sy, sum(r.d) sd, avg(r.y) a, min(r.y) y, min(r.m) m, "
        f"max(r.d) d, sum(r.f) f FROM l JOIN r ON TRUE AND {WINDOW}",
        tables(1), time=TIME, device=device,
    )  # fmt: skip
    assert got.schema.types == [
        pa.int64(), pa.int64(), pa.decimal128(19, 2), pa.float64(), pa.int16(),
        pa.timestamp("us"), pa.decimal128(9, 2), pa.float64(),
    ]  # fmt: skip
    nothing = ["sum(NULL)", "sum(CASE WHEN r.y > 0 THEN NULL END)"]
    for aside in ("", ", count(DISTINCT 1)"):
        text = f"SELECT {', '.join(nothing)}{aside} FROM l JOIN r ON TRUE AND {WINDOW}"
        found = penstock.sql(text, tables(1), time=TIME, device=device)
        assert found.schema.types[:2] == [pa.float64()] * 2


def test_nan_is_above_everything_and_minus_zero_is_zero(device) -> None:
    nan = float("nan")
    left = pa.table({"id": [1], "t": [0], "k": [-0.0]})
    right = pa.table({"t": [0, 0, 0], "f": [nan, 2.0, -1.0]})
    query = "SELECT max(r.f) a, min(r.f) b FROM l JOIN r ON TRUE AND r.t BETWEEN l.t AND l.t"
    got = penstock.sql(query, {"l": left, "r": right}, time=TIME, device=device).to_pylist()
    assert np.isnan(got[0]["a"])
    assert got[0]["b"] == -1.0


@pytest.mark.parametrize("keys", ["l.d", "l.d, r.d"])
@pytest.mark.parametrize(
    "kind", [pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(20, 2), pa.decimal256(50, 2)]
)
def test_decimals_of_every_width_are_keys(device, kind, keys: str) -> None:
    numbers = pa.array([Decimal("1.50"), None, Decimal("-0.25"), Decimal("1.50")], kind)
    given = pa.table({"t": [0, 1, 2, 3], "d": numbers})
    shown = keys.replace("r.d", "r.d AS e")
    query = f"SELECT {shown}, count(*) n FROM l JOIN r ON r.t >= l.t GROUP BY {keys}"
    got = penstock.sql(query, {"l": given, "r": given}, time=TIME, device=device)
    wide = given.set_column(1, "d", numbers.cast(pa.decimal128(38, 2)))
    wanted = oracle(query, {"l": wide, "r": wide})
    assert [tuple(r) for r in rows_of(got)] == wanted


def test_a_sum_beyond_bigint_is_an_error(device) -> None:
    big = pa.table({"t": [0, 0], "v": [1 << 62, 1 << 62]})
    query = "SELECT sum(r.v) FROM l JOIN r ON TRUE AND r.t BETWEEN l.t AND l.t"
    with pytest.raises(DataError, match=r"SUM\(r.v\) overflows"):
        penstock.sql(query, {"l": big, "r": big}, time=TIME, device=device)


@pytest.mark.parametrize(
    ("select", "group", "message"),
    [
        ("l.id, min_by(r.x, r.y)", "GROUP BY l.id, r.id", "over groups of columns of both tables"),
        ("l.x, count(*)", "GROUP BY l.id", "l.x is neither a key of GROUP BY nor inside"),
        ("*", "GROUP BY l.id", "cannot be grouped"),
        ("l.id, count(DISTINCT r.x)", "GROUP BY l.id", "DISTINCT inside an aggregate"),
        ("l.id, stddev(r.x)", "GROUP BY l.id", "the aggregates are count"),
        ("l.id, min(r.s)", "GROUP BY l.id", "min orders numbers, dates and times, not string"),
        ("l.id, sum(r.m)", "GROUP BY l.id", "sum needs a number, not timestamp"),
        ("l.id, sum(max(r.x))", "GROUP BY l.id", "an aggregate inside an aggregate"),
        ("l.id, max_by(r.id, r.f)", "GROUP BY l.id", "NaN is above"),
        ("l.id, count()", "GROUP BY l.id", "count lacks an argument"),
        ("l.id, min_by(r.x)", "GROUP BY l.id", "min_by lacks an argument"),
        ("l.id, min(r.x, r.y)", "GROUP BY l.id", "min takes one expression"),
        ("l.id, count_if(r.x > 1, r.y)", "GROUP BY l.id", "count_if takes one expression"),
        ("l.id, count(*)", "GROUP BY 3", "there are 2 output columns"),
    ],
)
def test_what_cannot_be_grouped_is_an_error(select: str, group: str, message: str) -> None:
    query = f"SELECT {select} FROM l JOIN r ON l.x < r.x AND {WINDOW} {group}"
    schemas = {name: table.schema for name, table in tables(0).items()}
    with pytest.raises(QueryError, match=message):
        compile_query(query, schemas, time=TIME)


def test_the_example_of_the_documentation(device) -> None:
    text = (
        (ROOT / "docs" / "joins" / "sql.md")
        .read_text(encoding="utf-8")
        .partition("## Aggregates")[2]
    )
    query = text.partition("```sql\n")[2].partition("```")[0]
    rides = pa.table({"id": [1, 2], "t": [10, 50], "x": [0, 9]})
    cabs = pa.table({"cab": [7, 8, 9], "t": [12, 9, 51], "x": [2, -1, 9], "fare": [4.0, 5.0, 6.0]})
    got = penstock.sql(
        query, {"rides": rides, "cabs": cabs}, time={"r": "t", "c": "t"}, device=device
    )
    assert got.to_pylist() == [{"id": 1, "near": 2, "fare": 4.5, "nearest": 8}]


def test_a_device_that_lacks_a_mode_says_which_aggregate_needs_it() -> None:
    class PairsOnly(CpuDevice):
        name = "pairs only"

        def refuses(self, program: Program, modes: frozenset[Mode] = PAIRS) -> str | None:
            return None if modes == PAIRS else "it emits pairs only"

    query = f"SELECT l.id, max(r.y) FROM l JOIN r ON l.x < r.x AND {WINDOW} GROUP BY l.id"
    with (
        PairsOnly(threads=1) as small,
        pytest.raises(DeviceError, match=r"this query \(MAX\(r.y\)\): it emits pairs only"),
    ):
        penstock.sql(query, tables(0), time=TIME, device=small)
