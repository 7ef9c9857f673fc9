"""Calls that an exception in their own thread cuts short: a batch is in or it is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Seconds for a run; far more than it takes.
TIMEOUT_S = 300
WAYS = [
    pytest.param(way, latency_s, kind, id=f"{way}-{latency_s:g}-{kind}")
    for way in ("signal", "thread")
    for latency_s in (0.0, 0.02)
    for kind in ("time", "rows", "groups")
]


def interrupted(way: str, latency_s: float, kind: str, count: int) -> str:
    """Interrupt so many calls in a process of their own; what it says."""
    command = [sys.executable, "-m", "tests.host.kit.interrupting", "--way", way]
    command += ["--latency", str(latency_s), "--count", str(count), "--kind", kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("way", "latency_s", "kind"), [WAYS[0], WAYS[4], WAYS[5], WAYS[7], WAYS[8], WAYS[9]]
)
def test_rows_are_those_of_the_batches_that_are_in(way, latency_s, kind) -> None:
    assert "all right" in interrupted(way, latency_s, kind, 60)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "latency_s", "kind"), WAYS)
def test_five_hundred_interrupts(way, latency_s, kind) -> None:
    assert "all right" in interrupted(way, latency_s, kind, 500)
