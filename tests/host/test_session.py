"""Joins on several lanes and devices: exact whatever fails, in order if asked, never stuck."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.errors import DeviceError, OverloadError, UsageError
from penstock.host.device.base import Device
from penstock.host.devices.cpu import CpuDevice
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream
from penstock.query import compile_query
from tests.host.kit.faulty import FaultyDevice
from tests.host.kit.pruning import TINY
from tests.host.kit.streams import SCHEMA, Feed, batch_of, time_join
from tests.kit.effort import examples
from tests.penstock.kit.devices import InterpretingCpu

SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
TIME = {"a": "t", "b": "t"}
ON = "SELECT a.n AS a, b.n AS b FROM a JOIN b ON abs(a.t - b.t) <= 4 AND a.x = b.x"


@pytest.fixture(scope="module")
def cpu() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


def opened(devices: Device | Sequence[Device], **flow) -> JoinStream:
    running = {name: flow.pop(name) for name in list(flow) if name in Running.__dataclass_fields__}
    query = compile_query(ON, SCHEMAS, time=TIME)
    return JoinStream(query, SCHEMAS, devices, flow=Flow(running=Running(**running), **flow))


def filled(stream: JoinStream, count: int = 40) -> list[tuple[int, int]]:
    """Push some rows to both sides; what must come out."""
    rng = Random(7)
    rows = {name: [(k, k // 3, rng.randint(0, 2)) for k in range(count)] for name in "ab"}
    for at in range(0, count, 8):
        for name in "ab":
            stream.push(name, batch_of(rows[name][at : at + 8]))
    feeds = [Feed(rows[name], [count], 0) for name in "ab"]
    return time_join(*feeds, 4, 4, lambda x, y: x == y)


def pairs(table) -> list[tuple[int, int]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [("task_evaluations", 0), ("timeout_s", 0.0), ("depth", 0), ("most_failures", 0)],
)
def test_arguments_above_zero(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name} must be (above 0|1 or more), not {value}"):
        Running(**{name: value})


def test_unknown_policy() -> None:
    with pytest.raises(UsageError, match=r"policy is one of round-robin, least-work, not 'luck'"):
        Running(policy="luck")


def test_flow_arguments() -> None:
    with pytest.raises(UsageError, match="latency_s must be 0 or more, not -1"):
        Flow(latency_s=-1)
    with pytest.raises(UsageError, match="memory_bytes must be above 0"):
        Flow(memory_bytes=0)


def test_no_device() -> None:
    with pytest.raises(UsageError, match="at least one device"):
        opened([])


# -- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", ["refused", "error", "short", "outside"])
def test_a_failed_task_runs_elsewhere(cpu: Device, fate: str) -> None:
    bad = FaultyDevice(cpu, lambda: fate)
    with opened([bad, cpu], task_evaluations=64) as stream:
        expected = filled(stream)
        assert sorted(pairs(stream.close())) == expected
        assert stream.failures()
        assert all(name.startswith("faulty") for name in stream.failures())


def test_a_lane_that_always_fails_is_parked(cpu: Device, caplog) -> None:
    caplog.set_level("INFO", "penstock")
    bad = FaultyDevice(cpu, lambda: "error")
    stream = opened([bad, cpu], task_evaluations=64, most_failures=2)
    expected = filled(stream)
    assert stream.parked() == [f"faulty-{cpu.name}-{k}" for k in range(2)]
    for lane in stream.parked():
        assert caplog.text.count(f"lane {lane} is parked") == 1
        assert f"a task on lane {lane} failed" in caplog.text
    assert sorted(pairs(stream.close())) == expected


def test_a_hanging_task_runs_elsewhere_and_its_late_end_counts_for_nothing(cpu: Device) -> None:
    fates = iter(["hang"])
    bad = FaultyDevice(cpu, lambda: next(fates, "ok"))
    stream = opened([bad, cpu], task_evaluations=64, timeout_s=3)
    expected = filled(stream)
    bad.release()
    found = pairs(stream.close())
    assert sorted(found) == expected
    assert stream.parked() == []


def test_no_lane_left(cpu: Device) -> None:
    bad = FaultyDevice(cpu, lambda: "error")
    stream = opened(bad)
    with pytest.raises(DeviceError, match="AXI error"):
        filled(stream)
    with pytest.raises(DeviceError, match="AXI error"):
        stream.push("a", batch_of([(1, 1, 1)]))
    with pytest.raises(DeviceError, match="AXI error"):
        stream.close()


def test_little_device_memory_is_back_pressure(cpu: Device) -> None:
    small = FaultyDevice(cpu, most_rows=2 * 1024)
    with opened(small, task_evaluations=64) as stream:
        expected = filled(stream, 200)
        assert sorted(pairs(stream.close())) == expected
    assert small.rows == 0


@pytest.mark.parametrize("fate", ["ok", "refused", "error", "short", "outside"])
def test_nothing_stays_on_a_device(cpu: Device, fate: str) -> None:
    """Not even the window of a task that failed."""
    numbers = count()
    device = FaultyDevice(cpu, lambda: "ok" if next(numbers) % 3 else fate)
    for _ in range(20):
        with opened(device, task_evaluations=64) as stream:
            filled(stream, 16)
    assert device.rows == 0


# -- order, latency, memory -----------------------------------------------------------------------


@pytest.mark.parametrize("latency_s", [0.0, 0.002])
def test_rows_in_order(cpu: Device, latency_s: float) -> None:
    query = compile_query(ON, SCHEMAS, time=TIME)
    flow = Flow(latency_s=latency_s, running=Running(ordered=True, task_evaluations=16))
    order: list[tuple[str, int]] = []
    with JoinStream(query, SCHEMAS, [cpu, cpu], flow=flow) as stream:
        for at in range(0, 60, 6):
            for name in "ab":
                stream.push(name, batch_of([(k, k // 4, 0) for k in range(at, at + 6)]))
                order += [(name, k) for k in range(at, at + 6)]
        found = pairs(stream.close())
    place = {tuple_: n for n, tuple_ in enumerate(order)}
    keys = [tuple(sorted((place["a", a], place["b", b]), reverse=True)) for a, b in found]
    assert keys == sorted(keys)
    assert len(set(found)) == len(found) > 100


def test_rows_come_without_another_push(cpu: Device) -> None:
    with opened(cpu, latency_s=0.01) as stream:
        stream.push("a", batch_of([(1, 1, 1)]))
        stream.push("b", batch_of([(2, 1, 1)]))
        assert stream.wait(1, timeout_s=30)
        assert pairs(stream.poll()) == [(1, 2)]


def test_beyond_the_memory_budget_push_waits_and_then_raises(cpu: Device, caplog) -> None:
    caplog.set_level("INFO", "penstock")
    with opened(cpu, memory_bytes=4000, push_timeout_s=0.05) as stream:
        rows = [(k, 5, 0) for k in range(50)]

        def push_all() -> None:
            for _ in range(50):
                stream.push("a", batch_of(rows))

        with pytest.raises(OverloadError, match=r"memory budget of 4,000 bytes.*windows"):
            push_all()
        assert "push waits for room for" in caplog.text
        stream.advance("b", 1000)  # frees the window
        stream.push("a", batch_of(rows))


def test_trace(cpu: Device, tmp_path: Path) -> None:
    query = compile_query(ON, SCHEMAS, time=TIME)
    with JoinStream(query, SCHEMAS, cpu, trace=True) as stream:
        filled(stream)
        stream.trace.write(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {"sync", "task", "pairs", "rows", "results"}
    assert {e["name"] for e in events} == {"thread_name", *names}
    assert sum(e["args"].get("evaluations", 0) for e in events) == stream.stats.pairs_evaluated


# -- feeds ----------------------------------------------------------------------------------------


def test_a_source_is_complete_up_to_its_slowest_feed(cpu: Device) -> None:
    stream = opened(cpu)
    stream.register("a", "north")
    stream.register("a", "south")
    stream.push("a", batch_of([(1, 100, 0)]), feed="north")
    stream.push("b", batch_of([(1, 3, 0), (2, 200, 0)]))
    stream.push("a", batch_of([(2, 3, 0)]), feed="south")
    assert pairs(stream.poll()) == [(2, 1)]
    stream.deregister("a", "south")
    stream.push("a", batch_of([(3, 99, 0)]), feed="north")
    assert stream.stats.late["a"] == 1
    with pytest.raises(UsageError, match=r"a has no feed 'south' \(registered: 'north'\)"):
        stream.push("a", batch_of([(4, 200, 0)]), feed="south")
    stream.close()


def test_a_silent_feed_holds_nobody_up_for_long(cpu: Device, caplog) -> None:
    caplog.set_level("INFO", "penstock")
    with opened(cpu, idle_s=0.02, latency_s=0.001) as stream:
        stream.register("b", "north")
        stream.register("b", "south")
        stream.push("a", batch_of([(1, 5, 0)]))
        stream.push("b", batch_of([(1, 100, 0)]), feed="north")
        stream.advance("a", 100)
        assert stream.wait_for(lambda: stream.window_rows <= 1, timeout_s=30)
    assert "b has sent nothing for its idle time" in caplog.text


# -- any interleaving -----------------------------------------------------------------------------


class Joins(RuleBasedStateMachine):
    """Any interleaving of pushes, signals, feeds, cuts, failures and pauses of devices."""

    cpu: CpuDevice

    def __init__(self) -> None:
        super().__init__()
        self.fates: list[str] = []
        self.clock = {"a": 0, "b": 0}
        self.rows: dict[str, list] = {"a": [], "b": []}
        self.found: list[tuple[int, int]] = []
        self.late: dict[str, list[int]] = {"a": [], "b": []}

    @initialize(
        lanes=st.integers(1, 8),
        ordered=st.booleans(),
        policy=st.sampled_from(["round-robin", "least-work"]),
        work=st.sampled_from([1, 7, 1 << 20]),
        latency_s=st.sampled_from([0.0, 0.001]),
        disorder=st.integers(0, 3),
        pruning=st.sampled_from([True, TINY]),
    )
    def open(self, lanes, ordered, policy, work, latency_s, disorder, pruning) -> None:
        self.disorder = disorder
        self.cpu = InterpretingCpu(threads=1)
        self.bad = FaultyDevice(self.cpu, self.fate)
        devices = [self.bad] * (lanes - 1) + [self.cpu]
        running = Running(
            ordered=ordered,
            policy=policy,
            task_evaluations=work,
            timeout_s=20,
            most_failures=2,
            pruning=pruning,
        )
        query = compile_query(ON, SCHEMAS, time=TIME)
        self.stream = JoinStream(
            query,
            SCHEMAS,
            devices,
            disorder=disorder,
            flow=Flow(latency_s=latency_s, running=running),
        )
        self.latency_s = latency_s

    def fate(self) -> str:
        return self.fates.pop() if self.fates else "ok"

    @rule(
        name=st.sampled_from("ab"),
        steps=st.lists(st.tuples(st.integers(-5, 4), st.integers(0, 2)), min_size=1, max_size=6),
    )
    def push(self, name, steps) -> None:
        own = self.rows[name]
        fresh = []
        for step, x in steps:
            time = max(0, self.clock[name] + step)
            self.clock[name] = max(self.clock[name], time)
            fresh.append((len(own), time, x))
            own.append(fresh[-1])
        self.stream.push(name, batch_of(fresh))

    @rule(fates=st.lists(st.sampled_from(["refused", "error", "short", "outside"]), max_size=3))
    def break_tasks(self, fates) -> None:
        self.fates += fates

    @rule()
    def poll(self) -> None:
        self.found += pairs(self.stream.poll())

    @rule()
    def flush(self) -> None:
        self.stream.flush()

    @precondition(lambda self: self.rows["a"])
    @rule(name=st.sampled_from("ab"), back=st.integers(0, 5))
    def signal(self, name, back) -> None:
        # Only what the feed has promised anyway, so that the reference need not know of it.
        self.stream.advance(name, self.clock[name] - self.disorder - back)

    @invariant()
    def late_rows_are_counted(self) -> None:
        if not hasattr(self, "stream"):
            return
        for name, table in self.stream.late().items():
            self.late[name] += table["n"].to_pylist()
        assert {n: len(rows) for n, rows in self.late.items()} == self.stream.stats.late

    def teardown(self) -> None:
        if not hasattr(self, "stream"):
            return
        self.found += pairs(self.stream.close())
        feeds = {n: Feed(rows, [], self.disorder) for n, rows in self.rows.items()}
        assert {n: set(rows) for n, rows in self.late.items()} == {
            n: feed.late() for n, feed in feeds.items()
        }
        expected = time_join(feeds["a"], feeds["b"], 4, 4, lambda x, y: x == y)
        assert sorted(self.found) == expected
        self.cpu.close()


Joins.TestCase.settings = settings(deadline=None, max_examples=examples(40), stateful_step_count=25)
test_any_interleaving = Joins.TestCase
