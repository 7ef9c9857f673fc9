"""Windows longer than a bank of the device's memory lie in several, and give the same rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import DeviceError
from penstock.host.devices.cpu import CpuDevice
from tests.host.kit.banked import Banked

#: Positions of a bank: no multiple of anything that the host rounds to.
BANK = 37
RANGE = "r.x BETWEEN s.x - 40 AND s.x + 40 AND r.t BETWEEN s.t - 300 AND s.t + 50"
QUERIES = {
    "pairs": f"SELECT s.id AS a, r.id AS b FROM s JOIN r ON {RANGE}",
    "left": f"SELECT s.id AS a, r.id AS b FROM s LEFT JOIN r ON {RANGE}",
    "anti": f"SELECT s.id AS a FROM s ANTI JOIN r ON {RANGE}",
    "folds": f"""SELECT s.id AS a, count(*) AS n, min(r.x) AS low, sum(r.x) AS total
        FROM s JOIN r ON {RANGE} GROUP BY s.id""",
}


def tables(seed: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)

    def made(rows: int) -> pa.Table:
        times = np.sort(rng.integers(0, 2000, rows))
        return pa.table({"id": np.arange(rows), "t": times, "x": rng.integers(0, 1000, rows)})

    return {"s": made(400), "r": made(1500)}


def ordered(found: pa.Table) -> pa.Table:
    return found.sort_by([(name, "ascending") for name in found.column_names])


@pytest.fixture
def device() -> Iterator[Banked]:
    with CpuDevice(threads=2) as cpu, Banked(cpu, [BANK] * 200, BANK) as banked:
        yield banked


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("pruning", [False, penstock.Pruning(always=True)])
def test_tables(device: Banked, name: str, pruning: bool | penstock.Pruning) -> None:
    sides, time = tables(1), {"s": "t", "r": "t"}
    found = penstock.sql(QUERIES[name], sides, time=time, device=device, pruning=pruning)
    right = penstock.sql(QUERIES[name], sides, time=time, pruning=False)
    assert len(right)
    assert ordered(found) == ordered(right)


@pytest.mark.parametrize("seed", range(4))
def test_streams(device: Banked, seed: int) -> None:
    sides, time = tables(seed), {"s": "t", "r": "t"}
    schemas = {name: side.schema for name, side in sides.items()}
    query = QUERIES["pairs"]
    with penstock.stream(query, schemas, time=time, device=device) as stream:
        for at in range(0, 2000, 150):
            for name, side in sides.items():
                times = side["t"].to_numpy()
                low, high = np.searchsorted(times, [at, at + 150])
                if high > low:
                    stream.push(name, side.slice(low, high - low))
        found = stream.close()
    assert ordered(found) == ordered(penstock.sql(query, sides, time=time))


def test_a_window_that_fits_no_banks_is_refused_and_gives_all_back() -> None:
    with CpuDevice(threads=1) as cpu, Banked(cpu, [BANK] * 3, BANK) as device:
        with pytest.raises(DeviceError, match="is full"):
            penstock.sql(QUERIES["pairs"], tables(1), time={"s": "t", "r": "t"}, device=device)
        assert not +device.used
