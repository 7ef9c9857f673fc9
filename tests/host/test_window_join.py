"""One test body for every device that has the window-join operation; the oracle is brute force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from penstock.errors import DeviceError, MissingToolError, UsageError
from penstock.expr import build
from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.device.run_window import run_window_join
from penstock.host.device.window_join import Arrivals, WindowKernel, WindowResult, WindowTask
from penstock.program import GeneralProgram, WindowProgram
from tests.host.kit.arrivals import ORDERS, arrivals, expected
from tests.host.kit.pynq import virtual_window_board
from tests.host.kit.serving import serving_cpu

TIMEOUT_S = 120


@dataclass(frozen=True)
class Subject:
    """A device under test, and tuples of a large task on it."""

    device: Device
    count: int


#: Verilator and a C++ compiler take some ten seconds or more for each of the rtl builds.
SUBJECTS = {
    "cpu": ("cpu", {"threads": 2}, 300),
    "cpu of a server": ("remote", {}, 60),
    "rtl, one bank": ("rtl", {"rows_depth": 16, "banks": 1}, 300),
    "rtl, four banks, slow memory": (
        "rtl",
        {"rows_depth": 32, "banks": 4, "latency_cycles": 9, "stalls": 0.4, "bandwidth": 0.5},
        300,
    ),
    "rtl, two lanes": ("rtl", {"rows_depth": 16, "banks": 1, "lanes": 2}, 300),
    "board": ("board", {"board_name": "zcu104", "depth": 16, "kernels": 2}, 300),
    "board, stalls": (
        "board",
        {"board_name": "pynq-z2", "depth": 32, "banks": 4, "latency_cycles": 9, "stalls": 0.3},
        300,
    ),
    "card": ("board", {"board_name": "u280", "depth": 16}, 300),
}
SLOW = ("rtl, four banks, slow memory", "rtl, two lanes", "board", "board, stalls", "card")


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in SUBJECTS],
)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    name, options, count = SUBJECTS[request.param]
    if name == "remote":
        with serving_cpu() as address, open_device(name, address=address) as device:
            yield Subject(device, count)
        return
    if name == "board":
        with virtual_window_board(**options) as device:
            yield Subject(device, count)
        return
    try:
        device = open_device(name, **options)
    except MissingToolError as cause:
        pytest.skip(str(cause))
    with device:
        yield Subject(device, count)


def opened(subject: Subject, program: WindowProgram, rows: tuple[int, int]) -> WindowKernel:
    assert subject.device.refuses_window_join(program, rows) is None
    return subject.device.open_window_join(program, rows)


def pairs(*results: WindowResult) -> list[tuple[int, int]]:
    return sorted((int(a), int(b)) for r in results for a, b in zip(r.a, r.b, strict=True))


def run_to_end(
    kernel: WindowKernel, tuples: Arrivals, rows: tuple[int, int], room: int
) -> list[WindowResult]:
    """Run a task and what it leaves over, with the whole past as history."""
    results, done = [], 0
    while done < len(tuples):
        result = kernel.submit(WindowTask(tuples, done, rows, room)).result(TIMEOUT_S)
        assert result.done > done
        assert len(result.a) == len(result.b) <= room
        results.append(result)
        done = result.done
    return results


@pytest.mark.parametrize("rows", [(1, 1), (5, 16), (16, 3), (0, 4)])
@pytest.mark.parametrize("kind", ORDERS)
def test_conformance(subject: Subject, kind: str, rows: tuple[int, int]) -> None:
    rng = np.random.default_rng([ORDERS.index(kind), *rows])
    tuples, program = arrivals(rng, subject.count, kind)
    kernel = opened(subject, program, rows)
    (result,) = run_to_end(kernel, tuples, rows, 1 << 16)
    wanted = expected(tuples, program, rows)
    assert pairs(result) == wanted
    assert wanted or kind.startswith("one side")
    start, end = tuples.met(rows)
    assert result.counters["evaluations"] == int((end - start).sum())
    kernel.close()


@pytest.mark.parametrize("seed", range(4))
def test_pauses_between_tuples_and_resumes(subject: Subject, seed: int) -> None:
    """Nothing is lost or repeated, and a result never holds more than its room."""
    rng = np.random.default_rng([seed, 1])
    rows = (int(rng.integers(1, 17)), int(rng.integers(1, 17)))
    tuples, program = arrivals(rng, subject.count, ORDERS[seed % 3], spread=2)
    kernel = opened(subject, program, rows)
    room = kernel.min_room(rows)
    results = run_to_end(kernel, tuples, rows, room)
    assert len(results) > 1
    assert pairs(*results) == expected(tuples, program, rows)
    start, end = tuples.met(rows)
    assert sum(r.counters["evaluations"] for r in results) == int((end - start).sum())
    kernel.close()


@pytest.mark.parametrize("history", [0, 1, 37, 60])
def test_history_is_not_matched(subject: Subject, history: int) -> None:
    rng = np.random.default_rng(history)
    rows = (7, 9)
    tuples, program = arrivals(rng, 60, spread=3)
    kernel = opened(subject, program, rows)
    result = kernel.submit(WindowTask(tuples, history, rows, 1 << 16)).result(TIMEOUT_S)
    assert result.done == 60
    assert pairs(result) == expected(tuples, program, rows, history)
    kernel.close()


@pytest.mark.parametrize("kind", ORDERS)
def test_one_join_as_many_tasks(subject: Subject, kind: str) -> None:
    rng = np.random.default_rng([5, ORDERS.index(kind)])
    rows = (4, 11)
    tuples, program = arrivals(rng, subject.count, kind, spread=3)
    kernel = opened(subject, program, rows)
    results = list(
        run_window_join(
            kernel,
            tuples,
            rows,
            room=kernel.min_room(rows) + 3,
            lanes=subject.device.lanes,
            task_evaluations=1,
            timeout_s=TIMEOUT_S,
        )
    )
    assert len(results) > 3 or kind == "one side only"
    assert pairs(*results) == expected(tuples, program, rows)
    assert sum(r.done for r in results) == subject.count
    kernel.close()


def test_sides_with_different_tests(subject: Subject) -> None:
    (one, first), (two, second) = (arrivals(np.random.default_rng(8), 80, tests=t) for t in (1, 2))
    assert (one.is_b == two.is_b).all()
    tuples = Arrivals(one.is_b, (two.window[0], one.window[1]), (one.stream[0], two.stream[1]))
    program = WindowProgram(first.a, second.b)
    kernel = opened(subject, program, (6, 6))
    results = run_to_end(kernel, tuples, (6, 6), 1 << 16)
    assert pairs(*results) == expected(tuples, program, (6, 6))
    kernel.close()


def test_no_tuples(subject: Subject) -> None:
    tuples, program = arrivals(np.random.default_rng(0), 0)
    kernel = opened(subject, program, (2, 2))
    result = kernel.submit(WindowTask(tuples, 0, (2, 2), 1 << 16)).result(TIMEOUT_S)
    assert (len(result.a), len(result.b), result.done) == (0, 0, 0)
    kernel.close()


@pytest.mark.parametrize("fault", ["history", "negative rows", "a short column", "no room"])
def test_a_bad_task_is_an_error(subject: Subject, fault: str) -> None:
    tuples, program = arrivals(np.random.default_rng(0), 20)
    kernel = opened(subject, program, (3, 3))
    task = WindowTask(tuples, 0, (3, 3), 1 << 16)
    short = ([column[1:] for column in tuples.window[0]], tuples.window[1])
    task = {
        "history": replace(task, history=21),
        "negative rows": replace(task, rows=(3, -1)),
        "a short column": replace(task, tuples=replace(tuples, window=short)),
        "no room": replace(task, room=kernel.min_room((3, 3)) - 1),
    }[fault]
    with pytest.raises(DeviceError):
        kernel.submit(task).result(TIMEOUT_S)
    kernel.close()


def test_bad_arguments(subject: Subject) -> None:
    tuples, program = arrivals(np.random.default_rng(0), 20)
    kernel = opened(subject, program, (3, 3))
    good = {"room": 1 << 16, "lanes": 1}
    for wrong in ({"room": kernel.min_room((3, 3)) - 1}, {"lanes": 0}, {"task_evaluations": 0}):
        with pytest.raises(UsageError):
            list(run_window_join(kernel, tuples, (3, 3), **{**good, **wrong}))
    kernel.close()


def test_refusals(subject: Subject) -> None:
    key = build.key("s", 0, build.const(3).type)
    general = GeneralProgram((key.type,), (key.type,), build.le(key, build.const(2)))
    _, band = arrivals(np.random.default_rng(0), 2)
    general_reason = subject.device.refuses_window_join(WindowProgram(general, band.b), (2, 2))
    deep_reason = subject.device.refuses_window_join(band, (2, 1 << 20))
    if subject.device.name in ("cpu", "remote"):
        assert (general_reason, deep_reason) == (None, None)
        return
    assert "general form" in general_reason
    assert "rows_depth" in deep_reason.replace("-", "_")
    with pytest.raises(DeviceError, match="general form"):
        subject.device.open_window_join(WindowProgram(general, band.b), (2, 2))


@pytest.mark.parametrize("name", ["amaranth", "fjoin"])
def test_devices_without_the_operation(name: str) -> None:
    _, program = arrivals(np.random.default_rng(0), 2)
    try:
        device = open_device(name, units=2)
    except MissingToolError as cause:
        pytest.skip(str(cause))
    with device:
        assert "use the range operator" in str(device.refuses_window_join(program, (2, 2)))
        with pytest.raises(DeviceError, match="cannot do this window join"):
            device.open_window_join(program, (2, 2))
