"""Cycles of the kernel per probing row, pruned and not: ``python -m bench.hw.pruning [--quick]``.

Two joins of the real streams (PENSTOCK_DATA) over long windows run from tables: a box around rides,
whose predicate is band tests, and a distance between aircraft, which is a program. Results are the
CPU's; cycles follow from the passes of each task, its loads included: a tuple that comes again for
another range of places is loaded again. On shorter streams that count is compared with what the
Verilated kernel counts. The table also goes to ``build/bench/hw-pruning.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from bench.peers.files import data_folder
from bench.peers.join import Join
from bench.peers.penstock_side import query
from bench.peers.streams import aircraft_in_time, rides_in_a_box
from bench.peers.turns import Answer, answer
from bench.rows import Row, table
from penstock.errors import PenstockError
from penstock.host.device.base import PAIRS, Device, Kernel, Pause, Result, Task
from penstock.host.device.registry import open_device
from penstock.host.device.wrapped import WrappedDevice, WrappedKernel
from penstock.host.join.table.table_join import TableJoin
from penstock.host.model.pipeline_cycles import FETCH_BURST, PASS_CYCLES, TASK_CYCLES, TUPLE_WORDS
from penstock.host.prune.sizes import DEFAULT_PRUNING
from penstock.hw.join.config import JoinConfig
from penstock.program import AnyProgram, Mode, WindowProgram
from penstock.query.compiler import compile_query
from penstock.sim.rtl_device import RtlDevice

BUILD = Path("build/bench")
#: Cycles of a task, as tasks of boards have them.
_TASK_CYCLES = 1 << 21
#: Units that are counted, and those of the kernel that is built, for band tests and for programs.
UNITS, BUILT = (64, 512), 64
#: Cycles per probing row of the same joins, as this bench counted them for the clusters that the
#: order of cells has replaced (docs/decisions/0015, commit 30c7cf4).
CLUSTERS = {
    ("U2, ROWS 65,536", 64): 61.1,
    ("U2, ROWS 65,536", 512): 27.0,
    ("A1, 3,600 s", 64): 94.4,
    ("A1, 3,600 s", 512): 30.4,
}
#: Largest share of those.
TARGET = 0.5
#: Beyond every window position.
MOST = 1 << 62
#: Seconds after which a task counts as hung.
TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class Case:
    """A join.

    Parameters
    ----------
    name : str
    make : callable
        The join of a share of the rows.
    simulated : float
        Share of the rows of the runs on the Verilated kernel.
    """

    name: str
    make: Callable[[float], Join]
    simulated: float


#: Share of the rows of a quick run.
QUICK = 0.25
CASES = (
    Case("U2, ROWS 65,536", rides_in_a_box, 0.25),
    Case("A1, 3,600 s", aircraft_in_time, 0.05),
)


@dataclass(frozen=True)
class Cost:
    """What a join cost its device.

    Parameters
    ----------
    probing : int
        Rows that look up others.
    counted : int
        Cycles by the tasks' passes.
    loads : int
        Stream tuples of all tasks.
    cycles : int or None
        Cycles that the kernel counted.
    """

    answer: Answer
    probing: int
    pairs: int
    evaluations: int
    counted: int
    loads: int
    cycles: int | None

    @property
    def per_row(self) -> float:
        """Cycles per probing row."""
        return (self.counted if self.cycles is None else self.cycles) / self.probing

    @property
    def off(self) -> float:
        """By which share the count by passes is above the kernel's."""
        return 0.0 if self.cycles is None else self.counted / self.cycles - 1


class CountedDevice(WrappedDevice):
    """A device whose tasks are those of a board, with the cycles of a pipeline beside its results.

    Parameters
    ----------
    inner : Device
        Whose results it gives, and whose cycles, if it counts any.
    built : RtlDevice
        Of the pipeline.
    """

    def __init__(self, inner: Device, built: RtlDevice) -> None:
        super().__init__(inner)
        self.name = f"{inner.name}, {built.units} units"
        self.searches = self.is_even = False
        self.lanes = 1
        self.units = built.units
        self.key_widths = built.key_widths
        self.task_evaluations = built.units * _TASK_CYCLES
        self._built = built

    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        return self._built.refuses(program, modes)

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        assert not isinstance(program, WindowProgram)
        return _Counted(self.inner.open(program, modes), self._built.build_for(program, modes).join)


class _Counted(WrappedKernel):
    def __init__(self, inner: Kernel, config: JoinConfig) -> None:
        super().__init__(inner)
        self._config = config

    def submit(self, window: Any, task: Any) -> Future[Result]:
        result = super().submit(window, task).result(TIMEOUT_S)
        done_of = task if result.pause is None else before_pause(task, result.pause)
        counted = {"counted": cycles_of(self._config, done_of), "loads": done_of.rows}
        done: Future[Result] = Future()
        done.set_result(replace(result, counters={**result.counters, **counted}))
        return done


