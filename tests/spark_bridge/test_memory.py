"""A lane whose pairs are larger than the memory that it gets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

# A Java of its own, with little memory.
PROGRAM = """
from bench.spark import runs
runs.MEMORY = "512m"
spark = runs.session(1)
found = runs.many_pairs(spark, 5000, 8)
print("BYTES", int(found.pair_bytes), found.worker_bytes)
spark.stop()
"""


@pytest.mark.slow
def test_pairs_that_do_not_fit_in_memory():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("BYTES")]
    assert said, done.stderr[-4000:]
    pair_bytes, worker_bytes = map(int, said[0].split()[1:])
    # Three times the heap of Java, and more than a worker ever has.
    assert pair_bytes == 8 * 8 * 5000 * 5000
    assert 0 < worker_bytes < 1 << 30
