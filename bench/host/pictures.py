"""The FJoin paper's figures 7 to 11, from our runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.host.open_loop import QUANTILES
from bench.host.report import BELOW_LOAD, TARGETS, Report, highest_bounded
from bench.host.runs import CPU, name_of
from bench.pictures import INK, OTHER, OURS, PAPER, THEIRS, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Figure 7a: evaluations per second of 1,024 units, and of BiStream on 512 cores.
_PAPER_RATES = {"FJoin, 1,024 units (paper)": 1e11, "BiStream, 512 cores (paper)": 6e9}
#: Figure 9: seconds in which more than 99 % of FJoin's results left, for a target of 200 ms.
_PAPER_LATENCY_S = (0.2, 0.4)

_COLOURS = (OURS, THEIRS, OTHER, INK, "#5c946e", "#b23a48", "#8d99ae", "#c9a227")


def draw(report: Report, out: Path) -> list[Path]:
    """Write all pictures; returns their paths. What has not been measured is measured now."""
    from matplotlib import pyplot as plt

    return save(
        {
            "host_over_time": lambda: _over_time(plt.subplots(1, 2, figsize=(11, 4)), report),
            "host_throughput": lambda: _throughput(plt.subplots(figsize=(7, 4.5)), report),
            "host_latency": lambda: _latency(plt.subplots(1, 2, figsize=(11, 4.5)), report),
            "host_ratios": lambda: _ratios(plt.subplots(1, 2, figsize=(10, 4)), report),
            "host_rising": lambda: _rising(plt.subplots(figsize=(8, 4.5)), report),
        },
        out,
    )


def _over_time(made: tuple[Figure, Sequence[Axes]], report: Report) -> Figure:
    """Figure 7: evaluations and tuples in each second of a run, from its start."""
    figure, (evaluations, tuples) = made
    for units, colour in zip(report.scale.ride, cycle(_COLOURS), strict=False):
        run = report.run(units, BELOW_LOAD)
        seconds = report.runs.of(run).seconds
        at = np.arange(len(seconds)) + 1
        evaluations.plot(at, [s.evaluations for s in seconds], color=colour, label=name_of(units))
        tuples.plot(at, [s.tuples for s in seconds], color=colour)
    for (label, rate), ls in zip(_PAPER_RATES.items(), ("-", "--"), strict=True):
        evaluations.axhline(rate, color=PAPER, ls=ls, label=label)
    for axes, what in ((evaluations, "evaluations per second"), (tuples, "tuples per second")):
        axes.set_yscale("log")
        axes.set_xlabel(f"seconds (windows of {report.scale.window_s:g} s)")
        axes.set_title(f"{what}, load {BELOW_LOAD:.0%}")
        axes.axvline(2 * report.scale.window_s, color=INK, lw=0.8, ls=":")
    evaluations.legend(fontsize=8, ncols=2)
    return figure


def _throughput(made: tuple[Figure, Axes], report: Report) -> Figure:
    """Figure 8: throughput at bounded latency by number of units."""
    figure, axes = made
    for workload, sizes, loads, colour in (
        ("ride", report.scale.ride, report.scale.loads, OURS),
        ("network", report.scale.network, report.scale.few_loads, THEIRS),
    ):
        predicted, measured = {}, {}
        for units in sizes:
            run = report.run(units, 1.0, workload=workload)
            best = highest_bounded(run, report.sweep(run, loads))
            rate = best[1].tuples_per_s if best else np.nan
            if units == CPU:
                axes.axhline(rate, color=colour, lw=1, ls=":")
                axes.annotate(
                    f"cpu, {workload}",
                    (1, rate),
                    (2, 3),
                    xycoords=("axes fraction", "data"),
                    textcoords="offset points",
                    fontsize=8,
                    color=colour,
                )
                continue
            measured[units] = rate
            predicted[units] = report.runs.rate_per_s(run)
        axes.plot(list(predicted), list(predicted.values()), color=colour, lw=1, ls="--",
                  label=f"{workload}, equation (5) with our cycles")  # fmt: skip
        axes.plot(list(measured), list(measured.values()), "o", color=colour,
                  label=f"{workload}, p99 at most {TARGETS:g} targets")  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("simulated units at 300 MHz, two lanes")
    axes.set_ylabel("tuples per second, both streams")
    axes.set_title(f"Throughput at bounded latency, windows of {report.scale.window_s:g} s")
    axes.legend(fontsize=8)
    return figure


def _latency(made: tuple[Figure, Sequence[Axes]], report: Report) -> Figure:
    """Figure 9: quantiles of the latency, by size and by load."""
    figure, (spread, load) = made
    for units, colour in zip(report.scale.ride, cycle(_COLOURS), strict=False):
        run = report.run(units, 1.0)
        found = report.sweep(run, report.scale.loads)
        milliseconds = np.array(found[BELOW_LOAD].latencies.quantiles_s) * 1e3
        spread.plot(milliseconds, QUANTILES, color=colour, label=name_of(units))
        load.plot(list(found), [one.latencies.at(0.99) * 1e3 for one in found.values()], "o-",
                  ms=3, color=colour)  # fmt: skip
    target = report.run(CPU, 1.0).target_s * 1e3
    least, most = (1e3 * seconds for seconds in _PAPER_LATENCY_S)
    label = "99 % of FJoin's, target 200 ms (paper)"
    spread.axvspan(least, most, color=PAPER, alpha=0.3, lw=0, label=label)
    spread.set_xlabel("latency in ms")
    spread.set_ylabel("share of the results")
    spread.set_title(f"Target {target:.0f} ms, load {BELOW_LOAD:.0%}")
    spread.axvline(TARGETS * target, color=INK, lw=0.8, ls=":")
    spread.legend(fontsize=8)
    load.axhline(TARGETS * target, color=INK, lw=0.8, ls=":")
    load.set_yscale("log")
    load.set_xlabel("load: predicted utilisation")
    load.set_ylabel("p99 of the latency in ms")
    load.set_title("p99 against load")
    return figure


def _ratios(made: tuple[Figure, Sequence[Axes]], report: Report) -> Figure:
    """Figure 10: throughput and latency by rate ratio, ordered and not."""
    figure, (rate, latency) = made
    scale = report.scale
    for ordered, colour, shift in ((False, OURS, -0.15), (True, THEIRS, 0.15)):
        runs = [
            report.run(scale.ratio_units, BELOW_LOAD, ratio=ratio, ordered=ordered)
            for ratio in scale.ratios
        ]
        found = [report.runs.of(run) for run in runs]
        at = np.arange(len(runs)) + shift
        label = "ordered" if ordered else "as they come"
        rate.bar(at, [one.tuples_per_s for one in found], 0.3, color=colour, label=label)
        latency.bar(at, [one.latencies.mean_s * 1e3 for one in found], 0.3, color=colour)
    for axes, what in ((rate, "tuples per second"), (latency, "mean latency in ms")):
        axes.set_xticks(range(len(scale.ratios)), [f"{ratio:g}" for ratio in scale.ratios])
        axes.set_xlabel("rate of one stream over that of the other")
        axes.set_title(f"{what}, {name_of(scale.ratio_units)}, load {BELOW_LOAD:.0%}")
    rate.legend(fontsize=8, loc="lower right")
    return figure


def _rising(made: tuple[Figure, Axes], report: Report) -> Figure:
    """Figure 11: latency while the rate rises, by the rate as a share of what is predicted."""
    figure, axes = made
    for units, colour in zip(report.scale.rising, cycle(_COLOURS), strict=False):
        run = report.rising_run(units)
        seconds = report.runs.of(run).seconds[round(2 * run.window_s) :]
        share = np.array([s.tuples for s in seconds]) / report.runs.rate_per_s(run)
        axes.plot(share * 100, [s.p99_s * 1e3 for s in seconds], color=colour, label=name_of(units))
    axes.axhline(TARGETS * run.target_s * 1e3, color=INK, lw=0.8, ls=":")
    axes.set_yscale("log")
    axes.set_xlabel("rate in % of what is predicted to be sustained")
    axes.set_ylabel("p99 of the latency in ms, of each second's tuples")
    axes.set_title("A rate that rises every second")
    axes.legend(fontsize=8)
    return figure
