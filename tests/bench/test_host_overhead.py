"""The overhead of a task, from the spans of a lane."""

from __future__ import annotations

import pytest

from bench.host.overhead import gaps, hidden_share, measure, overheads
from penstock.host.devices.cpu import CpuDevice
from penstock.host.execute.trace import Trace


def test_what_is_left_of_a_task_beyond_device_and_copies() -> None:
    trace = Trace(True)
    for order, at in enumerate((100.0, 200.0)):
        trace.add("lane", "sync", at + 0.5, at + 1.5, order=order, waited_s=0.5)
        trace.add("lane device", "task", at + 2, at + 7, order=order)
        trace.add("lane", "pairs", at + 7.5, at + 8, order=order)
        trace.add("lane", "rows", at + 8.5, at + 10)
        trace.add("lane", "results", at + 7.5, at + 10.25, order=order)
    for one in overheads(trace.spans):
        assert one.device_s == pytest.approx(5)
        assert one.copies_s == pytest.approx(1 + 0.5 + 1.5)
        assert one.overhead_s == pytest.approx(0.5 + 0.5 + 0.5 + 0.5 + 0.25)


def test_copies_of_the_order_before_are_no_overhead() -> None:
    trace = Trace(True)
    trace.add("lane", "pairs", 1.0, 2.0, order=0)
    trace.add("lane", "rows", 2.0, 4.0)
    # Asked for at 3, while the rows of the order before were being made.
    trace.add("lane", "sync", 4.5, 5.0, order=1, waited_s=1.5)
    trace.add("lane device", "task", 5.0, 9.0, order=1)
    trace.add("lane", "pairs", 9.0, 9.5, order=1)
    trace.add("lane", "results", 9.0, 10.0, order=1)
    (found,) = overheads(trace.spans)
    assert found.overhead_s == pytest.approx(0.5 + 0.5)


def test_what_is_hidden_behind_tasks() -> None:
    trace = Trace(True)
    trace.add("lane", "sync", 0.0, 1.0, order=0, waited_s=0)
    trace.add("lane device", "task", 1.0, 5.0, order=0)
    trace.add("lane", "sync", 2.0, 3.0, order=1, waited_s=0)
    trace.add("lane device", "task", 4.9, 9.0, order=1)
    trace.add("lane", "pairs", 4.5, 5.5, order=0)
    trace.add("lane", "rows", 8.5, 9.5)
    trace.add("other", "rows", 20.0, 20.5)
    assert hidden_share(trace.spans) == pytest.approx((1 + 1 + 0.5) / 4.5)


def test_what_a_device_waits_between_tasks() -> None:
    trace = Trace(True)
    for began, ended in ((0.0, 4.0), (0.5, 3.0), (3.25, 5.0), (4.75, 6.0), (5.0, 7.0)):
        trace.add("lane device", "task", began, ended)
    trace.add("lane", "sync", 0.0, 9.0)
    assert gaps(trace.spans, lanes=2) == pytest.approx([0.25, 0.75, 0.0])
    # Tasks that follow each other on a device with room for more say nothing.
    assert gaps(trace.spans, lanes=6) == []


def test_every_long_task_of_a_join_is_found() -> None:
    with CpuDevice(threads=1) as device:
        # The tasks take ten milliseconds here, and less on a faster core.
        found = measure(
            device, window_tuples=1 << 17, stream_tuples=1 << 13, batches=1, least_s=1e-4
        )
    assert found
    assert all(one.device_s >= 1e-4 and one.overhead_s > 0 for one in found)
