"""Calls that an exception in their own thread cuts short: a batch is in or it is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Seconds for a run; far more than it takes.
TIMEOUT_S = 300
WAYS = [
    pytest.param(way, latency_s, rows, id=f"{way}-{latency_s:g}-{'rows' if rows else 'time'}")
    for way in ("signal", "thread")
    for latency_s in (0.0, 0.02)
    for rows in (False, True)
]


def interrupted(way: str, latency_s: float, rows: bool, count: int) -> str:
    """Interrupt so many calls in a process of their own; what it says."""
    command = [sys.executable, "-m", "tests.host.kit.interrupting", "--way", way]
    command += ["--latency", str(latency_s), "--count", str(count), *["--rows"] * rows]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("way", "latency_s", "rows"), [WAYS[0], WAYS[3], WAYS[5], WAYS[6]])
def test_rows_are_those_of_the_batches_that_are_in(way, latency_s, rows) -> None:
    assert "all right" in interrupted(way, latency_s, rows, 60)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "latency_s", "rows"), WAYS)
def test_five_hundred_interrupts(way, latency_s, rows) -> None:
    assert "all right" in interrupted(way, latency_s, rows, 500)
