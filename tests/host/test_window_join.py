"""One test body for every device that has the window-join operation; the oracle is brute force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from penstock.errors import DeviceError, MissingToolError
from penstock.expr import ops
from penstock.host.device.base import Device, Kernel, Pause, Result
from penstock.host.device.registry import open_device
from penstock.host.device.window_join import Arrivals, WindowTask
from penstock.host.execute import room
from penstock.program import GeneralProgram, Mode, WindowProgram
from tests.host.kit.arrivals import ORDERS, arrivals, expected, pairs_of, pulled
from tests.host.kit.pynq import virtual_window_board
from tests.host.kit.serving import serving_cpu
from tests.kit.effort import effort

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
    "rtl, two lanes": ("rtl", {"rows_depth": 16, "banks": 1, "lanes": 2, "word_bits": 64}, 300),
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


def opened(subject: Subject, program: WindowProgram) -> Kernel:
    assert subject.device.refuses(program) is None
    return subject.device.open(program)


def pairs(*results: Result) -> list[tuple[int, int]]:
    return sorted((int(a), int(b)) for r in results for a, b in zip(r.i, r.j, strict=True))


def run_to_end(kernel: Kernel, tuples: Arrivals, room: int) -> list[Result]:
    """Run a task and what it leaves over, with the whole past as history."""
    results, done = [], 0
    while done < len(tuples):
        result = kernel.submit(None, WindowTask(tuples, done, room)).result(TIMEOUT_S)
        before, done = done, len(tuples)
        if result.pause is not None:
            done = result.pause.i0
            assert result.pause == Pause(done, done, 0)
        assert done > before
        assert len(result.i) == len(result.j) <= room
        results.append(result)
    return results


@pytest.mark.parametrize("rows", [(1, 1), (5, 16), (16, 3), (0, 4)])
@pytest.mark.parametrize("kind", ORDERS)
def test_conformance(subject: Subject, kind: str, rows: tuple[int, int]) -> None:
    rng = np.random.default_rng([ORDERS.index(kind), *rows])
    tuples, program = arrivals(rng, subject.count, kind, rows=rows)
    kernel = opened(subject, program)
    (result,) = run_to_end(kernel, tuples, 1 << 16)
    wanted = expected(tuples, program)
    assert pairs(result) == wanted
    assert wanted or kind.startswith("one side")
    start, end = tuples.met(rows)
    assert result.counters["evaluations"] == int((end - start).sum())
    kernel.close()


@pytest.mark.parametrize("seed", range(effort(4, 2)))
def test_pauses_between_tuples_and_resumes(subject: Subject, seed: int) -> None:
    """Nothing is lost or repeated, and a result never holds more than its room."""
    rng = np.random.default_rng([seed, 1])
    rows = (int(rng.integers(1, 17)), int(rng.integers(1, 17)))
    tuples, program = arrivals(rng, subject.count, ORDERS[seed % 3], spread=2, rows=rows)
    kernel = opened(subject, program)
    results = run_to_end(kernel, tuples, kernel.min_room)
    assert len(results) > 1
    assert pairs(*results) == expected(tuples, program)
    start, end = tuples.met(rows)
    assert sum(r.counters["evaluations"] for r in results) == int((end - start).sum())
    kernel.close()


@pytest.mark.parametrize("history", [0, 1, 37, 60])
def test_history_is_not_matched(subject: Subject, history: int) -> None:
    rng = np.random.default_rng(history)
    tuples, program = arrivals(rng, 60, spread=3, rows=(7, 9))
    kernel = opened(subject, program)
    result = kernel.submit(None, WindowTask(tuples, history, 1 << 16)).result(TIMEOUT_S)
    assert result.pause is None
    assert pairs(result) == expected(tuples, program, history)
    kernel.close()


@pytest.mark.parametrize("kind", ORDERS)
def test_one_join_as_many_tasks(
    subject: Subject, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng([5, ORDERS.index(kind)])
    rows = (4, 11)
    tuples, program = arrivals(rng, subject.count, kind, spread=3, rows=rows)
    # Then a task has the least room that its kernel takes.
    monkeypatch.setattr(room, "FIRST", 1)
    monkeypatch.setattr(room, "MOST", 1)
    chunks = pulled(subject.device, tuples, program, most=1)
    assert len(chunks) > 3 or kind == "one side only"
    assert any(chunk.remaining for chunk in chunks) or kind == "one side only"
    assert pairs_of(chunks) == expected(tuples, program)
    start, end = tuples.met(rows)
    results = [result for chunk in chunks for result in chunk.results]
    assert sum(r.counters["evaluations"] for r in results) == int((end - start).sum())


def test_sides_with_different_tests(subject: Subject) -> None:
    (one, first), (two, second) = (arrivals(np.random.default_rng(8), 80, tests=t) for t in (1, 2))
    assert (one.is_b == two.is_b).all()
    tuples = Arrivals(one.is_b, (two.window[0], one.window[1]), (one.stream[0], two.stream[1]))
    program = WindowProgram(first.a, second.b, (6, 6))
    kernel = opened(subject, program)
    results = run_to_end(kernel, tuples, 1 << 16)
    assert pairs(*results) == expected(tuples, program)
    kernel.close()


def test_no_tuples(subject: Subject) -> None:
    tuples, program = arrivals(np.random.default_rng(0), 0)
    kernel = opened(subject, program)
    result = kernel.submit(None, WindowTask(tuples, 0, 1 << 16)).result(TIMEOUT_S)
    assert (len(result.i), len(result.j), result.pause) == (0, 0, None)
    kernel.close()


@pytest.mark.parametrize("fault", ["history", "a column less", "a short column", "no room"])
def test_a_bad_task_is_an_error(subject: Subject, fault: str) -> None:
    tuples, program = arrivals(np.random.default_rng(0), 20)
    kernel = opened(subject, program)
    task = WindowTask(tuples, 0, 1 << 16)
    fewer = (tuples.stream[0], tuples.stream[1][1:])
    short = ([column[1:] for column in tuples.window[0]], tuples.window[1])
    task = {
        "history": replace(task, history=21),
        "a column less": replace(task, tuples=replace(tuples, stream=fewer)),
        "a short column": replace(task, tuples=replace(tuples, window=short)),
        "no room": replace(task, room=kernel.min_room - 1),
    }[fault]
    with pytest.raises(DeviceError):
        kernel.submit(None, task).result(TIMEOUT_S)
    kernel.close()


def test_refusals(subject: Subject) -> None:
    key = ops.key("s", 0, ops.const(3).type)
    general = GeneralProgram((key.type,), (key.type,), ops.le(key, ops.const(2)))
    _, band = arrivals(np.random.default_rng(0), 2)
    general_reason = subject.device.refuses(replace(band, a=general))
    deep_reason = subject.device.refuses(replace(band, rows=(2, 1 << 20)))
    assert subject.device.refuses(band, frozenset({Mode.COUNT})) is not None
    if subject.device.name in ("cpu", "remote"):
        assert (general_reason, deep_reason) == (None, None)
        return
    assert "general form" in general_reason
    assert "rows_depth" in deep_reason.replace("-", "_")
    with pytest.raises(DeviceError, match="general form"):
        subject.device.open(replace(band, a=general))


@pytest.mark.parametrize("name", ["amaranth", "fjoin"])
def test_devices_without_the_operation(name: str) -> None:
    _, program = arrivals(np.random.default_rng(0), 2)
    try:
        device = open_device(name, units=2)
    except MissingToolError as cause:
        pytest.skip(str(cause))
    with device:
        assert "use the range operator" in str(device.refuses(program))
        with pytest.raises(DeviceError, match="cannot run this program"):
            device.open(program)


def test_rows_are_not_negative() -> None:
    _, program = arrivals(np.random.default_rng(0), 2)
    with pytest.raises(DeviceError, match="windows cannot have 3 and -1 rows"):
        replace(program, rows=(3, -1))


def test_a_kernel_of_a_window_join_has_no_windows(subject: Subject) -> None:
    _, program = arrivals(np.random.default_rng(0), 2)
    kernel = opened(subject, program)
    with pytest.raises(DeviceError, match="allocate none for them"):
        kernel.allocate(3)
    kernel.close()
