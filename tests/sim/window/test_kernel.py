"""The memory-fed kernel's Verilog at its registers and memory ports: every way a task can end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import MissingToolError
from penstock.host.devices.kernel.packing import header_fields
from penstock.host.devices.kernel.window_driver import WindowPacking
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.hw.window.kernel.describe import KERNEL, PORTS, table
from penstock.hw.window.kernel.export import window_kernel_verilog
from penstock.sim.verilated.compile_kernel import Tools, board_library, cache_folder
from penstock.sim.verilated.verilated_board import Board, MemoryModel
from tests.host.kit.arrivals import arrivals, expected

try:
    Tools.find()
except MissingToolError as cause:
    pytestmark = pytest.mark.skip(reason=str(cause))

#: The build of tests/host/test_window_join.py, so that it is compiled once.
CONFIG = WindowKernelConfig(window=WindowConfig(depth=16, banks=1, tests=2, key_bits=32))
TUPLES, RESULTS = 1 << 40, 2 << 40
COUNT, WORDS = 120, 4096
ROWS = (16, 9)

#: Far more than any of these tasks takes.
PATIENCE_CYCLES = 100_000


@cache
def built() -> Path:
    """The compiled kernel."""
    verilog = window_kernel_verilog(CONFIG, cache=cache_folder())
    return board_library(verilog, KERNEL, PORTS, 64)


class Bench:
    """A kernel with a task's tuples in its memory."""

    def __init__(self, memory: MemoryModel, seed: int = 0) -> None:
        described = table(CONFIG)
        self.board = Board(built(), described, memory)
        self.packing = WindowPacking(described)
        self.status = {value: name for name, value in described["status"].items()}
        self.fields = next(e["fields"] for e in described["registers"] if e["name"] == "state")
        self.items, self.program = arrivals(np.random.default_rng(seed), COUNT, spread=2, rows=ROWS)
        self.results = np.zeros((WORDS + 1) * 64, np.uint8)
        self.board.map(TUPLES, self.packing.tuples(self.items))
        self.board.map(RESULTS, self.results)

    def arguments(self, **changed: int) -> dict[str, int]:
        return {
            "tuples": TUPLES,
            "results": RESULTS,
            "tuple_count": COUNT,
            "history_count": 0,
            "result_words": WORDS,
            "rows_a": ROWS[0],
            "rows_b": ROWS[1],
            "table_a_0": self.program.a.table,
            "table_b_0": self.program.b.table,
            **changed,
        }

    def run(self, **changed: int) -> str:
        """Run a task; how it ended, as the register says."""
        self.board.run(self.arguments(**changed), PATIENCE_CYCLES)
        return self.status[self.board.read("status")]

    @property
    def header(self) -> dict[str, int]:
        return header_fields(self.packing.table, self.results[:64])

    def pairs(self) -> list[tuple[int, int]]:
        numbers = self.packing.results(self.results[64:], self.header["results"])
        a, b = (self.items.number[side] for side in numbers)
        return sorted(zip(a.tolist(), b.tolist(), strict=True))

    def state(self) -> dict[str, bool]:
        value = self.board.read("state")
        return {name: bool(value >> bit & 1) for name, bit in self.fields.items()}


@pytest.fixture(params=["ideal memory", "slow memory"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    slow = MemoryModel(latency_cycles=11, bandwidth=0.4, stalls=0.3, seed=5)
    made = Bench(MemoryModel() if request.param == "ideal memory" else slow)
    yield made
    made.board.close()


def test_a_whole_task(bench: Bench) -> None:
    assert bench.run() == "OK"
    header, wanted = bench.header, expected(bench.items, bench.program)
    assert bench.pairs() == wanted
    assert len(wanted) > 200
    assert header["tuples"] == COUNT
    assert header["words"] == -(-len(wanted) // 8)
    assert header["cycles"] < 4 * (COUNT * CONFIG.window.round_cycles(*ROWS) + len(wanted)) * 12
    assert bench.state()["idle"]


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"tuples": TUPLES + 32}, "MISALIGNED"),
        ({"tuple_count": 0}, "EMPTY"),
        ({"history_count": COUNT + 1}, "BAD_HISTORY"),
        ({"rows_a": 17}, "BAD_ROWS"),
        ({"rows_b": 0xFFFFFFFF}, "BAD_ROWS"),
        ({"result_words": CONFIG.least_result_words(*ROWS) - 1}, "NO_ROOM"),
        ({"result_words": 0}, "NO_ROOM"),
    ],
)
def test_impossible_arguments(bench: Bench, changed: dict[str, int], status: str) -> None:
    """They end in a status, with a header; the next task is an ordinary one."""
    assert bench.run(**changed) == status
    assert bench.status[bench.header["status"]] == status
    assert (bench.header["results"], bench.header["tuples"]) == (0, 0)
    assert bench.run() == "OK"
    assert bench.pairs() == expected(bench.items, bench.program)


