"""The report on boards: its model against counts that it was not fitted to, and its page."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from bench.boards.counts import Counts, _hardware
from bench.boards.largest import largest_join, largest_window
from bench.boards.memory import WindowMemory
from bench.boards.power import dynamic_w
from bench.boards.report import PAGE, SHARES, tables, written
from bench.boards.sizes import (
    RAMS_OFF,
    TOLERANCE,
    WINDOW_TEST,
    JoinSizes,
    WindowSizes,
    builds,
    errors,
    queue_rams,
    queue_urams,
)
from penstock.constraints.boards import BOARDS
from penstock.hw.cells import Cells
from tests.hw.kit import needs_yosys

#: Reads what was counted; where the hardware has changed since, counts again for minutes.
pytestmark = [needs_yosys, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def counts() -> Counts:
    return Counts()


def test_the_models_hold_where_they_were_not_fitted(counts: Counts) -> None:
    for build, off in errors(counts).items():
        assert abs(off["lut"]) < TOLERANCE, build
        assert abs(off["ff"]) < TOLERANCE, build
        assert abs(off["bram"]) <= (RAMS_OFF if build.startswith("join") else 0), build


def test_the_page_says_what_the_command_gives(counts: Counts) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page, tables(counts)) == page, "run `make bench-boards` and commit the page"


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("share", SHARES)
def test_the_largest_fits_and_takes_most_of_its_share(
    counts: Counts, name: str, share: float
) -> None:
    sizes = JoinSizes.fit(counts, BOARDS[name].port_bits)
    found = largest_join(name, share, sizes)
    assert found is not None
    used = {
        "LUT": found.cells.lut / BOARDS[name].lut,
        "FF": found.cells.ff / BOARDS[name].ff,
        "block RAM": found.cells.bram / BOARDS[name].bram,
    }
    assert max(used.values()) <= share
    # Another block of each die would be too much.
    blocks = found.cells.lut / sizes.each["lut"]
    assert used[found.limit] > share * (1 - 2 * BOARDS[name].slrs / blocks)
    window = largest_window(name, share, WindowSizes.fit(counts, BOARDS[name].port_bits))
    assert window is None or window.cells.bram <= share * BOARDS[name].bram
    assert window is None or window.urams <= share * BOARDS[name].uram


def test_memory_slows_the_small_board_only(counts: Counts) -> None:
    sizes = {name: JoinSizes.fit(counts, board.port_bits) for name, board in BOARDS.items()}
    found = {name: largest_join(name, 0.6, sizes[name]) for name in BOARDS}
    slowed = {n: fit.slowed_by for n, fit in found.items() if fit is not None and fit.slowed_by}
    assert slowed == {"pynq-z2": "memory port"}


def test_narrow_ports_take_fewer_cells(counts: Counts) -> None:
    for fitted in (JoinSizes, WindowSizes):
        bases = [fitted.fit(counts, bits).base for bits in (64, 128, 256, 512)]
        for narrow, wide in pairwise(bases):
            assert all(narrow[kind] < wide[kind] for kind in ("lut", "ff", "bram"))


def test_all_that_tables_need_is_counted_ahead(counts: Counts, tmp_path: Path) -> None:
    class Asked(Counts):
        """Notes what is asked for."""

        def _cells(self, step: dict, made, top: str) -> Cells:
            steps.append(step)
            return Cells(1, 1, 1)

    steps: list[dict] = []
    asked = Asked(folder=tmp_path)
    asked.ahead(builds())
    ahead, steps[:] = list(steps), []
    for bits in (64, 128, 256, 512):
        for key_bits in (32, 16):
            JoinSizes.fit(asked, bits, key_bits)
        WindowSizes.fit(asked, bits)
    errors(asked)
    assert all(ahead.count(step) == 1 for step in ahead)
    assert all(step in ahead for step in steps)
    assert all(step in steps for step in ahead)


# -- memory banks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key_bits", "kernels"),
    [
        # 80 % of 460 GB/s over 32 banks are 11.5 GB/s; a kernel reads 8 bytes at 300 MHz.
        ("u280", 32, (4, "memory banks")),
        ("u280", 16, (9, "memory banks")),
        ("u50", 32, (3, "memory banks")),
        ("u200", 32, (6, "memory banks")),
        # 80 % of 8 bytes at 100 MHz are fewer than 8 bytes per cycle.
        ("pynq-z2", 32, (0, "memory port")),
        # Window ports of five kernels share four ports of the memory.
        ("zcu104", 32, (4, "memory port")),
        ("zcu104", 16, (8, "")),
    ],
)
def test_kernels_that_memory_banks_serve(
    name: str, key_bits: int, kernels: tuple[int, str]
) -> None:
    memory = WindowMemory(BOARDS[name], key_bits)
    assert memory.kernels == kernels
    number, short = kernels
    assert memory.fed(max(number, 1))[1] == ("" if number else short)
    if short:
        share, what = memory.fed(number + 1)
        assert 0 < share < 1
        assert what == short


def test_windows_in_banks() -> None:
    u280 = WindowMemory(BOARDS["u280"])
    # Each of three kernels has a bank for stream tuples and one for results.
    assert [u280.banks(kernels) for kernels in (1, 3, 12, 20)] == [30, 26, 8, 8]
    assert u280.tuples(1) == (256 << 20) // 8
    assert WindowMemory(BOARDS["zcu104"], 16).banks(2) == 1


def test_too_slow_banks_are_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = replace(BOARDS["u280"], memory_gb_s=200)
    monkeypatch.setitem(BOARDS, "u280", slow)
    sizes = JoinSizes(*({"lut": n, "ff": n, "bram": 1, "dsp": 0} for n in (1000.0, 100.0)))
    found = largest_join("u280", 0.6, sizes)
    assert found is not None
    assert (found.limit, found.slowed_by) == ("memory banks", "memory banks")
    full = largest_join("u250", 0.6, sizes)
    assert full is not None
    assert full.limit != "memory banks"


def test_watts() -> None:
    cells = Cells(lut=1000, ff=2000, bram=10)
    # A quarter of 1000 LUTs at 0.25 pJ and of 2000 FFs at 0.15, all their clocks at 0.015, and five
    # block RAMs at 6 pJ: 62.5 + 75 + 30 + 30 pJ per cycle.
    assert dynamic_w(cells, BOARDS["zcu104"], 100.0) == pytest.approx(197.5e-12 * 100e6)
    assert dynamic_w(cells, BOARDS["pynq-z2"], 100.0) == pytest.approx(2 * 197.5e-12 * 100e6)


def test_rams_of_a_bank() -> None:
    assert [queue_rams(n) for n in (512, 1024, 2048, 4096, 65536)] == [1.5, 3, 5.5, 11, 192]


def test_urams_of_a_bank() -> None:
    assert [queue_urams(n) for n in (512, 4096, 8192)] == [2, 2, 4]


#: A window kernel of any size that takes few cells, and no block RAM but for its queues.
SMALL = WindowSizes(
    *({"lut": n, "ff": n, "bram": 0, "dsp": 0} for n in (1000.0, 100.0, 0.0)),
)


@pytest.mark.parametrize(
    ("name", "size", "urams", "limit"),
    [
        # 64 banks of 8192 slots have 512 UltraRAMs of 960; twice as many are too many.
        ("u280", "524,288 × 64", 512, "URAM"),
        # It has no UltraRAM.
        ("pynq-z2", "8,192 × 16", 0, "block RAM"),
    ],
)
def test_queues_lie_in_uram_where_block_ram_is_short(
    name: str, size: str, urams: int, limit: str
) -> None:
    found = largest_window(name, 0.6, SMALL)
    assert found is not None
    assert (found.what, found.urams, found.limit) == (size, urams, limit)


@pytest.mark.slow
def test_what_is_kept_is_what_yosys_counts(counts: Counts, tmp_path: Path) -> None:
    slots, banks = WINDOW_TEST[-1]
    anew = Counts(folder=tmp_path)
    assert anew.window(slots * banks, banks) == counts.window(slots * banks, banks)


def test_counts_outlive_what_is_no_hardware(tmp_path: Path) -> None:
    golden = tmp_path / "export.json"
    golden.write_text('{"kernel": {"k.v": "1", "kernel.xml": "2"}, "cells": {"lut": 3}}')
    assert json.loads(_hardware(golden)) == {"kernel": {"k.v": "1"}, "cells": {"lut": 3}}
