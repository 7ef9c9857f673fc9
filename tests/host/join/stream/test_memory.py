"""A consumer that stops: results stay within their part of the budget, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from penstock.errors import OverloadError
from penstock.host.device.base import Device
from penstock.host.devices.cpu import CpuDevice
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream
from penstock.query import compile_query
from tests.host.kit.streams import SCHEMA, batch_of

SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
QUERY = "SELECT a.n AS a, b.n AS b FROM a JOIN b ON a.x = b.x AND a.t = b.t"
LIMIT, COUNT = 1 << 20, 300
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with CpuDevice(threads=2) as opened:
        yield opened


def opened(device: Device, **flow) -> JoinStream:
    query = compile_query(QUERY, SCHEMAS, time={"a": "t", "b": "t"})
    ordered = flow.pop("ordered", False)
    running = Running(ordered=ordered)
    return JoinStream(
        query, SCHEMAS, device, flow=Flow(memory_bytes=LIMIT, running=running, **flow)
    )


def all_match(count: int = COUNT):
    """Rows of which each matches each of the other side: 90,000 pairs of 300."""
    return batch_of([(k, 5, 0) for k in range(count)])


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("latency_s", [0.0, 0.005])
def test_all_rows_come_as_they_are_polled(device: Device, ordered: bool, latency_s: float) -> None:
    with opened(device, ordered=ordered, latency_s=latency_s) as stream:
        for name in "ab":
            stream.push(name, all_match())
        found: list[tuple[int, int]] = []
        while len(found) < COUNT * COUNT:
            assert stream.wait(1, TIMEOUT_S)
            found += zip(*(c.to_pylist() for c in stream.poll().columns), strict=True)
        assert len(set(found)) == len(found)
        # Rows of the batch that leaves next come on top if they wait for their order.
        assert stream.budget.highest <= (8 * LIMIT if ordered else LIMIT)


def test_who_neither_polls_nor_gives_up_is_told(device: Device) -> None:
    with opened(device, push_timeout_s=0.05) as stream:
        for name in "ab":
            stream.push(name, all_match())  # returns, though not all of its rows have room
        assert stream.stats.rows < COUNT * COUNT
        with pytest.raises(OverloadError, match="nobody has polled any for"):
            stream.flush()
        with pytest.raises(OverloadError, match="nothing of the batch has been taken"):
            stream.push("a", all_match())
        assert stream.pushed("a") == 1
        polled = stream.poll().num_rows
        assert 0 < polled < COUNT * COUNT
        assert polled + stream.close().num_rows == COUNT * COUNT


def test_flush_waits_for_a_consumer_that_polls(device: Device) -> None:
    with opened(device) as stream:
        for name in "ab":
            stream.push(name, all_match())
        flushed, rows = threading.Event(), []
        thread = threading.Thread(target=lambda: (stream.flush(), flushed.set()))
        thread.start()
        while not flushed.is_set():
            stream.wait(1, 0.05)
            rows.append(stream.poll().num_rows)
        thread.join(TIMEOUT_S)
        assert sum(rows) + stream.poll().num_rows == COUNT * COUNT
