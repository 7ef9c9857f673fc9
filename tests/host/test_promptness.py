"""The switch interval while streams with a latency target are open, and threads that compute."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator

import pytest

from penstock.host.execute import promptness
from penstock.host.join.stream import Flow, JoinStream
from penstock.query import compile_query
from tests.host.test_session import ON, SCHEMAS, TIME
from tests.penstock.kit.devices import InterpretingCpu


@pytest.fixture(autouse=True)
def interval() -> Iterator[float]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    yield 0.004
    sys.setswitchinterval(before)


def now() -> object:
    """The interval, which the interpreter keeps in whole microseconds."""
    return pytest.approx(sys.getswitchinterval(), rel=0.01)


def test_the_smallest_target_counts_until_the_last_is_gone(interval: float) -> None:
    slow, fast = promptness.hold(0.1), promptness.hold(0.02)
    assert now() == 0.02 * promptness.SHARE
    fast()
    assert now() == 0.1 * promptness.SHARE
    slow()
    assert now() == interval


@pytest.mark.parametrize(("latency_s", "expected"), [(1e-6, promptness.LEAST_S), (10.0, 0.004)])
def test_it_has_bounds(latency_s: float, expected: float) -> None:
    end = promptness.hold(latency_s)
    assert now() == expected
    end()


def test_what_is_shorter_anyway_stays() -> None:
    sys.setswitchinterval(20e-6)
    end = promptness.hold(0.02)
    assert now() == 20e-6
    end()
    assert now() == 20e-6


def test_streams_with_a_target_hold_it(interval: float) -> None:
    query = compile_query(ON, SCHEMAS, time=TIME)
    with InterpretingCpu(threads=1) as cpu:
        with JoinStream(query, SCHEMAS, cpu):
            assert now() == interval
        with JoinStream(query, SCHEMAS, cpu, flow=Flow(latency_s=0.02)):
            assert now() == 0.02 * promptness.SHARE
        assert now() == interval


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this policy")
def test_threads_of_the_cpu_device_only_compute() -> None:
    found = []
    thread = threading.Thread(
        target=lambda: (promptness.only_computes(), found.append(os.sched_getscheduler(0)))
    )
    thread.start()
    thread.join(10)
    assert found == [os.SCHED_BATCH]
    assert os.sched_getscheduler(0) != os.SCHED_BATCH


@pytest.mark.skipif(sys.platform != "linux", reason="slices are Linux's")
def test_short_slices_leave_niceness_and_policy_as_they_are() -> None:
    found = []

    def run() -> None:
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + 3)
        promptness.only_computes()
        before = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
        promptness.run_in_short_slices()
        found.append((before, (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    ((before, after),) = found
    assert after == before
