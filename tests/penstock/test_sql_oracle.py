"""Random joins give what DuckDB gives for the same SQL, as tables and as streams.

``PENSTOCK_ORACLE_EXAMPLES`` sets the number of random joins (500 by default).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import DeviceError, MissingToolError, QueryError
from penstock.host.batch import BatchJoin
from penstock.host.device.base import Device
from penstock.host.device.registry import device_names, open_device
from penstock.host.stream import JoinStream
from penstock.query.compiler import compile_query
from penstock.query.plan import JoinQuery
from tests.penstock.kit.devices import InterpretingCpu
from tests.penstock.kit.queries import SCHEMA, Grammar, Join, Oracle, delivered

EXAMPLES = int(os.environ.get("PENSTOCK_ORACLE_EXAMPLES", "500"))
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


def compiled(join: Join) -> JoinQuery | None:
    """The query; None for what is documented not to have a form."""
    schemas = dict.fromkeys(join.tables, SCHEMA)
    try:
        return compile_query(join.sql, schemas, **join.options)
    except QueryError as refusal:
        if "window admits nothing" in str(refusal):
            return None
        raise


def refused(refusal: QueryError) -> None:
    """Nothing, where a prefix has no form in the direction that is needed."""
    if "cannot be joined on" not in str(refusal):
        raise refusal


def batch(query: JoinQuery, join: Join, device: Device, band: bool = True) -> pa.Table | None:
    """The join of whole tables; None where it is refused as documented."""
    try:
        run = BatchJoin(query, join.tables, device, band=band)
    except QueryError as refusal:
        return refused(refusal)
    return pa.Table.from_batches(run, run.schema)


def streamed(query: JoinQuery, join: Join, device: Device, rng: Random) -> pa.Table | None:
    """The same, pushed in small batches in order of arrival with some disorder."""
    column = join.time["l"]
    tables = {}
    for name, table in join.tables.items():
        table = table.filter(table[column].is_valid())
        tables[name] = table.sort_by([(column, "ascending"), ("id", "ascending")])
    try:
        stream = JoinStream(query, dict.fromkeys(tables, SCHEMA), device)
    except QueryError as refusal:
        return refused(refusal)
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
        if query is None:
            return
        wanted = oracle(join)
        found = batch(query, join, device, band)
        assert found is None or delivered(found) == wanted, join
        found = streamed(query, join, device, Random(seed))
        assert found is None or delivered(found) == wanted, join

    check()


@pytest.mark.parametrize("seed", range(6))
def test_compiled_kernels(seed: int, oracle: Oracle) -> None:
    join = Grammar(seed).join(depth=2)
    query = compiled(join)
    with open_device("cpu") as device:
        if query is not None and (found := batch(query, join, device)) is not None:
            assert delivered(found) == oracle(join), join


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


@pytest.mark.parametrize("seed", range(8))
def test_simulated_hardware(seed: int, oracle: Oracle, simulated: Device) -> None:
    join = Grammar(1000 + seed).join(most=6, depth=1)
    query = compiled(join)
    if query is None:
        return
    try:
        found = batch(query, join, simulated)
    except DeviceError as refusal:
        pytest.skip(f"the device refuses this predicate: {refusal}")
    assert found is None or delivered(found) == oracle(join), join
