"""The paper's figures 9, 10 and 11 redrawn, and what banks give and cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.pictures import INK, OTHER, OURS, PAPER, THEIRS, save
from bench.window.area import banked_build
from bench.window.formulas import (
    PAPER_CLOCK_HZ,
    input_rate,
    output_cycles,
    output_cycles_as_printed,
    output_rate,
    processing_rate,
)
from bench.window.report import Report, per_second

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CLOCK = f"{PAPER_CLOCK_HZ / 1e6:.0f} MHz"


def draw(report: Report, out: Path) -> list[Path]:
    """Write all pictures; returns their paths.

    Parameters
    ----------
    report : Report
        Measures what has not been measured.
    out : Path
        Folder.
    """
    from matplotlib import pyplot as plt

    return save(
        {
            "window_input": lambda: _input(plt.subplots(figsize=(7.5, 4.8)), report),
            "window_output": lambda: _output(plt.subplots(figsize=(7, 4.4)), report),
            "window_admitted": lambda: _admitted(
                plt.subplots(1, 2, figsize=(12, 4.6), sharey=True), report
            ),
            "window_banks": lambda: _banks(plt.subplots(1, 2, figsize=(12, 4.6)), report),
        },
        out,
    )


def _input(made: tuple[Figure, Axes], report: Report) -> Figure:
    """Figure 9: tuples per second and side by ROWS."""
    figure, axes = made
    builds = [banks for banks in (1, 4, 16, 64) if banks in report.scale.banks]
    rows = np.array(report.scale.rows)
    axes.plot(
        rows,
        [input_rate(PAPER_CLOCK_HZ, n) for n in rows],
        color=PAPER,
        lw=5,
        alpha=0.6,
        label="paper, formula (1): f / (ROWS + 2)",
    )
    for banks in builds:
        points = report.input_points(banks)
        line = [per_second(output_cycles(n, 0, 1, banks)) for n in points]
        axes.plot([*points], line, color=OURS, lw=0.8)
        name = "measured, 1 bank" if banks == 1 else f"{banks} banks"
        marker = dict(zip((1, 4, 16, 64), "os^D", strict=True))[banks]
        axes.plot(
            [*points], [per_second(c) for c in points.values()], marker, color=OURS, label=name
        )
    points = report.input_points(1, parallel=False)
    rates = [per_second(c) for c in points.values()]
    axes.plot([*points], rates, "v", color=OTHER, label="sequential (figure 3), 1 bank")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlabel="ROWS", ylabel=f"tuples per second and side at {_CLOCK}")
    axes.set_title("figure 9: the highest input rate without a loss, no matches")
    axes.legend(frameon=False)
    return figure


def _output(made: tuple[Figure, Axes], report: Report) -> Figure:
    """Figure 10: results per second by selectivity."""
    figure, axes = made
    share = np.linspace(0, 1, 101)
    axes.plot(
        share * 100,
        [output_rate(PAPER_CLOCK_HZ, m) / 1e6 for m in share],
        color=PAPER,
        lw=5,
        alpha=0.6,
        label="paper, formula (3): 2 · M · f",
    )
    for outputs, marker, fill, colour in ((2, "o", OURS, OURS), (1, "s", "none", OTHER)):
        points = [(run.selectivity, found) for run, found in report.output_points(outputs)]
        rates = [found["results"] * PAPER_CLOCK_HZ / 1e6 for _, found in points]
        label = f"measured, {outputs} per cycle can leave"
        shares = [m * 100 for m, _ in points]
        axes.plot(shares, rates, marker, ms=8, mfc=fill, color=colour, label=label)
    axes.set(
        xlabel="selectivity M, % of the pairs", ylabel=f"million results per second at {_CLOCK}"
    )
    axes.set_title(f"figure 10: output rate, ROWS {report.scale.rate_rows:,}, one bank")
    axes.legend(frameon=False)
    return figure


def _admitted(made: tuple[Figure, Sequence[Axes]], report: Report) -> Figure:
    """Figure 11: share of the tuples that is admitted, by interval and selectivity."""
    from matplotlib import colormaps

    figure, both = made
    rows = report.scale.rate_rows
    lines = np.geomspace(min(report.scale.intervals), max(report.scale.intervals), 200)
    colours = colormaps["viridis"]
    for axes, outputs in zip(both, (1, 2), strict=True):
        points = report.processing_points(outputs)
        for share in sorted({run.selectivity for run, _ in points}, reverse=True):
            colour = colours(0.9 * share)
            cycles = output_cycles(rows, share, outputs)
            at = lines * (rows + 2)
            axes.plot(lines, [processing_rate(t, cycles) for t in at], color=colour, lw=0.9)
            found = [(run.interval, each["rate"]) for run, each in points]
            found = [
                (t / (rows + 2), rate)
                for (t, rate), (run, _) in zip(found, points, strict=True)
                if run.selectivity == share
            ]
            axes.plot(*zip(*found, strict=True), "o", ms=4, color=colour, label=f"{share:.0%}")
        for share in (0.5, 1.0):
            printed = output_cycles_as_printed(rows, share, outputs)
            rates = [processing_rate(t * (rows + 2), printed) for t in lines]
            label = "M 50 and 100 %, paper,\n(5) as printed" if share == 1 else None
            axes.plot(lines, rates, "--", lw=1.2, color=PAPER, label=label)
        same = 0.5 if outputs == 1 else 1.0
        axes.annotate(
            f"M 0 to {same:.0%}",
            (0.72, 0.72),
            xytext=(-8, 12),
            textcoords="offset points",
            ha="right",
            fontsize=9,
            color=INK,
            arrowprops={"arrowstyle": "-", "color": INK, "lw": 0.6},
        )
        axes.set_xscale("log", base=2)
        axes.set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
        axes.set(xlabel="interval of the tuples of a side, in units of ROWS + 2 cycles")
        per = "one result" if outputs == 1 else "two results"
        axes.set_title(f"{per} per cycle can leave")
    both[0].set(ylabel="share of the tuples that is admitted", ylim=(0, 1.05))
    handles, labels = both[1].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        title="selectivity M\n(dots: measured,\nlines: formula (4)\nwith max(2NM/C, N+2))",
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
        fontsize=9,
    )
    figure.suptitle(f"figure 11: admission control, ROWS {rows:,}, one bank", fontsize=11)
    figure.tight_layout()
    return figure


def _banks(made: tuple[Figure, Sequence[Axes]], report: Report) -> Figure:
    """Rates of P banks by selectivity, and their cells."""
    figure, (rate, cells) = made
    rows = report.scale.depth
    for banks in report.scale.banks:
        points = report.knee_points(banks, 1)
        gain = [(rows + 2) / cycles for cycles in points.values()]
        share = np.geomspace(min(points), max(points), 200)
        line = [(rows + 2) / output_cycles(rows, m, 1, banks) for m in share]
        (drawn,) = rate.plot(100 * share, line, lw=0.9)
        rate.plot([100 * m for m in points], gain, "o", ms=4, color=drawn.get_color())
        rate.annotate(
            f"P = {banks}",
            (100 * min(points), gain[0]),
            xytext=(-6, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=9,
            color=drawn.get_color(),
        )
    rate.set(xscale="log", yscale="log")
    rate.set_yticks(gains := [1, *report.scale.banks], [str(gain) for gain in gains])
    rate.xaxis.set_major_formatter("{x:g}")
    rate.minorticks_off()
    rate.set_xlim(left=100 * min(report.knee_points(max(report.scale.banks), 1)) / 2.5)
    rate.set(xlabel="selectivity, % of the pairs", ylabel="tuples/s over f / (ROWS + 2)")
    rate.set_title(
        f"ROWS {rows:,}, one result per cycle (dots: measured; lines: max(2NM/C, N/P + 2))"
    )
    found = [report.sizes.cells(banked_build(rows, banks)) for banks in report.scale.banks]
    names = [str(banks) for banks in report.scale.banks]
    cells.plot(names, [each.lut for each in found], "o-", color=OURS, label="LUT")
    cells.plot(names, [each.ff for each in found], "s-", color=THEIRS, label="FF")
    cells.plot(names, [each.bram for each in found], "^-", color=OTHER, label="block RAM (36 kbit)")
    cells.set(yscale="log", xlabel="banks P", ylabel="cells")
    cells.set_title(f"Yosys, UltraScale+, depth {rows:,}, keys and payloads of 32 bits")
    cells.legend(frameon=False)
    figure.tight_layout()
    return figure
