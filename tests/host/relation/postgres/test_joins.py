"""Joins with a table in a real PostgreSQL server give what brute force gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import penstock

ALGORITHMS = ("auto", "meshjoin", "hybridjoin", "cachejoin", "d-cachejoin")
ROWS = 3000


@pytest.fixture(scope="module")
def customers(postgres) -> str:
    postgres.run(
        "CREATE TABLE customers (id bigint PRIMARY KEY, name text, floor numeric(12, 2))",
        f"INSERT INTO customers SELECT g, 'n' || g, g / 4.0 FROM generate_series(0, {ROWS - 1}) g",
        "ANALYZE customers",
    )
    return postgres.address("customers", "id")


def calls(rows: int, seed: int = 1) -> pa.Table:
    random = np.random.default_rng(seed)
    keys = pa.array(random.integers(-50, ROWS + 50, rows), mask=random.random(rows) < 0.05)
    return pa.table({"id": np.arange(rows), "k": keys})


def expected(orders: pa.Table) -> Counter:
    rows = orders.to_pylist()
    return Counter(
        (o["id"], f"n{o['k']}" if o["k"] is not None and 0 <= o["k"] < ROWS else None) for o in rows
    )


def pairs(table: pa.Table) -> Counter:
    return Counter(zip(*table.to_pydict().values(), strict=True))


LEFT = "SELECT o.id, c.name FROM o LEFT JOIN c ON o.k = c.id"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_table(customers, algorithm):
    orders = calls(5000)
    tables = {"o": orders, "c": penstock.relation(customers, algorithm=algorithm)}
    assert pairs(penstock.sql(LEFT, tables)) == expected(orders)


@pytest.mark.parametrize("step", [1, 37, 1000])
@pytest.mark.parametrize("max_age", ["0", "60s"])
def test_a_stream(postgres, customers, step, max_age):
    orders = calls(20 * step)
    found: Counter = Counter()
    relation = penstock.relation(f"{customers}&max_age={max_age}")
    with penstock.stream(LEFT, {"o": orders.schema, "c": relation}) as stream:
        for start in range(0, len(orders), step):
            stream.push("o", orders.slice(start, step))
            part = stream.poll()
            assert len(part) == step
            found += pairs(part)
        figures = stream.report().lookup
    assert found == expected(orders)
    assert figures.hits > 0 or max_age == "0" or step == 1
