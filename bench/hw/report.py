"""The table of figures: what was measured, the target, and whether it is met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from bench.hw.area import Sizes, builds
from bench.hw.cycles import Run, measure
from bench.rows import Row
from bench.store import Store
from penstock.constraints.boards import BOARDS
from penstock.host.device.registry import device_names
from penstock.hw.cells import Cells
from penstock.hw.join.fjoin.size import PAPER_CELLS
from penstock.program import Mode

#: Share of a part's LUTs that the projection gives to join units; shell and memory take the rest.
LUT_SHARE = 0.6

#: Clock of the projection, in Hz. Nothing here was timed on a board.
CLOCK_HZ = 300e6
#: Longest path in nanoseconds that leaves a tenth of that clock to placing.
LONGEST_NS = 3.0

#: The paper's pipeline as a device.
FJOIN = "fjoin"


@dataclass(frozen=True)
class Scale:
    """Sizes of the measured builds and tasks."""

    units: int
    window_tuples: int
    #: Stream tuples per unit in the task with many passes.
    laps: int
    #: Window tuples where every pair matches.
    dense_window_tuples: int
    #: The same for the paper's pipeline, where each pair is a result of its own.
    fjoin_dense_window_tuples: int
    #: Units of the build that is synthesised in one piece too.
    whole_units: int
    block_units: int
    speed_units: int
    speed_window_tuples: int
    #: Units of the paper's pipeline; those of its Table 4.
    fjoin_units: tuple[int, ...]


FULL = Scale(512, 100_000, 10, 20_000, 2_000, 64, 32, 128, 400_000, (256, 512))
QUICK = Scale(16, 5_000, 4, 500, 100, 8, 4, 16, 20_000, (8,))


class Report:
    """Collects rows; ``on_row`` is called with each as it is known."""

    def __init__(self, store: Store, scale: Scale, on_row: Callable[[Row], None]) -> None:
        self.store = store
        self.scale = scale
        self.sizes = Sizes(store)
        self.rows: list[Row] = []
        self.per_unit: dict[str, tuple[float, float]] = {}
        self._on_row = on_row

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self._on_row(row)

    def cycles(self) -> None:
        """Window tuples per cycle of whole tasks, and the speed of the simulation."""
        scale = self.scale
        units, window = scale.units, scale.window_tuples
        for name, target, changes in (
            ("no matches, ideal memory", 0.98, {}),
            (
                f"the same, {scale.laps} stream tuples per unit",
                0.98,
                {"stream_tuples": scale.laps * units},
            ),
            ("1 % match, memory latency 64 cycles", 0.90, _LATE),
            ("every pair matches, pairs", None, _dense(scale)),
            ("every pair matches, count", 0.95, {"selectivity": 1.0, "mode": Mode.COUNT.value}),
        ):
            given: dict[str, Any] = {
                "units": units,
                "stream_tuples": units,
                "window_tuples": window,
                **changes,
            }
            run = Run(**given)
            named = f"{run.stream_tuples:,} x {run.window_tuples:,} tuples"
            self._throughput(f"{name}: {named}", run, target)
        self._speed()

    def _throughput(self, name: str, run: Run, target: float | None) -> None:
        found = measure(self.store, run)
        what = f"window tuples per cycle, {run.units} units, {name}"
        goal = "" if target is None else f">= {target:.2f}"
        if "refused" in found:
            self.add(Row(what, f"not measured: {found['refused']}", goal))
            return
        rate = found["per_cycle"]
        shown = f"{rate:.3f}"
        if found["tasks"] > 1:
            shown += f" in {found['tasks']} tasks, since results paused it"
        if target is None:
            counters = found["counters"]
            words = counters["result_words"]
            shown += (
                f" (the write port takes a word in {words / counters['cycles']:.0%} of the cycles, "
                f"{counters['records'] / words:.1f} records of 64 bits in each)"
            )
        met = None if target is None else rate >= target
        baseline = self._baseline(run)
        self.add(Row(what, shown, goal, met, baseline, found))

    def _baseline(self, run: Run) -> str:
        """The same task on the paper's pipelines, a shorter one where every pair is a result."""
        if FJOIN not in device_names():
            return "no device for it"
        window = run.window_tuples
        if run.selectivity == 1.0:
            window = min(window, self.scale.fjoin_dense_window_tuples)
        shown = []
        for units in self.scale.fjoin_units:
            changes = {"device": FJOIN, "units": units, "window_tuples": window}
            found = measure(self.store, Run(**{**asdict(run), **changes}))
            if "refused" in found:
                return "pairs only"
            pauses = f", {found['tasks']} tasks" * (found["tasks"] > 1)
            shown.append(f"{found['per_cycle']:.3g} ({units} units{pauses})")
        shorter = "" if window == run.window_tuples else f"; {window:,} window tuples"
        return ", ".join(shown) + shorter

    def _speed(self) -> None:
        scale = self.scale
        speeds = []
        for exact in (False, True):
            run = Run(
                units=scale.speed_units,
                stream_tuples=scale.speed_units,
                window_tuples=scale.speed_window_tuples,
                exact=exact,
            )
            speeds.append(measure(self.store, run).get("evaluations_per_s", 0.0))
        fast, exact = speeds
        what = f"Verilated simulation, {scale.speed_units} units, one core, evaluations/s"
        shown = f"{fast / 1e6:.1f} M; {exact / 1e6:.1f} M with the carry chains as exported"
        values = {"fast": fast, "exact": exact}
        self.add(Row(what, shown, ">= 20 M", fast >= 20e6, values=values))

    def areas(self) -> None:
        """Cells per unit of whole pipelines."""
        scale = self.scale
        targets = dict(zip(builds(2), ((110, 240), (85, 190), None, None, (150, 270)), strict=True))
        theirs = {}
        for units in scale.fjoin_units:
            cells = self.sizes.fjoin(units)
            theirs[units] = _per_unit(cells, units)
            paper = PAPER_CELLS.get(units)
            printed = "" if paper is None else f"; in the paper {_per_unit(paper, units)}"
            what = f"LUT / FF per unit, the paper's pipeline, {units} units, sum of parts"
            self.add(Row(what, theirs[units] + printed, values=asdict(cells)))
        for name, config in builds(scale.units).items():
            cells = self.sizes.sum_of_parts(name, config)
            lut, ff = cells.lut / scale.units, cells.ff / scale.units
            self.per_unit[name] = lut, ff
            target = targets[name]
            goal = "" if target is None else f"<= {target[0]} / {target[1]}"
            met = None if target is None else lut <= target[0] and ff <= target[1]
            what = f"LUT / FF per unit, {scale.units} units, sum of parts, {name}"
            shown = f"{_per_unit(cells, scale.units)}; {cells.bram} block RAM, {cells.dsp} DSP"
            self.add(Row(what, shown, goal, met, theirs[max(theirs)], asdict(cells)))
        self._whole()
        self._depth()

    def _whole(self) -> None:
        """How far the sum of parts is from a synthesis in one piece."""
        units = self.scale.whole_units
        for name in ("two 32-bit band tests", "two 24-bit band tests"):
            config = builds(units)[name]
            parts, whole = self.sizes.sum_of_parts(name, config), self.sizes.whole(name, config)
            lut, ff = parts.lut / whole.lut - 1, parts.ff / whole.ff - 1
            shown = f"{_per_unit(whole, units)}; the sum of parts has {lut:+.1%} / {ff:+.1%}"
            what = f"LUT / FF per unit, {units} units, in one piece, {name}"
            self.add(Row(what, shown, values={"parts": asdict(parts), "whole": asdict(whole)}))

    def _depth(self) -> None:
        found = self.sizes.depth(self.scale.block_units)
        goal, met = f"<= {LONGEST_NS:g} ns", found["ns"] <= LONGEST_NS
        what = f"longest path, block of {self.scale.block_units} units, two 32-bit band tests"
        self.add(Row(what, found["text"], goal, met, values=found))

    def projection(self) -> None:
        """Evaluations per second of a U280 from the sizes, if its tools reach the clock."""
        for name, target in (("two 32-bit band tests", 2e12), ("two 24-bit band tests", 2.6e12)):
            rate = evaluations("u280", self.per_unit[name][0])
            what = f"U280, {LUT_SHARE:.0%} of LUTs, {CLOCK_HZ / 1e6:.0f} MHz, {name}: projected"
            shown = f"{rate / 1e12:.2f}e12 evaluations/s"
            self.add(Row(what, shown, f">= {target / 1e12:g}e12", rate >= target, "1e11 (paper)"))


def evaluations(board: str, lut_per_unit: float) -> float:
    """Evaluations per second of a board whose LUTs are filled with join units."""
    return int(LUT_SHARE * BOARDS[board].lut / lut_per_unit) * CLOCK_HZ


def _per_unit(cells: Cells, units: int) -> str:
    return f"{cells.lut / units:.1f} / {cells.ff / units:.1f}"


_LATE = {"selectivity": 0.01, "latency_cycles": 64}


def _dense(scale: Scale) -> dict[str, Any]:
    return {"selectivity": 1.0, "window_tuples": scale.dense_window_tuples}