def test_misaligned_results_leave_no_header(bench: Bench) -> None:
    assert bench.run(results=RESULTS + 8) == "MISALIGNED"
    assert not bench.results.any()


@pytest.mark.parametrize("changed", [{}, {"history_count": COUNT}, {"history_count": 77}])
def test_errors_of_the_memory(bench: Bench, changed: dict[str, int]) -> None:
    beyond = TUPLES + len(bench.packing.tuples(bench.items))
    assert bench.run(tuple_count=COUNT + 64, **changed) == "READ_ERROR"
    assert bench.run(tuples=beyond, **changed) == "READ_ERROR"
    assert bench.run(results=RESULTS + (WORDS + 1) * 64, **changed) == "WRITE_ERROR"
    assert bench.run(**changed) == "OK"
    history = changed.get("history_count", 0)
    assert bench.pairs() == expected(bench.items, bench.program, history)


def test_empty_windows(bench: Bench) -> None:
    assert bench.run(rows_a=0, rows_b=0) == "OK"
    assert (bench.header["results"], bench.header["words"]) == (0, 0)


def test_least_room_makes_progress(bench: Bench) -> None:
    """Tasks with the least room, each behind the whole past, give each pair once."""
    least, done, found = CONFIG.least_result_words(*ROWS), 0, []
    tasks = 0
    while done < COUNT:
        status = bench.run(history_count=done, result_words=least)
        assert status == ("OK" if bench.header["tuples"] == COUNT else "PAUSED")
        assert bench.header["tuples"] > done
        assert bench.header["words"] <= least
        found += bench.pairs()
        done = bench.header["tuples"]
        tasks += 1
    assert tasks > 1
    assert sorted(found) == expected(bench.items, bench.program)


def test_an_output_that_is_stalled_for_ever() -> None:
    """The operator waits and its register says so; when the port goes on, nothing is missing."""
    bench = Bench(MemoryModel())
    board = bench.board
    # Results fill the writer first, then the packer, then the operator's own queues.
    items, bench.program = arrivals(np.random.default_rng(3), 2_000, spread=1, rows=ROWS)
    bench.items = items
    board.unmap()
    bench.results = np.zeros((WORDS + 1) * 64, np.uint8)
    board.map(TUPLES, bench.packing.tuples(items))
    board.map(RESULTS, bench.results)
    board.hold(1)
    board.start(bench.arguments(tuple_count=2_000))
    assert not board.wait(PATIENCE_CYCLES)
    first = bench.state()
    assert first["output_stalled"]
    assert first["wait_a"] or first["wait_b"]
    assert not first["idle"]
    assert not board.wait(1_000)
    assert bench.state() == first
    assert not board.read("CTRL") & 0b10, "not done"
    board.hold(1, False)
    assert board.wait(PATIENCE_CYCLES)
    assert bench.status[board.read("status")] == "OK"
    assert bench.pairs() == expected(items, bench.program)
    assert bench.header["output_waits"] > PATIENCE_CYCLES // 2
    board.close()


@pytest.mark.parametrize("seed", range(4))
def test_every_schedule_ends_within_its_bound(seed: int) -> None:
    """A cycle bound from the length of the schedule: rounds, and results that must leave."""
    bench = Bench(MemoryModel(), seed)
    rng = np.random.default_rng(seed)
    rows = (int(rng.integers(1, 17)), int(rng.integers(1, 17)))
    history = int(rng.integers(0, COUNT))
    assert bench.run(rows_a=rows[0], rows_b=rows[1], history_count=history) == "OK"
    matched = COUNT - history
    rounds = 2 * history + matched * CONFIG.window.round_cycles(*rows)
    results = bench.header["results"]
    assert bench.header["cycles"] <= rounds + results + 100
    assert bench.pairs() == expected(bench.items, replace(bench.program, rows=rows), history)
    bench.board.close()
