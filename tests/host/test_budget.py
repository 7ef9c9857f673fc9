"""The memory budget: rows wait for their part of it, results have one of their own."""

from __future__ import annotations

import threading

import pytest

from penstock.errors import OverloadError
from penstock.host.execute.budget import RESULTS, Budget


def test_rows_leave_a_part_to_results() -> None:
    budget = Budget(1000)
    budget.set("windows", 700)
    budget.wait_for(50, 0.01)
    with pytest.raises(OverloadError, match=r"51 more bytes.*25% are kept for results.*700"):
        budget.wait_for(51, 0.01)
    budget.add(RESULTS, 250)
    assert not budget.results_full
    budget.wait_for(50, 0.01)
    budget.add(RESULTS, 1)
    assert budget.results_full
    with pytest.raises(OverloadError):
        budget.wait_for(50, 0.01)


def test_waiting_ends_when_there_is_room() -> None:
    budget = Budget(1000)
    budget.set("windows", 750)
    threading.Timer(0.05, budget.set, ["windows", 500]).start()
    budget.wait_for(250, 30)
    assert budget.highest == 750


def test_no_limit() -> None:
    budget = Budget(None)
    budget.set("windows", 1 << 60)
    budget.wait_for(1 << 60, 0.01)
    assert not budget.results_full
