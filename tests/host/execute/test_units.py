"""The width of units is chosen by how many of the pairs that they find are expected to be false."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.host.device.base import PAIRS, Kernel
from penstock.host.device.wrapped import WrappedDevice
from penstock.host.devices.cpu import CpuDevice
from penstock.host.devices.narrow.kernel import open_narrow
from penstock.host.execute.units import modes_for, widths_to_choose
from penstock.host.join.table.table_join import TableJoin
from penstock.program import BandProgram, GeneralProgram, Mode
from penstock.query.compiler import compile_query
from tests.host.kit.banked import Banked
from tests.host.kit.narrow_device import NarrowDevice

TIME = {"r": "t", "s": "t"}
NEAR = "s.t BETWEEN r.t - 400 AND r.t + 400"


class Choosing(WrappedDevice):
    """A device that has units of every width, and notes which were asked for."""

    def __init__(self, inner, widths=(16, 24)) -> None:
        super().__init__(inner)
        self.searches, self.narrow_widths = False, widths
        self.asked: list[int | None] = []

    def open(self, program, modes=PAIRS) -> Kernel:
        if not isinstance(program, BandProgram):
            return super().open(program, modes)
        bits = program.unit_bits
        self.asked.append(bits)
        if bits is None:
            return super().open(program, modes)
        return open_narrow(program, bits, self.inner.open, lambda counters: None)


def tables(rows: int, most: int, seed: int = 1) -> dict[str, pa.Table]:
    """Tables with a key of any of ``most`` values, beside NULL."""
    rng = np.random.default_rng(seed)

    def made() -> pa.Table:
        key = rng.integers(0, most, rows)
        return pa.table(
            {
                "id": np.arange(rows),
                "t": np.sort(rng.integers(0, 2 * rows, rows)),
                "x": pa.array(key, mask=rng.random(rows) < 0.05),
                "y": rng.integers(0, most, rows),
            }
        )

    return {"r": made(), "s": made()}


def joined(text: str, sides: dict[str, pa.Table], device) -> tuple[pa.Table, TableJoin]:
    schemas = {name: side.schema for name, side in sides.items()}
    join = TableJoin(compile_query(text, schemas, time=TIME), sides, device, pruning=None)
    found = pa.Table.from_batches(list(join), schema=join.schema)
    return found.sort_by([(name, "ascending") for name in found.column_names]), join


def near(reach: int) -> str:
    return f"""SELECT r.id AS r, s.id AS s FROM r JOIN s ON {NEAR}
        AND s.x BETWEEN r.x - {reach} AND r.x + {reach}"""


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuDevice]:
    with CpuDevice(1) as device:
        yield device


@pytest.mark.parametrize(
    ("rows", "most", "reach", "bits"),
    [
        (3_000, 1 << 31, 1 << 24, 16),  # fewer rows than narrow codes
        (200_000, 1 << 31, 0, 24),  # hardly a match, and three rows to a code of 16 bits
        (200_000, 1 << 31, 1 << 26, 16),  # many matches, of which few are at the bounds
    ],
)
def test_few_false_pairs_are_expected(
    cpu: CpuDevice, rows: int, most: int, reach: int, bits: int
) -> None:
    device, sides = Choosing(cpu), tables(rows, most)
    if reach == 0:  # keys of the other side, so that some match
        keys = sides["r"]["x"].fill_null(0).to_numpy() + np.where(np.arange(rows) % 2, 1, 0)
        sides["s"] = sides["s"].set_column(2, "x", pa.array(keys))
        sides["s"] = sides["s"].set_column(1, "t", sides["r"]["t"])
    found, join = joined(near(reach), sides, device)
    wanted, _ = joined(near(reach), sides, cpu)
    assert device.asked == [bits]
    assert found.equals(wanted)
    counters = join.stats.counters
    assert counters["narrow_bits"] == bits
    assert counters["narrow_pairs"] == found.num_rows + counters["false_pairs"]
    assert 10 * counters["false_pairs"] <= counters["narrow_pairs"]


def test_full_width_where_no_narrow_units_do(cpu: CpuDevice) -> None:
    device = Choosing(cpu, (2, 3))
    found, join = joined(near(1 << 24), tables(3_000, 1 << 31), device)
    assert found.num_rows
    assert device.asked == [None]
    assert "narrow_bits" not in join.stats.counters


def test_what_is_to_choose(cpu: CpuDevice) -> None:
    wide, narrow = BandProgram(1, 2, 32), BandProgram(1, 2, 16)
    one, several = NarrowDevice(cpu, 16), Choosing(cpu)
    assert widths_to_choose([several], wide, [Mode.PAIRS]) == {16, 24}
    assert widths_to_choose([several, one], narrow, [Mode.PAIRS]) == set()
    assert widths_to_choose([one, cpu], wide, [Mode.PAIRS]) == set()
    assert widths_to_choose([several], wide, [Mode.COUNT]) == set()
    assert widths_to_choose([several], GeneralProgram((), (), None), [Mode.PAIRS]) == set()  # pyright: ignore


def test_whether_rows_match_is_told_by_pairs_where_units_are_narrow(cpu: CpuDevice) -> None:
    wide, narrow = BandProgram(1, 2, 32), BandProgram(1, 2, 16)
    one, asked = NarrowDevice(cpu, 16), (Mode.EXISTS,)
    assert modes_for([one], wide, asked) == (Mode.PAIRS,)
    assert modes_for([cpu, one], wide, asked) == (Mode.PAIRS,)
    for devices, program in (([one], narrow), ([cpu], wide), ([Choosing(cpu)], wide)):
        assert modes_for(devices, program, asked) == asked
    assert modes_for([one], wide, (Mode.COUNT,)) == (Mode.COUNT,)


# -- whole joins on units of few bits -------------------------------------------------------------

SELECTS = {
    "pairs": "SELECT r.id AS a, s.id AS b FROM r JOIN s",
    "left": "SELECT r.id AS a, s.id AS b FROM r LEFT JOIN s",
    "full": "SELECT r.id AS a, s.id AS b FROM r FULL JOIN s",
    "semi": "SELECT r.id AS a FROM r SEMI JOIN s",
    "anti": "SELECT r.id AS a FROM r ANTI JOIN s",
}
#: A range of keys, one of two tests, and a test that is one of its own.
CONDITION = """ON s.t BETWEEN r.t - 90 AND r.t + 90 AND s.x BETWEEN r.x - 99999 AND r.x + 99999
    AND (s.y > r.y OR s.x = r.x)"""


@pytest.fixture(params=["one buffer", "several buffers"])
def units(request: pytest.FixtureRequest) -> Iterator[NarrowDevice]:
    """Units of 5 bits."""
    bank = 41
    device = CpuDevice(threads=2)
    inner = Banked(device, [bank] * 300, bank) if request.param == "several buffers" else device
    with NarrowDevice(inner, 5) as narrow:
        yield narrow
    device.close()


@pytest.mark.parametrize("kind", SELECTS)
@pytest.mark.parametrize("pruning", [False, penstock.Pruning(always=True)])
def test_tables(
    units: NarrowDevice, cpu: CpuDevice, kind: str, pruning: bool | penstock.Pruning
) -> None:
    sides, text = tables(700, 1 << 20, seed=3), f"{SELECTS[kind]} {CONDITION}"
    found = penstock.sql(text, sides, time=TIME, device=units, pruning=pruning)
    wanted = penstock.sql(text, sides, time=TIME, device=cpu, pruning=False)
    names = [(name, "ascending") for name in wanted.column_names]
    assert len(wanted)
    assert found.sort_by(names) == wanted.sort_by(names)
    assert units.counters()["false_pairs"]


@pytest.mark.parametrize("kind", SELECTS)
@pytest.mark.parametrize("seed", range(2))
def test_streams(units: NarrowDevice, cpu: CpuDevice, kind: str, seed: int) -> None:
    sides, text = tables(900, 1 << 20, seed), f"{SELECTS[kind]} {CONDITION}"
    schemas = {name: side.schema for name, side in sides.items()}
    with penstock.stream(text, schemas, time=TIME, device=units) as stream:
        for at in range(0, 1800, 120):
            for name, side in sides.items():
                low, high = np.searchsorted(side["t"].to_numpy(), [at, at + 120])
                if high > low:
                    stream.push(name, side.slice(low, high - low))
        found = stream.close()
    wanted = penstock.sql(text, sides, time=TIME, device=cpu)
    names = [(name, "ascending") for name in wanted.column_names]
    assert found.sort_by(names) == wanted.sort_by(names)
    assert units.counters()["false_pairs"]


def test_folds_of_wide_codes_are_refused(units: NarrowDevice) -> None:
    text = f"SELECT r.id, count(*) AS n FROM r JOIN s {CONDITION} GROUP BY r.id"
    with pytest.raises(penstock.PenstockError, match=r"5 bits.*need exact codes"):
        penstock.sql(text, tables(60, 1 << 20), time=TIME, device=units)
