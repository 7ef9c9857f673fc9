"""The report on boards: its model against counts that it was not fitted to, and its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.boards.counts import Counts, _hardware
from bench.boards.largest import largest_join, largest_window
from bench.boards.power import dynamic_w
from bench.boards.report import PAGE, SHARES, tables, written
from bench.boards.sizes import (
    RAMS_OFF,
    TOLERANCE,
    WINDOW_TEST,
    JoinSizes,
    WindowSizes,
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
    found = largest_join(name, share, JoinSizes.fit(counts))
    assert found is not None
    used = {
        "LUT": found.cells.lut / BOARDS[name].lut,
        "FF": found.cells.ff / BOARDS[name].ff,
        "block RAM": found.cells.bram / BOARDS[name].bram,
    }
    assert max(used.values()) <= share
    # Another block of each die would be too much.
    blocks = found.cells.lut / JoinSizes.fit(counts).each["lut"]
    assert used[found.limit] > share * (1 - 2 * BOARDS[name].slrs / blocks)
    window = largest_window(name, share, WindowSizes.fit(counts))
    assert window is None or window.cells.bram <= share * BOARDS[name].bram
    assert window is None or window.urams <= share * BOARDS[name].uram


def test_memory_slows_the_small_board_only(counts: Counts) -> None:
    sizes = JoinSizes.fit(counts)
    found = {name: largest_join(name, 0.6, sizes) for name in BOARDS}
    slowed = [name for name, fit in found.items() if fit is not None and fit.slowed_by]
    assert slowed == ["pynq-z2"]


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
