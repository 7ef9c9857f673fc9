"""Few pairs and rows go through NumPy, with the results of machine code, and compile nothing."""

from __future__ import annotations

import datetime
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from numba.core.dispatcher import Dispatcher

import penstock
from penstock.host.devices.cpu import band_kernel
from penstock.host.execute import chunk
from penstock.host.keys import sums
from penstock.host.state import sorting
from penstock.host.windows import places
from penstock.kept_code import PlainSteps

TIME = {"a": "t", "b": "t"}
WINDOW = "b.t BETWEEN a.t - 20 AND a.t + 20"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, plain_steps: PlainSteps) -> list[str]:
    """Names of the functions that are compiled, or loaded."""
    names: list[str] = []
    compile_form = Dispatcher.compile

    def compiling(self: Any, signature: Any) -> Any:
        names.append(self.py_func.__qualname__)
        return compile_form(self, signature)

    monkeypatch.setattr(Dispatcher, "compile", compiling)
    return names


def table(rng: Random, rows: int) -> pa.Table:
    def some(value: Any) -> list[Any]:
        return [None if rng.random() < 0.1 else value() for _ in range(rows)]

    floats = [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 1e300]
    start = datetime.date(2024, 1, 1)
    columns = {
        "id": pa.array(range(rows), pa.int64()),
        "t": pa.array([rng.randrange(100) for _ in range(rows)], pa.int64()),
        "x": pa.array(some(lambda: rng.randrange(-20, 20)), pa.int32()),
        "y": pa.array(some(lambda: rng.choice([-(2**54), 2**54 - 1, 0, 5])), pa.int64()),
        "f": pa.array(some(lambda: rng.choice(floats)), pa.float64()),
        "s": pa.array(some(lambda: rng.choice(["", "a", "b", "ab"])), pa.string()),
        "d": pa.array(some(lambda: start + datetime.timedelta(rng.randrange(5))), pa.date32()),
    }
    return pa.table(columns)


def rows_of(found: pa.Table) -> list[str]:
    """Rows in one order; as text, since NaN differs from itself."""

    def plain(value: Any) -> Any:  # with one zero; DuckDB sums integers as decimals
        return value + 0.0 if isinstance(value, float) else value

    names = [f.name for f in found.schema if pa.types.is_decimal(f.type)]
    for name in names:
        at = found.schema.get_field_index(name)
        found = found.set_column(at, name, found[name].cast(pa.int64()))
    return sorted(repr([*map(plain, row.values())]) for row in found.to_pylist())


CONDITIONS = [
    "abs(a.x - b.x) < 5",
    "abs(a.x - b.x) + abs(a.t - b.t) < 9",
    "a.x = b.x AND a.s = b.s",
    "a.f < b.f",
    "a.f = b.f OR a.x > b.x + 3",
    "a.y + a.x > b.y - 1 AND a.x <> b.x",
    "(a.x - b.x) * (a.x - b.x) + (a.t - b.t) * (a.t - b.t) < 50",
    "a.s < b.s OR NOT (a.d = b.d)",
    "a.x % 3 = b.x % 3 AND coalesce(a.y, 0) <= coalesce(b.y, 1)",
    "a.x BETWEEN b.x - 2 AND b.x + 9 AND a.d >= b.d",
]
SELECTS = [
    "SELECT a.id AS i, b.id AS j FROM a JOIN b ON {}",
    "SELECT a.id AS i, b.f AS f FROM a LEFT JOIN b ON {}",
    "SELECT a.id AS i FROM a ANTI JOIN b ON {}",
    "SELECT a.id AS i, count(*) AS n, min(b.y) AS y, max(b.f) AS f, sum(b.x) AS s, "
    "sum(b.f) AS g FROM a JOIN b ON {} GROUP BY a.id",
]


@pytest.mark.parametrize("select", SELECTS)
def test_joins_have_the_rows_of_duckdb(
    select: str, compiled: list[str], plain_steps: PlainSteps
) -> None:
    rng = Random(select)
    for condition in CONDITIONS:
        tables = {name: table(rng, rng.choice([0, 1, 7, 60])) for name in TIME}
        query = select.format(f"({condition}) AND {WINDOW}")
        with duckdb.connect() as oracle:
            for name, one in tables.items():
                oracle.register(name, one)
            wanted = oracle.sql(query).to_arrow_table()
        assert rows_of(penstock.sql(query, tables, time=TIME)) == rows_of(wanted), query
    assert compiled == []


AGGREGATES = (
    "count(*) AS n, sum(x) AS sx, sum(y) AS sy, avg(x) AS ax, min(y) AS iy, max(y) AS ay, "
    "min(f) AS if, max(f) AS af, sum(f) AS sf, min_by(s, x) AS ms, max_by(y, x) AS my, "
    "min_by(f, y) AS mf"
)


