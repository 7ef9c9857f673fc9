"""Figures 9a to 9e, 10c, 10d and 11 of the paper redrawn.

What a row costs is measured; what that would be on the paper's nodes is projected, and dotted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.pictures import INK, OTHER, OURS, save
from bench.pictures import PAPER as GREY
from bench.workers.cost import PAPER, Cost
from bench.workers.model import PAPER_LINK, fitted
from bench.workers.scaling import NANO, Curve, Found, Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Nodes of figures 9a to 9e.
NODES = (2, 4, 8, 16)
#: Figure 9a: 2e9 rows/s by 16 nodes, near-linear, and twelve times UpPar.
PAPER_YSB, PAPER_YSB_UPPAR = 2e9 / 16, 2e9 / 16 / 12


#: Figure 10c: the share of the link that UpPar fills with 10 threads; Slash fills it with 2.
PAPER_UPPAR_LINK = 0.91
#: Threads of figure 10c, nodes of figure 11.
_THREADS, _COST_NODES = (2, 4, 6, 8, 10), (1, 2, 4, 8, 16)


def draw(found: Found | None, costs: Sequence[Cost], out: Path) -> list[Path]:
    """Write the pictures of what was measured; returns their paths."""
    drawn: dict[str, Callable[[], Figure]] = {}
    if found is not None:
        for letter, (name, curves) in zip("abcde", found.curves.items(), strict=False):
            drawn[f"workers_9{letter}"] = partial(_figure, name, letter, curves)
        # The paper's figure 10c has even keys, to which the least skew is nearest.
        drawn["workers_10c"] = partial(_link, next(iter(found.skewed["RO"].values())))
        drawn["workers_10d"] = partial(_skewed, found.skewed)
    if costs:
        drawn["workers_11"] = partial(_costs, costs)
    return save(drawn, out)


def _figure(name: str, letter: str, curves: dict[str, Curve]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    costs, rates = figure.subplots(1, 2)
    for who, color, marker in (("ours", OURS, "o"), ("UpPar", OTHER, "s")):
        points = curves[who].values()
        label = "Penstock" if who == "ours" else who
        xs = [point.workers for point in points]
        costs.plot(xs, [p.cpu_s * NANO for p in points], color=color, marker=marker, label=label)
    ours = curves["ours"]
    model = fitted({n: ours[n].cpu_s for n in (1, 2)})
    ns = sorted(ours)
    fit = [model.cpu_s(n) * NANO for n in ns]
    costs.plot(ns, fit, color=INK, ls=":", label="fold + ship (n-1)/n, from 1 and 2")
    costs.set(xscale="log", xticks=ns, xticklabels=ns, xlabel="workers", ylabel="CPU ns per row")
    costs.set_ylim(bottom=0)
    costs.minorticks_off()
    sent = 2 * ours[2].sent_bytes
    projected = [model.rate(n, sent) / 1e6 for n in NODES]
    label = "Penstock, projected, 10 threads a node"
    rates.plot(NODES, projected, color=OURS, ls=":", marker="o", label=label)
    if letter == "a":
        for rate, ls, who in ((PAPER_YSB, "-", "Slash"), (PAPER_YSB_UPPAR, "--", "UpPar")):
            line = [n * rate / 1e6 for n in NODES]
            rates.plot(NODES, line, color=GREY, ls=ls, label=f"{who} (paper)")
    rates.set(xticks=NODES, xlabel="nodes", ylabel="M rows/s")
    rates.set_ylim(bottom=0)
    for axes in (costs, rates):
        axes.legend(frameon=False, fontsize="small")
    figure.suptitle(f"Figure 9{letter}: {name}")
    return figure


def _link(points: Mapping[str, Point]) -> Figure:
    """Bytes that one of two nodes sends, if its threads need no more than here."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.6), layout="constrained")
    axes = figure.subplots()
    for who, color, marker in (("ours", OURS, "o"), ("UpPar", OTHER, "s")):
        own = points[who]
        sent = [min(PAPER_LINK, n * own.sent_bytes / own.cpu_s) / 1e9 for n in _THREADS]
        label = f"{'Penstock' if who == 'ours' else who}, projected"
        axes.plot(_THREADS, sent, color=color, ls=":", marker=marker, label=label)
    link = PAPER_LINK / 1e9
    axes.axhline(link, color=GREY, lw=1, label="the link, full with 2 threads of Slash (paper)")
    axes.plot([10], [PAPER_UPPAR_LINK * link], color=GREY, marker="s", ls="", label="UpPar (paper)")
    axes.set(xticks=_THREADS, xlabel="threads of a node", ylabel="GB/s out of a node, of two")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize="small")
    figure.suptitle("Figure 10c: RO")
    return figure


def _skewed(skewed: Mapping[str, Mapping[float, Mapping[str, Point]]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, (name, found) in zip(figure.subplots(1, 2), skewed.items(), strict=True):
        skews = list(found)
        for who, color, marker in (("ours", OURS, "o"), ("UpPar", OTHER, "s")):
            rates = [1 / found[skew][who].cpu_s / 1e6 for skew in skews]
            label = "Penstock" if who == "ours" else who
            axes.plot(skews, rates, color=color, marker=marker, label=label)
        paper = "rises" if name == "YSB" else "is constant"
        axes.set(title=name, xticks=skews, xlabel="Zipf exponent", ylabel="M rows per CPU second")
        axes.set_ylim(bottom=0)
        axes.text(0.02, 0.02, f"paper: Slash {paper}, UpPar falls", color=GREY,
                  transform=axes.transAxes, fontsize="small")  # fmt: skip
        axes.legend(frameon=False, fontsize="small")
    figure.suptitle("Figure 10d: skewed keys, two workers")
    return figure


def _costs(costs: Sequence[Cost]) -> Figure:
    """How many times the rate of one thread by hand workers have."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.2), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True).flat
    for axes, own in zip(panels, costs, strict=False):
        projected = [own.over(n) for n in _COST_NODES]
        axes.plot(_COST_NODES, projected, color=OURS, ls=":", marker="o", label="projected")
        measured = [own.rates[n] / own.by_hand for n in own.rates]
        axes.plot(list(own.rates), measured, color=OURS, marker="o", label="by the clock")
        axes.axhline(1, color=INK, lw=1, label="one thread by hand")
        if own.name in PAPER:
            label = "Slash over LightSaber (paper)"
            axes.plot([16], [PAPER[own.name]], color=GREY, marker="s", ls="", label=label)
        axes.set(title=own.name, xscale="log", xticks=_COST_NODES, xticklabels=_COST_NODES)
        axes.set_ylim(bottom=0)
        axes.minorticks_off()
    figure.axes[0].legend(frameon=False, fontsize="small")
    figure.supxlabel("workers; nodes in the paper")
    figure.supylabel("times one thread")
    figure.suptitle("Figure 11: COST")
    return figure
