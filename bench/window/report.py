"""The table of figures: the paper's formulas beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.rows import Row
from bench.store import Store
from bench.window.area import FAMILIES, Sizes, banked_build, paper_build
from bench.window.formulas import (
    PAPER_CLOCK_HZ,
    PAPER_TABLE_2,
    output_cycles,
    output_cycles_as_printed,
    processing_rate,
)
from bench.window.rates import Rates, Run
from penstock.hw.cells import FAMILY

#: What a measurement may be away from its formula.
TOLERANCE = 0.01

#: Selectivities of the paper's figures 10 and 11, in tenths.
TENTHS = range(11)

#: A period that the selectivities divide at which an output port becomes the limit: of 64 banks and
#: one result per cycle 100 of so many.
KNEE_PERIOD = 12_800

#: Selectivities around that point, as parts of it.
AROUND = (0.25, 0.5, 0.8, 0.9, 0.95, 0.97, 0.99, 1.0, 1.01, 1.03, 1.05, 1.1, 1.3, 2.0)


@dataclass(frozen=True)
class Scale:
    """Sizes of the measured builds and windows."""

    #: Slots of the queues of figure 9 and of the banked builds, and the ROWS of figure 9.
    depth: int
    rows: tuple[int, ...]
    banks: tuple[int, ...]
    #: Slots and ROWS of figures 10 and 11.
    rate_rows: int
    #: Tuples come so often, in parts of ROWS + 2 cycles.
    intervals: tuple[float, ...]
    #: ROWS of the builds of Table 2.
    table_rows: tuple[int, ...]


FULL = Scale(
    depth=1 << 16,
    rows=tuple(1 << log2 for log2 in range(4, 17)),
    banks=(1, 2, 4, 8, 16, 32, 64),
    rate_rows=1 << 15,
    intervals=(0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5, 2.0, 3.0, 4.0),
    table_rows=tuple(PAPER_TABLE_2),
)
QUICK = Scale(
    depth=1 << 10,
    rows=(1 << 4, 1 << 7, 1 << 10),
    banks=(1, 4),
    rate_rows=1 << 10,
    intervals=(0.25, 0.5, 1.0, 2.0, 4.0),
    table_rows=(1 << 10,),
)


class Report:
    """Collects rows; ``on_row`` is called with each as it is known."""

    def __init__(self, store: Store, scale: Scale, on_row: Callable[[Row], None]) -> None:
        self.scale = scale
        self.sizes = Sizes(store)
        self.rates = Rates(store)
        self.rows: list[Row] = []
        self._on_row = on_row

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self._on_row(row)

    def measure(self) -> None:
        """Measure all figures of the table."""
        self.input_rate()
        self.output_rate()
        self.processing_rate()
        self.banks()
        self.areas()

    def draw(self, out: Path) -> list[Path]:
        """Write all pictures into a folder; returns their paths."""
        from bench.window import pictures

        return pictures.draw(self, out)

    def input_rate(self) -> None:
        """Figure 9, and the factor of parallel matching (figures 3 and 4)."""
        scale, points = self.scale, {}
        for banks in scale.banks:
            points[banks] = self.input_points(banks)
            wrong = [c / output_cycles(n, 0, 1, banks) - 1 for n, c in points[banks].items()]
            formula = "ROWS + 2" if banks == 1 else f"ROWS / {banks} + 2"
            name = f"cycles per tuple and side, ROWS {_span(scale.rows)}, {_banks(banks)}"
            self._deviation(name, formula, wrong, points[banks])
        most = max(scale.rows)
        sequential = self.input_points(1, parallel=False)[most]
        factor = sequential / points[1][most]
        what = f"sequential join (figure 3) over parallel, ROWS {most:,}"
        met = abs(factor / 2 - 1) <= TOLERANCE
        self.add(Row(what, f"{factor:.4f} times the cycles", "2", met, "2", factor))

    def input_points(self, banks: int, *, parallel: bool = True) -> dict[int, float]:
        """Cycles per tuple and side by ROWS, without matches."""
        scale = self.scale
        runs = (
            Run(depth=scale.depth, banks=banks, rows=rows, parallel=parallel) for rows in scale.rows
        )
        return {run.rows: self.rates.measure(run)["cycles"] for run in runs}

    def output_rate(self) -> None:
        """Figure 10: results per cycle where the port takes two."""
        points = {run.selectivity: found["results"] for run, found in self.output_points(2)}
        wrong = [results / (2 * share) - 1 for share, results in points.items() if share]
        name = f"results per cycle, ROWS {self.scale.rate_rows:,}, two per cycle leave, M 0..100 %"
        self._deviation(name, "2 · M, formula (3)", wrong, points)

    def output_points(self, outputs: int) -> list[tuple[Run, dict[str, Any]]]:
        """Runs by selectivity whose inputs always wait."""
        rows = self.scale.rate_rows
        runs = (Run(depth=rows, rows=rows, outputs=outputs, hits=hits) for hits in TENTHS)
        return [(run, self.rates.measure(run)) for run in runs]

    def processing_rate(self) -> None:
        """Figure 11: the share of tuples that is admitted."""
        rows = self.scale.rate_rows
        spans = f"ROWS {rows:,}, interval {_span(self.scale.intervals)} x (ROWS + 2)"
        for outputs in (1, 2):
            points = self.processing_points(outputs)
            shares = [(run, found["rate"]) for run, found in points]
            right, printed = (
                [share / processing_rate(run.interval, formula(run)) - 1 for run, share in shares]
                for formula in (_corrected, _printed)
            )
            values = [{**asdict(run), "rate": share} for run, share in shares]
            name = f"share admitted, {spans}, M 0..100 %, {_outputs(outputs)}"
            self._deviation(name, "(4) with max(2·N·M/C, N + 2)", right, values)
            low = max(printed, key=abs)
            what = f"{name}: beside (5) as printed"
            self.add(Row(what, f"{low:+.0%} from (4) with min(N·M/C, N + 2)", values=low))
        for spread, period, records in (
            ("random", 10, 8),
            ("random", 10, 64),
            ("bunched", rows, 8),
        ):
            found = self.spread_points(spread, period, records)
            run, cycles = max(found, key=lambda each: each[1] / _corrected(each[0]))
            what = (
                f"cycles per tuple, ROWS {rows:,}, matches {_SPREADS[spread]}, one result per "
                f"cycle, {records} records wait per side"
            )
            above = cycles / _corrected(run) - 1
            shown = f"{above:+.1%} from max(2·N·M/C, N + 2) at most, at M {run.selectivity:.0%}"
            values = {run.selectivity: cycles for run, cycles in found}
            self.add(Row(what, shown, values=values))

    def processing_points(self, outputs: int) -> list[tuple[Run, dict[str, Any]]]:
        """Runs by selectivity and interval under admission control, with the share admitted."""
        rows = self.scale.rate_rows
        runs = [
            Run(
                depth=rows,
                rows=rows,
                outputs=outputs,
                hits=hits,
                interval=round(part * (rows + 2)),
            )
            for hits in TENTHS
            for part in self.scale.intervals
        ]
        found = [(run, self.rates.measure(run)) for run in runs]
        # By time, not by counting tuples: exact with few of them.
        return [(run, {**each, "rate": run.interval / each["cycles"]}) for run, each in found]

    def spread_points(self, spread: str, period: int, records: int) -> list[tuple[Run, float]]:
        """Cycles per tuple by selectivity where matches are not spread evenly."""
        rows = self.scale.rate_rows
        runs = [
            Run(
                depth=rows,
                rows=rows,
                records=records,
                hits=tenth * period // 10,
                period=period,
                spread=spread,
            )
            for tenth in TENTHS
        ]
        return [(run, self.rates.measure(run)["cycles"]) for run in runs]

    def banks(self) -> None:
        """Rates of P banks: at 0.1 % of the pairs, and where the output becomes the limit."""
        scale = self.scale
        rows = scale.depth
        for banks in scale.banks:
            run = Run(depth=rows, banks=banks, rows=rows, hits=1, period=1000, spread="random")
            found = self.rates.measure(run)
            factor = (rows + 2) / found["cycles"]
            what = f"tuples/s over f / (ROWS + 2), ROWS {rows:,}, {_banks(banks)}, 0.1 % join"
            shown = f"{factor:.2f}x, every result delivered"
            full = banks == 64
            goal = ">= 60x" if full else ""
            self.add(Row(what, shown, goal, factor >= 60 if full else None, "1x", found))
        for outputs in (1, 2):
            for banks in scale.banks:
                self._knee(banks, outputs)

    def _knee(self, banks: int, outputs: int) -> None:
        base = output_cycles(self.scale.depth, 0, outputs, banks)
        points = self.knee_points(banks, outputs)
        free = max(share for share, cycles in points.items() if cycles <= (1 + TOLERANCE) * base)
        above = [share for share in points if share > free]
        what = f"selectivity at which the output becomes the limit, {_banks(banks)}"
        shown = f"none up to {free:.2%}"
        if above:
            share = min(above)
            shown = f"{free:.3%}; at {share:.3%} {points[share] / base - 1:+.1%} cycles"
        wrong = [
            c / output_cycles(self.scale.depth, m, outputs, banks) - 1 for m, c in points.items()
        ]
        shown += f"; formula within {_worst(wrong)}"
        self.add(Row(f"{what}, {_outputs(outputs)}", shown, values=points))

    def knee_points(self, banks: int, outputs: int) -> dict[float, float]:
        """Cycles per tuple by selectivity, around the point where the output becomes the limit."""
        top = KNEE_PERIOD * outputs // (2 * banks)
        found = {}
        for hits in sorted({min(round(part * top), KNEE_PERIOD) for part in AROUND}):
            run = Run(
                depth=self.scale.depth,
                banks=banks,
                outputs=outputs,
                rows=self.scale.depth,
                hits=hits,
                period=KNEE_PERIOD,
            )
            found[run.selectivity] = self.rates.measure(run)["cycles"]
        return found

    def areas(self) -> None:
        """Table 2 in its family and in a later one, and what banks cost."""
        for rows in self.scale.table_rows:
            printed = PAPER_TABLE_2[rows]
            theirs = "does not fit"
            if printed is not None:
                theirs = f"{printed[0]} slices, {printed[1]} block RAM"
            for family in ("xc6v", "xc7"):
                cells = self.sizes.cells(paper_build(rows), family)
                what = f"ROWS {rows:,}, tuples of 100 bits, {FAMILIES[family]}"
                shown = f"{cells.lut} LUT, {cells.ff} FF, {cells.bram} block RAM"
                self.add(Row(what, shown, "", None, theirs, asdict(cells)))
        for banks in self.scale.banks:
            config = banked_build(self.scale.depth, banks)
            cells = self.sizes.cells(config)
            what = f"{_banks(banks)}, depth {config.depth:,}, 32-bit keys, {FAMILIES[FAMILY]}"
            shown = f"{cells.lut} LUT, {cells.ff} FF, {cells.bram} block RAM"
            self.add(Row(what, shown, values=asdict(cells)))

    def _deviation(self, what: str, formula: str, wrong: list[float], values: Any) -> None:
        met = max(map(abs, wrong)) <= TOLERANCE
        self.add(Row(what, f"{_worst(wrong)} from {formula}", "<= 1 %", met, values=values))


_SPREADS = {"random": "at random", "bunched": "all in a row"}


def _corrected(run: Run) -> float:
    return output_cycles(run.rows, run.selectivity, run.outputs, run.banks)


def _printed(run: Run) -> float:
    # No time at all is no divisor.
    return max(output_cycles_as_printed(run.rows, run.selectivity, run.outputs), 1)


def _worst(wrong: Iterable[float]) -> str:
    return f"{max(wrong, key=abs):+.3%}"


def _span(values: tuple) -> str:
    return f"{min(values):,}..{max(values):,}"


def _banks(banks: int) -> str:
    return f"{banks} bank{'s' * (banks > 1)}"


def _outputs(outputs: int) -> str:
    return "one result per cycle" if outputs == 1 else "two results per cycle"


def per_second(cycles: float) -> float:
    """Tuples per second and side at the paper's clock."""
    return PAPER_CLOCK_HZ / cycles
