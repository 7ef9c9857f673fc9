"""Nothing of a query is left behind when it is closed: memory, threads, files, device memory."""

from __future__ import annotations

import gc
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.host.device.base import Device
from penstock.host.devices.cpu import CpuDevice
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream
from penstock.host.join.table.table_join import TableJoin
from penstock.host.workers.here import GroupStream
from penstock.plan.group_query import GroupQuery
from penstock.plan.query import JoinQuery
from penstock.query.compiler import compile_query, compile_select
from tests.host.kit.faulty import FaultyDevice

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int32())])
SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
ROWS = pa.table({"t": range(50), "x": [k % 5 for k in range(50)]}, schema=SCHEMA)
#: What memory may grow by after the first quarter of the queries.
MOST_GROWTH = 0.02


@pytest.fixture(scope="module")
def device() -> Iterator[FaultyDevice]:
    with CpuDevice(threads=2) as cpu:
        yield FaultyDevice(cpu)


def query(number: int) -> JoinQuery:
    """A query like no other: its distance goes into keys and programs."""
    on = f"abs(a.x - b.x) <= {number % 7} AND abs(a.t - b.t) <= {1 + number}"
    return compile_query(f"SELECT a.t FROM a JOIN b ON {on}", SCHEMAS, time={"a": "t", "b": "t"})


def as_stream(number: int, device: Device) -> int:
    """Open a stream, some of them with a latency target, join and close; rows that came."""
    flow = Flow(latency_s=0.001 if number % 10 == 0 else 0.0, running=Running(ordered=True))
    made = query(number)
    with JoinStream(made, SCHEMAS, device, flow=flow) as stream:
        for name in "ab":
            stream.push(name, ROWS)
        return stream.close().num_rows


def as_table(number: int, device: Device) -> int:
    """Join two tables; rows that came."""
    made = query(number)
    return sum(b.num_rows for b in TableJoin(made, {"a": ROWS, "b": ROWS}, device))


def as_groups(number: int, device: Device) -> int:
    """Open a stream of groups, some of them with a latency target, push and close; groups."""
    flow = Flow(latency_s=0.001 if number % 10 == 0 else 0.0)
    text = (
        f"SELECT x % {1 + number % 7} AS k, count(*) AS n, sum(x + {number}) AS s FROM a "
        f"GROUP BY 1, window(t, {1 + number})"
    )
    made = compile_select(text, SCHEMAS)
    assert isinstance(made, GroupQuery)
    with GroupStream(made, SCHEMA, flow=flow) as stream:
        stream.push("a", ROWS)
        return stream.close().num_rows


def held() -> tuple[int, int, int]:
    """Resident bytes, threads, open files."""
    gc.collect()
    # The device keeps its own, which start when they are first needed.
    threads = [t for t in threading.enumerate() if not t.name.startswith("penstock-cpu")]
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return (
        pages * resource.getpagesize(),
        len(threads),
        len(os.listdir("/proc/self/fd")),
    )


@pytest.mark.parametrize("join", [as_stream, as_table, as_groups])
@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_nothing_is_left_of_many_queries(device: FaultyDevice, join, count: int) -> None:
    for number in range(count // 4):
        assert join(number, device) > 0
    memory, threads, files = held()
    for number in range(count // 4, count):
        assert join(number, device) > 0
    after = held()
    assert device.rows == 0
    assert after[1:] == (threads, files)
    assert after[0] <= memory * (1 + MOST_GROWTH)
