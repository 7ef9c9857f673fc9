"""The paper's figures 4 to 7 redrawn, and what the model predicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.lookup.scale import MB
from bench.pictures import INK, OTHER, OURS, PAPER, THEIRS, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bench.lookup.report import Report

_COLOURS = {
    "auto": OURS, "meshjoin": INK, "hybridjoin": "#8a8f98", "cachejoin": OTHER,
    "d-cachejoin": THEIRS,
}  # fmt: skip


def draw(report: Report, out: Path) -> list[Path]:
    """Write all pictures; returns their paths."""
    from matplotlib import pyplot as plt

    return save(
        {
            "lookup_lengths": lambda: _lengths(plt.subplots(1, 2, figsize=(11, 4.2)), report),
            "lookup_memory": lambda: _memory(plt.subplots(figsize=(7, 4.4)), report),
            "lookup_shares": lambda: _shares(plt.subplots(figsize=(7, 4.4)), report),
            "lookup_model": lambda: _model(plt.subplots(figsize=(5, 4.6)), report),
        },
        out,
    )


def _lengths(made, report: Report) -> Figure:
    figure, both = made
    titles = {
        "4": "Figure 4: skewed keys. Paper, 4 nodes:\nD-CACHEJOIN over Eunomia 1.30, 1.48, 1.65",
        "5": "Figure 5: even keys.\nPaper: no numbers",
    }
    for axes, (number, found) in zip(both, report.by_length.items(), strict=True):
        for name, rates in found.items():
            _line(axes, name, list(rates), [rate / 1e3 for rate in rates.values()])
        axes.set(xscale="log", xlabel="rows of the stream", title=titles[number])
    both[0].set_ylabel("1,000 rows per CPU second")
    both[0].legend(frameon=False)
    return figure


def _memory(made: tuple[Figure, Axes], report: Report) -> Figure:
    figure, axes = made
    for name, rates in report.by_memory.items():
        sizes = [times * report.scale.memory_bytes / MB for times in rates]
        _line(axes, name, sizes, [rate / 1e3 for rate in rates.values()])
    axes.set(
        xlabel="memory, MB",
        ylabel="1,000 rows per CPU second",
        yscale="log",
        title="Figure 6. Paper: with a cache 2 times MESHJOIN or more;\n"
        "D-CACHEJOIN 10 % above CACHEJOIN at 100 MB",
    )
    mesh = report.by_memory["meshjoin"]
    sizes = [times * report.scale.memory_bytes / MB for times in mesh]
    least = [2 * rate / 1e3 for rate in mesh.values()]
    axes.plot(sizes, least, color=PAPER, ls="--", label="2 times MESHJOIN (paper, at least)")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _shares(made: tuple[Figure, Axes], report: Report) -> Figure:
    figure, axes = made
    for name, rates in report.by_share.items():
        _line(axes, name, [100 * share for share in rates], [r / 1e3 for r in rates.values()])
    axes.set(
        xlabel="share of the relation that is kept, %",
        ylabel="1,000 rows per CPU second",
        title="Figure 7, memory fixed. Paper: 10 times MESHJOIN at 10 %,\nabove 2 at low shares",
    )
    mesh = report.by_share["meshjoin"]
    tenth = min(mesh, key=lambda share: abs(share - 0.1))
    axes.plot([10], [10 * mesh[tenth] / 1e3], "s", color=PAPER, label="10 times MESHJOIN (paper)")
    axes.legend(frameon=False)
    return figure


def _model(made: tuple[Figure, Axes], report: Report) -> Figure:
    figure, axes = made
    points = [(guess / 1e3, rate / 1e3) for _, guess, rate in report.predicted]
    axes.scatter(*zip(*points, strict=True), color=OURS)
    most = 1.1 * max(max(point) for point in points)
    axes.plot([0, most], [0, most], color=INK, lw=1)
    axes.set(xlabel="predicted, 1,000 rows/s", ylabel="measured", title="The model")
    return figure


def _line(axes: Axes, name: str, x: list, y: list) -> None:
    axes.plot(x, y, marker="o", label=name, color=_COLOURS[name])