@pytest.mark.parametrize("keys", ["", "x", "s, d", "f, y", "window(t, 10), s"])
def test_groups_have_the_rows_of_machine_code(keys: str, plain_steps: PlainSteps) -> None:
    shown = "".join(f"{key} AS k{n}, " for n, key in enumerate(keys.split(", "))) if keys else ""
    shown = shown.replace("window(t AS k0, 10)", "window(t, 10)")
    if keys.startswith("window"):
        # The whole window would be a struct, and DuckDB's.
        shown = "window(t, 10).start AS k0, s AS k1, "
    query = f"SELECT {shown}{AGGREGATES} FROM a" + (f" GROUP BY {keys}" if keys else "")
    for seed, rows in enumerate((0, 1, 50, 300)):
        tables = {"a": table(Random(seed), rows)}
        if rows == 300:  # in some batches, and beyond the steps half-way
            batches = tables["a"].to_batches(max_chunksize=40)
            tables["a"] = pa.Table.from_batches(batches)
            plain_steps.rows = 4_000
        plain_steps._taken.clear()
        found = penstock.sql(query, tables)
        rows_before, plain_steps.rows = plain_steps.rows, -1
        assert rows_of(found) == rows_of(penstock.sql(query, tables))
        plain_steps.rows = rows_before


def test_a_small_first_query_compiles_nothing(compiled: list[str]) -> None:
    tables = {name: table(Random(3), 200) for name in TIME}
    for condition in CONDITIONS:
        for select in SELECTS[:3]:
            penstock.sql(select.format(f"({condition}) AND {WINDOW}"), tables, time=TIME)
    for condition in (CONDITIONS[0], CONDITIONS[6]):  # without a window
        penstock.sql(SELECTS[0].format(condition), tables)
    penstock.sql(f"SELECT x, {AGGREGATES} FROM a GROUP BY x", {"a": tables["a"]})
    assert compiled == []


def test_beyond_the_steps_machine_code_runs(
    monkeypatch: pytest.MonkeyPatch, plain_steps: PlainSteps
) -> None:
    runs, run_pairs = [], band_kernel.run_pairs

    def running(*arguments: Any) -> None:
        runs.append(len(answers))
        run_pairs(*arguments)

    monkeypatch.setattr(band_kernel, "run_pairs", running)
    plain_steps.pairs = 300_000
    tables = {name: table(Random(4), 60).drop_columns(["f"]) for name in TIME}
    query = SELECTS[0].format(f"{CONDITIONS[0]} AND b.t BETWEEN a.t - 100 AND a.t + 100")
    answers: list[list[str]] = []
    for _ in range(4):  # each counts as 131,072 pairs at least
        answers.append(rows_of(penstock.sql(query, tables, time=TIME)))
    assert answers == answers[:1] * 4
    assert set(runs) == {2, 3}


def test_functions_by_numpy_are_those_that_are_compiled(plain_steps: PlainSteps) -> None:
    plain_steps.rows = -1  # what is called by its name is compiled
    rng = np.random.default_rng(5)
    times, values = (np.sort(rng.integers(-9, 9, n)) for n in (50, 20))
    for after in (False, True):
        want, got = np.empty(20, np.int64), np.empty(20, np.int64)
        places._walk(times, values, after, 0, want)
        places._search(times, values, after, 0, got)
        assert (got == want).all()
    start = np.sort(rng.integers(0, 30, 10))
    end = start + 5
    for _ in range(200):
        i, j = rng.integers(0, 11, 3).astype(np.uint32), rng.integers(0, 30, 3).astype(np.uint32)
        want = chunk._first_impossible(i, j, 2, start, end)
        assert chunk._first_of_columns(i, j, 2, start, end) == want
    extremes = np.array([-(2**63), 2**63 - 1, 0, -7, 11])
    for bits, dtype in ((16, np.uint16), (32, np.uint32), (64, np.uint64)):
        for _ in range(50):
            a, b = rng.choice(extremes, 20), rng.integers(-50, 50, 20)
            low, high = (
                np.array([rng.integers(2), rng.integers(2), *rng.integers(-3, 4, 3)])
                for _ in range(2)
            )
            results = []
            for function in (sums._sum_codes, sums._codes_of_columns):
                lo, hi = np.empty(20, dtype), np.empty(20, dtype)
                function(a, b, low, high, -40, 90, dtype((1 << bits) - 2), lo, hi)
                results.append((lo.tolist(), hi.tolist()))
            assert results[0] == results[1]
    entries, order = rng.integers(-3, 3, (40, 3)), np.arange(40, dtype=np.uint32)
    word = np.ascontiguousarray(entries[:, 1]).view(np.uint64)
    want = sorting._radix(word, order, np.uint64((1 << 64) - 1))
    assert (sorting._sort_plainly(word, order, None) == want).all()
