"""Generated kernels as modules: one for each source, and no more than are used or were of late."""

from __future__ import annotations

import gc
import sys
import threading
from weakref import ref

import pytest

from penstock.host.devices.cpu import codegen
from penstock.host.devices.cpu.codegen import load_source

SOURCE = """
from numba import njit
@njit(nogil=True)
def part(x):
    return x + {0}
@njit(nogil=True)
def run(x):
    return part(x) * 2
@njit(nogil=True)
def search(x):
    return part(x) * 3
"""


@pytest.fixture(autouse=True)
def two_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codegen, "MOST_IDLE", 2)
    codegen._latest.clear()


def modules() -> set[str]:
    gc.collect()
    return modules_now()


def test_a_source_is_loaded_once() -> None:
    assert load_source(SOURCE.format(1)) is load_source(SOURCE.format(1))
    assert load_source(SOURCE.format(1)) is not load_source(SOURCE.format(2))


def test_what_nobody_uses_is_forgotten_with_its_code() -> None:
    before = modules()
    first = load_source(SOURCE.format(10))
    assert first.run(1) == 22
    assert first.search(1) == 33
    compiled = ref(first.run), ref(first.search)
    del first
    for number in (11, 12, 13):
        assert load_source(SOURCE.format(number)).run(1) == 2 * (1 + number)
    assert len(modules() - before) == 2
    assert [code() for code in compiled] == [None, None]


def test_what_is_used_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    used = load_source(SOURCE.format(20))
    assert used.run(1) == 42
    for number in (21, 22, 23):
        load_source(SOURCE.format(number))
    assert load_source(SOURCE.format(20)) is used
    # Another form of it can still be compiled.
    assert used.run(1.5) == 43.0


def test_a_source_that_cannot_be_loaded_leaves_nothing() -> None:
    before = modules()
    with pytest.raises(ZeroDivisionError):
        load_source("1 / 0")
    assert modules() == before


def test_a_source_that_goes_in_any_thread_waits_for_nothing() -> None:
    """A collection may begin where another thread holds the lock and waits for this one."""
    gone = load_source(SOURCE.format(30))
    cycle: list[object] = [gone]
    cycle.append(cycle)
    for number in (31, 32):
        load_source(SOURCE.format(number))
    del gone, cycle
    before = modules_now()
    with codegen._lock:
        collecting = threading.Thread(target=gc.collect)
        collecting.start()
        collecting.join(30)
        assert not collecting.is_alive()
    load_source(SOURCE.format(32))
    assert len(modules_now()) == len(before) - 1


def modules_now() -> set[str]:
    return {name for name in sys.modules if name.startswith("penstock_kernel_")}
