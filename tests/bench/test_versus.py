"""bench.versus: another revision's packages are the ones that are measured."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