def before_pause(task: Task, pause: Pause) -> Task:
    """What a task did before it paused."""
    end = np.minimum(task.end[: pause.i1], np.where(np.arange(pause.i1) < pause.i0, MOST, pause.p))
    met = end > task.start[: pause.i1]
    return replace(task, start=task.start[: pause.i1][met], end=end[met])


def cycles_of(config: JoinConfig, task: Task) -> int:
    """Cycles of a task: of what the head sends, and of its start and end."""
    passes = config.plan(task.start, task.end)
    window = sum(part.end - part.begin for part in passes)
    # What ends with its pass is retired by the pass's CLEAR.
    at_end = sum(int((task.end[part.first : part.stop] == part.end).sum()) for part in passes)
    sent = window + config.load_flits * task.rows + task.rows - at_end
    sent += (PASS_CYCLES + config.settle_cycles) * len(passes)
    return sent + TASK_CYCLES + config.units + round(min(TUPLE_WORDS * task.rows, FETCH_BURST))


def run(join: Join, device: Device, *, pruning: bool) -> Cost:
    """Run a join from its tables."""
    sides = {"l": join.left, "r": join.right}
    schemas = {side: own.schema for side, own in sides.items()}
    compiled = compile_query(query(join), schemas, time={"l": "t", "r": "t"}, rows=join.rows)
    made = TableJoin(compiled, sides, device, pruning=DEFAULT_PRUNING if pruning else None)
    rows = pa.Table.from_batches(list(made), made.schema)
    stats, counters = made.stats, made.stats.counters
    return Cost(
        answer(rows),
        sum(len(one.start) for one in made.directions),
        stats.pairs_in_window,
        stats.pairs_evaluated,
        counters["counted"],
        counters["loads"],
        counters.get("cycles"),
    )


def report(quick: bool, simulated: bool, on_row: Callable[[Row], None]) -> None:
    """Measure all rows."""
    for case in CASES:
        join = case.make(QUICK if quick else 1)
        for units in UNITS:
            with open_device("cpu") as cpu, RtlDevice(units=units) as built:
                on_row(_row(case, units, join, CountedDevice(cpu, built)))
        if simulated:
            with RtlDevice(units=BUILT, fast=True) as built:
                on_row(_row(case, BUILT, case.make(case.simulated), CountedDevice(built, built)))


def _row(case: Case, units: int, join: Join, device: CountedDevice) -> Row:
    every, pruned = (run(join, device, pruning=pruning) for pruning in (False, True))
    if every.answer != pruned.answer:
        raise PenstockError(f"{case.name} gives other rows with pruning")
    before = CLUSTERS.get((case.name, units))
    is_full = join.left.num_rows == case.make(1).left.num_rows
    share = None if before is None or not is_full else pruned.per_row / before
    kernel = "counted" if pruned.cycles is None else "Verilated kernel"
    beside = "" if pruned.cycles is None else f", counted {pruned.off:+.1%} ({every.off:+.1%})"
    return Row(
        f"{case.name}, {units} units, {kernel}: cycles per probing row",
        f"{pruned.per_row:,.1f}{beside}; {pruned.loads / pruned.probing:.1f} loads, "
        f"{pruned.evaluations / pruned.probing:,.0f} tests"
        + ("" if share is None else f"; {share:.2f} of clusters' {before:,.1f}"),
        "" if share is None else f"<= {TARGET:g} of clusters'",
        None if share is None else share <= TARGET,
        f"{every.per_row:,.1f}; {every.evaluations / every.probing:,.0f} tests",
        {"case": case.name, "units": units, "every": asdict(every), "pruned": asdict(pruned)},
    )


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.hw.pruning", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rows")
    parser.add_argument("--no-kernel", action="store_true", help="leave out the Verilated kernel")
    options = parser.parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else 180)
    if data_folder() is None:
        console.print("no real streams: PENSTOCK_DATA names no folder with them")
        return 0
    rows: list[Row] = []
    began = time.monotonic()

    def show(row: Row) -> None:
        rows.append(row)
        console.print(f"{time.monotonic() - began:6.0f} s  {row.what}", highlight=False)

    try:
        report(options.quick, not options.no_kernel, show)
    except PenstockError as error:
        console.print(f"bench.hw.pruning: {error}", style="red", markup=False)
        return error.exit_code
    finally:
        BUILD.mkdir(parents=True, exist_ok=True)
        (BUILD / "hw-pruning.json").write_text(json.dumps([asdict(r) for r in rows], indent=2))
        console.print(table(rows, "pruning on the kernel", "pruning=False"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
