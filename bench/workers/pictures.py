"""Figures 9a to 9c of the paper redrawn: what a row costs, and what that would be on its nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.pictures import INK, OTHER, OURS, save
from bench.workers.scaling import NANO, Curve
from penstock.host.model.workers import fitted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What the paper measured.
_GREY = "0.6"
#: Nodes of figures 9a to 9e.
NODES = (2, 4, 8, 16)
#: Figure 9a: 2e9 rows/s by 16 nodes, near-linear, and twelve times UpPar.
PAPER_YSB, PAPER_YSB_UPPAR = 2e9 / 16, 2e9 / 16 / 12


def draw(found: dict[str, dict[str, Curve]], out: Path) -> list[Path]:
    """Write the pictures; returns their paths."""
    letters = dict(zip(found, "abc", strict=False))
    return save({f"workers_9{letters[n]}": _drawn(n, letters[n], found[n]) for n in found}, out)


def _drawn(name: str, letter: str, curves: dict[str, Curve]):
    return lambda: _figure(name, letter, curves)


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
            rates.plot(NODES, line, color=_GREY, ls=ls, label=f"{who} (paper)")
    rates.set(xticks=NODES, xlabel="nodes", ylabel="M rows/s")
    rates.set_ylim(bottom=0)
    for axes in (costs, rates):
        axes.legend(frameon=False, fontsize="small")
    figure.suptitle(f"Figure 9{letter}: {name}")
    return figure
