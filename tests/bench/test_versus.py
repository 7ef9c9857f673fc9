"""bench.versus: another revision's packages are the ones that are measured."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.suite import seconds_of, table_figures

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_tree_against_itself():
    if not (ROOT / ".git").exists():
        pytest.skip("needs a checkout by git")
    done = subprocess.run(
        [sys.executable, "-m", "bench.versus", "HEAD", "--rounds", "1"],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    ratios = [float(found) for found in re.findall(r"ratio ([0-9.]+)", done.stdout)]
    assert len(ratios) == 3
    assert all(ratio > 0 for ratio in ratios)


@pytest.mark.parametrize(
    ("what", "measured", "seconds"),
    [
        ("a, 16 units: tuples/s at p99 <= 3 ms", "1,250 (load 80%), p99 31 ms", 8e-4),
        ("pushes", "p50 0.31, p99 0.82 ms", 8.2e-4),
        ("one worker", "4.0 M rows/s folded: 1.2x a loop by hand", 2.5e-7),
        ("64 KiB", "12.5 GB/s", 8e-11),
        ("look-ups", "1.20x by CPU time; 500 k and 400 k rows per CPU second", 2e-6),
        ("window", "2.5e+09 evaluations/s: 3x", 4e-10),
        ("hits", "0.340", None),
        ("bounded", "at none of the loads", None),
    ],
)
def test_a_row_becomes_seconds(what: str, measured: str, seconds: float | None):
    assert seconds_of(what, measured) == (seconds and pytest.approx(seconds))


def test_a_printed_table_has_the_rates_of_penstock():
    text = """
 (a) 1,024 x 131,072 tuples
┃ contender         ┃ G evaluations/s ┃ over the fastest C loop ┃
│ Penstock, 1 core  │            4.00 │                    1.66 │
│ C branch band     │            0.31 │                    0.11 │
 (c) rate against selectivity
┃    selectivity ┃ 1 core, G/s ┃ fastest C, G/s ┃ ratio ┃
│ 1e-9 (0.0e+00) │        2.00 │           3.89 │  0.60 │
"""
    assert table_figures(text) == {
        "(a) Penstock, 1 core: G evaluations/s": pytest.approx(2.5e-10),
        "(c) 1e-9: 1 core, G/s": pytest.approx(5e-10),
    }
