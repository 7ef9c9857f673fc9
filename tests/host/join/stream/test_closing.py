"""Calls that race with close, and calls in a process that was forked."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from random import Random

import pytest

from penstock.errors import UsageError
from penstock.host.device.base import Device
from penstock.host.join.stream import Flow, JoinStream
from penstock.query import compile_query
from tests.host.kit.streams import SCHEMA, Feed, Row, batch_of, rows_join, time_join
from tests.penstock.kit.devices import InterpretingCpu

SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
SELECT = "SELECT a.n AS a, b.n AS b FROM a JOIN b ON a.x = b.x"
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


@pytest.mark.parametrize("rows", [None, 7])
@pytest.mark.parametrize("latency_s", [0.0, 0.02])
@pytest.mark.parametrize("runs", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_a_push_is_in_before_close_or_says_no(
    device: Device, rows: int | None, latency_s: float, runs: int
) -> None:
    rng = Random(5)
    refused = sum(_race(device, rng, rows, latency_s) for _ in range(runs))
    assert refused > 0  # in some of the runs the race took place


def _race(device: Device, rng: Random, rows: int | None, latency_s: float) -> bool:
    """Push until the stream is closed meanwhile; whether a push was refused."""
    on = "" if rows else " AND abs(a.t - b.t) <= 4"
    query = compile_query(SELECT + on, SCHEMAS, time={"a": "t", "b": "t"}, rows=rows)
    stream = JoinStream(query, SCHEMAS, device, flow=Flow(latency_s=latency_s))
    taken: dict[str, list[Row]] = {"a": [], "b": []}
    refused, moment = [], threading.Event()
    close_at = rng.randint(1, 12)

    def push_all() -> None:
        for k in range(200):
            if k == close_at:
                moment.set()
            for name in "ab":
                batch = [(3 * k + i, 3 * k + i, i % 2) for i in range(3)]
                try:
                    stream.push(name, batch_of(batch))
                except UsageError as error:
                    refused.append(str(error))
                    return
                taken[name] += batch

    thread = threading.Thread(target=push_all)
    thread.start()
    assert moment.wait(TIMEOUT_S)
    found = stream.close()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()
    assert [table.num_rows for table in stream.late().values()] == [0, 0]
    assert {name: stream.pushed(name) for name in "ab"} == {
        n: len(r) // 3 for n, r in taken.items()
    }
    sides = [Feed(taken[name], [], 0) for name in "ab"]
    if rows is None:
        wanted = time_join(*sides, 4, 4, lambda x, y: x == y)
    else:
        arrivals = [(place, row) for place, side in enumerate(sides) for row in side.rows]
        arrivals.sort(key=lambda one: (one[1][1], one[0]))
        wanted = rows_join(arrivals, (rows, rows), lambda x, y: x == y)
    assert sorted(zip(*(c.to_pylist() for c in found.columns), strict=True)) == wanted
    assert all("the stream is closed" in message for message in refused)
    return bool(refused)


def test_calls_after_close(device: Device) -> None:
    query = compile_query(f"{SELECT} AND a.t = b.t", SCHEMAS, time={"a": "t", "b": "t"})
    stream = JoinStream(query, SCHEMAS, device)
    stream.push("a", batch_of([(1, 1, 1)]))
    stream.close()
    with pytest.raises(UsageError, match="the stream is closed"):
        stream.register("a", "north")
    assert stream.pushed("a") == 1
    assert stream.report().arrived == {"a": 1, "b": 0}
    assert stream.wait(0, 0.0)
    stream.flush()


FORKING = """
    import os, signal, sys
    import pyarrow as pa
    import penstock
    from penstock import Flow

    schema = pa.schema([("t", pa.int64())])
    rows = pa.record_batch([pa.array([1, 2, 3])], schema=schema)
    query = "SELECT a.t FROM a JOIN b ON a.t = b.t"
    stream = penstock.stream(
        query, {"a": schema, "b": schema}, time={"a": "t", "b": "t"},
        flow=Flow(latency_s=float(sys.argv[1])),
    )
    stream.push("a", rows)
    stream.push("b", rows)
    child = os.fork()
    if not child:
        signal.alarm(20)  # it would hang
        calls = [
            lambda: stream.push("a", rows), lambda: stream.advance("a", 9), stream.poll,
            stream.flush, stream.late, stream.close, stream.report,
            lambda: stream.wait(1, 9), lambda: stream.pushed("a"),
            lambda: stream.register("a", "north"), lambda: stream.deregister("a", ""),
        ]
        for call in calls:
            try:
                call()
            except penstock.PenstockError as error:
                assert "was forked from it" in str(error), error
            else:
                raise AssertionError(f"{call} did not say no")
        sys.exit(5)  # as a process that comes to its end: with finalizers and exit functions
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 5, status
    assert stream.close().num_rows == 3
"""


@pytest.mark.parametrize("latency_s", [0.0, 0.02])
def test_a_forked_process_is_told_at_once(latency_s: float) -> None:
    # Newer interpreters warn of every fork beside threads.
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORKING), str(latency_s)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
