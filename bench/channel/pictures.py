"""Figures 10a and 10b of the paper redrawn, its numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.channel import networks, ours, paper
from bench.channel.curves import LABELS, SIZES
from bench.pictures import OURS, PAPER, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.channel.curves import Curves

_MICRO = 1e6
_KIB = 1 << 10
#: By the labels of the curves.
_STYLES: dict[str, Any] = {
    LABELS[ours.Near.name]: {"color": OURS, "marker": "o"},
    LABELS[networks.ON_SHM]: {"color": OURS, "marker": "s", "ls": "--"},
    LABELS[networks.ON_TCP]: {"color": OURS, "marker": "D", "ls": ":"},
}


def draw(curves: Curves, out: Path) -> list[Path]:
    """Write the pictures; returns their paths."""
    return save(
        {
            "channel_10a": lambda: _rates(curves),
            "channel_10b": lambda: _latencies(curves),
            "channel_credits": lambda: _credits(curves),
        },
        out,
    )


def _rates(curves: Curves) -> Figure:
    figure, axes = _axes("KiB of a slot", "GB/s", "Figure 10a: c = 8, cold memory")
    for label, curve in curves.items():
        sizes = [size / _KIB for size in curve.rate]
        rates = [rate / 1e9 for rate in curve.rate.values()]
        axes.plot(sizes, rates, **_STYLES[label], label=f"Penstock, {label}")
    full = [size / _KIB for size in SIZES if size >= paper.FULL_FROM_BYTES]
    slash = f"Slash, 2 nodes: {paper.SLASH_GBS} (paper)"
    axes.plot(full, [paper.SLASH_GBS] * len(full), color=PAPER, label=slash)
    axes.axhline(paper.LINK_GBS, color=PAPER, ls=":", label=f"its link: {paper.LINK_GBS}")
    axes.axhline(paper.UPPAR_GBS, color=PAPER, ls="--", label=f"UpPar: {paper.UPPAR_GBS} at most")
    axes.set_ylim(bottom=0)
    return _with_legend(figure, axes)


def _latencies(curves: Curves) -> Figure:
    title = "Figure 10b: c = 8, at full rate, from before the fill to the last touch, p50"
    figure, axes = _axes("KiB of a slot", "us", title)
    for label, curve in curves.items():
        sizes = [size / _KIB for size in curve.seconds]
        delays = [seconds * _MICRO for seconds in curve.seconds.values()]
        axes.plot(sizes, delays, **_STYLES[label], label=f"Penstock, {label}")
    sizes = [size / _KIB for size in paper.LATENCY_BELOW_S]
    below = [seconds * _MICRO for seconds in paper.LATENCY_BELOW_S.values()]
    axes.plot(sizes, below, "v", color=PAPER, label="Slash is below (paper)")
    axes.set_yscale("log")
    return _with_legend(figure, axes)


def _credits(curves: Curves) -> Figure:
    figure, axes = _axes("credits", "GB/s", "Slots of 64 KiB")
    for label, curve in curves.items():
        rates = [rate / 1e9 for rate in curve.credits.values()]
        axes.plot(list(curve.credits), rates, **_STYLES[label], label=f"Penstock, {label}")
    slash = {8: paper.SLASH_GBS} | {
        credits: paper.SLASH_GBS * (1 - loss) for credits, loss in paper.LOSS_BY_CREDITS.items()
    }
    label = f"Slash: {paper.SLASH_GBS} at 8, others at least (paper)"
    axes.plot(list(slash), list(slash.values()), "^", color=PAPER, label=label)
    axes.set_ylim(bottom=0)
    return _with_legend(figure, axes)


def _axes(across: str, up: str, title: str) -> tuple[Figure, Axes]:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 5.0))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set(xlabel=across, ylabel=up, title=title)
    axes.grid(alpha=0.25)
    return figure, axes


def _with_legend(figure: Figure, axes: Axes) -> Figure:
    """Below the picture, so that it hides no curve."""
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    return figure
