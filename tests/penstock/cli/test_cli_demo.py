"""``penstock demo``: its slice fills the simulated pipeline, and its table says what was done."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.cli.demo import _seconds, _slice


def table(count: int, seconds: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, seconds * 10**6, count))
    vehicle = rng.integers(0, 1000, count)
    return pa.table({"ts": pa.array(at, pa.timestamp("us")), "vehicle": vehicle})


@pytest.mark.parametrize(("window", "units"), [(180, 32), (60, 16), (10, 8)])
def test_orders_of_the_slice_nearly_fill_the_units(window, units):
    part = _slice({"orders": table(9_000, 3600, 1), "gps": table(99_000, 3600, 2)}, units, window)
    orders, gps = _seconds(part["orders"]), _seconds(part["gps"])
    middle = gps[(gps > 2 * window) & (gps < 6 * window)]
    busy = [int(np.sum(abs(orders - one) <= window)) for one in middle]
    assert 0.75 * units <= np.mean(busy) <= 1.15 * units
    assert 1000 <= len(gps) <= 4000


@pytest.mark.parametrize("counts", [(0, 0), (0, 9), (1, 1), (3, 0)])
@pytest.mark.parametrize("window", [0, 5])
def test_a_slice_of_little(counts, window):
    tables = {name: table(n, 9, 1) for name, n in zip(("orders", "gps"), counts, strict=True)}
    part = _slice(tables, 4, window)
    assert part["orders"].num_rows <= counts[0]
    assert part["gps"].num_rows <= counts[1]


@pytest.mark.slow
def test_the_demo(program, tmp_path):
    for package in ("pyspark", "amaranth", "matplotlib"):
        pytest.importorskip(package)
    run = program("demo", "--out", tmp_path, "--seconds", "60", "--units", "4")
    out, err = run.communicate(timeout=600)
    assert run.returncode == 0, err
    assert "pairs in window" in out
    assert out.count("cpu, from ") == 2
    assert "Rows agree everywhere." in out
    assert (tmp_path / "demo.png").stat().st_size > 50_000
