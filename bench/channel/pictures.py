"""Figures 10a and 10b of the paper redrawn, its numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.channel import paper
from bench.pictures import INK, OTHER, OURS, THEIRS, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bench.channel.report import Curves

_MICRO = 1e6
_KIB = 1 << 10


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
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    sizes = [size / _KIB for size in curves.rate]
    axes.plot(
        sizes,
        [rate / 1e9 for rate in curves.rate.values()],
        "o-",
        color=OURS,
        label="Penstock, shared memory",
    )
    full = [size for size in sizes if size * _KIB >= paper.FULL_FROM_BYTES]
    axes.plot(full, [paper.SLASH_GBS] * len(full), color=THEIRS, label="Slash, 2 nodes (paper)")
    axes.axhline(paper.UPPAR_GBS, color=OTHER, ls="--", label="UpPar, at most (paper)")
    axes.axhline(paper.LINK_GBS, color=INK, ls=":", label="its link (paper)")
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="KiB of a slot", ylabel="GB/s", title="Figure 10a: c = 8, cold memory")
    axes.legend(frameon=False)
    return figure


def _latencies(curves: Curves) -> Figure:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    axes.plot(
        [size / _KIB for size in curves.seconds],
        [seconds * _MICRO for seconds in curves.seconds.values()],
        "o-",
        color=OURS,
        label="Penstock, p50, from before the fill to the last touch",
    )
    axes.plot(
        [size / _KIB for size in paper.LATENCY_BELOW_S],
        [seconds * _MICRO for seconds in paper.LATENCY_BELOW_S.values()],
        "v",
        color=THEIRS,
        label="Slash is below (paper)",
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlabel="KiB of a slot", ylabel="us", title="Figure 10b: c = 8, at full rate")
    axes.legend(frameon=False)
    return figure


def _credits(curves: Curves) -> Figure:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    axes.plot(
        list(curves.credits),
        [rate / curves.credits[8] for rate in curves.credits.values()],
        "o-",
        color=OURS,
        label="Penstock",
    )
    axes.plot(
        list(paper.LOSS_BY_CREDITS),
        [1 - loss for loss in paper.LOSS_BY_CREDITS.values()],
        "^",
        color=THEIRS,
        label="Slash is above (paper)",
    )
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="credits", ylabel="rate over that of 8", title="Slots of 64 KiB")
    axes.legend(frameon=False)
    return figure
