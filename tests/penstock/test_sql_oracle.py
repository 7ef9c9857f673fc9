"""Random joins give what DuckDB gives for the same SQL, as tables and as streams.

``PENSTOCK_ORACLE_EXAMPLES`` sets the number of random joins (500 by default, 150 in the
short run).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from random import Random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import DeviceError, MissingToolError
from penstock.expr import ops
from penstock.host.device.base import Device
from penstock.host.device.registry import device_names, open_device
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream
from penstock.host.join.table.table_join import TableJoin
from penstock.host.prune.sizes import Pruning
from penstock.plan.forms import join_form
from penstock.plan.general import GeneralForm
from penstock.plan.query import JoinQuery
from penstock.query.compiler import compile_query
from tests.host.kit.pruning import TINY
from tests.kit.effort import effort
from tests.penstock.kit.devices import InterpretingCpu
from tests.penstock.kit.queries import SCHEMA, Grammar, Join, Oracle, delivered

EXAMPLES = int(os.environ.get("PENSTOCK_ORACLE_EXAMPLES", effort("500", "150")))
#: The examples are cut into parts that run in parallel.
PARTS = 5
SEEDS = st.integers(0, 1 << 40)

settings.register_profile(
    "oracle", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


def compiled(join: Join) -> JoinQuery:
    return compile_query(join.sql, dict.fromkeys(join.tables, SCHEMA), **join.options)


def batch(
    query: JoinQuery,
    join: Join,
    device: Device,
    band: bool = True,
    pruning: Pruning | None = None,
) -> pa.Table:
    """The join of whole tables."""
    run = TableJoin(query, join.tables, device, band=band, pruning=pruning)
    return pa.Table.from_batches(run, run.schema)


def streamed(query: JoinQuery, join: Join, device: Device, rng: Random) -> pa.Table:
    """The same, pushed in small batches, each source in order, the two interleaved at random."""
    column = join.time["l"]
    tables = {}
    for name, table in join.tables.items():
        table = table.filter(table[column].is_valid())
        tables[name] = table.sort_by([(column, "ascending"), ("id", "ascending")])
    running = Running(pruning=rng.choice((True, TINY)))
    stream = JoinStream(query, dict.fromkeys(tables, SCHEMA), device, flow=Flow(running=running))
    parts = []
    with stream:
        while any(t.num_rows for t in tables.values()):
            name = rng.choice([n for n, t in tables.items() if t.num_rows])
            count = rng.randint(1, 5)
            stream.push(name, tables[name].slice(0, count))
            tables[name] = tables[name].slice(count)
            parts.append(stream.poll())
        parts.append(stream.close())
    assert stream.stats.late == {"l": 0, "r": 0}
    return pa.concat_tables(parts)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_joins(part: int, oracle: Oracle, device: Device) -> None:
    @settings(settings.get_profile("oracle"), max_examples=max(EXAMPLES // PARTS, 1))
    @given(SEEDS, st.booleans())
    def check(seed: int, band: bool) -> None:
        seed = seed * PARTS + part
        join = Grammar(seed).join()
        query = compiled(join)
        wanted = oracle(join)
        pruning = TINY if seed % 2 else None
        assert delivered(batch(query, join, device, band, pruning)) == wanted, join
        assert delivered(streamed(query, join, device, Random(seed))) == wanted, join

    check()


def telling(oracle: Oracle, most: int, *, general: bool) -> Iterator[tuple[JoinQuery, Join]]:
    """Joins of a form, some of whose pairs match and some of which do not."""
    for seed in itertools.count():
        join = Grammar(seed).join(most=most, depth=1)
        query = compiled(join)
        forms = [join_form(query.predicate, side).form for side in "lr"]
        if all(isinstance(form, GeneralForm) == general for form in forms):
            everything = replace(query, predicate=ops.TRUE)
            with InterpretingCpu(threads=1) as device:
                pairs = TableJoin(everything, join.tables, device).pairs_in_window
            if 0 < oracle(join).total() < pairs:
                yield query, join


def test_compiled_kernels(oracle: Oracle) -> None:
    with open_device("cpu") as device:
        for query, join in islice(telling(oracle, 12, general=True), effort(5, 3)):
            found = batch(query, join, device)
            assert found is not None
            assert delivered(found) == oracle(join), join


def test_most_random_joins_tell_something(oracle: Oracle) -> None:
    joins = [Grammar(seed).join() for seed in range(200)]
    answers = [oracle(join).total() for join in joins]
    assert sum(rows > 0 for rows in answers) > 0.5 * len(joins)


@pytest.fixture(scope="module")
def simulated() -> Iterator[Device]:
    if "amaranth" not in device_names():
        pytest.skip("device amaranth is not registered in this installation")
    try:
        device = open_device("amaranth")
    except (MissingToolError, DeviceError, ImportError) as cause:
        pytest.skip(str(cause))
    with device:
        yield device


@pytest.mark.parametrize("general", [False, True])
def test_simulated_hardware(general: bool, oracle: Oracle, simulated: Device) -> None:
    run = 0
    for query, join in islice(telling(oracle, 6, general=general), effort(8, 4)):
        try:
            found = batch(query, join, simulated)
        except DeviceError as refusal:
            assert "cannot run this query" in str(refusal)  # noqa: PT017 - refusing is allowed
            continue
        run += 1
        assert found is not None
        assert delivered(found) == oracle(join), join
    assert run > 0
