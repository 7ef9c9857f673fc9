"""Findings of running joins: figures that give each, figures that do not, and its remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

import penstock
from penstock.host.device.base import Device
from penstock.host.join.stream import Flow, JoinStream
from penstock.host.metrics.findings import Finding, of_report
from penstock.host.metrics.report import LaneReport, Report, RoutingReport
from penstock.query import compile_query
from tests.host.kit.streams import SCHEMA, batch_of
from tests.penstock.kit.devices import InterpretingCpu

QUERY = compile_query(
    "SELECT a.n AS a, b.n AS b FROM a JOIN b ON abs(a.t - b.t) <= 4 AND a.x = b.x",
    {"a": SCHEMA, "b": SCHEMA},
    time={"a": "t", "b": "t"},
)
IN_ORDER = [(number, 10 + number, 0) for number in range(50)]


@pytest.fixture
def device() -> Iterator[Device]:
    with InterpretingCpu() as one:
        yield one


def rules(report: Report, before: Report | None = None) -> list[tuple[str, str]]:
    return [(one.rule, one.where) for one in of_report(report, before)]


def test_late_rows_and_their_disorder(device: Device) -> None:
    rows = [*IN_ORDER, (50, 5, 0)]
    for disorder, expected in ((0, [("late", "a")]), (60, [])):
        with JoinStream(QUERY, {"a": SCHEMA, "b": SCHEMA}, device, disorder=disorder) as stream:
            for name in "ab":
                stream.push(name, batch_of(IN_ORDER))
            before = stream.report()
            stream.push("a", batch_of(rows[-1:]))
            stream.flush()
            report = stream.report()
            assert [one for one in rules(report) if one[0] == "late"] == expected
            # Since the report before, all rows of a were late.
            texts = [one.text for one in of_report(report, before) if one.rule == "late"]
            assert texts == ["100 % of the rows of a came too late, and joined nothing"] * len(
                expected
            )
            assert not [one for one in rules(before) if one[0] == "late"]


def test_a_source_that_holds_up_the_other(device: Device) -> None:
    with JoinStream(QUERY, {"a": SCHEMA, "b": SCHEMA}, device) as stream:
        stream.push("a", batch_of([(1, 10, 0)]))
        assert rules(stream.report()) == [("silent", "b")]
        stream.push("b", batch_of([(1, 10, 0)]))
        assert rules(stream.report()) == []
        stream.push("a", batch_of([(2, 14, 0)]))
        assert rules(stream.report()) == []  # the window reaches as far
        stream.push("a", batch_of([(3, 50, 0)]))
        (found,) = of_report(stream.report())
        assert found.text == "this stream waits for b, 40 behind"
        kept = stream.report().window_rows
        stream.advance("b", 50)  # the remedy
        assert rules(stream.report()) == []
        assert stream.report().window_rows < kept


def test_time_behind_in_words() -> None:
    schema = pa.schema([("t", pa.timestamp("us"))])
    query = (
        "SELECT a.t AS a, gps.t AS g FROM a JOIN gps ON abs(a.t - gps.t) <= INTERVAL '5' SECONDS"
    )
    with penstock.stream(query, {"a": schema, "gps": schema}) as stream:
        for name, seconds in (("a", 100), ("gps", 60)):
            moment = pa.scalar(seconds * 10**6).cast(pa.timestamp("us")).as_py()
            stream.push(name, pa.table({"t": [moment]}, schema))
        (found,) = of_report(stream.report())
        assert found.text == "this stream waits for gps, 40 s behind"
        stream.advance("gps", moment + timedelta(seconds=40))
        assert of_report(stream.report()) == []


def test_memory_near_its_budget(device: Device) -> None:
    flow = Flow(memory_bytes=1 << 20)
    with JoinStream(QUERY, {"a": SCHEMA, "b": SCHEMA}, device, flow=flow) as stream:
        stream.push("a", batch_of(IN_ORDER))
        stream.push("b", batch_of(IN_ORDER))
        report = stream.report()
        assert report.memory_limit == 1 << 20
        assert rules(report) == []
        full = replace(report, memory_bytes={"results": 600_000, "windows": 300_000})
        (found,) = of_report(full)
        assert (found.rule, "poll more often" in found.remedy) == ("memory", True)
        assert rules(replace(full, memory_limit=None)) == []
        before = report.memory_bytes["results"]
        stream.poll()  # the remedy
        assert stream.report().memory_bytes["results"] < before


def test_lanes_and_keys(device: Device) -> None:
    with JoinStream(QUERY, {"a": SCHEMA, "b": SCHEMA}, device) as stream:
        report = stream.report()
    lane = LaneReport("cpu-0", 0, 1.0, 2, False)
    failed, parked = (replace(report, lanes=(replace(lane, parked=one),)) for one in (False, True))
    assert rules(failed) == [("retries", "cpu-0")]
    assert rules(failed, failed) == []  # none since then
    assert rules(parked, parked) == [("parked", "cpu-0")]
    assert of_report(parked)[0].remedy.startswith("no other lane is left; ")
    two = replace(report, lanes=(replace(lane, parked=True), replace(lane, name="cpu-1")))
    assert of_report(two)[0].remedy.startswith("the other lanes do its work; ")
    routing = RoutingReport(busiest=1.1, entries=0, split=0, copies=0, moved=0, seconds=0.0)
    assert rules(replace(report, routing=routing)) == []
    assert rules(replace(report, routing=replace(routing, busiest=2.0))) == [("skew", "")]


def test_a_finding_in_a_line() -> None:
    assert str(Finding("late", "1 % came late", "declare a disorder", "a")) == (
        "1 % came late; declare a disorder"
    )
