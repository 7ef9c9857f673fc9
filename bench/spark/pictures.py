"""Pictures of streaming joins in Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.pictures import INK, OTHER, OURS, THEIRS, save

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(figures: Mapping[str, Any], out: Path) -> list[Path]:
    """Pictures of what has been measured; their paths."""
    from matplotlib import pyplot as plt

    made = {}
    if "windows" in figures:
        made["spark_streaming_latency"] = lambda: _latency(
            plt.subplots(figsize=(8, 4.5)), figures["windows"]
        )
    if "keys" in figures:
        made["spark_streaming_keys"] = lambda: _keys(
            plt.subplots(len(figures["keys"]), figsize=(7, 7), layout="constrained"),
            figures["keys"],
        )
    return save(made, out)


def _latency(made: tuple[Figure, Axes], found: list[dict]) -> Figure:
    """Latency of a micro-batch by window, with two lanes."""
    figure, axes = made
    lines: dict[tuple, list[tuple[int, float]]] = {}
    for one in found:
        case = one["case"]
        if case["lanes"] == 2:
            key = case["device"], case["resident"]
            lines.setdefault(key, []).append((case["window"], one["latency_s"]))
    colours = {"cpu": OURS, "remote": OTHER}
    for (device, resident), points in sorted(lines.items(), key=str):
        where = "device server" if device == "remote" else "in the workers"
        axes.plot(
            *zip(*sorted(points), strict=True),
            color=colours[device],
            ls="-" if resident else ":",
            marker="o",
            label=f"{where}{'' if resident else ', not resident'}",
        )
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("rows of the window")
    axes.set_ylabel("seconds of a micro-batch")
    rows = found[0]["case"]["rows"]
    axes.set_title(f"{rows:,} new rows against a window, two lanes", color=INK)
    axes.legend(fontsize=8)
    return figure


def _keys(made: tuple[Figure, np.ndarray], found: list[dict]) -> Figure:
    """Rows per second of joins of equal keys, by skew."""
    figure, rows = made
    for axes, one in zip(rows, found, strict=True):
        names = list(one["rates"])
        colours = [OURS if name.startswith("Penstock") else THEIRS for name in names]
        bars = axes.barh(names, list(one["rates"].values()), color=colours)
        axes.bar_label(bars, fmt="{:,.0f}", padding=3)
        axes.invert_yaxis()
        axes.margins(x=0.2)
        axes.set_xlabel("rows per second")
        axes.set_title(one["join"], color=INK)
    return figure
