"""Real streams beside DuckDB and known answers, with memory of a sixteenth of the relation.

Where a sixteenth is less than a join accepts, it is the least that it accepts. The command line is
tested by tests/penstock/cli/test_cli_real_lookups.py, Spark by
tests/spark_bridge/test_real_lookups.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pyarrow as pa
import pytest

import penstock
from tests.host.join.lookup.cases import ALGORITHMS
from tests.host.join.lookup.real import JOINS, REAL, Tables, needs_data
from tests.kit.effort import effort

pytestmark = needs_data


@pytest.fixture(scope="module", params=list(REAL))
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The tables of a join, in the short run with a part of the stream."""
    name = request.param
    return Tables(name, tmp_path_factory.mktemp(name), effort(1, REAL[name].one_in))


def as_a_table(tables: Tables, join: str, algorithm: str) -> pa.Table:
    return penstock.sql(
        tables.query(join),
        {"s": tables.stream, "r": penstock.relation(tables.place, algorithm=algorithm)},
        memory_bytes=tables.memory_bytes,
    )


def in_pushes(tables: Tables, join: str, algorithm: str) -> pa.Table:
    running = penstock.stream(
        tables.query(join),
        {
            "s": tables.stream.schema,
            "r": penstock.relation(tables.place, algorithm=algorithm),
        },
        flow=penstock.Flow(latency_s=0.05, memory_bytes=tables.memory_bytes),
    )
    parts = []
    at = 0
    for size in itertools.cycle((5_000, 1, 12_345)):
        running.push("s", tables.stream.slice(at, size))
        parts.append(running.poll())
        at += size
        if at >= tables.stream.num_rows:
            break
    return pa.concat_tables([*parts, running.close()])


Way = Callable[[Tables, str, str], pa.Table]
WAYS = [as_a_table, in_pushes]


@pytest.mark.parametrize("join", ["inner", "left"])
@pytest.mark.parametrize("way", WAYS)
def test_auto(tables: Tables, way: Way, join: str):
    tables.check(join, way(tables, join, "auto"))


@pytest.mark.slow
@pytest.mark.parametrize("join", list(JOINS))
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm(tables: Tables, join: str, algorithm: str):
    tables.check(join, in_pushes(tables, join, algorithm))
