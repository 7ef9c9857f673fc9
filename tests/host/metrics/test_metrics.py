"""Latencies, reports, and what Prometheus and a person see of them."""

from __future__ import annotations

import math
import re
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.errors import FileError, UsageError
from penstock.host.device.base import Device
from penstock.host.join.stream import Flow, JoinStream
from penstock.host.metrics import Latency, exporter
from penstock.host.metrics.exporter import serve_metrics
from penstock.query import compile_query
from tests.host.kit.streams import SCHEMA, batch_of
from tests.penstock.kit.devices import InterpretingCpu

#: Longest wait for a server, in seconds.
WAIT_S = 60
QUERY = compile_query(
    "SELECT a.n AS a, b.n AS b FROM a JOIN b ON abs(a.t - b.t) <= 4 AND a.x = b.x",
    {"a": SCHEMA, "b": SCHEMA},
    time={"a": "t", "b": "t"},
)


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


def test_latency_counts_from_the_later_tuple() -> None:
    latency = Latency()
    assert math.isnan(latency.quantile(0.5))
    latency.arrived(np.arange(0, 10), 1.0)
    latency.arrived(np.arange(10, 20), 2.0)
    latency.left(np.array([3, 9]), 2.0)
    latency.left(np.array([10, 19]), 2.1)
    assert latency.quantile(0.5) == pytest.approx(0.1, rel=0.1)
    assert latency.quantile(1.0) == pytest.approx(1.0, rel=0.1)
    assert latency.total_s == pytest.approx(2.2)
    assert latency.counts.sum() == 4


def test_pairs_of_forgotten_arrivals_are_counted() -> None:
    latency = Latency()
    for k in range((1 << 16) + 5):
        latency.arrived(np.array([k]), float(k))
    latency.left(np.array([2, 1 << 16]), float(1 << 16))
    assert latency.unknown == 1
    assert latency.counts.sum() == 1


def test_a_join_in_numbers(device: Device) -> None:
    with JoinStream(QUERY, {"a": SCHEMA, "b": SCHEMA}, device, disorder=2) as stream:
        stream.push("a", batch_of([(1, 10, 0), (2, 20, 0), (3, 5, 0)]))
        stream.push("b", batch_of([(1, 11, 0), (2, 21, 0)]))
        server = stream.serve_metrics()
        try:
            address = f"http://127.0.0.1:{server.port}/metrics"
            with urllib.request.urlopen(address, timeout=30) as answer:
                families = list(text_string_to_metric_families(answer.read().decode()))
            shown = CliRunner().invoke(app, ["top", str(server.port), "--once"])
            with pytest.raises(
                UsageError, match=rf"cannot serve metrics on 127\.0\.0\.1:{server.port}"
            ):
                stream.serve_metrics(server.port)
        finally:
            server.close()
        report = stream.report()
    assert shown.exit_code == 0, shown.output
    assert re.search(r"^a +0 +3 +1 +2$", shown.output, re.M)
    assert re.search(r"^cpu-0 +0 +0% +0", shown.output, re.M)
    assert "p99" in shown.output
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
    assert values["penstock_arrived_rows_total", "a"] == 3
    assert values["penstock_late_rows_total", "a"] == 1
    assert values["penstock_rows_total",] == 2
    assert values["penstock_watermark_lag", "a"] == 2
    assert values["penstock_window_rows",] == report.window_rows > 0
    assert values["penstock_memory_bytes", "windows"] > 0
    assert values["penstock_lane_parked", "cpu-0"] == 0
    assert values["penstock_latency_seconds", "0.99"] > 0
    assert sum(v for k, v in values.items() if k[0] == "penstock_lane_busy_seconds_total") > 0
    assert report.evaluations == stream.stats.pairs_evaluated


@pytest.mark.parametrize("unit", ["us", "ms", "s"])
@pytest.mark.parametrize("other", ["ns", "s"])
def test_a_lag_is_a_time(device: Device, unit: str, other: str) -> None:
    schemas = {name: pa.schema({"t": pa.timestamp(u)}) for name, u in (("a", unit), ("b", other))}
    sql = "SELECT a.t AS t FROM a JOIN b ON a.t BETWEEN b.t AND b.t"
    query = compile_query(sql, schemas, time={"a": "t", "b": "t"})
    with JoinStream(query, schemas, device, disorder=timedelta(seconds=90)) as stream:
        stream.push("a", pa.table({"t": pa.array([0, 5], pa.timestamp(unit))}))
        stream.flush()
        report = stream.report()
        with closing(stream.serve_metrics()) as server:
            out = CliRunner().invoke(app, ["top", str(server.port), "--once"]).output
    assert report.unit == ("ns" if other == "ns" else unit)
    assert re.search(r"^a +0 +2 +0 +1.5 min$", out, re.M), out


def test_a_port_out_of_range(device: Device) -> None:
    with (
        JoinStream(QUERY, {"a": SCHEMA, "b": SCHEMA}, device, flow=Flow()) as stream,
        pytest.raises(UsageError, match=r"cannot serve metrics on 127\.0\.0\.1:70000"),
    ):
        serve_metrics(stream.report, 70_000)


def test_slow_senders_are_few_and_do_not_stay(monkeypatch) -> None:
    assert exporter._Request.timeout == exporter._PATIENCE_S
    monkeypatch.setattr(exporter._Request, "timeout", 10 * WAIT_S)  # only their number ends them
    server = serve_metrics(dict, 0)
    with ExitStack() as stack:
        stack.callback(server.close)
        half = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), WAIT_S))
            for _ in range(150)
        ]
        for one in half:
            one.sendall(b"GET /met")
        # Others are answered, and what has waited longest is ended for them.
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=WAIT_S).close()
        for one in half[: -exporter._REQUESTS]:
            with suppress(ConnectionResetError):
                assert one.recv(1) == b""
        names = [one.name for one in threading.enumerate()]
        assert sum("process_request_thread" in name for name in names) <= 2 * exporter._REQUESTS
    monkeypatch.setattr(exporter._Request, "timeout", 0.05)
    server = serve_metrics(dict, 0)
    with socket.create_connection(("127.0.0.1", server.port), WAIT_S) as one:
        one.sendall(b"GET /met")
        assert one.recv(1) == b""
    server.close()


def test_top_where_nobody_answers() -> None:
    done = CliRunner().invoke(app, ["top", "1", "--once"])
    assert isinstance(done.exception, FileError)
    assert "serves them after stream.serve_metrics" in str(done.exception)
    done = CliRunner().invoke(app, ["top", "over there", "--once"])
    assert isinstance(done.exception, UsageError)
